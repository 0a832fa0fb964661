"""Accept or refuse a localised group, with the figures that decided. Precision before recall."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from math import isnan
from typing import Annotated, TypeAlias

import numpy as np

from skyanchor.anchors.adjustment import FixedAerial
from skyanchor.anchors.evidence import CrossMatches, GroupAt, distinct_support, sightings, subset
from skyanchor.anchors.expected import Expected, grid_of
from skyanchor.anchors.likelihood import Found, halves_log_odds, log_odds, residual_log_odds
from skyanchor.anchors.shape.incremental import LocalGroup
from skyanchor.anchors.solve import refine_similarity
from skyanchor.bounds import Coordinate, CountOrNone, Degrees, Positive, Range, Rising, Share
from skyanchor.bridges.ground import Ground, height_above_ground
from skyanchor.bridges.views import Rig
from skyanchor.geometry import rigid, similarity
from skyanchor.sfm.uncertainty import centre_sigma_m
from skyanchor.types import Bools, Camera, Floats, GroupFigures, Ints, Pose, Reason, Refusal, Similarity

LogOdds: TypeAlias = Annotated[float, Range(-30.0, 30.0)]
"""Powers of ten."""


@dataclass(frozen=True)
class VerdictConfig:
    """What an accepted group must show."""

    least_support: CountOrNone = 60
    """Distinct places in the group's images that agree with the aerial photos."""
    least_ratio: Share = 0.5
    """Agreeing over all cross-view matches of the last round: at the right place most of what matches agrees."""
    least_odds: LogOdds = 0.0
    """Decadic logarithm of the odds that a place is the right one and no look-alike, at least."""
    sure_odds: LogOdds = 1.5
    """Below these a group is accepted only if the walk from one that is sure leads there."""
    sure_ratio: Share = 0.7
    """The same for the ratio where no views were rendered, so that there are no odds: groups that stand on keyframes of
    earlier walks where the flight does not place them, and without bridges."""
    least_frame_share: Share = 0.6
    """Share of the matched frames that see enough of the scaffold on their own."""
    least_frame_support: CountOrNone = 8
    """What is enough for one frame."""
    least_frame_of_best: Share = 0.25
    """And what it must have over the best frame of its group: where traffic fills the picture a frame hangs on what
    moves, and hardly anything of it agrees. Such a frame is not given the pose that the group has for it."""
    least_views: CountOrNone = 4
    """Aerial photos with real support."""
    least_view_support: CountOrNone = 5
    """Matches that make an aerial photo's support real."""
    least_spread: Share = 0.10
    """Share of the cells of an 8 x 5 image grid, over all frames together, that hold an agreeing match."""
    most_reprojection: Positive = 2.0
    """Median residual in ground frames, sigmas."""
    most_aerial_reprojection: Positive = 2.0
    """Median residual in aerial photos, sigmas."""
    most_tilt_deg: Degrees = 25.0
    """Angle between a camera's up and the scene's, degrees."""
    height: Annotated[tuple[Coordinate, Coordinate], Rising()] = (0.3, 5.0)
    """Least and most median height of the cameras above the ground, metres."""
    most_bend: Positive = 0.08
    """Deviation of the adjusted centres from the ground-only shape, over the group's length."""
    most_turn_deg: Degrees = 1.0
    """Deviation of the adjusted relative rotations from the ground-only ones, degrees."""
    most_halves: Positive = 0.3
    """Distance between the solutions of two halves of the evidence, metres; the whole is good to about half of it."""
    most_scale_halves: Positive = 0.1
    """Difference of the scales of the two halves, as a fraction: a tenth is a metre at ten metres."""
    most_sigma: Positive = 0.15
    """Largest standard deviation of a camera centre, metres."""
    most_routes: Positive = 0.5
    """Distance to where the paper's way leads, metres, where both ways were gone and both succeeded."""


def is_sure(figures: GroupFigures, config: VerdictConfig, narrowed: float = 0.0) -> bool:
    """Whether an accepted group needs no other to bear it out: a look-alike front can fill half of its pictures.

    `narrowed` is what a prior adds to the odds, see `priors.narrowed`.
    """
    if isnan(figures.log_odds):
        return not figures.ratio < config.sure_ratio  # nan where no matches were counted
    return figures.log_odds + narrowed >= config.sure_odds


