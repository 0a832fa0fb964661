"""Cross-view anchor localisation: groups of street frames into the aerial frame, or an honest refusal."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from skyanchor.anchors.adjustment import FixedAerial, adjust_fixed_aerial
from skyanchor.anchors.config import AnchorConfig
from skyanchor.anchors.direct import AerialIndex, index_aerial, match_support, seed_of, support_set, views_of
from skyanchor.anchors.evidence import CrossMatches, joined, match_bridge, sightings, subset
from skyanchor.anchors.frames import GroundFrames, with_focal
from skyanchor.anchors.ladder import rungs
from skyanchor.anchors.places import (
    PlaceHypothesis,
    PlaceIndex,
    build_places,
    distinct_support,
    find_places,
    load_descriptor,
    spread_voters,
)
from skyanchor.anchors.priors import Prior
from skyanchor.anchors.shape.choice import group_shape
from skyanchor.anchors.shape.incremental import LocalGroup
from skyanchor.anchors.showing import shown_adjusted, shown_matches
from skyanchor.anchors.solve import GroupSolution, solve_group
from skyanchor.anchors.verdict import compare_halves, honest_covariances, judge, mean_step, measure
from skyanchor.bridges.ground import Ground, find_ground
from skyanchor.bridges.surface import Surface, SurfaceConfig, fuse_surface
from skyanchor.bridges.views import AerialAtlas, render_bridge
from skyanchor.events import Listener, Note, silent
from skyanchor.geometry import cameras, rigid, similarity
from skyanchor.matching import Matcher
from skyanchor.matching.global_descriptors import GlobalDescriptor, described
from skyanchor.types import (
    AnchorGroup,
    AnchorPose,
    Bools,
    Camera,
    CrossView,
    DepthMap,
    Floats32,
    GroupFigures,
    LocalisedGroup,
    Pose,
    Reason,
    Refusal,
    Scaffold,
    VisibilityGraph,
)


@dataclass
class PreparedScaffold:
    """What all groups share: the surface, its ground, painted views and described places."""

    scaffold: Scaffold
    surface: Surface
    ground: Ground
    atlas: AerialAtlas
    index: PlaceIndex
    graph: VisibilityGraph
    aerial: AerialIndex | None = None
    """Described aerial photos; made when a group is localised without bridges."""
    descriptor: GlobalDescriptor | None = None
    """What described the places besides their local features."""


def prepare(
    scaffold: Scaffold,
    graph: VisibilityGraph,
    depth_maps: tuple[DepthMap, ...],
    camera: Camera,
    config: AnchorConfig,
    near: tuple[Prior, ...] = (),
    listen: Listener = silent,
) -> PreparedScaffold:
    """The scaffold made ready for a ground camera; with priors only the places they allow are described."""
    surface = fuse_surface(depth_maps, scaffold.up, SurfaceConfig())
    ground = find_ground(surface)
    listen(
        Note("anchors", f"{len(surface.points)} surfels, {ground.free.sum() * ground.cell**2:.0f} m² of free ground")
    )
    coarse = AerialAtlas(surface, scaffold.views, config.places.bridge, limit_bytes=1 << 30)
    matcher = config.places.features.load()
    descriptor = load_descriptor(config.places.descriptor, coarse)
    index = build_places(coarse, ground, scaffold.points, camera, matcher, config.places, near, listen, descriptor)
    atlas = AerialAtlas(surface, scaffold.views, config.bridge)
    return PreparedScaffold(scaffold, surface, ground, atlas, index, graph, descriptor=descriptor)


@dataclass(frozen=True, eq=False)
class Settled:
    """A place after refinement: the group's poses and what they rest on, or why it was dropped."""

    done: FixedAerial | None
    refusal: Refusal | None
    figures: GroupFigures = field(default_factory=GroupFigures)
    support: int = 0
    start: tuple[Pose, ...] = ()
    """Where the place was first thought to be."""
    focal: float = 1.0
    """Focal length that the last refinement assumed, over the one that the group came with."""
    cross_view: CrossView | None = None
    """Some of its matches, for people to look at."""


