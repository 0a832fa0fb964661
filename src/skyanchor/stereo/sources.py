"""Which photos help to measure a photo's depth, and how far its depth may reach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from skyanchor.bounds import Count, CountOrNone, Few, Positive, Range
from skyanchor.geometry import cameras, rigid
from skyanchor.geometry.depth import inside, lift
from skyanchor.types import Bools, Floats, Ints, Plane, Tracks, View


@dataclass(frozen=True)
class SourceConfig:
    """How the source photos of a photo are chosen."""

    count: Few = 8
    """Most source photos per photo."""
    cover: Positive = 3.0
    """Every part of the photo should be seen by this many good sources."""
    candidates: Few = 48
    """Photos that share the most with a photo; the sources are chosen among them."""
    angle_deg: Annotated[float, Range(0.0, 180.0, above=True)] = 17.0
    """Triangulation angle with the best balance of accuracy and likeness, degrees."""
    narrow_deg: Annotated[float, Range(0.0, 180.0, above=True)] = 6.0
    """Standard deviation of the score below that angle, degrees."""
    wide_deg: Annotated[float, Range(0.0, 180.0, above=True)] = 12.0
    """Standard deviation of the score above that angle, degrees."""
    fewest_shared: CountOrNone = 10
    """Sparse points two photos must share."""
    sampled_points: Count = 4000
    """Sparse points projected into every photo when the model has no tracks."""


NEIGHBOURS = SourceConfig(count=12, cover=5.0, angle_deg=20.0, narrow_deg=15.0, wide_deg=30.0)
"""For the consistency pass: any photo that sees the same surface, whatever the angle."""


def choose_sources(
    views: tuple[View, ...],
    points: Floats,
    tracks: Tracks,
    config: SourceConfig | None = None,
    ground: Plane | None = None,
) -> tuple[Ints, ...]:
    """Per view the indices of its sources, best first: many shared points at a good angle, the whole photo covered.

    Candidates share the most points, each counted as exp(-(angle - best)² / 2σ²) times the ratio of the distances.
    Sources are then taken greedily by what they add to the cover of a grid over the photo, laid on the ground plane or
    else at the median depth; a photo taken close to one already chosen adds little and is pushed back.
    """
    config = config or SourceConfig()
    centres = rigid.centres_in_world([view.cam_from_world for view in views])
    seen = _observations(views, points, tracks, config)
    by_point = seen[np.argsort(seen[:, 0], kind="stable")]
    starts = np.searchsorted(by_point[:, 0], np.arange(len(points) + 1))
    by_view = seen[np.argsort(seen[:, 1], kind="stable")]
    view_starts = np.searchsorted(by_view[:, 1], np.arange(len(views) + 1))
    chosen = []
    for index, view in enumerate(views):
        mine = by_view[view_starts[index] : view_starts[index + 1], 0]
        lengths = starts[mine + 1] - starts[mine]
        rows = np.repeat(starts[mine] - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())
        score = _pair_scores(index, points[np.repeat(mine, lengths)], by_point[rows, 1], centres, config)
        best = np.argsort(-score, kind="stable")[: config.candidates]
        best = best[score[best] > 0.0]
        quality = _cover_quality(view, _grid(view, points[mine], ground), [views[j] for j in best], config)
        chosen.append(best[_covering_choice(quality, centres[best], centres[index], config)])
    return tuple(chosen)


def choose_neighbours(
    views: tuple[View, ...],
    points: Floats,
    tracks: Tracks,
    config: SourceConfig = NEIGHBOURS,
    ground: Plane | None = None,
) -> tuple[Ints, ...]:
    """Per view the indices of the views whose depth maps confirm its own: more of them, and at wider angles."""
    return choose_sources(views, points, tracks, config, ground)


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
    pixels = cameras.project(view.camera, view.cam_from_world(points))
    return inside(view.camera, pixels)


def _pair_scores(index: int, points: Floats, other: Ints, centres: Floats, config: SourceConfig) -> Floats:
    """(V,), score of every view as a source of view `index`; one row of points and other per shared observation."""
    each = _angle_quality(centres[index], points, centres[other], config)
    score: Floats = np.bincount(other, weights=each, minlength=len(centres)).astype(np.float64)
    shared = np.bincount(other, minlength=len(centres))
    score[(shared < config.fewest_shared) | (np.arange(len(centres)) == index)] = 0.0
    return score


def _grid(view: View, points: Floats, ground: Plane | None) -> Floats:
    """(G, 3), a grid of pixels laid on the ground plane, or at the median depth where there is none below."""
    w, h = view.camera.width, view.camera.height
    x, y = np.meshgrid((np.arange(12) + 0.5) * w / 12, (np.arange(9) + 0.5) * h / 9)
    pixels = np.stack([x.ravel(), y.ravel()], axis=1)
    rays = cameras.unproject(view.camera, pixels)
    along = view.cam_from_world(points)[:, 2] if len(points) else np.ones(1)
    depth = np.full(len(rays), float(np.median(along)))
    if ground is not None:
        down = -(rays @ view.cam_from_world.rotation) @ ground.normal
        height = float(ground.normal @ rigid.centre_in_world(view.cam_from_world)) - ground.offset
        reach = height / np.where(down > 1e-3, down, np.nan)
        depth = np.where((reach > 0) & (reach < 3.0 * along.max()), reach, depth)
    return lift(view.camera, view.cam_from_world, pixels, depth)


def _angle_quality(centre: Floats, points: Floats, others: Floats, config: SourceConfig) -> Floats:
    """exp(-(angle - best)² / 2σ²) times the ratio of the distances, for points (..., 3) seen from two centres."""
    to_me, to_other = centre - points, others - points
    mine, theirs = np.linalg.norm(to_me, axis=-1), np.linalg.norm(to_other, axis=-1)
    cosine = (to_me * to_other).sum(axis=-1) / np.maximum(mine * theirs, 1e-12)
    angle = np.rad2deg(np.arccos(np.clip(cosine, -1.0, 1.0)))
    sigma = np.where(angle < config.angle_deg, config.narrow_deg, config.wide_deg)
    ratio = np.minimum(mine, theirs) / np.maximum(np.maximum(mine, theirs), 1e-12)
    return np.exp(-0.5 * ((angle - config.angle_deg) / sigma) ** 2) * ratio


def _cover_quality(view: View, grid: Floats, others: list[View], config: SourceConfig) -> Floats:
    """(C, G), how well each candidate sees each grid point, 0 where it does not."""
    centre = rigid.centre_in_world(view.cam_from_world)
    rows = [
        in_frame(other, grid) * _angle_quality(centre, grid, rigid.centre_in_world(other.cam_from_world), config)
        for other in others
    ]
    return np.array(rows).reshape(len(others), len(grid))


def _covering_choice(quality: Floats, others: Floats, centre: Floats, config: SourceConfig) -> Ints:
    """Rows of `quality` in the order of what each adds to the cover."""
    have = np.zeros(quality.shape[1])
    apart = np.ones(len(quality))
    baseline = np.maximum(np.linalg.norm(others - centre, axis=1), 1e-9)
    chosen: list[int] = []
    while len(chosen) < min(config.count, len(quality)):
        gain = apart * (quality * np.clip(1.0 - have / config.cover, 0.1, 1.0)).sum(axis=1)
        gain[chosen] = -1.0
        best = int(np.argmax(gain))
        if gain[best] <= 0.0:
            break
        chosen.append(best)
        have += quality[best]
        near = np.linalg.norm(others - others[best], axis=1) / baseline[best]
        apart *= 1.0 - 0.5 * np.exp(-((near / 0.4) ** 2))
    return np.array(chosen, dtype=np.int64)


def depth_range(view: View, points: Floats, ground: Plane | None = None) -> tuple[float, float]:
    """Nearest and farthest depth worth searching, metres: what the sparse points span, with margins.

    With a ground plane the range reaches down to a little below it at the image corners, at most three times as far
    as the farthest point.
    """
    depth = view.cam_from_world(points)[:, 2]
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
