"""Which photos help to measure a photo's depth, and how far its depth may reach."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skyanchor.geometry import cameras, rigid
from skyanchor.types import Bools, Floats, Ints, Plane, Tracks, View


@dataclass(frozen=True)
class SourceConfig:
    """How the source photos of a photo are chosen."""

    count: int = 6
    """Most source photos per photo."""
    angle_deg: float = 17.0
    """Triangulation angle with the best balance of accuracy and likeness, degrees."""
    narrow_deg: float = 6.0
    """Standard deviation of the score below that angle, degrees."""
    wide_deg: float = 12.0
    """Standard deviation of the score above that angle, degrees."""
    fewest_shared: int = 10
    """Sparse points two photos must share."""
    sampled_points: int = 4000
    """Sparse points projected into every photo when the model has no tracks."""


NEIGHBOURS = SourceConfig(count=10, angle_deg=20.0, narrow_deg=15.0, wide_deg=30.0)
"""For the consistency pass: any photo that sees the same surface, whatever the angle."""


def choose_sources(
    views: tuple[View, ...], points: Floats, tracks: Tracks, config: SourceConfig | None = None
) -> tuple[Ints, ...]:
    """Per view the indices of its source views, best first: many shared points seen at a good angle, spread around.

    A pair scores the sum over its shared points of exp(-(angle - best)² / 2σ²) times the ratio of the two distances;
    a photo taken close to one already chosen adds little and is pushed back. Without tracks the frusta decide.
    """
    config = config or SourceConfig()
    centres = rigid.centres_in_world([view.cam_from_world for view in views])
    seen = _observations(views, points, tracks, config)
    order = np.argsort(seen[:, 0], kind="stable")
    by_point = seen[order]
    starts = np.searchsorted(by_point[:, 0], np.arange(len(points) + 1))
    by_view = seen[np.argsort(seen[:, 1], kind="stable")]
    view_starts = np.searchsorted(by_view[:, 1], np.arange(len(views) + 1))
    chosen = []
    for index in range(len(views)):
        mine = by_view[view_starts[index] : view_starts[index + 1], 0]
        first, last = starts[mine], starts[mine + 1]
        rows = (
            np.repeat(first - np.concatenate([[0], np.cumsum(last - first)[:-1]]), last - first) if len(mine) else mine
        )
        rows = rows + np.arange(len(rows))
        score = _pair_scores(index, points[np.repeat(mine, last - first)], by_point[rows, 1], centres, config)
        chosen.append(_spread_choice(score, centres, index, config.count))
    return tuple(chosen)


def choose_neighbours(
    views: tuple[View, ...], points: Floats, tracks: Tracks, config: SourceConfig = NEIGHBOURS
) -> tuple[Ints, ...]:
    """Per view the indices of the views whose depth maps confirm its own: more of them, and at wider angles."""
    return choose_sources(views, points, tracks, config)


def points_in_view(index: int, view: View, points: Floats, tracks: Tracks) -> Floats:
    """(N, 3), the sparse points a view observes; all that project into it when the model has no tracks."""
    if len(tracks.point):
        return points[tracks.point[tracks.image == index]]
    return points[in_frame(view, points)]


def _observations(views: tuple[View, ...], points: Floats, tracks: Tracks, config: SourceConfig) -> Ints:
    """(K, 2) of point and view indices."""
    if len(tracks.point):
        return np.unique(np.stack([tracks.point, tracks.image], axis=1), axis=0)
    stride = max(1, len(points) // config.sampled_points)
    some = np.arange(0, len(points), stride)
    rows = []
    for index, view in enumerate(views):
        hit = some[in_frame(view, points[some])]
        rows.append(np.stack([hit, np.full(len(hit), index)], axis=1))
    return np.concatenate(rows) if rows else np.empty((0, 2), np.int64)


def in_frame(view: View, points: Floats) -> Bools:
    """(N,), whether each world point projects into the photo; occlusion is not considered."""
    pixels = cameras.project(view.camera, rigid.apply(view.cam_from_world, points))
    size = np.array([view.camera.width, view.camera.height])
    with np.errstate(invalid="ignore"):
        return np.asarray(((pixels >= 0) & (pixels < size)).all(axis=1))


def _pair_scores(index: int, points: Floats, other: Ints, centres: Floats, config: SourceConfig) -> Floats:
    """(V,), score of every view as a source of view `index`; one row of points and other per shared observation."""
    to_me = centres[index] - points
    to_other = centres[other] - points
    mine, theirs = np.linalg.norm(to_me, axis=1), np.linalg.norm(to_other, axis=1)
    cosine = (to_me * to_other).sum(axis=1) / np.maximum(mine * theirs, 1e-12)
    angle = np.rad2deg(np.arccos(np.clip(cosine, -1.0, 1.0)))
    sigma = np.where(angle < config.angle_deg, config.narrow_deg, config.wide_deg)
    each = (
        np.exp(-0.5 * ((angle - config.angle_deg) / sigma) ** 2) * np.minimum(mine, theirs) / np.maximum(mine, theirs)
    )
    score: Floats = np.bincount(other, weights=each, minlength=len(centres)).astype(np.float64)
    shared = np.bincount(other, minlength=len(centres))
    score[(shared < config.fewest_shared) | (np.arange(len(centres)) == index)] = 0.0
    return score


def _spread_choice(score: Floats, centres: Floats, index: int, count: int) -> Ints:
    """Greedy choice by score, each choice pushing back the views whose centre lies close to it."""
    score = score.copy()
    baseline = np.linalg.norm(centres - centres[index], axis=1)
    chosen: list[int] = []
    while len(chosen) < count and score.max(initial=0.0) > 0.0:
        best = int(np.argmax(score))
        chosen.append(best)
        apart = np.linalg.norm(centres - centres[best], axis=1) / max(baseline[best], 1e-9)
        score *= 1.0 - 0.8 * np.exp(-((apart / 0.4) ** 2))
        score[best] = 0.0
    return np.array(chosen, dtype=np.int64)


def depth_range(view: View, points: Floats, ground: Plane | None = None) -> tuple[float, float]:
    """Nearest and farthest depth worth searching, metres: what the sparse points span, with margins.

    With a ground plane the range reaches down to a little below it at the image corners, at most three times as far
    as the farthest point.
    """
    depth = rigid.apply(view.cam_from_world, points)[:, 2]
    depth = depth[depth > 0]
    if not len(depth):
        return (0.1, 1000.0)
    near, far = np.percentile(depth, [0.5, 99.5])
    near, far = 0.85 * near, 1.15 * far
    if ground is not None:
        w, h = view.camera.width, view.camera.height
        corners = cameras.unproject(view.camera, np.array([[0.0, 0.0], [w, 0.0], [0.0, h], [w, h]]))
        down = -(corners @ view.cam_from_world.rotation) @ ground.normal
        height = float(ground.normal @ rigid.centre_in_world(view.cam_from_world)) - ground.offset
        reach = height / np.maximum(down, height / (3.0 * far))
        far = max(far, 1.05 * float(reach.max()))
    return float(near), float(far)
