"""Extra quantities of a bundle: points held by priors tell them, and neighbours that err alike make them less sure."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from street_bundle import scene

from skyanchor.geometry import cameras, rigid
from skyanchor.sfm import self_calibration
from skyanchor.sfm.bundle import Bundle, in_cameras, selected
from skyanchor.sfm.self_calibration import Extra, estimated, pixels_by_pose
from skyanchor.types import Pose

BEND = 0.05


def by_k1(bundle: Bundle) -> np.ndarray:
    """(K, 2, 1), pixels by the radial distortion of the street cameras."""
    seen = in_cameras(bundle)
    flat = seen[:, :2] / seen[:, 2:]
    pixels = flat * bundle.calibrations[bundle.camera, :2] * (flat**2).sum(axis=1)[:, None]
    return np.where((bundle.camera < 4)[:, None], pixels, 0.0)[:, :, None]


def bent(seed: int, noise_px: float = 0.5, held_m: float | None = None) -> Bundle:
    """Photos of the street as a lens bends them that says it does not; with `held_m` priors in place of the flight."""
    truth, seen = scene(seed, 400, noise_px)
    bundle = replace(seen, xy=seen.xy + BEND * by_k1(truth)[:, :, 0])
    if held_m is None:
        return bundle
    street, used = selected(bundle, bundle.camera < 4)
    information = np.tile(np.eye(3) / held_m**2, (len(used), 1, 1))
    return replace(street, prior=truth.points[used], prior_information=information)


def told(bundle: Bundle) -> Extra:
    found = estimated(bundle, by_k1(bundle))
    assert found is not None
    return found


@pytest.mark.parametrize("held_m", [None, 0.02])
def test_what_the_lens_does_not_say_is_told_by_points_that_others_hold(held_m: float | None) -> None:
    found = told(bent(3, held_m=held_m))
    assert found.values[0] == pytest.approx(BEND, abs=4.0 * found.sigmas[0])
    assert found.sigmas[0] < 0.25 * BEND


def test_looser_points_make_it_less_sure() -> None:
    tight, loose = (told(bent(3, held_m=held_m)).sigmas[0] for held_m in (0.02, 1.0))
    assert loose > 1.5 * tight


def test_neighbours_that_err_alike_are_not_many(monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = bent(4, noise_px=0.05)
    cell = np.floor(bundle.points / 3.0).astype(int)
    _, cell = np.unique(cell, axis=0, return_inverse=True)
    shared = np.random.default_rng(0).normal(0.0, 0.4, (4, int(cell.max()) + 1, 2))
    street = bundle.camera < 4
    xy = bundle.xy.copy()
    xy[street] += shared[bundle.camera[street], cell.ravel()[bundle.point[street]]]
    alike = replace(bundle, xy=xy, sigma=np.full(len(xy), 0.05))
    careful = told(alike).sigmas[0]
    monkeypatch.setattr(self_calibration, "CLUSTER_M", 1e-6)
    assert careful > 1.3 * told(alike).sigmas[0]


def test_pixels_follow_a_small_step_of_the_camera() -> None:
    truth, _ = scene(5)
    step = np.array([1e-5, -2e-5, 3e-5, 1e-4, 2e-4, -1e-4])
    moved = Pose(rigid.rotation_exp(step[:3]), step[3:])
    rows = truth.camera == 1
    after = cameras.project(truth.lenses[1], (moved @ truth.cams_from_world[1])(truth.points[truth.point[rows]]))
    assert after - truth.xy[rows] == pytest.approx(pixels_by_pose(truth)[rows] @ step, abs=1e-5)
