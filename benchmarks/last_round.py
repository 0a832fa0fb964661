"""A last round with another matcher, after the default one has found the place: is it more exact?

    python benchmarks/last_round.py --scene DIR [--ground ground2] [--run RUN] [--matchers sift,x-feat,lighter-glue]

The anchors are located as the command locates them, in a run folder (`runs/SCENE-GROUND` without `--run`), and found
again there. Then every accepted group is looked at once more from where it stands, with views rendered there and each
matcher in turn, adjusted and judged: as the method does when it has learnt the focal length of a walk. The default's
own row says what a further round alone is worth.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scenes import Scene, config_for, load_scene, prepared_in, told

from skyanchor import localise
from skyanchor.anchors.frames import GroundFrames
from skyanchor.anchors.in_process import LocalRunner
from skyanchor.anchors.walk import GroupTask
from skyanchor.errors import SkyAnchorError
from skyanchor.evaluation.ablations import matcher_variant
from skyanchor.geometry import rigid
from skyanchor.types import LocalisedGroup


def row(name: str, groups: Sequence[LocalisedGroup], scene: Scene, seconds: float) -> str:
    """Groups that stand, RMS and largest error of their frames, what they state, and the seconds of all together."""
    found = [(scene.sequence.frames[pose.frame].name, pose) for group in groups for pose in group.poses]
    off = [rigid.centre_in_world(pose.cam_from_world) - rigid.centre_in_world(scene.true[key]) for key, pose in found]
    errors = np.linalg.norm(off, axis=1) if off else np.full(1, np.nan)
    stated = float(np.median([np.sqrt(np.trace(pose.covariance[3:, 3:]) / 3.0) for _, pose in found])) if found else 0.0
    placed = f"{sum(group.accepted for group in groups)}/{len(groups)}"
    ate = float(np.sqrt(np.mean(np.square(errors))))
    return f"| {name} | {placed} | {ate:.4f} | {np.max(errors):.4f} | {stated:.4f} | {seconds:.0f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scene", type=Path, required=True)
    parser.add_argument("--ground", default="ground")
    parser.add_argument("--run", type=Path, help="run folder")
    parser.add_argument("--matchers", default="x-feat-star,sift,x-feat", help="names as `skyanchor ablate` takes them")
    given = parser.parse_args()
    run = given.run or Path("runs") / f"{given.scene.name}-{given.ground}"
    scene, config = load_scene(given.scene, given.ground), config_for(given.scene / given.ground)
    found = localise(given.scene / "aerial", given.scene / given.ground / "images", run, config, workers=1, listen=told)
    prepared = prepared_in(run, given.scene, given.ground)
    groups = [group for group in found.anchors.groups if group.accepted]
    tasks = tuple(GroupTask(scene.sequence.groups[one.group.index], (), found=one.poses) for one in groups)
    print("| last round | groups | ATE m | worst m | stated m per axis | seconds |\n|---|---|---|---|---|---|")
    print(row("none", groups, scene, 0.0), flush=True)
    for name in given.matchers.split(","):
        variant = matcher_variant(name)
        try:
            variant.check()
        except SkyAnchorError as error:
            print(f"| {name} | {error} | | | | |")
            continue
        anchors, start = variant.change(config).anchors, time.monotonic()
        verdicts = LocalRunner(prepared, GroundFrames(scene.sequence), anchors).groups(tasks)
        print(row(name, [one.localised for one in verdicts], scene, time.monotonic() - start), flush=True)


if __name__ == "__main__":
    main()
