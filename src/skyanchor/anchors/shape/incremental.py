"""Ground-first: the shape of an anchor group from its own frames alone, before any aerial evidence is looked at."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Protocol

import numpy as np
import poselib
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from skyanchor.geometry import cameras, rigid
from skyanchor.matching import Features, TwoView, VerifyConfig, verify
from skyanchor.matching.verify import posed
from skyanchor.sfm import bundle as ba
from skyanchor.types import Camera, Floats, Ints, Pose, Reason, Refusal


@dataclass(frozen=True)
class LocalConfig:
    """When a group's own reconstruction is believed."""

    reach: int = 6
    """Frames are matched with those at most this far away in the group."""
    verify: VerifyConfig = field(default_factory=lambda: VerifyConfig(threshold=1.5))
    """Two-view verification of ground pairs."""
    least_angle_deg: float = 0.7
    """Triangulation angle of a point that counts, degrees."""
    least_points: int = 40
    """Points with a good angle that a reconstruction needs."""
    outlier: float = 4.0
    """Observations beyond this many sigmas are dropped."""
    most_reprojection: float = 2.0
    """Median reprojection error of a reconstruction, in the matcher's sigma, at most."""
    low_parallax_deg: float = 1.0
    """Median triangulation angle below which the group should be widened, degrees."""
    depth: Path | None = None
    """Depth maps of the street photos in units of their own, for groups that hardly move; named like the photos."""


@dataclass(frozen=True, eq=False)
class LocalGroup:
    """A group's frames and points in a frame of their own whose unit is the mean step between frames."""

    frames: tuple[int, ...]
    cams_from_local: tuple[Pose, ...]
    bundle: ba.Bundle
    """The reconstruction; camera k is frame frames[k], calibrations in pixels of the photos."""
    reprojection: float
    """Median, in sigmas."""
    parallax_deg: float
    """Median over points of the largest triangulation angle, degrees."""
    focal_scale: float = 1.0
    """Estimated focal length over the given one; 1 when it was not refined."""
    instead_of: Refusal | None = None
    """Why the feed-forward shape was not taken, where there was one."""


class PairMatcher(Protocol):
    """Joins keypoints of two photos; every sparse matcher does."""

    def pairs(self, a: Features, b: Features) -> Ints:
        """(M, 2), indices of matched keypoints of a and b."""
        ...


Pairs = dict[tuple[int, int], tuple[Ints, TwoView]]


def match_group(features: tuple[Features, ...], camera: Camera, matcher: PairMatcher, config: LocalConfig) -> Pairs:
    """Verified keypoint pairs of every frame pair within reach that has any."""
    found: Pairs = {}
    for i, j in combinations(range(len(features)), 2):
        if j - i > config.reach:
            continue
        pairs = matcher.pairs(features[i], features[j])
        a, b = features[i].xy[pairs[:, 0]], features[j].xy[pairs[:, 1]]
        result = verify(a, b, camera, camera, features[i].sigma_px, config.verify)
        if isinstance(result, TwoView):
            found[i, j] = (pairs[result.inliers], result)
    return found


def build_tracks(features: tuple[Features, ...], pairs: Pairs) -> tuple[Ints, Ints, Floats]:
    """(point, camera, xy) of every observation; tracks that meet one frame twice are left out."""
    offsets = np.cumsum([0] + [len(f) for f in features])
    total = int(offsets[-1])
    edges = [held[0] + np.array([offsets[i], offsets[j]]) for (i, j), held in pairs.items()]
    joined = np.concatenate(edges) if edges else np.empty((0, 2), np.int64)
    graph = coo_matrix((np.ones(len(joined), np.int8), (joined[:, 0], joined[:, 1])), shape=(total, total))
    labels = connected_components(graph, directed=False)[1]
    frame = np.repeat(np.arange(len(features)), np.diff(offsets))
    sizes = np.bincount(labels, minlength=total)
    distinct, seen = np.unique(np.stack([labels, frame]), axis=1, return_counts=True)
    doubled = np.zeros(total, bool)
    doubled[distinct[0, seen > 1]] = True
    keep = (sizes[labels] >= 2) & ~doubled[labels]
    point = np.unique(labels[keep], return_inverse=True)[1].astype(np.int64)
    xy = np.concatenate([f.xy for f in features]) if len(features) else np.empty((0, 2))
    return point, frame[keep].astype(np.int64), xy[keep]


