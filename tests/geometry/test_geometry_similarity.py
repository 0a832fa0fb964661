"""Similarities: group axioms, recovery under noise and outliers, degenerate centres."""

from __future__ import annotations

import numpy as np
import pytest
from geometry_strategies import poses, similarities, vectors
from hypothesis import given, settings
from hypothesis import strategies as st

from skyanchor.geometry import rigid, similarity
from skyanchor.types import Pose, Similarity

UP = np.array([0.0, 0.0, 1.0])


def close(a: Similarity, b: Similarity) -> bool:
    return np.allclose(a.matrix, b.matrix, rtol=1e-9, atol=1e-6)


@given(similarities(), similarities(), similarities())
def test_composition_is_associative(a: Similarity, b: Similarity, c: Similarity) -> None:
    left = ((a @ b) @ c).matrix
    right = (a @ (b @ c)).matrix
    assert np.allclose(left, right, rtol=1e-9, atol=1e-9 * np.abs(left).max())


@given(similarities())
def test_inverse_and_identity(a: Similarity) -> None:
    assert close(a.inverse @ a, similarity.identity())
    assert close(a.inverse.inverse, a)
    assert close(a @ similarity.identity(), a)


@given(similarities(), similarities(), vectors())
def test_apply_follows_composition(a: Similarity, b: Similarity, x: np.ndarray) -> None:
    stepwise = a(b(x))
    assert np.allclose((a @ b)(x), stepwise, rtol=1e-9, atol=1e-6)


@given(similarities(), similarities(), vectors())
def test_matrices_multiply_as_transforms_compose(a: Similarity, b: Similarity, x: np.ndarray) -> None:
    product = a.matrix @ b.matrix
    assert np.allclose((a @ b).matrix, product, rtol=1e-9, atol=1e-9 * np.abs(product).max())
    assert np.allclose(a.matrix @ np.append(x, 1.0), np.append(a(x), 1.0), rtol=1e-9, atol=1e-6)
    assert np.allclose(a.matrix[:3, :3] @ a.matrix[:3, :3].T, a.scale**2 * np.eye(3), atol=1e-9 * a.scale**2)


@given(similarities(), poses(), vectors())
def test_transformed_camera_sees_the_same(b_from_a: Similarity, cam_from_a: Pose, x: np.ndarray) -> None:
    seen_before = cam_from_a(x) * b_from_a.scale
    cam_from_b = similarity.transform_camera(b_from_a, cam_from_a)
    assert np.allclose(cam_from_b(b_from_a(x)), seen_before, atol=1e-6 * b_from_a.scale)


@given(similarities(), st.integers(0, 10**6))
def test_umeyama_recovers_exactly(truth: Similarity, seed: int) -> None:
    a = np.random.default_rng(seed).normal(0, 10, (12, 3))
    assert close(similarity.umeyama(a, truth(a)), truth)


