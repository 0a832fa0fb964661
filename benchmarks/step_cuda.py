"""Our training step against bare gsplat (rasterise + L1 + backward + fused Adam) of the same Gaussians, in one run.

    python benchmarks/step_cuda.py [--gaussians 1000000] [--width 1600] [--height 900] [--frozen 0.7] [--profile]

Ours has the whole of it: photo upload, L1 + SSIM, exposure, growth statistics, Adam. The second row freezes a share of
the Gaussians, as the insertion does; bare gsplat trains all of them. Blocks of steps alternate, medians are printed.
More rows say what two tricks give: the Gaussians in z-order instead of shuffled, and Adam that leaves those alone that
a view does not show (`--out-of-sight` is their share), gsplat's own and ours. Memory is what a step needs for a moment.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from gsplat import rasterization
from gsplat.optimizers import SelectiveAdam
from rasterisers_cuda import street

from skyanchor.gaussians.devices import Engine, load_engine
from skyanchor.gaussians.splats import Splats, select
from skyanchor.gaussians.train_state import TrainState
from skyanchor.gaussians.training import TrainConfig, start, step
from skyanchor.gaussians.views import Target, TrainingScene
from skyanchor.geometry import rigid
from skyanchor.geometry.cameras import pinhole
from skyanchor.types import Camera

STEPS, ROUNDS = 20, 7


@dataclass
class Bare:
    """gsplat as its own example uses it, without strategy."""

    splats: Splats
    camera: Camera
    photo: np.ndarray
    selective: bool = False
    """gsplat's SelectiveAdam instead of torch's fused one."""

    def __post_init__(self) -> None:
        """Put everything on the GPU."""
        s = self.splats
        arrays = (s.means, s.quats, s.log_scales, s.logit_opacities, s.sh[:, :1], s.sh[:, 1:])
        self.leaves = [torch.tensor(np.ascontiguousarray(a), device="cuda", requires_grad=True) for a in arrays]
        rates = (1.6e-4, 1e-3, 5e-3, 5e-2, 2.5e-3, 1.25e-4)
        groups = [{"params": [leaf], "lr": rate} for leaf, rate in zip(self.leaves, rates, strict=True)]
        self.adam = torch.optim.Adam(groups, eps=1e-15, fused=True)
        self.seldom = SelectiveAdam(groups, eps=1e-15, betas=(0.9, 0.999))
        f, _, x, y = self.camera.params
        self.k = torch.tensor([[[f, 0, x], [0, f, y], [0, 0, 1]]], device="cuda")
        self.pose = torch.eye(4, device="cuda")[None]
        self.target = torch.from_numpy(self.photo).cuda().float() / 255.0

    def step(self) -> None:
        """One step."""
        means, quats, scales, opacities, dc, rest = self.leaves
        drawn, _, told = rasterization(
            means, quats, scales.exp(), opacities.sigmoid(), torch.cat([dc, rest], dim=1), self.pose, self.k,
            self.camera.width, self.camera.height, sh_degree=3, packed=False,
        )  # fmt: skip
        (drawn[0] - self.target).abs().mean().backward()
        if self.selective:
            self.seldom.step((told["radii"] > 0).all(dim=-1).any(dim=0))
        else:
            self.adam.step()
        self.adam.zero_grad(set_to_none=True)


@dataclass
class Ours:
    """The product's step; the state goes from step to step."""

    state: TrainState
    target: Target
    config: TrainConfig
    engine: Engine

    def step(self) -> None:
        """One step."""
        self.state, _ = step(self.state, self.target, 10.0, self.config, self.engine)


def ours(
    splats: Splats, frozen: int, camera: Camera, photo: np.ndarray, engine: Engine, *, seen_alone: bool = False
) -> Ours:
    live = np.arange(len(splats)) < len(splats) - frozen
    sets = (select(splats, live), select(splats, ~live)) if frozen else (splats,)
    base = TrainConfig(sh_every=0, seen_alone=seen_alone)
    config = replace(base, rates=(*base.rates, None) if frozen else base.rates)
    state = start(sets, TrainingScene(((),), 10.0), config, engine.device)
    return Ours(state, Target(camera, rigid.identity(), photo, None, None), config, engine)