def strength(figures: GroupFigures) -> tuple[float, int]:
    """By what one of two groups that contradict each other is kept: odds, even where there are none, then support."""
    return (0.0 if isnan(figures.log_odds) else figures.log_odds, figures.support)


@dataclass(frozen=True, eq=False)
class Halves:
    """How far the solutions of two halves of the evidence lie apart, the worst of several splits."""

    metres: float
    """Mean distance of the camera centres."""
    degrees: float
    """Between the directions of the group, or of the camera that turned most."""
    scale: float
    """Of the scales' ratio, its logarithm: a fraction."""


def _half_solution(
    matches: CrossMatches, keep: Bools, local: LocalGroup, camera: Camera, start: Similarity
) -> Similarity | None:
    if keep.sum() < 20:
        return None
    return refine_similarity(sightings(subset(matches, keep), camera), local.cams_from_local, start, 2.0)


def _distance(a: Similarity, b: Similarity, local: LocalGroup) -> tuple[float, float, float]:
    poses_a, poses_b = ([similarity.transform_camera(s, pose) for pose in local.cams_from_local] for s in (a, b))
    apart = rigid.centres_in_world(poses_a) - rigid.centres_in_world(poses_b)
    turn = np.degrees(rigid.angle_between(a.rotation, b.rotation))
    return float(np.linalg.norm(apart, axis=1).mean()), float(turn), float(abs(np.log(a.scale / b.scale)))


def compare_halves(matches: CrossMatches, local: LocalGroup, camera: Camera, start: Similarity) -> Halves:
    """Solve with every other frame, and with the left and the right of the images; nan when a half is too small."""
    middle = float(np.median(matches.xy[:, 0])) if len(matches) else 0.0
    splits = [matches.frame % 2 == 0, matches.xy[:, 0] < middle]
    apart: list[tuple[float, float, float]] = []
    for first in splits if len(local.frames) > 1 else splits[1:]:
        a = _half_solution(matches, first, local, camera, start)
        b = _half_solution(matches, ~first, local, camera, start)
        if a is None or b is None:
            return Halves(float("nan"), float("nan"), float("nan"))
        apart.append(_distance(a, b, local))
    metres, degrees, scale = np.max(apart, axis=0)
    return Halves(float(metres), float(degrees), float(scale))


def _spread(xy: Floats, camera: Camera) -> float:
    """Share of the cells of an 8 x 5 grid that hold a pixel of xy."""
    cells = np.floor(xy / np.array([camera.width / 8.0, camera.height / 5.0])).astype(np.int64)
    return len(np.unique(np.clip(cells, 0, [7, 4]), axis=0)) / 40.0


def _in_cells(matches: CrossMatches, camera: Camera, frames: int) -> Ints:
    """(F, R, C), matches in each cell of each frame."""
    rows, columns = grid_of(camera.width, camera.height)
    cells = np.floor(matches.xy * [columns / camera.width, rows / camera.height]).astype(np.int64)
    x, y = np.clip(cells, 0, [columns - 1, rows - 1]).T
    count = np.zeros((frames, rows, columns), np.int64)
    np.add.at(count, (matches.frame, y, x), 1)
    return count


def recognised(expected: Expected, matches: CrossMatches, agrees: Bools, camera: Camera) -> float:
    """Share of what a view shows, ground included, where a match agrees; nan where it shows nothing."""
    held = _in_cells(subset(matches, agrees), camera, expected.frame + 1)[expected.frame] > 0
    return float((held & expected.cells).sum() / expected.cells.sum()) if expected.cells.any() else float("nan")


def found_at(at: GroupAt) -> Found | None:
    """How much of what the views show is recognised in the frames; None without views.

    Matches alone cannot tell a house from its twin elsewhere, for what differs beside it is not matched at all, nor
    one crossing from another.
    """
    if not at.expected:
        return None
    frames = len(at.local.frames)
    every, agreeing = (_in_cells(matches, at.camera, frames) for matches in (at.matches, at.agreeing))
    slots = [view.frame for view in at.expected]
    held = ((agreeing > 0) & (2 * agreeing >= every))[slots]
    fronts = np.stack([view.fronts for view in at.expected])
    ground = np.stack([view.cells for view in at.expected]) & ~fronts
    above, below = int(fronts.sum()), int(ground.sum())
    shares = float((fronts & held).sum() / max(above, 1)), float((ground & held).sum() / max(below, 1))
    return Found(above / len(slots), shares[0], below / len(slots), shares[1])


