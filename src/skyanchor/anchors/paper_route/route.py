"""The paper's way: frames and aerial photos reconstructed together in a free frame, aligned by the aerial cameras.

Retrieval, a verified seed for each frame and its graph neighbours make the support; the group's own shape comes first,
the aerial photos are registered into it, and one similarity from their centres puts all of it into the world. No
surface is asked for the place: points are triangulated, at the reference poses in the end. Views rendered where the
group was put then tell the odds that it is no look-alike, and whether they would have it elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations

import numpy as np

from skyanchor.anchors.group import settle_on_bridges
from skyanchor.anchors.paper_route import mixed
from skyanchor.anchors.paper_route.mixed import MixedConfig, PixelPairs
from skyanchor.anchors.paper_route.mixed_depth import SightedDepth, sighted_depth
from skyanchor.anchors.paper_route.snapped import Snapped, adjusted_at_reference, evidence, halves_of, snap
from skyanchor.anchors.paper_route.support import Supported, support_of, without_vain_trials
from skyanchor.anchors.place_refinement import Settled, seen_from, unadjusted
from skyanchor.anchors.search import Search
from skyanchor.anchors.shape.choice import depth_if_needed
from skyanchor.anchors.shape.incremental import LocalGroup
from skyanchor.anchors.showing import shown_matches
from skyanchor.anchors.verdict import judge, measure, with_odds
from skyanchor.geometry import cameras, rigid
from skyanchor.matching import Features, TwoView, verify
from skyanchor.scaffold.windows import photos_of
from skyanchor.sfm.bundle import Bundle
from skyanchor.types import Camera, Floats, Ints, Pose, Reason, Refusal, Similarity


def settle_on_cameras(search: Search, local: LocalGroup) -> Settled:
    """The group's place by aerial photos registered into its own reconstruction, or why there is none."""
    return _on_support(search, local, settle_matched)


def settle_by_similarity(search: Search, local: LocalGroup) -> Settled:
    """The same without the adjustment at the reference poses (ablation): the frames as the similarity puts them."""

    def snapped(search: Search, local: LocalGroup, support: Supported, paired: PixelPairs) -> Settled:
        found = align_matched(search, local, support, paired)
        if isinstance(found, Refusal):
            return Settled(local, None, found)
        return unadjusted(local, found[0].bundle.cams_from_world[: len(local.frames)], int(found[0].cross.sum()))

    return _on_support(search, local, snapped)


def _on_support(search: Search, local: LocalGroup, settle: Callable[..., Settled]) -> Settled:
    """What becomes of a group, of its verified matches with aerial photos; or why there are none."""
    if len(local.frames) < 2:
        return Settled(local, None, Refusal(Reason.GROUP_FALLS_APART, "One frame alone has no reconstruction."))
    support = support_of(search, local)
    if isinstance(support, Refusal):
        return Settled(local, None, support)
    with search.frames.clock.step("aerial photos matched"):
        paired = match_mixed(search, local, support)
    with search.frames.clock.step("aerial photos registered"):
        return settle(search, local, support, paired)


def settle_both_ways(search: Search, local: LocalGroup) -> Settled:
    """The place by bridge views; where the paper's way finds one too, how far apart they are is part of the verdict."""
    found = settle_on_bridges(search, local)
    if found.refusal is not None or found.done is None:
        return found
    other = settle_on_cameras(search, local)
    if other.refusal is not None or other.done is None:
        return found
    figures = replace(found.figures, routes_m=apart_m(found.done.cams_from_world, other.done.cams_from_world))
    return replace(found, figures=figures, refusal=judge(figures, search.config.verdict))


def apart_m(a: tuple[Pose, ...], b: tuple[Pose, ...]) -> float:
    """Mean distance between the centres of the same cameras, metres."""
    return float(np.linalg.norm(rigid.centres_in_world(a) - rigid.centres_in_world(b), axis=1).mean())


# --- matches --------------------------------------------------------------------------------------------------------


def match_mixed(search: Search, local: LocalGroup, support: Supported) -> PixelPairs:
    """Verified matches between frames within reach, of every frame with every aerial photo, and of graph neighbours.

    Images are numbered as the cameras of a mixed bundle: frames first, then the aerial photos of the support.
    """
    frames, reach = len(local.frames), search.config.local.reach
    seen = (*support.pairs.frames, *(support.index.features[int(j)] for j in support.views))
    lenses = _lenses(search.camera, local, support)
    paired: PixelPairs = {}
    for i, j in combinations(range(len(seen)), 2):
        far = j < frames and j - i > reach
        if far or (i >= frames and not support.neighbours(i - frames, j - frames)):
            continue
        if i < frames <= j:
            rows = support.pairs.agreeing(i, int(support.views[j - frames]))
        else:
            rows = _verified(search, support, (seen[i], seen[j]), (lenses[i], lenses[j]))
        if rows is not None:
            paired[i, j] = rows
    return paired


