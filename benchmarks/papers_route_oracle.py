"""The paper's route with a matcher that knows the truth: what the visibility graph is worth, and who accepts what.

    python benchmarks/papers_route_oracle.py [--cases NAME ...] [--groups 5] [--draws 1] [--out FILE]

The street of the tests (`tests/support/anchors_street.py`: 14 aerial photos, groups of six frames over 3 m), the oracle
of `tests/support/oracle_matcher.py` between all photos but those of one group; retrieval, seeds, support, registration,
similarity, adjustment and verdict are the method's, one attempt a group. Every case is run with the graph, where the
graph's neighbours support a group and only they are matched with each other, and without it, where the seeds alone do.
*The paper's tests*: four aerial photos registered, a mean reprojection error of 4 px, the similarity fits; *ours*: the
verdict. A group is placed rightly within 0.5 m and 1 degree of the truth.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from kept import Outcome, made_here, write_lines

from skyanchor.anchors.config import AnchorConfig
from skyanchor.anchors.frames import GroundFrames
from skyanchor.anchors.in_process import prepared_here
from skyanchor.anchors.paper_route.route import apart_m, settle_on_cameras
from skyanchor.anchors.place_refinement import Settled
from skyanchor.anchors.prepared_scaffold import PreparedScaffold
from skyanchor.anchors.search import Search
from skyanchor.anchors.shape.choice import group_shape
from skyanchor.anchors.shape.incremental import LocalGroup
from skyanchor.geometry import rigid
from skyanchor.matching import Sift
from skyanchor.types import Pose, Sequence

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/support"))

from anchors_street import GROUND, make_scaffold, make_sequence, small_config, street_poses
from oracle_matcher import Oracle

SIZE = 6
RIGHT_M, RIGHT_DEG = 0.5, 1.0
CASES = {
    "0.7 px, 20 % wrong": Oracle(),
    "2 px, 20 % wrong": Oracle(noise_px=2.0),
    "0.7 px, 50 % wrong": Oracle(wrong=0.5),
    "2 px, 50 % wrong": Oracle(noise_px=2.0, wrong=0.5),
    "0.7 px, 20 % wrong, 80 matches a pair": Oracle(most=80),
    "2 px, 50 % wrong, 80 matches a pair": Oracle(noise_px=2.0, wrong=0.5, most=80),
    "0.7 px, 20 % wrong, one front alone": Oracle(front=True),
    "2 px, 50 % wrong, one front alone": Oracle(noise_px=2.0, wrong=0.5, front=True),
    "0.7 px, 20 % wrong, half at a copy 6 m on": Oracle(copied=0.5),
    "0.7 px, 20 % wrong, all at a copy 6 m on": Oracle(copied=1.0),
}


@dataclass(frozen=True)
class Ended:
    """One group in one case."""

    why: str
    photos: int
    """Aerial photos that are registered and agree with the similarity."""
    off_m: float
    """From the truth, nan where the paper's tests refuse the group."""
    turn_deg: float
    ours: bool
    """Whether our verdict accepts it too."""

    @property
    def placed(self) -> bool:
        """Whether the paper's tests accept it."""
        return bool(np.isfinite(self.off_m))

    @property
    def right(self) -> bool:
        """Whether it is where it is placed."""
        return self.off_m <= RIGHT_M and self.turn_deg <= RIGHT_DEG


def settings(oracle: Oracle, graph: bool) -> AnchorConfig:
    base, choice = small_config(), cast(Any, oracle)
    return replace(
        base,
        route="paper",
        paper=replace(base.paper, matcher=choice),
        ground_matcher=Sift(keypoints=1500),
        ablation=replace(base.ablation, visibility_graph=graph),
    )


def ended(found: Settled) -> Ended:
    """How a group ended, against the truth."""
    why = "accepted" if found.refusal is None else str(found.refusal)
    if found.done is None or found.figures.reprojection > 4.0 or found.figures.aerial_reprojection > 4.0:
        return Ended(why, 0, float("nan"), float("nan"), False)
    true = tuple(street_poses()[frame] for frame in found.local.frames)
    poses = found.done.cams_from_world
    turn = max(_turn_deg(a, b) for a, b in zip(poses, true, strict=True))
    return Ended(why, found.figures.aerial_views, apart_m(poses, true), turn, found.refusal is None)


def _turn_deg(a: Pose, b: Pose) -> float:
    return float(np.degrees(rigid.angle_between(a.rotation, b.rotation)))


def runs(
    prepared: PreparedScaffold, walk: Sequence, oracle: Oracle, graph: bool, given: argparse.Namespace
) -> Iterator[Ended]:
    """Every group of a case, as often as the matches are drawn."""
    for draw in range(given.draws):
        search = Search(prepared, GroundFrames(walk), settings(replace(oracle, draw=draw), graph))
        for first in range(0, 2 * given.groups, 2):
            local = group_shape(search.frames, tuple(range(first, first + SIZE)), search.camera, search.config)
            if isinstance(local, LocalGroup):
                yield ended(settle_on_cameras(search, local))


def row(name: str, graph: bool, found: list[Ended]) -> tuple[str, Outcome]:
    """A line of the table, and its figures."""
    placed, right = [one for one in found if one.placed], [one for one in found if one.placed and one.right]
    ours = [one for one in placed if one.ours]
    off = float(np.median([one.off_m for one in right])) if right else float("nan")
    photos = float(np.mean([one.photos for one in placed])) if placed else float("nan")
    paper = f"{len(right)} right, {len(placed) - len(right)} wrong"
    mine = f"{sum(one.right for one in ours)} right, {sum(not one.right for one in ours)} wrong"
    shown, many = ("-" if np.isnan(value) else f"{value:{form}}" for value, form in ((off, ".3f"), (photos, ".1f")))
    text = f"| {name} | {'with' if graph else 'without'} | {len(found)} | {paper} | {many} | {shown} | {mine} |"
    figures = {"groups": float(len(found)), "right": float(len(right)), "wrong": float(len(placed) - len(right))}
    figures |= {"photos": photos, "off m": off, "ours": float(len(ours)), "ours right": sum(o.right for o in ours)}
    return text, Outcome(f"{name}, {'with' if graph else 'without'} the graph", figures)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", choices=tuple(CASES), default=list(CASES), metavar="NAME")
    parser.add_argument("--groups", type=int, default=5, choices=range(1, 6), help="begun at every second frame")
    parser.add_argument("--draws", type=int, default=1, help="of noise and wrong matches")
    parser.add_argument("--out", type=Path, help="JSON lines")
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as held:
        scaffold, maps = make_scaffold(Path(held) / "aerial")
        prepared, walk = prepared_here(scaffold, maps, GROUND, small_config()), make_sequence(Path(held) / "ground")
        print("| matches | graph | groups | the paper's tests | photos | off m | our verdict |")
        print("|---|---|---|---|---|---|---|")
        outcomes = []
        for name in given.cases:
            for graph in (True, False):
                begun = time.process_time()
                found = list(runs(prepared, walk, CASES[name], graph, given))
                text, outcome = row(name, graph, found)
                print(text, flush=True)
                for one in found:
                    print(f"{one}", file=sys.stderr, flush=True)
                print(f"{time.process_time() - begun:.0f} CPU s", file=sys.stderr, flush=True)
                outcomes.append(outcome)
        if given.out:
            write_lines(given.out, made_here(), outcomes)


if __name__ == "__main__":
    main()
