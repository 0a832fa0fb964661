"""What is read off a bundle: residuals of every lens, triangulated points, ray angles, selections."""

from dataclasses import replace

import numpy as np
import pytest
from street_bundle import LENS, scene

from skyanchor.geometry import cameras, rigid
from skyanchor.sfm import bundle as ba
from skyanchor.sfm.triangulation import ray_angles, triangulate
from skyanchor.types import Camera

BENT = Camera("SIMPLE_RADIAL", 640, 360, (600.0, 320.0, 180.0, -0.08))


def seen_through(lens: Camera) -> ba.Bundle:
    """The true scene as street cameras with another lens show it."""
    truth, _ = scene(1)
    xy = truth.xy.copy()
    for k in range(4):
        rows = truth.camera == k
        xy[rows] = cameras.project(lens, truth.cams_from_world[k](truth.points[truth.point[rows]]))
    return replace(truth, xy=xy, lenses=(lens,) * 4 + (LENS,) * 3)


@pytest.mark.parametrize("lens", [LENS, BENT], ids=["pinhole", "bent"])
def test_residuals_are_what_was_added_in_sigmas(lens: Camera) -> None:
    bundle = seen_through(lens)
    assert ba.residual_lengths(bundle).max() < 1e-9
    moved = replace(bundle, xy=bundle.xy + np.array([3.0, -4.0]), sigma=np.full(len(bundle.xy), 2.0))
    assert np.allclose(ba.residuals(moved), [-1.5, 2.0], atol=1e-9)
    assert ba.mean_error_px(moved) == pytest.approx(5.0)


@pytest.mark.parametrize("lens", [LENS, BENT], ids=["pinhole", "bent"])
def test_a_point_behind_the_camera_is_far_off_and_no_nan(lens: Camera) -> None:
    bundle = seen_through(lens)
    behind = replace(bundle, points=bundle.points - np.array([0.0, 60.0, 0.0]))
    lengths = ba.residual_lengths(behind)
    assert np.isfinite(lengths).all() and (lengths[behind.camera < 4] > 1e3).all()


def test_the_error_of_a_bundle_is_a_mean_over_points() -> None:
    """A point that one camera sees counts as much as one that seven see."""
    truth, _ = scene(2, points=2)
    keep = (truth.point == 0) | (truth.camera == 0)
    part, used = ba.selected(truth, keep)
    assert used.tolist() == [0, 1] and len(part.xy) == 8
    off = replace(part, xy=part.xy + np.where(part.point == 1, 6.0, 0.0)[:, None] * [1.0, 0.0])
    assert ba.mean_error_px(off) == pytest.approx(3.0)


def test_a_lens_with_distortion_has_no_four_numbers() -> None:
    with pytest.raises(ValueError, match="distortion"):
        _ = seen_through(BENT).calibrations


def test_triangulation_meets_the_rays() -> None:
    truth, seen = scene(9)
    assert np.allclose(triangulate(truth), truth.points, atol=1e-6)
    assert 0.0 < np.abs(triangulate(seen) - truth.points).max() < 0.2
    assert np.isnan(triangulate(ba.selected(truth, truth.camera == 0)[0])).all()


def test_ray_angles_are_those_at_the_point() -> None:
    truth, _ = scene(3, points=5)
    centres = rigid.centres_in_world(truth.cams_from_world)
    rays = centres[:, None] - truth.points
    rays /= np.linalg.norm(rays, axis=2, keepdims=True)
    widest = np.arccos(np.clip((rays[0] * rays).sum(axis=2), -1, 1)).max(axis=0)
    assert np.allclose(ray_angles(truth), widest, atol=1e-6)
    assert np.allclose(ray_angles(ba.selected(truth, truth.camera == 0)[0]), 0.0, atol=1e-5)