def z_ordered(splats: Splats) -> Splats:
    """The same Gaussians along a Morton curve: neighbours in space are neighbours in memory."""
    low, high = splats.means.min(axis=0), splats.means.max(axis=0)
    cells = ((splats.means - low) / (high - low).max() * (2**20 - 1)).astype(np.uint64)
    code = np.zeros(len(splats), np.uint64)
    for bit in range(20):
        for axis in range(3):
            code |= ((cells[:, axis] >> np.uint64(bit)) & np.uint64(1)) << np.uint64(3 * bit + axis)
    return select(splats, np.argsort(code, kind="stable"))


def turned_away(splats: Splats, share: float, rng: np.random.Generator) -> Splats:
    """The Gaussians with a share of them behind the camera."""
    means = splats.means.copy()
    away = rng.random(len(means)) < share
    means[away, 2] = -means[away, 2]
    return replace(splats, means=means)


def block(one_step: Callable[[], None]) -> float:
    """Milliseconds per step."""
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(STEPS):
        one_step()
    torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - begun) / STEPS


def most_beyond(one_step: Callable[[], None]) -> float:
    """GB that a block of steps needs at its most beyond what stays from step to step."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    block(one_step)
    return (torch.cuda.max_memory_allocated() - before) / 1e9


def profiled(name: str, one_step: Callable[[], None]) -> None:
    with torch.profiler.profile(activities=list(torch.profiler.supported_activities())) as watch:
        block(one_step)
    print(name)
    print(watch.key_averages().table(sort_by="self_cuda_time_total", row_limit=22, max_name_column_width=60))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gaussians", type=int, default=1_000_000)
    parser.add_argument("--width", type=int, default=1600)
    parser.add_argument("--height", type=int, default=900)
    parser.add_argument("--frozen", type=float, default=0.7, help="share of the Gaussians in the second row")
    parser.add_argument("--out-of-sight", type=float, default=0.0, help="share of the Gaussians behind the camera")
    parser.add_argument("--profile", action="store_true", help="print the kernels of a step too")
    options = parser.parse_args()
    camera = pinhole(options.width, options.height, 0.8 * options.width)
    rng = np.random.default_rng(0)
    photo = rng.integers(0, 256, (options.height, options.width, 3), dtype=np.uint8)
    engine, splats = load_engine("cuda"), street(options.gaussians)
    rng.shuffle(rows := np.arange(len(splats)))
    splats = turned_away(select(splats, rows), options.out_of_sight, rng)
    frozen = int(options.frozen * options.gaussians)
    steps = {
        "bare gsplat": Bare(splats, camera, photo).step,
        "bare, SelectiveAdam": Bare(splats, camera, photo, selective=True).step,
        "ours": ours(splats, 0, camera, photo, engine).step,
        "ours, seen alone": ours(splats, 0, camera, photo, engine, seen_alone=True).step,
        "ours, in z-order": ours(z_ordered(splats), 0, camera, photo, engine).step,
        f"ours, {options.frozen:.0%} frozen": ours(splats, frozen, camera, photo, engine).step,
    }
    times: dict[str, list[float]] = {name: [] for name in steps}
    beyond = {name: most_beyond(one) for name, one in steps.items()}
    for _ in range(ROUNDS):
        for name, one in steps.items():
            times[name].append(block(one))
    print(f"{options.gaussians} Gaussians, {options.width}x{options.height}, SH 3, {torch.cuda.get_device_name()}")
    bare = float(np.median(times["bare gsplat"]))
    for name, taken in times.items():
        print(
            f"{name:20s} {np.median(taken):7.2f} ms a step   x {np.median(taken) / bare:.2f}"
            f"   {beyond[name]:.2f} GB while it lasts"
        )
    if options.profile:
        for name, one in steps.items():
            profiled(name, one)


if __name__ == "__main__":
    main()
