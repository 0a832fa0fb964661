"""The large solver: anchors constant to the bit, free poses at the truth, honest marginals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from trajectory_world import CAMERA, street_points, street_poses

from skyanchor.geometry import cameras, rigid
from skyanchor.sfm.adjustment import adjust
from skyanchor.sfm.bundle import Bundle, bundle_of, mean_error_px
from skyanchor.sfm.ceres import Ceres
from skyanchor.sfm.tracks import TrackTable
from skyanchor.sfm.uncertainty import centre_sigma_m, pose_covariances
from skyanchor.types import Camera, Pose

SOLVER = Ceres(iterations=100, loss_scale=1.5)
BENT = Camera("SIMPLE_RADIAL", 640, 360, (450.0, 320.0, 180.0, -0.05))
MORE_BENT = Camera("RADIAL", 640, 360, (450.0, 320.0, 180.0, -0.1, 0.05))


def shaken(pose: Pose, rng: np.random.Generator, metres: float, radians: float) -> Pose:
    turn = rigid.rotation_exp(rng.normal(0, radians, 3))
    return rigid.from_centre(turn @ pose.rotation, rigid.centre_in_world(pose) + rng.normal(0, metres, 3))


def street(noise_px: float, seed: int = 0, camera: Camera = CAMERA, start: Camera | None = None):
    """(a bundle of a street with shaken free poses and points, true poses)."""
    rng = np.random.default_rng(seed)
    truth = dict(enumerate(street_poses(14)))
    points = street_points(7.0, 500, seed)
    rows = []
    for frame, pose in truth.items():
        seen = pose(points)
        xy = cameras.project(camera, seen)
        inside = (xy > 0).all(axis=1) & (xy[:, 0] < camera.width) & (xy[:, 1] < camera.height) & (seen[:, 2] < 18)
        rows += [(p, frame, *xy[p]) for p in np.flatnonzero(inside)]
    table = np.array(rows)
    seen_twice = np.bincount(table[:, 0].astype(int), minlength=len(points))[table[:, 0].astype(int)] >= 2
    table = table[seen_twice]
    table = table[np.lexsort((table[:, 1], table[:, 0]))]
    used, point = np.unique(table[:, 0].astype(np.int64), return_inverse=True)
    tracks = TrackTable(point.astype(np.int64), table[:, 1].astype(np.int64), np.arange(len(table)))
    constant = frozenset({0, 1, 2, 11, 12, 13})
    poses = {f: p if f in constant else shaken(p, rng, 0.1, 0.01) for f, p in truth.items()}
    xy = table[:, 2:] + rng.normal(0, noise_px, (len(table), 2))
    moved = points[used] + rng.normal(0, 0.1, (len(used), 3))
    return bundle_of(tracks, moved, xy, poses, start or camera, constant), tuple(truth.values())


def free_errors(found: Bundle, truth: tuple[Pose, ...]) -> np.ndarray:
    off = rigid.centres_in_world(found.cams_from_world) - rigid.centres_in_world(truth)
    return np.linalg.norm(off, axis=1)[~found.constant]


@pytest.mark.parametrize("camera", [CAMERA, BENT], ids=["pinhole", "bent"])
def test_free_poses_reach_the_truth_and_anchors_do_not_move_a_bit(camera: Camera):
    given, truth = street(0.5, camera=camera)
    done = adjust(given, SOLVER)
    assert done.covariances is None and done.bundle.lenses == given.lenses
    for k in np.flatnonzero(given.constant):
        assert np.array_equal(done.bundle.cams_from_world[k].rotation, truth[k].rotation)
        assert np.array_equal(done.bundle.cams_from_world[k].translation, truth[k].translation)
    assert 1e-4 < free_errors(done.bundle, truth).mean() < 0.02
    assert 0.3 < mean_error_px(done.bundle) < 1.0
    assert np.median(done.residuals) == pytest.approx(0.5 * np.sqrt(1.386), rel=0.2)


def test_no_noise_no_error():
    given, truth = street(0.0)
    assert free_errors(adjust(given, SOLVER).bundle, truth).max() < 1e-4


def test_focal_length_is_found():
    start = cameras.pinhole(640, 360, 470.0)
    given, _ = street(0.3, start=start)
    found = adjust(given, replace(SOLVER, refine_focal=True)).bundle
    assert set(found.lenses) == {found.lenses[0]}
    assert found.lenses[0].params[0] == pytest.approx(450.0, abs=5.0)
    assert found.lenses[0].params[2:] == start.params[2:]


def test_square_pixels_stay_square_and_others_are_found():
    """A walk straight ahead may trade the height of pixels for its own; pixels that are not square keep both sides."""
    start = cameras.pinhole(640, 360, 470.0)
    given, _ = street(1.0, start=start)
    width, height = adjust(given, replace(SOLVER, refine_focal=True)).bundle.lenses[0].params[:2]
    assert width == height != 470.0
    oblong = replace(start, params=(450.0, 460.0, *start.params[2:]))
    given, _ = street(0.3, camera=oblong, start=replace(start, params=(470.0, 480.0, *start.params[2:])))
    found = adjust(given, replace(SOLVER, refine_focal=True)).bundle.lenses[0]
    assert found.model == "PINHOLE" and found.params[:2] == pytest.approx((450.0, 460.0), abs=5.0)


def test_what_it_cannot_do_is_refused():
    given, _ = street(0.3)
    with pytest.raises(ValueError, match="priors"):
        adjust(replace(given, prior=given.points, prior_information=np.zeros((len(given.points), 3, 3))), SOLVER)
    with pytest.raises(ValueError, match="sigma"):
        adjust(replace(given, sigma=np.linspace(0.5, 1.0, len(given.xy))), SOLVER)


def test_marginals_match_the_scatter_over_seeds():
    errors, sigmas = [], []
    for seed in range(6):
        given, truth = street(0.5, seed)
        solved = adjust(given, SOLVER).bundle
        covariances = pose_covariances(solved)
        assert not covariances[given.constant].any() and np.isfinite(covariances).all()
        errors += free_errors(solved, truth).tolist()
        sigmas += [centre_sigma_m(one) for one in covariances[~given.constant]]
    ratio = np.sqrt(np.mean(np.square(errors)) / np.mean(np.square(sigmas)))
    assert 0.5 < ratio < 2.0


@pytest.mark.parametrize("lens", [BENT, MORE_BENT], ids=["k1", "k1 and k2"])
def test_distortion_follows_the_focal_length_of_a_lens_that_nobody_calibrated(lens: Camera):
    start = replace(lens, params=(455.0, 320.0, 180.0, *(0.6 * k for k in lens.params[3:])))
    given, truth = street(0.3, camera=lens, start=start)
    done = adjust(given, replace(SOLVER, refine_focal=True))
    assert done.bundle.lenses[0].params[:4] == pytest.approx(lens.params[:4], rel=0.02)
    assert done.bundle.lenses[0].params[4:] == pytest.approx(lens.params[4:], rel=0.1)
    assert free_errors(done.bundle, truth).max() < 0.02
    assert adjust(given, SOLVER).bundle.lenses[0] == start
