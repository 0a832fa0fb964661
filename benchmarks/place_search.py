"""CPU seconds and memory of the search of one group among so many described views, step by step, on made-up tiles.

    python benchmarks/place_search.py WORK [VIEWS ...] [--repeat 2]

Views stand 8 m apart, six to a place, in tiles of 32 m with seven places each, as a part of the preset `city` has them
on its streets. Their looks and features are drawn by chance, as large as a city's (64 words, 700 features a view, 28
kB). Nothing can be found there: what is timed is what every group of a walk pays, whatever comes of it. Steps of one
search:

- *opened*: where all views stand, once for a process;
- *likeness*: three frames compared with all looks;
- *votes*: the features of the shortlist, and of that of the walk's hints, matched with the three frames;
- *matches*: those of the ten best places and their neighbours matched again for the group's geometry;
- *walk, looks* and *walk, vote*: 33 frames compared with all looks, and their vote for one position.

Each number of views has a process and a folder of its own in WORK (1.4 GB for 50 000 views); tiles that lie there are
not made again. The first line of a process is its first group, which opens the tiles, the next ones follow it. A
quarter of the files that the system lets a process have open are for tiles: `ulimit -n` changes what is opened anew.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from skyanchor.anchors.config import WalkVotesConfig
from skyanchor.anchors.odometry import Walk
from skyanchor.anchors.place_finding import PlaceQuery, PlacesConfig, count_votes, likeness, place_seeds
from skyanchor.anchors.place_index import PlaceIndex, PlaceTile, PlaceView, make_tile
from skyanchor.anchors.priors import allowed
from skyanchor.anchors.walk_votes import Voters, hints_for
from skyanchor.bridges.ground import Ground
from skyanchor.geometry import rigid
from skyanchor.matching import Features
from skyanchor.matching.retrieval import Vocabulary, vlad
from skyanchor.run.memory import MemoryWatch, peaks
from skyanchor.storage import files
from skyanchor.types import Floats32

SPACING_M, TILE_M, HEADINGS = 8.0, 32.0, 6
KEYPOINTS, COMPONENTS, WORDS = 700, 64, 64
SIZE = (416, 234)
VOTERS, WALK_FRAMES = 3, 33
PLACES = 7
"""In a tile, which has room for sixteen: places stand on streets."""


# --- the plain ----------------------------------------------------------------------------------------------------


def unit(rng: np.random.Generator, count: int) -> Floats32:
    """(N, D) descriptors drawn by chance."""
    drawn = rng.normal(size=(count, COMPONENTS)).astype(np.float32)
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def features(rng: np.random.Generator) -> Features:
    """Of one photo or view."""
    xy = rng.uniform(0.0, 1.0, (KEYPOINTS, 2)) * SIZE
    ones = np.ones(KEYPOINTS, np.float32)
    return Features(xy, unit(rng, KEYPOINTS), ones, ones, *SIZE, 1.0)


def made_tile(rng: np.random.Generator, vocabulary: Vocabulary) -> PlaceTile:
    """The tile at the origin."""
    turns = np.linspace(0.0, 2.0 * np.pi, HEADINGS, endpoint=False)
    views = []
    for place in range(PLACES):
        eye = np.array([*(np.array(divmod(place, round(TILE_M / SPACING_M))) + 0.5) * SPACING_M, 1.7])
        for turn in turns:
            points = eye + rng.uniform(-40.0, 40.0, (KEYPOINTS, 3))
            source = rng.integers(0, 60, KEYPOINTS)
            seen = unit(rng, KEYPOINTS)
            views.append(PlaceView(eye, float(turn), SIZE[0], seen, points.astype(np.float32), source))
    return make_tile(tuple(views), vocabulary)


def build(folder: Path, count: int) -> tuple[PlaceIndex, Vocabulary]:
    """So many views: features as in one tile, looks of their own."""
    rng = np.random.default_rng(0)
    vocabulary = Vocabulary(unit(rng, WORDS))
    tiles = -(-count // (PLACES * HEADINGS))
    side = int(np.ceil(np.sqrt(tiles)))
    paths = tuple(folder / f"{k % side}_{k // side}.npz" for k in range(tiles))
    one = None if all(path.is_file() for path in paths) else made_tile(rng, vocabulary)
    for k, path in enumerate(paths):
        if one is not None and not path.is_file():
            at = np.array([k % side * TILE_M, k // side * TILE_M, 0.0])
            looks = np.random.default_rng(k + 1).integers(-127, 128, one.looks.shape).astype(np.int8)
            gains = np.full_like(one.gains, 1.0 / (73.0 * np.sqrt(one.looks.shape[1])))
            files.save(path, replace(one, eyes=one.eyes + at, looks=looks, gains=gains))
    return PlaceIndex(paths, vocabulary), vocabulary


def plain() -> Ground:
    """What the views stand on; only its axes are asked for."""
    height = np.zeros((1, 1), np.float32)
    return Ground(np.eye(3)[:2], np.eye(3)[2], np.zeros(2), 1.0, height, height == 0.0)


# --- one search ---------------------------------------------------------------------------------------------------


@contextmanager
def step(spent: dict[str, float], name: str) -> Iterator[None]:
    """A block whose CPU seconds are kept under a name."""
    start = time.process_time()
    yield
    spent[name] = time.process_time() - start


def searched(index: PlaceIndex, vocabulary: Vocabulary, seed: int) -> dict[str, float]:
    """CPU seconds of the steps of the search of one group."""
    rng = np.random.default_rng(seed)
    config, ground, votes = PlacesConfig(), plain(), WalkVotesConfig()
    group = tuple(features(rng) for _ in range(VOTERS))
    walk_looks = np.stack([vlad(unit(rng, KEYPOINTS), vocabulary) for _ in range(WALK_FRAMES)])
    poses = tuple(rigid.from_centre(np.eye(3), np.array([0.0, 0.0, float(k)])) for k in range(WALK_FRAMES))
    walk = Walk(poses, np.arange(float(WALK_FRAMES)))
    spent: dict[str, float] = {}
    with step(spent, "opened"):
        anywhere = np.ones(len(index), bool)
        flat = index.eyes @ ground.across.T
    with step(spent, "walk, looks"):
        alike = index.likeness(walk_looks)
    with step(spent, "walk, vote"):
        voters = Voters(walk, WALK_FRAMES // 2, tuple(range(WALK_FRAMES)), alike)
        hints = hints_for(index, ground, voters, anywhere, config.nodes, votes)
    with step(spent, "likeness"):
        likeness(index, group)
    with step(spent, "votes"):
        count_votes(index, group, anywhere, config, hinted=allowed(hints, flat))
    with step(spent, "matches"):
        place_seeds(index, ground, PlaceQuery(group, 640, (), hints), config)
    spent["matches"] -= spent["votes"]
    spent["votes"] -= spent["likeness"]
    return {name: round(seconds, 2) for name, seconds in spent.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("views", type=int, nargs="*", default=[2_500, 50_000])
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if not given.one:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        for views in given.views:
            build(given.work / str(views), views)
            words = [str(given.work), str(views), "--repeat", str(given.repeat), "--one"]
            subprocess.run([sys.executable, __file__, *words], check=True, env=environment)
        return
    folder = given.work / str(given.views[0])
    index, vocabulary = build(folder, given.views[0])
    watch = MemoryWatch(folder, "search")
    watch.start()
    for k in range(given.repeat):
        print(len(index.tiles), "tiles", searched(index, vocabulary, k), flush=True)
    watch.stop()
    print(f"{len(index)} views, {peaks(folder)['search'].bytes / 1e6:.0f} MB", flush=True)


if __name__ == "__main__":
    main()