# --- one place ---------------------------------------------------------------------------------------------------


def _rendered_matches(
    prepared: PreparedScaffold,
    frames: GroundFrames,
    indices: tuple[int, ...],
    chosen: list[int],
    poses: tuple[Pose, ...],
    camera: Camera,
    matcher: Matcher,
    config: AnchorConfig,
) -> CrossMatches:
    """Each chosen frame matched with a bridge rendered at its estimated pose."""
    bridge_camera = cameras.scaled(camera, min(config.refine.width, camera.width))
    parts: list[CrossMatches] = []
    for k in chosen:
        with frames.clock.step("bridge views"):
            bridge = render_bridge(prepared.atlas, bridge_camera, poses[k])
        if bridge.photo.mask is not None and bridge.photo.mask.any():
            with frames.clock.step("matches with bridges"):
                seen = matcher.extract(bridge.photo)
                parts.append(match_bridge(matcher, k, frames.cross(indices[k]), k, bridge, seen))
    return joined(parts)


def _refined(
    prepared: PreparedScaffold,
    frames: GroundFrames,
    local: LocalGroup,
    start: GroupSolution,
    camera: Camera,
    matcher: Matcher,
    config: AnchorConfig,
) -> tuple[GroupSolution, CrossMatches] | Settled:
    """(solution, the matches it was solved from) after rounds of rendering at the estimate, or why it was dropped."""
    solution = start
    found: tuple[GroupSolution, CrossMatches] | None = None
    for turn in range(config.refine.rounds):
        most = config.refine.frames[0] if turn == 0 else config.refine.frames[1]
        chosen = [int(k) for k in spread_voters(len(local.frames), most)]
        poses = solution.cams_from_world
        matches = _rendered_matches(prepared, frames, local.frames, chosen, poses, camera, matcher, config)
        with frames.clock.step("group pose"):
            seen_at = sightings(matches, camera)
            better = solve_group(seen_at, local.cams_from_local, prepared.ground.up, config.refine.solve)
        support = 0 if better is None else distinct_support(matches, better.inliers, camera.width / 100.0)
        if better is None or support < config.refine.least_support:
            figures = {"support": float(support), "round": float(turn)}
            refusal = Refusal(
                Reason.PLACE_NOT_CONFIRMED, f"Only {support} matches agree with a view from there.", figures
            )
            agrees = np.zeros(len(matches), bool) if better is None else better.inliers
            seen = _shown(prepared, local, (better or solution).cams_from_world, matches, agrees, camera)
            return Settled(None, refusal, support=support, cross_view=seen)
        solution = better
        found = (solution, matches)
    assert found is not None
    return found


def _settle(
    prepared: PreparedScaffold,
    frames: GroundFrames,
    local: LocalGroup,
    start: GroupSolution,
    camera: Camera,
    matcher: Matcher,
    config: AnchorConfig,
) -> Settled:
    """One place refined, adjusted against the real aerial photos and judged."""
    result = _refined(prepared, frames, local, start, camera, matcher, config)
    if isinstance(result, Settled):
        return result
    return _adjusted(prepared, frames, local, *result, camera, config)


def _shown(
    prepared: PreparedScaffold,
    local: LocalGroup,
    poses: tuple[Pose, ...],
    matches: CrossMatches,
    agrees: Bools,
    camera: Camera,
) -> CrossView | None:
    """A few of the matches of a place that was dropped before its adjustment."""
    return shown_matches(matches, matches.points, agrees, poses, camera, local.frames, prepared.scaffold.views)


