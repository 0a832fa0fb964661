"""Anchor localisation on a scene with known truth: per group verdict, error and figures, seconds per step and memory.

    python benchmarks/anchors.py --scene DIR [--ground ground2] [--run RUN] [--workers 1]

The stages run as the command runs them, in a run folder, and are read back from it; those that are done there are not
repeated. Without `--run` it is `runs/SCENE-GROUND`.
"""

from __future__ import annotations

import argparse
import resource
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
from scenes import config_for, load_scene, told

from skyanchor import localise
from skyanchor.geometry import rigid
from skyanchor.run import records
from skyanchor.storage import files
from skyanchor.types import LocalisedGroup, Pose, Sequence


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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scene", type=Path, required=True)
    parser.add_argument("--ground", default="ground")
    parser.add_argument("--submap", type=int, default=100)
    parser.add_argument("--run", type=Path, help="run folder")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    given = parser.parse_args()
    run = given.run or Path("runs") / f"{given.scene.name}-{given.ground}"
    scene = load_scene(given.scene, given.ground, given.submap)
    config = config_for(given.scene / given.ground, given.submap)
    images = given.scene / given.ground / "images"
    start, cpu = time.monotonic(), time.process_time()
    done = localise(given.scene / "aerial", images, run, config, workers=given.workers, listen=told)
    wall, cpu = time.monotonic() - start, time.process_time() - cpu
    groups = done.anchors.groups
    report(groups, scene.sequence, scene.true)
    for step, seconds in sorted(seconds_of(run).items(), key=lambda item: -item[1]):
        print(f"{step:24s} {seconds / len(groups):6.1f} s a group")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"{wall:.0f} s, {cpu:.0f} CPU s of this process, what was not done before included; {memory:.1f} GB")


def seconds_of(run: Path) -> dict[str, float]:
    """Per step of the work on groups, over all looks."""
    total: dict[str, float] = {}
    for look in files.load(run / records.ANCHOR_SECONDS_FILE, records.AnchorSeconds).looks:
        for step, seconds in look.seconds.items():
            total[step] = total.get(step, 0.0) + seconds
    return total


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