def noisy_case(seed: int, count: int, noise: float, outliers: int) -> tuple[Similarity, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = Similarity(2.5, rigid.rotation_exp(rng.normal(0, 1, 3)), rng.normal(0, 50, 3))
    a = rng.normal(0, 10, (count, 3))
    b = truth(a) + rng.normal(0, noise, (count, 3))
    b[:outliers] = rng.normal(0, 60, (outliers, 3))
    return truth, a, b


def test_error_of_the_closed_form_is_near_the_noise_both_sides() -> None:
    """The mean of 200 points moves by noise / √200 per axis; rotation and scale add about as much at the borders."""
    errors = []
    for seed in range(20):
        truth, a, b = noisy_case(seed, 200, 0.1, 0)
        found = similarity.umeyama(a, b)
        errors.append(np.sqrt(np.mean(similarity.residuals(found, a, truth(a)) ** 2)))
    expected = 0.1 * np.sqrt(7 / 200)  # 7 parameters estimated from 600 numbers, error per point over three axes
    assert 0.6 * expected < np.mean(errors) < 1.6 * expected


@settings(max_examples=15)
@given(st.integers(0, 10**6))
def test_robust_estimate_ignores_half_outliers(seed: int) -> None:
    truth, a, b = noisy_case(seed, 100, 0.05, 50)
    found = similarity.umeyama_robust(a, b, threshold=0.3, trials=300)
    assert found is not None
    assert found.inliers[50:].sum() >= 48 and found.inliers[:50].sum() <= 1
    assert 0.04 < found.rmse < 0.12  # noise of three axes: 0.05 √3
    assert abs(found.b_from_a.scale / truth.scale - 1) < 0.003
    assert np.degrees(rigid.angle_between(found.b_from_a.rotation, truth.rotation)) < 0.3


def test_robust_estimate_is_repeatable_and_refuses_nonsense() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(0, 10, (40, 3)), rng.normal(0, 10, (40, 3))
    found = similarity.umeyama_robust(a, b, threshold=0.05)
    assert found is None or found.inliers.sum() <= 4
    _, a, b = noisy_case(3, 80, 0.05, 30)
    first, second = (similarity.umeyama_robust(a, b, 0.3, seed=5) for _ in range(2))
    assert first is not None and second is not None
    assert np.array_equal(first.b_from_a.matrix, second.b_from_a.matrix)
    assert similarity.umeyama_robust(a[:2], b[:2], 0.3) is None
    line = np.outer(np.linspace(0, 50, 30), [1.0, 0.2, 0.0])
    assert similarity.umeyama_robust(line, 2 * line, 0.3) is None


def flight_line(count: int = 8, wobble: float = 0.0, seed: int = 0) -> list[Pose]:
    """Cameras on a straight line that look down and slightly ahead."""
    rng = np.random.default_rng(seed)
    eyes = np.column_stack([np.arange(count) * 10.0, np.zeros(count), np.full(count, 60.0)])
    eyes += rng.normal(0, wobble, (count, 3))
    return [rigid.look_at(eye, eye + np.array([20.0, 5.0, -60.0]), UP) for eye in eyes]


def test_flight_line_is_degenerate_and_a_block_is_not() -> None:
    line = rigid.centres_in_world(flight_line(wobble=0.2))
    block = np.array([[x, y, 60.0] for x in range(4) for y in range(4)])
    assert similarity.is_degenerate(line) and similarity.spread_ratio(line) > 0
    assert not similarity.is_degenerate(block)
    assert similarity.is_degenerate(np.tile(line[:1], (5, 1)))  # a five-camera head


@pytest.mark.parametrize("wobble", [0.0, 0.05])
def test_orientations_rescue_a_flight_line(wobble: float) -> None:
    cams_from_b = flight_line(wobble=wobble)
    truth = Similarity(3.0, rigid.rotation_exp(np.array([0.3, -1.0, 0.5])), np.array([5.0, -7.0, 2.0]))
    cams_from_a = [similarity.transform_camera(truth.inverse, pose) for pose in cams_from_b]
    found = similarity.align_cameras(cams_from_a, cams_from_b)
    assert close(found, truth)


def test_noise_on_a_flight_line_turns_the_plain_fit_but_not_the_rescued_one() -> None:
    """5 cm on centres that lie 2 cm off their line: centres alone say nothing about the turn around the line."""
    cams_from_b = flight_line(wobble=0.02)
    truth = Similarity(1.0, np.eye(3), np.zeros(3))
    plain, rescued = [], []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        cams_from_a = [
            rigid.from_centre(
                pose.rotation @ rigid.rotation_exp(rng.normal(0, 0.001, 3)),
                rigid.centre_in_world(pose) + rng.normal(0, 0.05, 3),
            )
            for pose in cams_from_b
        ]
        centres = [rigid.centres_in_world(cams) for cams in (cams_from_a, cams_from_b)]
        by_centres = similarity.umeyama(*centres)
        by_both = similarity.align_cameras(cams_from_a, cams_from_b)
        plain.append(np.degrees(rigid.angle_between(by_centres.rotation, truth.rotation)))
        rescued.append(np.degrees(rigid.angle_between(by_both.rotation, truth.rotation)))
    assert np.median(plain) > 5.0
    assert 0.001 < np.median(rescued) < 0.2


def test_one_place_has_no_scale() -> None:
    head = [rigid.look_at(np.zeros(3), np.array([np.cos(k), np.sin(k), -1.0]), UP) for k in range(5)]
    with pytest.raises(ValueError, match="no scale"):
        similarity.align_cameras(head, head)