def tracked(features: tuple[Features, ...], camera: Camera, pairs: Pairs, poses: tuple[Pose, ...]) -> ba.Bundle:
    """Cameras at the given poses and the tracks that they see; no point has a place yet."""
    point, owner, xy = build_tracks(features, pairs)
    k = cameras.calibration(camera)
    calibrations = np.tile([k[0, 0], k[1, 1], k[0, 2], k[1, 2]], (len(features), 1))
    nowhere = np.full((int(point.max(initial=-1)) + 1, 3), np.nan)
    sigma = np.full(len(xy), features[0].sigma_px)
    return ba.Bundle(poses, calibrations, np.zeros(len(features), bool), nowhere, owner, point, xy, sigma)


def _pair_strength(held: tuple[Ints, TwoView], a: Features, b: Features, camera: Camera) -> float:
    """How well a pair can start a reconstruction: its inliers weighted by parallax after the rotation is taken out."""
    pairs, view = held
    rays_a = cameras.unproject(camera, a.xy[pairs[:, 0]]) @ view.b_from_a.rotation.T
    rays_b = cameras.unproject(camera, b.xy[pairs[:, 1]])
    cosine = (rays_a * rays_b).sum(axis=1) / np.linalg.norm(rays_a, axis=1) / np.linalg.norm(rays_b, axis=1)
    angle = np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0)))
    return float(np.minimum(angle, 2.0).sum())


def with_points(bundle: ba.Bundle, registered: set[int], least_angle_deg: float, most: float = 8.0) -> ba.Bundle:
    """The bundle with points triangulated from the registered cameras; nan where one sees it `most` sigmas off."""
    seen = np.isin(bundle.camera, list(registered))
    part = replace(
        bundle, camera=bundle.camera[seen], point=bundle.point[seen], xy=bundle.xy[seen], sigma=bundle.sigma[seen]
    )
    part = replace(part, points=ba.triangulate(part))
    lengths = ba.residual_lengths(replace(part, points=np.nan_to_num(part.points)))
    bad = np.zeros(len(part.points), bool)
    bad[part.point[lengths > most]] = True
    bad |= ~(np.degrees(ba.ray_angles(replace(part, points=np.nan_to_num(part.points)))) > least_angle_deg)
    return replace(bundle, points=np.where(bad[:, None], np.nan, part.points))


def resect(bundle: ba.Bundle, index: int, camera: Camera, sigma_px: float) -> tuple[Pose, int]:
    """Pose of one camera from the points it sees, and how many agree."""
    mine = (bundle.camera == index) & np.isfinite(bundle.points[bundle.point, 0])
    if mine.sum() < 12:
        return rigid.identity(), 0
    options = {"max_reproj_error": 3.0 * sigma_px, "seed": 0, "max_iterations": 5000}
    pose, info = poselib.estimate_absolute_pose(
        bundle.xy[mine], bundle.points[bundle.point[mine]], posed(camera), options, {}
    )
    return Pose(np.array(pose.R), np.array(pose.t)), int(info["num_inliers"])


