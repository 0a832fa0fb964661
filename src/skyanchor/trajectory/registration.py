"""A frame's pose from the map: references that hold 3D points, PnP, one-frame adjustment, acceptance."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from skyanchor.geometry import cameras, rigid
from skyanchor.matching import Features, match_features
from skyanchor.matching.verify import undistorted_pixels
from skyanchor.sfm.resection import Trials, resect
from skyanchor.sfm.tracks import GRID, cells
from skyanchor.sfm.uncertainty import resected_covariance
from skyanchor.trajectory.config import RegisterConfig
from skyanchor.trajectory.localmap import LocalMap, strongest
from skyanchor.types import Bools, Camera, Floats, Ints, Pose, Reason, Refusal

CELL_LIMIT = 8
"""Matches of one grid cell that count when references are ranked."""
ZOOMS = tuple(1.15**k for k in (-4, -3, -2, -1, 1, 2, 3, 4, 5))
"""Focal lengths over the walk's that are tried where many points disagree with it."""
ZOOM_GAIN = 1.5
"""Times as many points must agree with another focal length before a zoom is believed."""
ZOOM_SAMPLE = 200
"""Points that are asked."""


@dataclass(frozen=True, eq=False)
class Located:
    """A pose found by PnP, and what it rests on."""

    cam_from_world: Pose
    inliers: int
    correspondences: int
    cells: int
    covariance: Floats
    """(6, 6) of (rotation rad, translation m), left perturbation."""
    references: tuple[int, ...] = ()


def point_support(frame: Features, reference: Features, xyz: Floats, camera: Camera, count: int) -> int:
    """Matches to keypoints of the reference that carry a 3D point, at most CELL_LIMIT in each cell of the image."""
    mine = strongest(frame, count)
    theirs = strongest(reference, count, np.flatnonzero(np.isfinite(xyz[:, 0])))
    pairs = match_features(mine, theirs)
    per_cell = np.bincount(cells(mine.xy[pairs[:, 0]], camera), minlength=GRID**2)
    return int(np.minimum(per_cell, CELL_LIMIT).sum())


