"""Ground-first: the shape of an anchor group from its own frames alone, before any aerial evidence is looked at."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Protocol

import numpy as np

from skyanchor.anchors.shape.loops import Pairs, agreeing
from skyanchor.anchors.shape.moving import widest
from skyanchor.bounds import CountOrNone, Degrees, Few, Positive
from skyanchor.geometry import cameras, rigid
from skyanchor.matching import Features, TwoView, VerifyConfig, verify
from skyanchor.sfm import bundle as ba
from skyanchor.sfm import resection
from skyanchor.sfm.adjustment import Adjusted, adjust
from skyanchor.sfm.dense import Dense
from skyanchor.sfm.tracks import Twice, build_tracks, pixels_of
from skyanchor.sfm.triangulation import ray_angles, triangulate
from skyanchor.types import Camera, Ints, Pose, Reason, Refusal

TRIALS = resection.Trials(least=100)
"""How long the pose of a further frame is drawn."""
LEAST_SEEN = 12
"""Points that a frame must see, and that must agree with its pose, to be registered."""
MOST_PARALLAX_DEG = 2.0
"""Angle beyond which a match counts no more for the pair that starts: many points are better than a few near ones."""
AGREES = 3.0
"""A point agrees with the pose of a further frame up to so many of the matcher's sigmas."""
FAR_OFF = 8.0
"""Sigmas from a camera's match beyond which a point is not believed while the group still grows."""


@dataclass(frozen=True)
class LocalConfig:
    """When a group's own reconstruction is believed."""

    reach: Few = 6
    """Frames are matched with those at most this far away in the group."""
    verify: VerifyConfig = field(default_factory=lambda: VerifyConfig(threshold=1.5, trials=(50, 20_000)))
    """Two-view verification of ground pairs."""
    most_open_deg: Degrees = 1.0
    """What the turns of three pairs around three frames may leave over, degrees. A pair that most such loops contradict
    follows what moves: all pairs are then looked at a second time, and those still contradicted are left out; 180
    leaves all as they are."""
    least_angle_deg: Degrees = 0.7
    """Triangulation angle of a point that counts, degrees."""
    least_points: CountOrNone = 40
    """Points with a good angle that a reconstruction needs."""
    outlier: Positive = 4.0
    """Observations beyond this many sigmas are dropped."""
    most_reprojection: Positive = 2.0
    """Median reprojection error of a reconstruction, in the matcher's sigma, at most."""
    low_parallax_deg: Degrees = 1.0
    """Median triangulation angle below which the group should be widened, degrees."""
    depth: Path | None = None
    """Depth maps of the street photos in units of their own, for groups that hardly move; named like the photos."""
    depth_always: bool = False
    """Whether depth, from that folder or a feed-forward choice, also holds groups that move, as in MP-SfM."""


@dataclass(frozen=True, eq=False)
class LocalGroup:
    """A group's frames and points in a frame of their own whose unit is the mean step between frames."""

    frames: tuple[int, ...]
    cams_from_local: tuple[Pose, ...]
    bundle: ba.Bundle
    """The reconstruction; camera k is frame frames[k], lenses in pixels of the photos."""
    reprojection: float
    """Median, in sigmas."""
    parallax_deg: float
    """Median over points of the largest triangulation angle, degrees."""
    instead_of: Refusal | None = None
    """Why the feed-forward shape was not taken, where there was one."""


class PairMatcher(Protocol):
    """Joins keypoints of two photos; every sparse matcher does."""

    def pairs(self, a: Features, b: Features) -> Ints:
        """(M, 2), indices of matched keypoints of a and b."""
        ...


def match_group(features: tuple[Features, ...], camera: Camera, matcher: PairMatcher, config: LocalConfig) -> Pairs:
    """Verified keypoint pairs of every frame pair within reach that has any and does not contradict the others.

    Where one does, something moves, and all are looked at a second time.
    """
    verified: Pairs = {}
    for i, j in combinations(range(len(features)), 2):
        if j - i > config.reach:
            continue
        pairs = matcher.pairs(features[i], features[j])
        a, b = features[i].xy[pairs[:, 0]], features[j].xy[pairs[:, 1]]
        result = verify(a, b, camera, camera, features[i].sigma_px, config.verify)
        if isinstance(result, TwoView):
            verified[i, j] = (pairs[result.inliers], result)
    agreed = agreeing(verified, config.most_open_deg)
    if len(agreed) == len(verified):
        return verified
    return agreeing(_second_look(verified, features, camera, matcher, config), config.most_open_deg)


def _second_look(
    verified: Pairs, features: tuple[Features, ...], camera: Camera, matcher: PairMatcher, config: LocalConfig
) -> Pairs:
    """The same pairs, each by the pose whose matches are spread over most of the picture."""
    again: Pairs = {}
    for (i, j), (_, found) in verified.items():
        pairs = matcher.pairs(features[i], features[j])
        a, b = features[i].xy[pairs[:, 0]], features[j].xy[pairs[:, 1]]
        view = widest(a, b, camera, features[i].sigma_px, found, config.verify)
        again[i, j] = (pairs[view.inliers], view)
    return again