def agreeing_share(at: GroupAt) -> float:
    """Of the matches with views, those that agree with where the group stands."""
    return float(at.solution.inliers.mean()) if len(at.matches) else 0.0


def odds_by_views(at: GroupAt) -> float:
    """log10 of the odds by what is recognised of the views; nan without any."""
    found = found_at(at)
    return float("nan") if found is None else log_odds(found, agreeing_share(at))


def with_odds(figures: GroupFigures, at: GroupAt) -> GroupFigures:
    """Figures of a group that was placed without views, with the odds by those rendered where it was put."""
    found = found_at(at)
    return figures if found is None else replace(figures, **asdict(found), log_odds=odds_by_views(at))


def shape_deviation(poses: tuple[Pose, ...], local: LocalGroup) -> tuple[float, float]:
    """(centres' rms deviation from the ground-only shape over the group's length, largest relative turn in degrees)."""
    if len(poses) < 3:
        return 0.0, 0.0
    centres, shape = rigid.centres_in_world(poses), rigid.centres_in_world(local.cams_from_local)
    world_from_local = similarity.align_cameras(local.cams_from_local, poses)
    off = np.linalg.norm(world_from_local(shape) - centres, axis=1)
    length = float(np.linalg.norm(np.diff(centres, axis=0), axis=1).sum())
    turns = [
        rigid.angle_between(p.rotation, similarity.transform_camera(world_from_local, q).rotation)
        for p, q in zip(poses, local.cams_from_local, strict=True)
    ]
    return float(np.sqrt((off**2).mean()) / max(length, 1e-9)), float(np.degrees(max(turns)))


SHARED_PIXEL = 0.25
"""Error that all matches with a stretch of the aerial photos share, in pixels of those photos."""


def shared_by_photos(sample_m: float) -> float:
    """Error that all matches with aerial photos share, metres, where a pixel of them covers so many metres.

    Where a match lies is settled in the photos: depth of half their resolution gives errors of the same size.
    """
    return SHARED_PIXEL * sample_m


def sample_in_photos(rig: Rig, done: FixedAerial) -> float:
    """Metres that a pixel covers of the photos that the group's matches lie in: z / f, the median of the matches."""
    view = done.aerial_views
    depth = ((done.points - rig.centres[view]) * rig.rotations[view, 2]).sum(axis=1)
    return float(np.median(depth / rig.photos[view, 0]))


def honest_covariances(done: FixedAerial, halves_m: float, shared_m: float) -> Floats:
    """Covariances no smaller than what two halves of the evidence disagree by, plus what both halves share.

    Errors of the surface are shared by neighbouring matches, so counting matches flatters; each half is off by about
    1/√2 of the distance between them, the whole by half of it. The part of an error that all matches share moves both
    halves alike and is added.
    """
    formal = float(np.mean([centre_sigma_m(covariance) for covariance in done.covariances]))
    factor = max(1.0, (0.5 * halves_m / max(formal, 1e-9)) ** 2)
    covariances = done.covariances * factor
    covariances[:, 3:, 3:] += shared_m**2 * np.eye(3)
    return np.asarray(covariances)


def supported(matches: CrossMatches, frames: int, config: VerdictConfig) -> Bools:
    """(F,), frames of a group of which enough agrees, by itself and beside the best of them."""
    count = np.bincount(matches.frame, minlength=frames)
    return np.asarray(count >= max(config.least_frame_support, config.least_frame_of_best * count.max(initial=0)))


def unsupported(at: GroupAt, done: FixedAerial, config: VerdictConfig) -> set[int]:
    """Frames, by their place in the group, that were looked at and of which too little agrees to place them."""
    held = supported(subset(at.agreeing, done.cross), len(at.local.frames), config)
    return {view.frame for view in at.expected if not held[view.frame]}


