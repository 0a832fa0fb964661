"""One training after the other of one scene, each with one thing changed: likeness, seconds, memory of the GPU.

    python benchmarks/schedules.py SCENE aerial --depth RUN/1-scaffold/depth [--out rows.jsonl] [--rows NAME ...]
    python benchmarks/schedules.py SCENE street --street DIR [--run RUN]
    python benchmarks/schedules.py SCENE update --splats aerial.ply [--out rows.jsonl] [--run RUN] [--depth DIR] ...

Settings are to be chosen by the validation photos of a scene that is not reported; the test photos are scored besides,
once each. A row that is in the file already is not made again, so an interrupted command goes on. `--steps` shortens
every row for a trial. Seconds of an aerial row are of its first Gaussians and its training, those of an update of
`update_scene`, which begins with the depth of the street at hand.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
from kept import Made, Outcome, made_here, read_lines, write_lines
from scene_update import recovered_views, street_depth, true_views

from skyanchor.events import Event, Note, Progress
from skyanchor.gaussians.densify import SplitGrowth
from skyanchor.gaussians.devices import Engine, load_engine
from skyanchor.gaussians.parameters import BRISK
from skyanchor.gaussians.ply import read_splats, write_ply
from skyanchor.gaussians.scoring import score
from skyanchor.gaussians.split import split
from skyanchor.gaussians.training import TrainConfig
from skyanchor.scaffold import load_scaffold, training
from skyanchor.scaffold.seeding import dense_cloud
from skyanchor.scaffold.training import AerialConfig, train_aerial
from skyanchor.scene import config as updates
from skyanchor.scene.config import UpdateConfig
from skyanchor.scene.ground_points import GroundPointConfig, ground_cloud
from skyanchor.scene.inputs import UpdateInputs
from skyanchor.scene.update import update_scene
from skyanchor.step_clock import StepClock
from skyanchor.stereo import DepthFolder, depth_path
from skyanchor.stereo.backends import NumbaStereo, TritonStereo
from skyanchor.types import DepthMap, Scaffold, View

GB = 1e9
Street: TypeAlias = tuple[tuple[View, ...], list[DepthMap]]
"""Street views, and depth of those that are trained on."""


# --- rows ---------------------------------------------------------------------------------------------------------


def wide(width: int, steps: int, **changes: object) -> Callable[[AerialConfig], AerialConfig]:
    """The preset at a width with so many steps."""

    def changed(config: AerialConfig) -> AerialConfig:
        longer = training.with_iterations(config, steps)
        return replace(longer, train=replace(longer.train, width=width, **changes))

    return changed


AERIAL: dict[str, Callable[[AerialConfig], AerialConfig]] = {
    "1024 px": wide(1024, 7000),
    "1024 px, seen alone": wide(1024, 7000, seen_alone=True),
    "1024 px, 4000 brisk": wide(1024, 4000, rates=(BRISK,)),
    "1024 px, 4000 brisk, seen alone": wide(1024, 4000, rates=(BRISK,), seen_alone=True),
    "1600 px": wide(1600, 7000),
    "1600 px, seen alone": wide(1600, 7000, seen_alone=True),
    "1024 px, 5500 brisk": wide(1024, 5500, rates=(BRISK,)),
    "preset": lambda config: config,
    "paper": lambda _: training.PAPER,
    "paper, a third": lambda _: training.with_iterations(training.PAPER, 10_000),
}
"""Of the aerial Gaussians."""


def both(config: UpdateConfig, **changes: object) -> UpdateConfig:
    """The update with something changed in both of its phases."""
    assert config.joint is not None
    return replace(config, insertion=replace(config.insertion, **changes), joint=replace(config.joint, **changes))


def growing(config: UpdateConfig) -> UpdateConfig:
    """The update whose street Gaussians grow for the first half of the refinement too."""
    assert config.joint is not None
    growth = SplitGrowth(start=500, stop=config.joint.iterations // 2, reset_every=0)
    return replace(config, joint=replace(config.joint, growth=growth))


def at_width(config: UpdateConfig, like: UpdateConfig) -> UpdateConfig:
    """An update as wide as another."""
    return both(config, width=like.insertion.width)


def resetting(config: UpdateConfig) -> UpdateConfig:
    """The update whose opacities are reset in the insertion, as often over its length as the paper's."""
    growth = config.insertion.growth
    assert isinstance(growth, SplitGrowth)
    often = max(1, config.insertion.iterations // 10)
    return replace(config, insertion=replace(config.insertion, growth=replace(growth, reset_every=often)))


UPDATES: dict[str, Callable[[UpdateConfig], UpdateConfig]] = {
    "preset": lambda config: config,
    "seen alone": lambda config: both(config, seen_alone=True),
    "growth in the refinement": growing,
    "SH degree 2": lambda config: both(config, sh_degree=2),
    "growth, SH degree 2": lambda config: growing(both(config, sh_degree=2)),
    "SH degree 1": lambda config: both(config, sh_degree=1),
    "1000 + 6000": lambda config: updates.with_iterations(config, 1000, 6000),
    "1000 + 6000 brisk": lambda config: brisk(updates.with_iterations(config, 1000, 6000)),
    "500 + 4000": lambda config: updates.with_iterations(config, 500, 4000),
    "500 + 4000 brisk": lambda config: brisk(updates.with_iterations(config, 500, 4000)),
    "paper": lambda config: at_width(updates.PAPER, config),
    "paper, a third": lambda config: at_width(updates.with_iterations(updates.PAPER, 10_000, 13_333), config),
    "paper's exposure": lambda config: replace(config, exposures=False),
    "paper's sky": lambda config: replace(config, sky_radius=0.0),
    "paper's floaters": lambda config: replace(config, floaters=None, vanished=None),
    "paper's guard": lambda config: replace(config, guard=False, guard_weight=1.0, guard_pictures=0),
    "paper's weight": lambda config: replace(config, guard_weight=1.0),
    "paper's opacity reset": resetting,
    "paper's free set": lambda config: replace(config, refined="all"),
    "paper's street points": lambda config: replace(config, in_the_air=None, finer_views=0),
    "paper's rollback": lambda config: replace(config, most_aerial_loss_db=math.inf),
}
"""Of the street; a row of the paper's is ours with that one thing as in the paper."""


def brisk(config: UpdateConfig) -> UpdateConfig:
    """The update with larger steps."""
    assert config.joint is not None
    insertion, joint = (BRISK, *config.insertion.rates[1:]), (BRISK, BRISK, None)
    return replace(
        config, insertion=replace(config.insertion, rates=insertion), joint=replace(config.joint, rates=joint)
    )


# --- measuring ----------------------------------------------------------------------------------------------------


@dataclass
class Meter:
    """Seconds and GPU memory of one row."""

    device: str
    begun: float = 0.0

    def start(self) -> None:
        """Begin a row with an empty GPU."""
        if self.device == "cuda":
            import torch

            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        self.begun = time.perf_counter()

    def figures(self) -> dict[str, float]:
        """Seconds since, and the most memory of torch's tensors and of what torch took for them."""
        found = {"seconds": time.perf_counter() - self.begun}
        if self.device == "cuda":
            import torch

            found["GB in tensors"] = torch.cuda.max_memory_allocated() / GB
            found["GB reserved"] = torch.cuda.max_memory_reserved() / GB
        return found


def shortened(train: TrainConfig, steps: int | None) -> TrainConfig:
    """At most so many steps."""
    return train if steps is None else replace(train, iterations=min(steps, train.iterations))


def plain(name: str) -> str:
    """The name of a row as part of a file's name."""
    return name.replace(",", "").replace(" ", "-")


def told(event: Event) -> None:
    if isinstance(event, Note):
        print("  " + event.text, flush=True)
    if isinstance(event, Progress) and "aerial_psnr" in event.figures:
        scores = ", ".join(f"{name} {value:.2f}" for name, value in event.figures.items())
        print(f"  {event.step} {event.done}/{event.total}: {scores}", flush=True)


def aerial_rows(given: argparse.Namespace, engine: Engine, scaffold: Scaffold) -> dict[str, Callable[[], Outcome]]:
    base, views = training.preset(engine.device), split(scaffold.views)

    def made(name: str, change: Callable[[AerialConfig], AerialConfig]) -> Outcome:
        config = change(base)
        config = replace(config, train=shortened(config.train, given.steps))
        meter = Meter(engine.device)
        meter.start()
        names = tuple(view.name for view in views.training if depth_path(given.depth, view.name).is_file())
        dense = not config.from_points
        cloud = dense_cloud(DepthFolder(given.depth, names), views.training, config.seeds) if dense else None
        seeds_s = time.perf_counter() - meter.begun
        model = train_aerial(scaffold, engine, config, cloud=cloud, listen=told)
        spent = meter.figures()
        decides = score(model.splats, views.validation, engine, config.train.width)
        if given.splats:
            write_ply(given.splats.with_name(f"{given.splats.stem}-{plain(name)}.ply"), model.splats)
        figures = {"validation dB": decides.psnr, "test dB": model.scores.psnr, "test SSIM": model.scores.ssim}
        return Outcome(name, figures | {"Gaussians": len(model.splats), "first Gaussians s": seeds_s} | spent)

    return {name: lambda name=name, change=change: made(name, change) for name, change in AERIAL.items()}


def update_rows(given: argparse.Namespace, engine: Engine, scaffold: Scaffold) -> dict[str, Callable[[], Outcome]]:
    inputs = update_inputs(given, engine, scaffold)
    base = updates.preset(engine.device)
    assert base.joint is not None
    if given.width:
        base = both(base, width=given.width)
    if given.schedule:
        base = updates.with_iterations(base, *given.schedule)

    def made(name: str, change: Callable[[UpdateConfig], UpdateConfig]) -> Outcome:
        config, clock, meter = change(base), StepClock(), Meter(engine.device)
        if given.steps:
            config = updates.with_iterations(config, given.steps, given.steps)
        meter.start()
        found = update_scene(inputs, config, engine, told, clock=clock)
        spent = meter.figures()
        last = found.curves[-1].quality
        figures = {
            "validation street dB": last.ground_psnr,
            "validation air dB": last.aerial_psnr,
            "test street dB": found.after.ground_psnr,
            "test air dB": found.after.aerial_psnr,
            "test air before dB": found.before.aerial_psnr,
        }
        steps = {f"{step} s": seconds for step, seconds in clock.seconds.items()}
        return Outcome(name, figures | {"Gaussians added": len(found.change.ground)} | spent | steps)

    return {name: lambda name=name, change=change: made(name, change) for name, change in UPDATES.items()}


def street_at(given: argparse.Namespace, engine: Engine, scaffold: Scaffold) -> tuple[Street, GroundPointConfig]:
    """(street views at the poses of a run or at the true ones with their depth, how that was measured)."""
    views = recovered_views(given.scene, given.run) if given.run else true_views(given.scene, scaffold)
    points = GroundPointConfig()
    backend = TritonStereo() if engine.device == "cuda" else NumbaStereo()
    points = replace(points, stereo=replace(points.stereo, backend=backend))
    return (views, street_depth(split(views).training, scaffold, points, given.street)), points


def update_inputs(given: argparse.Namespace, engine: Engine, scaffold: Scaffold) -> UpdateInputs:
    """What the update works on."""
    (views, maps), points = street_at(given, engine, scaffold)
    cloud = ground_cloud(maps, views, points)
    extent = float(np.median(np.concatenate([one.depth[one.depth > 0] for one in maps])))
    every = max(1, len(cloud.points) // 20_000)
    known = [view.name for view in scaffold.views if given.depth and depth_path(given.depth, view.name).is_file()]
    above = DepthFolder(given.depth, tuple(known), 1 << 28) if known else ()
    return UpdateInputs(
        read_splats(given.splats), split(scaffold.views), split(views), cloud,
        cloud.points[::every].astype(np.float64), cloud.colors[::every], tuple(maps), scaffold.up, extent, above,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scene", type=Path, help="holds aerial/ and ground/")
    parser.add_argument("kind", choices=("aerial", "street", "update"))
    parser.add_argument("--out", type=Path, default=Path("out/rows.jsonl"), help="JSON lines, one per row")
    parser.add_argument("--rows", nargs="*", help="names of rows; all without it")
    parser.add_argument("--depth", type=Path, help="depth of the aerial photos, 1-scaffold/depth of a run")
    parser.add_argument("--splats", type=Path, help="aerial model: read by `update`, written by `aerial`, a row each")
    parser.add_argument("--run", type=Path, help="take the poses of this run instead of the true ones")
    parser.add_argument("--street", type=Path, help="folder for the street's depth: read if there, else written")
    parser.add_argument("--width", type=int, help="pixels of the update")
    parser.add_argument("--schedule", type=int, nargs=2, help="iterations of insertion and refinement for all rows")
    parser.add_argument("--steps", type=int, help="at most so many of each phase, for a trial")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    given = parser.parse_args()
    engine, scaffold = load_engine(given.device), load_scaffold(given.scene / "aerial")
    if given.kind == "street":
        print(f"depth of {len(street_at(given, engine, scaffold)[0][1])} street photos")
        return
    made: Made = made_here()
    held = read_lines(given.out, Outcome)[1] if given.out.is_file() else []
    rows = (aerial_rows if given.kind == "aerial" else update_rows)(given, engine, scaffold)
    for name, row in rows.items():
        if (given.rows is not None and name not in given.rows) or any(one.of == name for one in held):
            continue
        found = row()
        held.append(Outcome(name, {key: round(float(value), 4) for key, value in found.figures.items()}))
        write_lines(given.out, made, held)
        print(f"{name}: " + ", ".join(f"{key} {value:g}" for key, value in held[-1].figures.items()), flush=True)


if __name__ == "__main__":
    main()
