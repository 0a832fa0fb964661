"""Place finding against truth: rank of the first right place, recall@k, and the margin of geometry to wrong places.

    python benchmarks/places.py --scene DIR [--ground ground2] [--run RUN] [--every 12]

Depth, surface and described places are made in a run folder (`runs/SCENE-GROUND` without `--run`) and found again
there. Groups of six frames are cut every so many frames of the walk. A place is right when it stands within 9 m of the
group and looks within 45 degrees of its way.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scenes import load_scene, prepared_in

from skyanchor.anchors.config import AnchorConfig
from skyanchor.anchors.frames import GroundFrames, spread_over
from skyanchor.anchors.place_finding import PlaceQuery, count_votes, find_places, likeness, place_seeds
from skyanchor.anchors.place_index import PlaceIndex
from skyanchor.anchors.search import Search
from skyanchor.anchors.shape.incremental import LocalGroup, reconstruct_local
from skyanchor.bridges.ground import Ground
from skyanchor.geometry import rigid
from skyanchor.types import Bools, Pose

REACH_M, TURN_DEG = 9.0, 45.0
RANKS = (1, 3, 10, 30)


@dataclass(frozen=True)
class Found:
    """How one group fared; ranks count from 1, 0 = never."""

    first: int
    rank_global: int
    rank_votes: int
    support: int
    wrong_support: int


def right_places(index: PlaceIndex, ground: Ground, pose: Pose) -> Bools:
    """(V,), views of the index that stand and look like a camera."""
    near = np.linalg.norm(index.eyes - rigid.centre_in_world(pose), axis=1) < REACH_M
    looking = np.stack([np.cos(index.headings), np.sin(index.headings)], axis=1) @ ground.across
    return np.asarray(near & (looking @ pose.rotation[2] > np.cos(np.radians(TURN_DEG))))


def rank(right: Bools, order: np.ndarray) -> int:
    hits = np.flatnonzero(right[order])
    return int(hits[0]) + 1 if len(hits) else 0


def try_group(search: Search, chosen: tuple[int, ...], pose: Pose) -> Found:
    prepared, frames, config = search.prepared, search.frames, search.config
    index = prepared.places
    features = tuple(frames.features(i, config.places.features) for i in chosen)
    voters = tuple(features[int(k)] for k in spread_over(len(features), config.places.voters))
    right, everywhere = right_places(index, prepared.ground, pose), np.ones(len(index), bool)
    by_descriptor = np.argsort(-likeness(index, voters), kind="stable")
    by_votes, _ = count_votes(index, voters, everywhere, config.places)
    seen = tuple(frames.features(i, config.ground_matcher) for i in chosen)
    local = reconstruct_local(chosen, seen, search.camera, config.ground_matcher.load(), config.local)
    support = {True: 0, False: 0}
    if isinstance(local, LocalGroup):
        seeds = place_seeds(index, prepared.ground, PlaceQuery(features, search.camera.width), config.places)
        for place in find_places(seeds, local, search.camera, prepared.ground.up, config.places):
            centre = rigid.centres_in_world(place.solution.cams_from_world).mean(axis=0)
            near = bool(np.linalg.norm(centre - rigid.centre_in_world(pose)) < 2.0)
            support[near] = max(support[near], place.support)
    return Found(chosen[0], rank(right, by_descriptor), rank(right, by_votes), support[True], support[False])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scene", type=Path, required=True)
    parser.add_argument("--ground", default="ground")
    parser.add_argument("--run", type=Path, help="run folder")
    parser.add_argument("--every", type=int, default=12)
    given = parser.parse_args()
    run = given.run or Path("runs") / f"{given.scene.name}-{given.ground}"
    scene, config = load_scene(given.scene, given.ground), AnchorConfig()
    prepared = prepared_in(run, given.scene, given.ground)
    search = Search(prepared, GroundFrames(scene.sequence), config)
    groups = [tuple(range(k, k + 6)) for k in range(0, len(scene.sequence.frames) - 5, given.every)]
    found = []
    for chosen in groups:
        pose = scene.true[scene.sequence.frames[chosen[3]].name]
        found.append(try_group(search, chosen, pose))
        print(found[-1], flush=True)
    report(found, len(prepared.places))


def report(found: list[Found], views: int) -> None:
    print(f"{len(found)} groups, {views} described views")
    for name, ranks in (
        ("global descriptor", [f.rank_global for f in found]),
        ("mutual matches of the shortlist", [f.rank_votes for f in found]),
    ):
        shares = "  ".join(f"@{k} {np.mean([0 < r <= k for r in ranks]):4.0%}" for k in RANKS)
        print(f"recall of the {name:32s} {shares}")
    best = np.mean([f.support > f.wrong_support for f in found])
    margins = [f.support / max(f.wrong_support, 1) for f in found if f.support]
    print(f"right place best supported by the group's geometry {best:4.0%}")
    print(f"support of the right place over that of the best wrong one: median {np.median(margins):.1f}")


if __name__ == "__main__":
    main()
