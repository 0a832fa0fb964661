"""The sparse solver against its dense twin: the same system, the same optimum, poses held together included."""

from dataclasses import replace

import numpy as np
import pytest
from street_bundle import LENS, disturbed, scene

from skyanchor.geometry import cameras, rigid
from skyanchor.sfm import bundle as ba
from skyanchor.sfm import dense, sparse
from skyanchor.sfm.adjustment import adjust
from skyanchor.sfm.dense import Dense
from skyanchor.sfm.descent import flat_of
from skyanchor.sfm.sparse import Sparse
from skyanchor.types import Pose


def held_together(bundle: ba.Bundle, frames: list[int], sigma: float, rng: np.random.Generator) -> ba.HeldPoses:
    """Some cameras held where they are, with errors that they share."""
    mixed = rng.normal(size=(6 * len(frames), 6 * len(frames)))
    spread = sigma**2 * (np.eye(6 * len(frames)) + mixed @ mixed.T / len(mixed))
    poses = tuple(bundle.cams_from_world[k] for k in frames)
    return ba.HeldPoses(np.array(frames), poses, np.linalg.inv(spread))


def problem(seed: int) -> ba.Bundle:
    """A disturbed scene with a prior, held poses (one of a constant camera), and points that not all cameras see."""
    truth, seen = scene(seed)
    rng = np.random.default_rng(seed)
    given, _ = ba.selected(seen, rng.random(len(seen.camera)) < 0.7)
    information = np.zeros((len(given.points), 3, 3))
    information[:5] = np.eye(3) / 0.1**2
    held = held_together(truth, [0, 2, 5], 0.01, rng)
    return replace(disturbed(given, seed + 1), prior=given.points, prior_information=information, held=(held,))


@pytest.mark.parametrize("damping", [0.0, 1e-2])
def test_the_system_is_that_of_the_dense_twin(damping: float) -> None:
    bundle = problem(3)
    flat = flat_of(bundle)
    matrix, gradient, kept = dense._reduced(bundle, flat, Dense(), damping)
    pattern, held = sparse._pattern(flat), sparse._held_matrix(bundle, flat.slots)
    ours = sparse._reduced(bundle, flat, pattern, held, Dense().loss_scale, damping)
    scale = np.abs(matrix).max()
    np.testing.assert_allclose(ours[0].toarray() / scale, matrix / scale, atol=1e-12)
    np.testing.assert_allclose(ours[1], gradient, rtol=1e-9, atol=1e-9 * np.abs(gradient).max())
    np.testing.assert_allclose(ours[2], kept, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_both_end_at_the_same_optimum(seed: int) -> None:
    bundle = problem(10 * seed)
    ours, twin = (adjust(bundle, solver(iterations=60, tolerance=1e-12)).bundle for solver in (Sparse, Dense))
    for a, b in zip(ours.cams_from_world, twin.cams_from_world, strict=True):
        np.testing.assert_allclose(a.matrix, b.matrix, atol=1e-6)
    np.testing.assert_allclose(ours.points, twin.points, atol=1e-4)


def test_constant_cameras_keep_their_bits() -> None:
    bundle = problem(5)
    after = adjust(bundle, Sparse()).bundle.cams_from_world
    assert all(after[k] is bundle.cams_from_world[k] for k in np.flatnonzero(bundle.constant))
    assert all(after[k] is not bundle.cams_from_world[k] for k in np.flatnonzero(~bundle.constant))


def long_walk(frames: int, rng: np.random.Generator) -> ba.Bundle:
    """A street of `frames` cameras half a metre apart, points on both sides, each seen by those 2 to 9 m before it."""
    up = np.array([0.0, 0.0, 1.0])
    eyes = np.stack([0.5 * np.arange(frames), np.zeros(frames), np.full(frames, 1.7)], axis=1)
    poses = tuple(rigid.look_at(eye, eye + np.array([5.0, 0.0, 0.0]), up) for eye in eyes)
    count = 15 * frames
    along, side = rng.uniform(0, 0.5 * frames, count), rng.choice([-4.0, 4.0], count)
    points = np.stack([along, side + rng.normal(0, 0.5, count), rng.uniform(0, 5, count)], axis=1)
    ahead = points[None, :, 0] - eyes[:, None, 0]
    camera, point = np.nonzero((ahead > 2.0) & (ahead < 9.0))
    xy = np.concatenate([cameras.project(LENS, poses[k](points[point[camera == k]])) for k in range(frames)])
    seen = xy + rng.normal(0, 0.3, xy.shape)
    constant = np.zeros(frames, bool)
    return ba.Bundle(poses, (LENS,) * frames, constant, points, camera, point, seen, np.full(len(xy), 0.3))


def test_a_walk_of_hundreds_of_frames_is_laid_between_its_anchors() -> None:
    """Eight hundred frames, four thousand eight hundred unknowns: noise in, error near noise out."""
    rng = np.random.default_rng(0)
    truth = long_walk(800, rng)
    anchors = [k + j for k in range(0, 800, 100) for j in range(6)]
    held = held_together(truth, anchors, 0.005, rng)
    drift = [Pose(np.eye(3), np.array([0.0, 0.0, 0.1 * np.sin(0.02 * k)])) for k in range(800)]
    poses = tuple(step @ pose for step, pose in zip(drift, truth.cams_from_world, strict=True))
    start = replace(truth, cams_from_world=poses, held=(held,))
    flat = flat_of(start)
    assert len(sparse._pattern(flat).columns) < 0.1 * 800**2
    found = adjust(start, Sparse()).bundle
    off = np.linalg.norm(
        rigid.centres_in_world(found.cams_from_world) - rigid.centres_in_world(truth.cams_from_world), axis=1
    )
    assert np.sqrt(np.mean(off**2)) < 0.03 and off.max() < 0.1