def _adjusted(
    prepared: PreparedScaffold,
    frames: GroundFrames,
    local: LocalGroup,
    solution: GroupSolution,
    found: CrossMatches,
    camera: Camera,
    config: AnchorConfig,
) -> Settled:
    """The group against the real aerial photos, and the verdict on it; the solution was made from all of `found`."""
    matches = subset(found, solution.inliers)
    with frames.clock.step("adjustment"):
        done = adjust_fixed_aerial(
            prepared.atlas,
            camera,
            local,
            solution.cams_from_world,
            solution.world_from_local,
            matches,
            config.adjustment,
            not frames.focal_known,
        )
    if done is None:
        gone = Refusal(Reason.NOTHING_LEFT, "The aerial photos confirm too few of the matches.")
        seen = _shown(prepared, local, solution.cams_from_world, found, np.zeros(len(found), bool), camera)
        return Settled(None, gone, cross_view=seen)
    with frames.clock.step("halves compared"):
        halves = compare_halves(matches, local, camera, solution.world_from_local)
    figures = measure(done, matches, len(found), local, prepared.ground, camera, halves, config.verdict)
    focal, views = with_focal(camera, done.focal_scale), prepared.scaffold.views
    seen = shown_adjusted(found, solution.inliers, done, focal, local.frames, views, config.adjustment)
    return Settled(done, judge(figures, config.verdict), figures, figures.support, cross_view=seen)


# --- one group ---------------------------------------------------------------------------------------------------


def _same_place(poses: tuple[Pose, ...], others: tuple[Pose, ...], apart: float) -> bool:
    middles = [rigid.centres_in_world(p).mean(axis=0) for p in (poses, others)]
    return float(np.linalg.norm(middles[0] - middles[1])) < apart


def _ambiguous(best: Settled, others: list[Settled], config: AnchorConfig) -> Refusal | None:
    """A refusal when another place, apart from the best, has nearly as much support."""
    assert best.done is not None
    centre = rigid.centres_in_world(best.done.cams_from_world).mean(axis=0)
    for other in others:
        if other.done is None or other is best:
            continue
        apart = float(np.linalg.norm(rigid.centres_in_world(other.done.cams_from_world).mean(axis=0) - centre))
        if apart > config.ladder.apart and other.support > config.ladder.ambiguous * best.support:
            figures = {"apart_m": apart, "support": best.support, "other_support": other.support}
            return Refusal(Reason.AMBIGUOUS_PLACE, f"A place {apart:.0f} m away fits nearly as well.", figures)
    return None


def _try_places(
    prepared: PreparedScaffold,
    frames: GroundFrames,
    local: LocalGroup,
    places: tuple[PlaceHypothesis, ...],
    camera: Camera,
    matcher: Matcher,
    config: AnchorConfig,
) -> Settled:
    """The accepted place with the most support, or the refusal of the best one."""
    settled: list[Settled] = []
    accepted: Settled | None = None
    for place in places:
        if len(settled) == config.ladder.places:
            break
        if accepted is not None and place.support < config.ladder.ambiguous * places[0].support:
            break
        if any(_same_place(place.solution.cams_from_world, other.start, config.ladder.apart) for other in settled):
            continue
        one = _settle(prepared, frames, local, place.solution, camera, matcher, config)
        one = replace(one, start=place.solution.cams_from_world)
        settled.append(one)
        if one.refusal is None and (accepted is None or one.support > accepted.support):
            accepted = one
    if accepted is not None:
        doubt = _ambiguous(accepted, settled, config)
        return accepted if doubt is None else replace(accepted, refusal=doubt)
    if not settled:
        return Settled(None, Refusal(Reason.NO_PLACE, "No place of the scaffold looks like these frames."))
    return max(settled, key=lambda s: s.support)


def _looks(
    prepared: PreparedScaffold, frames: GroundFrames, local: LocalGroup, config: AnchorConfig
) -> Floats32 | None:
    """(F, E), global descriptors of the frames that vote; None when local features do it alone."""
    if prepared.descriptor is None:
        return None
    voters = spread_voters(len(local.frames), config.places.voters)
    return described(prepared.descriptor, [frames.photo(local.frames[k]) for k in voters])