def choose_references(
    local: LocalMap, frame: int, candidates: list[int], count: int, config: RegisterConfig, aware: bool = True
) -> list[int]:
    """The candidates with most matches on keypoints that carry 3D points, spread over the image, best first."""
    if not aware:
        return candidates[:count]
    with local.finder.clock.step("references"):
        mine = local.finder.features(frame)
        support = [
            point_support(mine, local.finder.features(c), local.xyz[c], local.camera, config.cheap_keypoints)
            for c in candidates
        ]
    order = sorted(range(len(candidates)), key=lambda k: (-support[k], k))
    return [candidates[k] for k in order if support[k] >= config.least_inliers // 3][:count]


def correspondences(
    local: LocalMap, frame: int, references: list[int], most_depth_m: float | None
) -> tuple[Ints, Floats]:
    """(keypoints of the frame (N,), world points (N, 3)) through the references, the first reference first."""
    keypoints, points = [], []
    for reference in references:
        pairs = local.finder.pairs(frame, reference)
        xyz = local.xyz[reference][pairs[:, 1]]
        good = np.isfinite(xyz[:, 0])
        if most_depth_m is not None:
            good &= local.poses[reference](xyz)[:, 2] <= most_depth_m
        keypoints.append(pairs[good, 0])
        points.append(xyz[good])
    if not keypoints:
        return np.empty(0, dtype=np.int64), np.empty((0, 3))
    joined = np.concatenate(keypoints)
    _, first = np.unique(joined, return_index=True)
    return joined[first], np.concatenate(points)[first]


def locate(xy: Floats, points: Floats, camera: Camera, sigma_px: float, config: RegisterConfig) -> Located | Refusal:
    """PnP-RANSAC and a one-frame adjustment on its inliers; refused for few inliers or a small part of the image."""
    if len(xy) < config.least_inliers:
        return Refusal(Reason.TOO_FEW_POINTS, f"{len(xy)} keypoints meet the map, {config.least_inliers} are needed.")
    flat = cameras.undistorted(camera)
    pixels, limit = undistorted_pixels(camera, xy), config.pnp_threshold * sigma_px
    trials = Trials(most=config.pnp_trials, least=100, seed=config.seed)
    pose = resect(pixels, points, flat, limit, trials, sigma_px).cam_from_world
    seen = pose(points)
    residual = cameras.project(flat, seen) - pixels
    inliers = np.nan_to_num(np.linalg.norm(residual, axis=1), nan=np.inf) < limit
    zoom = _zoom(pixels, points, flat, limit, replace(trials, most=400), inliers)
    if zoom is not None:
        detail = f"{zoom:.2f} times the focal length explains far more of the map: the camera zoomed."
        return Refusal(Reason.ZOOMED, detail, {"zoom": zoom})
    return _judged(pose, xy, seen, residual, inliers, camera, config)


def _zoom(pixels: Floats, points: Floats, camera: Camera, limit: float, trials: Trials, inliers: Bools) -> float | None:
    """The focal length over the camera's with which far more points agree with one pose; None where there is none."""
    asked = np.random.default_rng(0).permutation(len(points))[:ZOOM_SAMPLE]
    needed = max(ZOOM_GAIN * float(inliers[asked].sum()), 0.3 * len(asked))
    if needed > len(asked):
        return None
    centre = cameras.calibration(camera)[:2, 2]
    found = {}
    for zoom in ZOOMS:  # a picture taken with a longer lens is larger about the principal point, and so are its errors
        smaller = centre + (pixels[asked] - centre) / zoom
        found[zoom] = int(resect(smaller, points[asked], camera, limit / zoom, trials).inliers.sum())
    best = max(found, key=found.__getitem__)
    return best if found[best] >= needed else None


def _judged(
    pose: Pose, xy: Floats, seen: Floats, residual: Floats, inliers: Floats, camera: Camera, config: RegisterConfig
) -> Located | Refusal:
    count, spread = int(inliers.sum()), len(np.unique(cells(xy[inliers.astype(bool)], camera)))
    figures = {"inliers": float(count), "correspondences": float(len(xy)), "cells": float(spread)}
    if count < config.least_inliers or count < config.least_ratio * len(xy):
        return Refusal(Reason.TOO_FEW_INLIERS, f"{count} of {len(xy)} points agree with one pose.", figures)
    if spread < config.least_cells:
        detail = f"{count} inliers lie in {spread} of {GRID * GRID} image cells."
        return Refusal(Reason.POOR_COVERAGE, detail, figures)
    chosen = inliers.astype(bool)
    covariance = resected_covariance(seen[chosen], residual[chosen], cameras.focal_px(camera))
    return Located(pose, count, len(xy), spread, covariance)


def register(local: LocalMap, frame: int, references: list[int], config: RegisterConfig) -> Located | Refusal:
    """The frame's pose through the given references, or why it has none."""
    if not references:
        return Refusal(Reason.NO_OVERLAP, "No keyframe of the map shares enough points with this frame.")
    keypoints, points = correspondences(local, frame, references, config.depth_filter_m)
    features = local.finder.features(frame)
    with local.finder.clock.step("pnp"):
        found = locate(features.xy[keypoints], points, local.camera, features.sigma_px, config)
    if isinstance(found, Refusal):
        return found
    too_far = _motion_gate(local, frame, found.cam_from_world, config)
    if too_far is not None:
        return too_far
    held = (found.cam_from_world, found.inliers, found.correspondences, found.cells, found.covariance)
    return Located(*held, references=tuple(references))


def _motion_gate(local: LocalMap, frame: int, pose: Pose, config: RegisterConfig) -> Refusal | None:
    """A refusal when the frame would lie farther from its neighbour in time than the recent steps allow."""
    nearest = local.nearest(frame, 1)[0]
    step = float(np.linalg.norm(rigid.centre_in_world(pose) - rigid.centre_in_world(local.poses[nearest])))
    allowed = config.motion_factor * local.longest_step(frame) * abs(frame - nearest) + config.motion_slack_m
    if step <= allowed:
        return None
    detail = f"{step:.2f} m from frame {nearest}, more than the {allowed:.2f} m that its neighbours' motion allows."
    return Refusal(Reason.IMPOSSIBLE_MOTION, detail, {"step_m": step, "allowed_m": allowed})
