"""Seconds and peak memory of the visibility graph on synthetic five-camera surveys, with tracks and without.

python benchmarks/visibility_graph.py [IMAGES ...]
"""

from __future__ import annotations

import resource
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from skyanchor.geometry import cameras, rigid
from skyanchor.scaffold.visibility import VisibilityConfig, footprints, overlap_graph
from skyanchor.types import Georeference, Plane, Scaffold, Tracks, View

HEIGHT_M = 80.0
SPACING_M = 20.0
POINTS_PER_VIEW = 1000


def survey(images: int, seed: int = 0) -> Scaffold:
    """A flat survey: five cameras (nadir and four obliques) at every station of a square block."""
    rng = np.random.default_rng(seed)
    side = int(np.ceil(np.sqrt(images / 5)))
    camera = cameras.pinhole(1600, 1200, 1385.0)
    up = np.array([0.0, 0.0, 1.0])
    tilts = [(0.0, 0.0), (1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, -1.0)]
    views = []
    for k in range(images):
        station, (dx, dy) = k // 5, tilts[k % 5]
        eye = np.array([station % side * SPACING_M, station // side * SPACING_M, HEIGHT_M])
        target = eye + np.array([dx, dy, -1.0]) + np.array([0.0, 1e-3, 0.0])
        views.append(View(f"{k:05d}.jpg", Path(f"{k:05d}.jpg"), camera, rigid.look_at(eye, target, up), image_id=k))
    extent = side * SPACING_M
    density = 1.5 * POINTS_PER_VIEW / (2 * HEIGHT_M) ** 2
    points = np.column_stack(
        [
            rng.uniform(-HEIGHT_M, extent + HEIGHT_M, (int(density * (extent + 2 * HEIGHT_M) ** 2), 2)),
        ]
    )
    points = np.column_stack([points, rng.uniform(0.0, 10.0, len(points))])
    return Scaffold(
        Path(), tuple(views), points, np.zeros((len(points), 3), np.uint8), np.arange(len(points)),
        observe(views, points, rng), up, Plane(up, 0.0), Georeference(np.zeros(3)),
    )  # fmt: skip


def observe(views: list[View], points: np.ndarray, rng: np.random.Generator) -> Tracks:
    """About POINTS_PER_VIEW of the points in front of every view."""
    order = np.argsort(points[:, 0])
    x = points[order, 0]
    image, point, xy = [], [], []
    for k, view in enumerate(views):
        centre = rigid.centre_in_world(view.cam_from_world)
        near = order[np.searchsorted(x, centre[0] - 3 * HEIGHT_M) : np.searchsorted(x, centre[0] + 3 * HEIGHT_M)]
        near = near[np.abs(points[near, 1] - centre[1]) < 3 * HEIGHT_M]
        pixels = cameras.project(view.camera, view.cam_from_world(points[near]))
        inside = np.flatnonzero(np.all((pixels > 0) & (pixels < [view.camera.width, view.camera.height]), axis=1))
        kept = rng.permutation(inside)[:POINTS_PER_VIEW]
        image.append(np.full(len(kept), k))
        point.append(near[kept])
        xy.append(pixels[kept])
    return Tracks(np.concatenate(point), np.concatenate(image), np.concatenate(xy))


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main(sizes: list[int]) -> None:
    config = VisibilityConfig()
    overlap_graph(footprints(survey(10), config), 16)  # compile
    columns = (("images", 7), ("from", 7), ("observations", 13), ("cells", 10), ("footprints s", 13), ("graph s", 8))
    print(" ".join(f"{name:>{width}}" for name, width in (*columns, ("peak MB", 8))))
    for images in sizes:
        tracked = survey(images)
        nothing = np.zeros(0, np.int64)
        untracked = replace(tracked, tracks=Tracks(nothing, nothing, np.zeros((0, 2))))
        measure(tracked, "points", config)
        measure(untracked, "frusta", config)


def measure(scaffold: Scaffold, source: str, config: VisibilityConfig) -> None:
    begin = time.perf_counter()
    drawn = footprints(scaffold, config)
    middle = time.perf_counter()
    graph = overlap_graph(drawn, config.n_vis)
    end = time.perf_counter()
    print(
        f"{len(scaffold.views):7d} {source:>7} {len(scaffold.tracks.point):13d} {len(drawn.cells):10d} "
        f"{middle - begin:13.1f} {end - middle:8.1f} {peak_mb():8.0f}   "
        f"neighbours {np.mean([len(n) for n in graph.neighbours]):.1f}"
    )


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]] or [1000, 10_000])
