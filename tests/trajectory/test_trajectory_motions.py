"""Ways that people move: pauses, fast pans, turning back; and what happens at refused boundaries."""

from __future__ import annotations

import numpy as np
import pytest
from trajectory_world import (
    CAMERA,
    UP,
    World,
    anchors_of,
    centre_errors,
    posed,
    scaffold,
    sequence_of,
    street,
    street_points,
)

from skyanchor.geometry import cameras, rigid
from skyanchor.matching import VerifyConfig
from skyanchor.step_clock import StepClock
from skyanchor.trajectory import TrajectoryConfig, recover
from skyanchor.trajectory.config import KeyframeConfig
from skyanchor.trajectory.keyframes import choose_keyframes
from skyanchor.trajectory.localmap import PairFinder
from skyanchor.types import Pose, Support


def walk(places: list[tuple[float, float]]) -> list[Pose]:
    """Cameras at distances along a straight street with headings in degrees."""
    poses = []
    for s, heading in places:
        eye = np.array([s, 0.3 * np.sin(0.4 * s), 1.7])
        angle = np.radians(heading)
        poses.append(rigid.look_at(eye, eye + np.array([np.cos(angle), np.sin(angle), 0.0]), UP))
    return poses


PAUSE = [(0.5 * k, 15.0) for k in range(14)] + [(6.5, 15.0)] * 9 + [(7.0 + 0.5 * k, 15.0) for k in range(14)]
PAN = [(0.5 * k, 10.0) for k in range(14)]
PAN += [(7.0, 40.0), (7.2, 70.0), (7.4, 42.0)] + [(7.6 + 0.5 * k, 12.0) for k in range(14)]
BACK = [(0.5 * k, 8.0) for k in range(16)] + [(8.0 + 0.15 * k, 8.0 + 12.0 * k) for k in range(1, 15)]
BACK += [(10.0 - 0.5 * k, 180.0) for k in range(16)]


def world_of(places: list[tuple[float, float]], noise_px: float = 0.3) -> World:
    points = street_points(30.0, 2600, 0, bend=0.0)
    points[:, 0] -= 15.0
    return World(walk(places), points, noise_px=noise_px)


@pytest.mark.parametrize(
    ("places", "bound_m"), [(PAUSE, 0.03), (PAN, 0.03), (BACK, 0.05)], ids=["pause", "pan", "back"]
)
def test_every_frame_is_posed(places, bound_m):
    world = world_of(places)
    sequence = sequence_of(world)
    trajectory, _ = recover(scaffold(), sequence, anchors_of(world, sequence), TrajectoryConfig(), source=world)
    errors = centre_errors(world, posed(trajectory))
    assert len(errors) == len(places)
    assert 1e-5 < max(errors.values()) < bound_m


def finder_of(world: World) -> PairFinder:
    config = TrajectoryConfig()
    return PairFinder(world, config.matcher.load("cpu"), CAMERA, VerifyConfig(), StepClock())


def test_a_pause_gives_no_keyframes_and_a_pan_gives_more():
    frames = tuple(range(len(PAUSE)))
    chosen = choose_keyframes(frames, frozenset(), finder_of(world_of(PAUSE)), KeyframeConfig())
    assert chosen[0] == 0 and chosen[-1] == frames[-1]
    assert len([f for f in chosen if 14 <= f < 23]) <= 1
    assert 5 < len(chosen) < len(frames)
    chosen = choose_keyframes(tuple(range(len(PAN))), frozenset(), finder_of(world_of(PAN)), KeyframeConfig())
    assert {14, 15, 16} <= set(chosen)


def test_anchors_are_keyframes():
    chosen = choose_keyframes(tuple(range(30)), frozenset({3, 4, 5}), finder_of(street(30)), KeyframeConfig())
    assert {3, 4, 5} <= set(chosen)


def test_refused_boundary_joins_its_submaps():
    world = street(48)
    sequence = sequence_of(world, submaps=2)
    anchors = anchors_of(world, sequence, refused=frozenset({1}))
    trajectory, report = recover(scaffold(), sequence, anchors, TrajectoryConfig(), source=world)
    assert len(report.submaps) == 1 and (report.submaps[0].first, report.submaps[0].last) == (0, 47)
    errors = centre_errors(world, posed(trajectory))
    assert len(errors) == 48 and max(errors.values()) < 0.05


def test_guessed_focal_length_is_refined():
    world = street(40)
    guess = cameras.pinhole(640, 360, 459.0)
    sequence = sequence_of(world, guess=True, camera=guess)
    trajectory, _ = recover(scaffold(), sequence, anchors_of(world, sequence), TrajectoryConfig(), source=world)
    assert trajectory.camera.params[0] == pytest.approx(450.0, rel=0.01)
    assert max(centre_errors(world, posed(trajectory)).values()) < 0.1


def test_same_input_same_output():
    world = street(24)
    sequence = sequence_of(world)
    anchors = anchors_of(world, sequence)
    first, _ = recover(scaffold(), sequence, anchors, TrajectoryConfig(), source=world)
    second, _ = recover(scaffold(), sequence, anchors, TrajectoryConfig(), source=world)
    assert np.array_equal(first.points, second.points)
    for a, b in zip(first.frames, second.frames, strict=True):
        assert a.support is b.support is not Support.MISSING
        assert np.array_equal(a.cam_from_world.translation, b.cam_from_world.translation)