def settled(bundle: ba.Bundle, registered: set[int], settings: ba.AdjustConfig) -> ba.Adjusted:
    """Registered cameras and their points after adjustment with outliers dropped; cameras keep their places."""
    first = min(registered)
    fixed = np.ones(len(bundle.cams_from_world), bool)
    fixed[[c for c in registered if c != first]] = False
    usable = np.isin(bundle.camera, list(registered)) & np.isfinite(bundle.points[bundle.point, 0])
    part, used = ba.selected(replace(bundle, constant=fixed), usable)
    done = ba.adjust(part, settings)
    points = np.full_like(bundle.points, np.nan)
    points[used] = done.bundle.points
    whole = replace(
        bundle, cams_from_world=done.bundle.cams_from_world, calibrations=done.bundle.calibrations, points=points
    )
    return replace(done, bundle=whole)


def _grow(bundle: ba.Bundle, registered: set[int], camera: Camera, sigma_px: float, config: LocalConfig) -> ba.Bundle:
    """Register every camera that sees enough points, the best first; `registered` grows."""
    quick = ba.AdjustConfig(iterations=6)
    missing = set(range(len(bundle.cams_from_world))) - registered
    while missing:
        bundle = with_points(bundle, registered, config.least_angle_deg)
        tried = {c: resect(bundle, c, camera, sigma_px) for c in missing}
        best = max(tried, key=lambda c: tried[c][1])
        if tried[best][1] < 12:
            break
        poses = list(bundle.cams_from_world)
        poses[best] = tried[best][0]
        registered.add(best)
        missing.discard(best)
        bundle = settled(replace(bundle, cams_from_world=tuple(poses)), registered, quick).bundle
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
    refine_focal: bool = False,
) -> LocalGroup | Refusal:
    """The group's shape from ground-ground matches, or why there is none; `camera` is PINHOLE."""
    pairs = match_group(features, camera, matcher, config)
    if not pairs:
        return Refusal(Reason.NO_GROUND_MATCHES, "No two frames of the group could be matched with each other.")
    strength = {key: _pair_strength(held, features[key[0]], features[key[1]], camera) for key, held in pairs.items()}
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
    return finished(frames, grown, config, refine_focal)


def finished(
    frames: tuple[int, ...], grown: ba.Bundle, config: LocalConfig, refine_focal: bool = False
) -> LocalGroup | Refusal:
    """The group adjusted from poses that are nearly right, in units of its own step; or why it is not believed."""
    everyone = set(range(len(frames)))
    before = grown.calibrations[0, 0]
    whole = with_points(grown, everyone, config.least_angle_deg)
    for settings in (ba.AdjustConfig(loss_scale=2.0), ba.AdjustConfig(loss_scale=1.0, refine_focal=refine_focal)):
        whole = cleaned(settled(whole, everyone, settings).bundle, config)
        if len(whole.points) < config.least_points:
            return too_few(len(whole.points))
    lengths = ba.residual_lengths(whole)
    error, angle = float(np.median(lengths)), float(np.degrees(np.median(ba.ray_angles(whole))))
    figures = {"reprojection": error, "parallax_deg": angle, "points": float(len(whole.points))}
    if error > config.most_reprojection:
        return Refusal(Reason.GROUND_REPROJECTION, f"Median reprojection of the group is {error:.1f} sigma.", figures)
    unit = unit_step(whole)
    scale = float(whole.calibrations[0, 0] / before)
    return LocalGroup(frames, unit.cams_from_world, unit, error, angle, scale)


def worst_frame(bundle: ba.Bundle) -> float:
    """Largest median per frame of the reprojection, in sigmas, of all tracks triangulated anew; none is left out.

    Points that lie behind a camera have no distance and do not count: far ones may, where parallax is small.
    """
    placed = replace(bundle, points=ba.triangulate(bundle))
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
    k = cameras.calibration(camera)
    empty = np.empty(0, np.int64)
    alone = ba.Bundle(
        (rigid.identity(),),
        np.array([[k[0, 0], k[1, 1], k[0, 2], k[1, 2]]]),
        np.zeros(1, bool),
        np.empty((0, 3)),
        empty,
        empty,
        np.empty((0, 2)),
        np.empty(0),
    )
    return LocalGroup((frame,), (rigid.identity(),), alone, 0.0, 180.0)