def measure(
    at: GroupAt,
    done: FixedAerial,
    halves: Halves,
    ground: Ground,
    config: VerdictConfig,
    edges: tuple[float, float] = (0.0, 0.0),
    photo_of: Ints | None = None,
) -> GroupFigures:
    """Every figure the verdict looks at; `edges` are the cells with edges and the share that is met.

    `photo_of` (V,) is the photo that each view of the flight is a window of, where some are.
    """
    matches, camera = at.agreeing, at.camera
    agreeing = subset(matches, done.cross)
    held = supported(agreeing, len(at.local.frames), config)
    per_view = np.bincount(done.aerial_views if photo_of is None else photo_of[done.aerial_views], minlength=1)
    centres = rigid.centres_in_world(done.cams_from_world)
    tilt = [np.degrees(np.arccos(np.clip(-pose.rotation[1] @ ground.up, -1, 1))) for pose in done.cams_from_world]
    bend, turn_deg = shape_deviation(done.cams_from_world, at.local)
    found = found_at(at)
    found = None if found is None else replace(found, edges=edges[0], edges_met=edges[1])
    ratio = len(agreeing) / max(done.tried, 1) * len(matches) / max(len(at.matches), 1)
    fit = residual_log_odds(done.reprojection) + halves_log_odds(halves.metres)
    odds = {} if found is None else {"log_odds": log_odds(found, ratio) + fit}
    return GroupFigures(
        support=distinct_support(agreeing, np.ones(len(agreeing), bool), camera.width / 100.0),
        ratio=ratio,
        frame_share=float(held.sum()) / max(len(np.unique(at.matches.frame)), 1),
        aerial_views=int((per_view >= config.least_view_support).sum()),
        many_view_share=float((done.views_per_match >= 2).mean()) if len(agreeing) else 0.0,
        spread=_spread(agreeing.xy, camera),
        **({} if found is None else asdict(found) | odds),
        reprojection=done.reprojection,
        aerial_reprojection=done.aerial_reprojection,
        tilt_deg=float(max(tilt)),
        height_m=float(np.median(np.nan_to_num(height_above_ground(ground, centres), nan=-1.0))),
        bend=bend,
        turn_deg=turn_deg,
        halves_m=halves.metres,
        halves_deg=halves.degrees,
        halves_scale=halves.scale,
        sigma_m=max(centre_sigma_m(covariance) for covariance in done.covariances),
        step_m=mean_step(centres),
    )


def mean_step(centres: Floats) -> float:
    """Mean distance between consecutive ones of the centres (F, 3); 0 for a single one."""
    return float(np.linalg.norm(np.diff(centres, axis=0), axis=1).mean()) if len(centres) > 1 else 0.0


def judge(figures: GroupFigures, config: VerdictConfig) -> Refusal | None:
    """None to accept, else the first test that failed."""
    f = figures
    lowest, highest = config.height
    tests = (
        (Reason.TOO_LITTLE_SUPPORT, f.support >= config.least_support, "support"),
        (Reason.TOO_MANY_DISAGREE, f.ratio >= config.least_ratio, "ratio"),
        (Reason.LOOK_ALIKE, not f.log_odds < config.least_odds, "log_odds"),  # nan without views
        (Reason.FRAMES_WITHOUT_SUPPORT, f.frame_share >= config.least_frame_share, "frame_share"),
        (Reason.TOO_FEW_AERIAL_VIEWS, f.aerial_views >= config.least_views, "aerial_views"),
        (Reason.SUPPORT_IN_ONE_SPOT, f.spread >= config.least_spread, "spread"),
        (Reason.GROUND_REPROJECTION, f.reprojection <= config.most_reprojection, "reprojection"),
        (Reason.AERIAL_REPROJECTION, f.aerial_reprojection <= config.most_aerial_reprojection, "aerial_reprojection"),
        (Reason.CAMERA_TILT, f.tilt_deg <= config.most_tilt_deg, "tilt_deg"),
        (Reason.CAMERA_HEIGHT, lowest <= f.height_m <= highest, "height_m"),
        (Reason.SHAPE_BENT, f.bend <= config.most_bend, "bend"),
        (Reason.SHAPE_TURNED, f.turn_deg <= config.most_turn_deg, "turn_deg"),
        (Reason.HALVES_DISAGREE, f.halves_m <= config.most_halves, "halves_m"),
        (Reason.SCALE_OF_HALVES, f.halves_scale <= config.most_scale_halves, "halves_scale"),
        (Reason.TOO_UNCERTAIN, f.sigma_m <= config.most_sigma, "sigma_m"),
        (Reason.ROUTES_DISAGREE, not f.routes_m > config.most_routes, "routes_m"),  # nan where one way was gone
    )
    for reason, passed, name in tests:
        if not passed:  # nan fails every comparison
            printed = asdict(figures)
            return Refusal(reason, f"{name} is {printed[name]:.3g}.", printed)
    return None