def _attempt(
    prepared: PreparedScaffold,
    frames: GroundFrames,
    indices: tuple[int, ...],
    near: tuple[Prior, ...],
    matcher: Matcher,
    config: AnchorConfig,
) -> tuple[Settled, LocalGroup | None]:
    """One rung of the ladder: shape, places, refinement, verdict."""
    with frames.clock.step("shape of the group"):
        local = group_shape(frames, indices, config)
    if isinstance(local, Refusal):
        return Settled(None, local), None
    camera = with_focal(frames.camera, local.focal_scale)
    if not config.ablation.bridges:
        return _settle_on_photos(prepared, frames, local, near, camera, config), local
    features = tuple(frames.place(i) for i in local.frames)
    with frames.clock.step("places"):
        looks = _looks(prepared, frames, local, config)
        places = find_places(prepared.index, prepared.ground, local, features, camera, config.places, near, looks)
    if not config.ablation.metric_alignment:
        return _unaligned(places, config), local
    settled = _try_places(prepared, frames, local, places, camera, matcher, config)
    if near and not places:
        settled = replace(
            settled, refusal=Refusal(Reason.NO_PLACE, "No place where these frames may stand looks like them.")
        )
    if frames.focal_known or settled.done is None:
        return settled, local
    return _with_its_focal(prepared, frames, local, settled, matcher, config)


def _with_its_focal(
    prepared: PreparedScaffold,
    frames: GroundFrames,
    local: LocalGroup,
    settled: Settled,
    matcher: Matcher,
    config: AnchorConfig,
) -> tuple[Settled, LocalGroup]:
    """The place again with the focal length found there, until it stays; shape, views and matches all follow it."""
    start, total = frames.focal, 1.0
    for _ in range(config.focal.turns):
        if settled.done is None or abs(settled.done.focal_scale - 1.0) < config.focal.settled:
            break
        total *= settled.done.focal_scale
        frames.focal = start * total
        with frames.clock.step("shape of the group"):
            shape = group_shape(frames, local.frames, config)
        if isinstance(shape, Refusal):
            break
        world_from_local = similarity.align_cameras(shape.cams_from_local, settled.done.cams_from_world)
        at = GroupSolution(world_from_local, settled.done.cams_from_world, np.empty(0, bool), 0.0)
        local, settled = shape, _settle(prepared, frames, shape, at, frames.camera, matcher, config)
    frames.focal = start
    return replace(settled, focal=total), local


def _unaligned(places: tuple[PlaceHypothesis, ...], config: AnchorConfig) -> Settled:
    """The ablation without metric alignment: the best place as it was found."""
    if not places or places[0].support < config.verdict.least_support:
        return Settled(None, Refusal(Reason.NO_PLACE, "No place of the scaffold looks like these frames."))
    best = places[0]
    poses = best.solution.cams_from_world
    none, nothing = np.empty(0, np.int64), np.empty((0, 3))
    covariances = np.tile(np.eye(6) * 0.25, (len(poses), 1, 1))
    done = FixedAerial(poses, covariances, none, none, none, np.inf, np.inf, nothing, 1.0)
    step_m = mean_step(rigid.centres_in_world(poses))
    return Settled(done, None, GroupFigures(best.support, step_m=step_m, halves_m=0.0), best.support)


