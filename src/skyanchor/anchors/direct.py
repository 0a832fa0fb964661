"""The paper's support: aerial photos retrieved for each frame, verified, and joined by their graph neighbours.

Used when bridge views are switched off. Aerial pixels are lifted by the surface, so the rest of the stage is the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skyanchor.anchors.evidence import CrossMatches, joined
from skyanchor.anchors.priors import Prior, allowed
from skyanchor.bridges.ground import Ground
from skyanchor.bridges.surface import render_depth
from skyanchor.bridges.views import AerialAtlas, free_places
from skyanchor.geometry import cameras
from skyanchor.geometry.depth import inside, lift, sampled, under
from skyanchor.matching import Features, Matcher, TwoView, VerifyConfig, verify
from skyanchor.matching.global_descriptors import AnyDescriptor, GlobalDescriptor, described
from skyanchor.matching.retrieval import ranked
from skyanchor.types import Camera, Floats, Floats32, Ints, Photo, View, VisibilityGraph

GRID_M = 4.0
"""Between the places on the ground that a view must look at one of, metres."""


@dataclass(frozen=True, eq=False)
class AerialIndex:
    """Aerial photos as a matcher takes them, with global descriptors."""

    features: tuple[Features, ...]
    """In pixels of the atlas photos."""
    descriptor: GlobalDescriptor
    described: Floats32
    """(V, E), unit."""


def index_aerial(atlas: AerialAtlas, matcher: Matcher, choice: AnyDescriptor) -> AerialIndex:
    """Every aerial photo of the scaffold, described once."""
    photos = [Photo(view.name, atlas.pixels(j)) for j, view in enumerate(atlas.views)]
    descriptor = choice.load("auto", photos)
    return AerialIndex(tuple(map(matcher.extract, photos)), descriptor, described(descriptor, photos))


def seed_of(
    index: AerialIndex,
    atlas: AerialAtlas,
    photo: Photo,
    frame: Features,
    camera: Camera,
    matcher: Matcher,
    retrieved: int,
    config: VerifyConfig,
    among: Ints | None = None,
) -> int | None:
    """The retrieved aerial view with the most two-view inliers, or None when no candidate is verified.

    `among` are the views to retrieve from; all of them without it.
    """
    among = np.arange(len(index.described)) if among is None else among
    query = index.descriptor.describe(photo)[None]
    best: tuple[int, int] | None = None
    for j in among[ranked(query, index.described[among], retrieved)[0]]:
        found = matcher.match_extracted(frame, index.features[int(j)])
        result = verify(found.xy_a, found.xy_b, camera, atlas.photo_camera(int(j)), found.sigma_px, config)
        if isinstance(result, TwoView):
            count = int(result.inliers.sum())
            best = max(best or (0, -1), (count, int(j)))
    return None if best is None else best[1]


def views_of(priors: tuple[Prior, ...], ground: Ground, views: tuple[View, ...]) -> Ints:
    """Indices of the aerial views that look at free ground which the priors allow; all of them without priors."""
    if not priors:
        return np.arange(len(views))
    places = free_places(ground, GRID_M, 0.0)
    places = places[allowed(priors, places @ ground.across.T)]
    return np.array([j for j, view in enumerate(views) if _looks_at(view, places)], dtype=np.int64)


def _looks_at(view: View, points: Floats) -> bool:
    """Whether any of the points (N, 3) is before the camera and inside its picture."""
    in_cam = view.cam_from_world(points)
    before = in_cam[in_cam[:, 2] > 0.0]
    xy = cameras.project(cameras.undistorted(view.camera), before)
    return bool(inside(view.camera, xy).any())


def support_set(seeds: list[int | None], graph: VisibilityGraph, near: int, use_graph: bool) -> Ints:
    """R_t: the seeds of all frames and up to `near` graph neighbours of each."""
    chosen: set[int] = set()
    for seed in seeds:
        if seed is None:
            continue
        chosen.add(seed)
        if use_graph:
            chosen.update(int(j) for j in graph.neighbours[seed][:near])
    return np.array(sorted(chosen), dtype=np.int64)


def _lifted(atlas: AerialAtlas, view: int, xy: Floats) -> tuple[Floats, Floats]:
    """(points, normals) in the world under pixels of an aerial photo; nan where there is no surface."""
    full = atlas.photo_camera(view)
    camera = cameras.scaled(full, min(800, full.width))
    pose = atlas.views[view].cam_from_world
    depth, normal = render_depth(atlas.surface, camera, pose, 1.0, 1e4)
    small = xy * camera.width / full.width
    return lift(full, pose, xy, sampled(depth, small)), under(normal, small).astype(np.float64) @ pose.rotation


def match_support(
    index: AerialIndex,
    atlas: AerialAtlas,
    support: Ints,
    frames: tuple[Features, ...],
    matcher: Matcher,
) -> CrossMatches:
    """Every frame of the group matched with every aerial photo of its support, lifted to the surface."""
    parts: list[CrossMatches] = []
    for number, j in enumerate(support):
        found = [matcher.match_extracted(frame, index.features[int(j)]) for frame in frames]
        counts = [len(one.xy_a) for one in found]
        owner = np.repeat(np.arange(len(frames)), counts)
        points, normals = _lifted(atlas, int(j), np.concatenate([one.xy_b for one in found]))
        xy = np.concatenate([one.xy_a for one in found])
        sigma = np.repeat([max(one.sigma_px, frame.sigma_px) for one, frame in zip(found, frames, strict=True)], counts)
        good = np.isfinite(points[:, 0])
        count = int(good.sum())
        parts.append(
            CrossMatches(
                owner[good].astype(np.int64),
                xy[good],
                sigma[good],
                points[good],
                normals[good],
                np.full(count, j, np.int64),
                np.full(count, number, np.int64),
            )
        )
    return joined(parts)