def _verified(
    search: Search, support: Supported, seen: tuple[Features, Features], lenses: tuple[Camera, Camera]
) -> tuple[Floats, Floats] | None:
    """Pixels (M, 2) of either image that agree with one relative pose; None where too few do."""
    matches = support.index.matcher.match_extracted(*seen)
    config = without_vain_trials(search.config.paper.verify)
    pair = verify(matches.xy_a, matches.xy_b, *lenses, matches.sigma_px, config)
    return (matches.xy_a[pair.inliers], matches.xy_b[pair.inliers]) if isinstance(pair, TwoView) else None


def _lenses(camera: Camera, local: LocalGroup, support: Supported) -> tuple[Camera, ...]:
    ground = cameras.undistorted(camera)
    return (*(ground for _ in local.frames), *(support.index.atlas.photo_camera(int(j)) for j in support.views))


# --- geometry -------------------------------------------------------------------------------------------------------


def settle_matched(search: Search, local: LocalGroup, support: Supported, paired: PixelPairs) -> Settled:
    """The group registered, aligned, adjusted at the reference poses and judged."""
    config = search.config.mixed
    snapped = align_matched(search, local, support, paired)
    if isinstance(snapped, Refusal):
        return Settled(local, None, snapped)
    before, start = snapped
    done = adjusted_at_reference(before, config, not search.lens.known)
    if done is None:
        return Settled(local, None, Refusal(Reason.NOTHING_LEFT, "At the reference poses too few matches are left."))
    at, fixed = evidence(local, search.camera, before, *done, start)
    photos, ground = photos_of(search.prepared.scaffold), search.prepared.ground
    figures = measure(at, fixed, halves_of(before, config), ground, search.config.verdict, photo_of=photos.of_view)
    if search.config.ablation.bridges and judge(figures, search.config.verdict) is None:
        seen = seen_from(search, local, fixed.cams_from_world)
        away = apart_m(seen.solution.cams_from_world, fixed.cams_from_world)
        figures = replace(with_odds(figures, seen), routes_m=away)
    shown = shown_matches(at, at.matches.points, at.solution.inliers, photos)
    refusal = judge(figures, search.config.verdict)
    return Settled(local, fixed, refusal, figures, figures.support, at, cross_view=shown)


def align_matched(
    search: Search, local: LocalGroup, support: Supported, paired: PixelPairs
) -> tuple[Snapped, Similarity] | Refusal:
    """The group registered and aligned, as `aligned_to` gives it."""
    views = search.prepared.scaffold.views
    sigmas = np.array([one.sigma_px for one in support.pairs.frames])
    above = np.array([support.index.features[int(j)].sigma_px for j in support.views])
    lenses = _lenses(search.camera, local, support)
    bundle = mixed.mixed_bundle(local, lenses, np.concatenate([sigmas, above]), paired)
    reference = tuple(views[int(j)].cam_from_world for j in support.views)
    depth_at = depth_if_needed(search.frames, local, search.config)
    depth = None if depth_at is None else sighted_depth(bundle, len(local.frames), depth_at)
    return aligned_to(bundle, len(local.frames), support.views, reference, search.config.mixed, depth)


def aligned_to(
    bundle: Bundle,
    frames: int,
    views: Ints,
    reference: tuple[Pose, ...],
    config: MixedConfig,
    depth: SightedDepth | None = None,
) -> tuple[Snapped, Similarity] | Refusal:
    """(frames in the world and aerial cameras at their `reference`, the similarity that brought them), or why not."""
    registered = mixed.register_aerial(bundle, frames, config, depth)
    if isinstance(registered, Refusal):
        return registered
    grown, used = registered
    there = tuple(reference[c - frames] for c in used)
    here = tuple(grown.cams_from_world[c] for c in used)
    aligned = mixed.align(here, there, mixed.seen_depth(grown, used), config)
    if isinstance(aligned, Refusal):
        return aligned
    # the observations of before: what the free frame bent is judged anew at the reference
    whole = replace(bundle, cams_from_world=grown.cams_from_world)
    moved = snap(whole, frames, used[aligned.agrees], aligned.world_from_local, views, reference)
    return moved, aligned.world_from_local
