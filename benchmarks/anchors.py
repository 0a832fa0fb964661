"""Anchor localisation on a scene with known truth: per group verdict, error and figures, seconds per step and memory.

    python benchmarks/anchors.py --scene DIR --depth DIR --camera PINHOLE,fx,fy,cx,cy [--ground ground2] [--work DIR]

Truth is read only here, to score. `--work` keeps the prepared scaffold between runs.
"""

from __future__ import annotations

import argparse
import resource
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from skyanchor.anchors.storage import load_places, load_surface, save_places, save_surface

from skyanchor.anchors.config import AnchorConfig
from skyanchor.anchors.group import PreparedScaffold, prepare
from skyanchor.anchors.walk import localise_prepared
from skyanchor.bridges.ground import find_ground
from skyanchor.bridges.views import AerialAtlas
from skyanchor.evaluation.truth import read_truth
from skyanchor.events import Event, Note, Progress
from skyanchor.geometry import rigid
from skyanchor.scaffold import load_scaffold, visibility_graph
from skyanchor.sequence import SequenceConfig, SubmapConfig, load_sequence
from skyanchor.stereo import load_depth
from skyanchor.types import Camera, LocalisedGroup, Pose, Scaffold, Sequence


def prepared_scaffold(
    scaffold: Scaffold, depth: Path, camera: Camera, config: AnchorConfig, work: Path | None
) -> PreparedScaffold:
    if work is not None and (work / "places.npz").is_file():
        surface = load_surface(work / "surface.npz")
        index = load_places(work / "places.npz")
        atlas = AerialAtlas(surface, scaffold.views, config.bridge)
        graph = visibility_graph(scaffold)
        return PreparedScaffold(scaffold, surface, find_ground(surface), atlas, index, graph)
    maps = tuple(load_depth(path) for path in sorted(depth.glob("*.npz")))
    prepared = prepare(scaffold, visibility_graph(scaffold), maps, camera, config, config.prior.near, Told())
    if work is not None:
        work.mkdir(parents=True, exist_ok=True)
        save_surface(work / "surface.npz", prepared.surface, float(prepared.surface.spacing[0]) / 1.1)
        save_places(work / "places.npz", prepared.index)
    return prepared


@dataclass
class Told:
    """Prints what happens and keeps the seconds per step of the groups."""

    seconds: dict[str, float] = field(default_factory=dict)

    def __call__(self, event: Event) -> None:
        """Listen."""
        if isinstance(event, Note):
            print("  ", event.text, flush=True)
        if isinstance(event, Progress):
            print(f"   {event.step} {event.done}/{event.total}", flush=True)
            for step, seconds in event.figures.items() if event.step == "localise groups" else ():
                self.seconds[step] = self.seconds.get(step, 0.0) + seconds


def group_error(group: LocalisedGroup, sequence: Sequence, true: dict[str, Pose]) -> tuple[float, float, float]:
    """(mean and largest centre error in metres, mean rotation error in degrees)."""
    off, turn = [], []
    for anchor in group.poses:
        name = sequence.frames[anchor.frame].name
        pose = true[name]
        centre = rigid.centre_in_world(anchor.cam_from_world) - rigid.centre_in_world(pose)
        off.append(float(np.linalg.norm(centre)))
        turn.append(float(np.degrees(rigid.angle_between(anchor.cam_from_world.rotation, pose.rotation))))
    return float(np.mean(off)), float(np.max(off)), float(np.mean(turn))


def describe(group: LocalisedGroup, sequence: Sequence, true: dict[str, Pose]) -> str:
    shown = (
        "support",
        "ratio",
        "aerial_views",
        "spread",
        "height_m",
        "halves_m",
        "sigma_m",
        "reprojection",
        "turn_deg",
    )
    printed = asdict(group.figures)
    figures = " ".join(f"{name} {printed[name]:.2f}" for name in shown)
    tried = ", ".join(a.reason for a in group.attempts)
    if not group.accepted:
        assert group.refusal is not None
        return f"refused: {group.refusal.reason} ({group.refusal.detail}) {figures} [{tried}]"
    mean, most, turn = group_error(group, sequence, true) if true else (np.nan, np.nan, np.nan)
    stated = float(np.mean([np.sqrt(np.trace(anchor.covariance[3:, 3:])) for anchor in group.poses]))
    return f"accepted: {mean:.3f} m (max {most:.3f}, stated {stated:.3f}), {turn:.3f} deg; {figures} [{tried}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scene", type=Path, required=True)
    parser.add_argument("--depth", type=Path, required=True)
    parser.add_argument("--camera", required=True)
    parser.add_argument("--ground", default="ground")
    parser.add_argument("--submap", type=int, default=100)
    parser.add_argument("--work", type=Path)
    given = parser.parse_args()
    config = AnchorConfig()
    scaffold = load_scaffold(given.scene / "aerial")
    cut = SubmapConfig(submap_length=given.submap)
    sequence = load_sequence(given.scene / given.ground / "images", SequenceConfig(camera=given.camera, cut=cut))
    start = time.monotonic()
    prepared = prepared_scaffold(scaffold, given.depth, sequence.camera, config, given.work)
    print(f"prepared in {time.monotonic() - start:.0f} s: {len(prepared.index.views)} places", flush=True)
    true = read_truth(given.scene / given.ground / "truth", scaffold.georef.offset)
    told = Told()
    start, cpu = time.monotonic(), time.process_time()
    anchors = localise_prepared(prepared, sequence, config, told)
    report(anchors.groups, sequence, true)
    groups = len(anchors.groups)
    for step, seconds in sorted(told.seconds.items(), key=lambda item: -item[1]):
        print(f"{step:24s} {seconds / groups:6.1f} s a group")
    wall, cpu = time.monotonic() - start, time.process_time() - cpu
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"{wall / groups:.1f} s a group, {cpu / groups:.1f} CPU s, the walk between them included; {memory:.1f} GB")


def report(groups: tuple[LocalisedGroup, ...], sequence: Sequence, true: dict[str, Pose]) -> None:
    for group in groups:
        print(f"frames {group.group.frames[0]}..{group.group.frames[-1]}", describe(group, sequence, true))
    errors = [
        np.linalg.norm(
            rigid.centre_in_world(a.cam_from_world) - rigid.centre_in_world(true[sequence.frames[a.frame].name])
        )
        for g in groups
        for a in g.poses
    ]
    wanted = sum(len(g.frames) for g in sequence.groups)
    ate = float(np.sqrt(np.mean(np.square(errors)))) if errors else float("nan")
    print(f"anchors {len(errors)}/{wanted}, ATE {ate:.3f} m")


if __name__ == "__main__":
    main()