def tracked(features: tuple[Features, ...], camera: Camera, pairs: Pairs, poses: tuple[Pose, ...]) -> ba.Bundle:
    """Cameras at the given poses and the tracks that they see, frame by frame; no point has a place yet."""
    counts = {k: len(one) for k, one in enumerate(features)}
    table = build_tracks({key: held[0] for key, held in pairs.items()}, Twice.IS_DROPPED, counts)
    xy = pixels_of(table, {k: one.xy for k, one in enumerate(features)})
    order = np.lexsort((table.keypoint, table.frame))
    nowhere, sigma = np.full((table.points, 3), np.nan), np.full(len(xy), features[0].sigma_px)
    lenses, free = (cameras.undistorted(camera),) * len(features), np.zeros(len(features), bool)
    return ba.Bundle(poses, lenses, free, nowhere, table.frame[order], table.point[order], xy[order], sigma)


def _pair_strength(joined: tuple[Ints, TwoView], a: Features, b: Features, camera: Camera) -> float:
    """How well a pair can start a reconstruction: its inliers weighted by parallax after the rotation is taken out."""
    pairs, view = joined
    rays_a = cameras.unproject(camera, a.xy[pairs[:, 0]]) @ view.b_from_a.rotation.T
    rays_b = cameras.unproject(camera, b.xy[pairs[:, 1]])
    cosine = (rays_a * rays_b).sum(axis=1) / np.linalg.norm(rays_a, axis=1) / np.linalg.norm(rays_b, axis=1)
    angle = np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0)))
    return float(np.minimum(angle, MOST_PARALLAX_DEG).sum())


def with_points(bundle: ba.Bundle, registered: set[int], least_angle_deg: float, most: float = FAR_OFF) -> ba.Bundle:
    """The bundle with points triangulated from the registered cameras; nan where one sees it `most` sigmas off."""
    seen = np.isin(bundle.camera, list(registered))
    part = replace(
        bundle, camera=bundle.camera[seen], point=bundle.point[seen], xy=bundle.xy[seen], sigma=bundle.sigma[seen]
    )
    part = replace(part, points=triangulate(part))
    lengths = ba.residual_lengths(replace(part, points=np.nan_to_num(part.points)))
    bad = np.zeros(len(part.points), bool)
    bad[part.point[lengths > most]] = True
    bad |= ~(np.degrees(ray_angles(replace(part, points=np.nan_to_num(part.points)))) > least_angle_deg)
    return replace(bundle, points=np.where(bad[:, None], np.nan, part.points))


def resect(bundle: ba.Bundle, index: int, camera: Camera, sigma_px: float) -> tuple[Pose, int]:
    """Pose of one camera from the points it sees, and how many agree; nowhere with fewer than `LEAST_SEEN`."""
    mine = (bundle.camera == index) & np.isfinite(bundle.points[bundle.point, 0])
    if mine.sum() < LEAST_SEEN:
        return rigid.identity(), 0
    found = resection.resect(bundle.xy[mine], bundle.points[bundle.point[mine]], camera, AGREES * sigma_px, TRIALS)
    return found.cam_from_world, int(found.inliers.sum())


def adjust_registered(bundle: ba.Bundle, registered: set[int], settings: Dense) -> Adjusted:
    """Registered cameras and their points after adjustment with outliers dropped; cameras keep their places."""
    first = min(registered)
    fixed = np.ones(len(bundle.cams_from_world), bool)
    fixed[[c for c in registered if c != first]] = False
    usable = np.isin(bundle.camera, list(registered)) & np.isfinite(bundle.points[bundle.point, 0])
    part, used = ba.selected(replace(bundle, constant=fixed), usable)
    done = adjust(part, settings)
    points = np.full_like(bundle.points, np.nan)
    points[used] = done.bundle.points
    whole = replace(bundle, cams_from_world=done.bundle.cams_from_world, lenses=done.bundle.lenses, points=points)
    return replace(done, bundle=whole)


def _grow(bundle: ba.Bundle, registered: set[int], camera: Camera, sigma_px: float, config: LocalConfig) -> ba.Bundle:
    """Register every camera that sees enough points, the best first; `registered` grows."""
    quick = Dense(iterations=6)
    missing = set(range(len(bundle.cams_from_world))) - registered
    while missing:
        bundle = with_points(bundle, registered, config.least_angle_deg)
        tried = {c: resect(bundle, c, camera, sigma_px) for c in missing}
        best = max(tried, key=lambda c: tried[c][1])
        if tried[best][1] < LEAST_SEEN:
            break
        poses = list(bundle.cams_from_world)
        poses[best] = tried[best][0]
        registered.add(best)
        missing.discard(best)
        bundle = adjust_registered(replace(bundle, cams_from_world=tuple(poses)), registered, quick).bundle
    return bundle