def _settle_on_photos(
    prepared: PreparedScaffold,
    frames: GroundFrames,
    local: LocalGroup,
    near: tuple[Prior, ...],
    camera: Camera,
    config: AnchorConfig,
) -> Settled:
    """The ablation without bridges: aerial photos retrieved, verified and matched directly."""
    matcher = config.paper.matcher.load()
    if prepared.aerial is None:
        prepared.aerial = index_aerial(prepared.atlas, matcher, config.paper.descriptor)
    photos = [frames.photo(i) for i in local.frames]
    seen = tuple(map(matcher.extract, photos))
    most, check = config.paper.retrieved, config.paper.verify
    among = views_of(near, prepared.ground, prepared.scaffold.views)
    seeds = [
        seed_of(prepared.aerial, prepared.atlas, photo, features, camera, matcher, most, check, among)
        for photo, features in zip(photos, seen, strict=True)
    ]
    support = support_set(seeds, prepared.graph, config.paper.near, config.ablation.visibility_graph)
    if not len(support):
        return Settled(None, Refusal(Reason.NO_SEED, "No aerial photo could be verified with any frame."))
    matches = match_support(prepared.aerial, prepared.atlas, support, seen, matcher)
    solution = solve_group(sightings(matches, camera), local.cams_from_local, prepared.ground.up, config.refine.solve)
    if solution is None:
        return Settled(None, Refusal(Reason.NO_PLACE, "The matches agree with no place."))
    return _adjusted(prepared, frames, local, solution, matches, camera, config)


def localise_group(
    prepared: PreparedScaffold,
    frames: GroundFrames,
    group: AnchorGroup,
    config: AnchorConfig,
    near: tuple[Prior, ...] = (),
) -> tuple[LocalisedGroup, float]:
    """(the verdict on one group, focal scale): the first rung of the ladder that is accepted, or the last refusal."""
    matcher = config.refine.matcher.load()
    if not config.ablation.ground_first:
        return _frame_by_frame(prepared, frames, group, near, matcher, config), 1.0
    attempts: list[Refusal] = []
    figures = GroupFigures()
    seen: CrossView | None = None
    for indices, settings in rungs(frames, group, config):
        settled, local = _attempt(prepared, frames, indices, near, matcher, settings)
        figures, seen = figures if settled.done is None else settled.figures, settled.cross_view or seen
        if local is not None and local.instead_of is not None and local.instead_of not in attempts:
            attempts.append(local.instead_of)
        if settled.refusal is None and settled.done is not None and local is not None:
            kept = tuple(i for i in indices if i in local.frames)
            poses = _anchor_poses(prepared, settled, local, kept)
            scale = settled.focal * local.focal_scale * settled.done.focal_scale
            accepted = replace(group, frames=kept)
            return LocalisedGroup(accepted, poses, None, settled.figures, tuple(attempts), seen), scale
        attempts.append(settled.refusal or Refusal(Reason.NO_PLACE, "No place was found."))
        if attempts[-1].reason is Reason.AMBIGUOUS_PLACE:  # more frames of the same would only hide the other place
            break
    last = attempts.pop()
    return LocalisedGroup(group, (), last, figures, tuple(attempts), seen), 1.0


def _frame_by_frame(
    prepared: PreparedScaffold,
    frames: GroundFrames,
    group: AnchorGroup,
    near: tuple[Prior, ...],
    matcher: Matcher,
    config: AnchorConfig,
) -> LocalisedGroup:
    """The ablation without ground-first reconstruction: every frame on its own, those accepted make the group."""
    poses: list[AnchorPose] = []
    refusals: list[Refusal] = []
    figures = GroupFigures()
    for i in group.frames:
        settled, local = _attempt(prepared, frames, (i,), near, matcher, config)
        if settled.refusal is None and settled.done is not None and local is not None:
            poses += _anchor_poses(prepared, settled, local, (i,))
            figures = settled.figures
        else:
            refusals.append(settled.refusal or Refusal(Reason.NO_PLACE, "No place was found."))
    refusal = None if poses else refusals[-1]
    return LocalisedGroup(group, tuple(poses), refusal, figures, tuple(refusals))


def _anchor_poses(
    prepared: PreparedScaffold, settled: Settled, local: LocalGroup, kept: tuple[int, ...]
) -> tuple[AnchorPose, ...]:
    assert settled.done is not None
    covariances = honest_covariances(settled.done, settled.figures.halves_m, prepared.surface.gsd)
    slots = [local.frames.index(i) for i in kept]
    return tuple(AnchorPose(local.frames[k], settled.done.cams_from_world[k], covariances[k]) for k in slots)