def cleaned(bundle: ba.Bundle, config: LocalConfig) -> ba.Bundle:
    """Only observations near their points, and only points that two frames still see."""
    finite = np.isfinite(bundle.points[bundle.point, 0])
    part, _ = ba.selected(bundle, finite)
    part, _ = ba.selected(part, ba.residual_lengths(part) < config.outlier)
    seen = np.bincount(part.point, minlength=len(part.points))
    return ba.selected(part, seen[part.point] >= 2)[0]


def unit_step(bundle: ba.Bundle) -> ba.Bundle:
    """The same reconstruction, scaled so that the mean step between consecutive centres is 1."""
    centres = rigid.centres_in_world(bundle.cams_from_world)
    step = float(np.linalg.norm(np.diff(centres, axis=0), axis=1).mean())
    factor = 1.0 / max(step, 1e-9)
    poses = tuple(Pose(pose.rotation, pose.translation * factor) for pose in bundle.cams_from_world)
    return replace(bundle, cams_from_world=poses, points=bundle.points * factor)


def reconstruct_local(
    frames: tuple[int, ...],
    features: tuple[Features, ...],
    camera: Camera,
    matcher: PairMatcher,
    config: LocalConfig,
) -> LocalGroup | Refusal:
    """The group's shape from ground-ground matches, or why there is none; `camera` is PINHOLE."""
    pairs = match_group(features, camera, matcher, config)
    if not pairs:
        return Refusal(Reason.NO_GROUND_MATCHES, "No two frames of the group could be matched with each other.")
    strength = {(i, j): _pair_strength(joined, features[i], features[j], camera) for (i, j), joined in pairs.items()}
    first, second = max(strength, key=lambda key: strength[key])
    poses = [rigid.identity() for _ in frames]
    poses[second] = pairs[first, second][1].b_from_a
    start = tracked(features, camera, pairs, tuple(poses))
    registered = {first, second}
    grown = _grow(start, registered, camera, features[0].sigma_px, config)
    if len(registered) < len(frames):
        figures = {"registered": float(len(registered)), "frames": float(len(frames))}
        return Refusal(
            Reason.GROUP_FALLS_APART, f"Only {len(registered)} of {len(frames)} frames hang together.", figures
        )
    return finished(frames, grown, config)


def finished(frames: tuple[int, ...], grown: ba.Bundle, config: LocalConfig) -> LocalGroup | Refusal:
    """The group adjusted from poses that are nearly right, in units of its own step; or why it is not believed."""
    everyone = set(range(len(frames)))
    whole = with_points(grown, everyone, config.least_angle_deg)
    for settings in (Dense(loss_scale=2.0), Dense(loss_scale=1.0)):
        whole = cleaned(adjust_registered(whole, everyone, settings).bundle, config)
        if len(whole.points) < config.least_points:
            return too_few(len(whole.points))
    lengths = ba.residual_lengths(whole)
    error, angle = float(np.median(lengths)), float(np.degrees(np.median(ray_angles(whole))))
    figures = {"reprojection": error, "parallax_deg": angle, "points": float(len(whole.points))}
    if error > config.most_reprojection:
        return Refusal(Reason.GROUND_REPROJECTION, f"Median reprojection of the group is {error:.1f} sigma.", figures)
    unit = unit_step(whole)
    return LocalGroup(frames, unit.cams_from_world, unit, error, angle)


def worst_frame(bundle: ba.Bundle) -> float:
    """Largest median per frame of the reprojection, in sigmas, of all tracks triangulated anew; none is left out.

    Points that lie behind a camera have no distance and do not count: far ones may, where parallax is small.
    """
    placed = replace(bundle, points=triangulate(bundle))
    placed, _ = ba.selected(placed, np.isfinite(placed.points[placed.point, 0]))
    lengths = ba.residual_lengths(placed)
    medians = []
    for camera, pose in enumerate(bundle.cams_from_world):
        mine = placed.camera == camera
        ahead = pose(placed.points[placed.point[mine]])[:, 2] > 1e-3
        medians.append(float(np.median(lengths[mine][ahead])) if ahead.any() else np.inf)
    return max(medians)


def contradiction(off: float, figures: dict[str, float], config: LocalConfig) -> Refusal | None:
    """The refusal of poses that are `worst_frame` sigmas from the matches of a frame, None where they fit."""
    if off <= config.outlier:
        return None
    text = f"In one frame half of the matches are {off:.1f} sigma or more from where the poses put them."
    return Refusal(Reason.CONTRADICTS_MATCHES, text, figures)


def too_few(points: int) -> Refusal:
    """The refusal of a group that too few points hold together."""
    text = f"{points} points hold the group together."
    return Refusal(Reason.TOO_FEW_GROUND_POINTS, text, {"points": float(points)})


def single_frame(frame: int, camera: Camera) -> LocalGroup:
    """A group of one frame, which has no shape; for the single-frame ablation."""
    alone = replace(
        ba.nothing(),
        cams_from_world=(rigid.identity(),),
        lenses=(cameras.undistorted(camera),),
        constant=np.zeros(1, bool),
    )
    return LocalGroup((frame,), (rigid.identity(),), alone, 0.0, 180.0)
