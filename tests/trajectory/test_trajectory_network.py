"""Walks along one street, each off by a shift of its own: what the network makes of them, beside the truth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from trajectory_world import World, anchors_of, posed, scaffold, sequence_of, street_points, street_poses

from skyanchor.geometry import rigid
from skyanchor.trajectory import TrajectoryConfig, recover
from skyanchor.trajectory.network import Network, NetworkWalk, adjust_network
from skyanchor.types import Floats, Pose

SHIFTS = np.array([[0.05, -0.02, 0.01], [-0.03, 0.05, -0.02], [0.02, 0.04, 0.04]])
"""Metres, of each walk; they are known to 4 cm."""
SIGMA_M = 0.04
POINTS = street_points(8.0, 500, 0)


def walk(name: str, shift: Floats, aside: float, start: float = 0.0, sigma_m: float = SIGMA_M) -> NetworkWalk:
    """Fourteen frames along the street, `aside` metres from its middle, located `shift` beside the truth."""
    poses = [
        rigid.from_centre(pose.rotation, rigid.centre_in_world(pose) + np.array([0.0, aside, 0.0]))
        for pose in street_poses(14, start=start)
    ]
    world = World(poses, POINTS, seed=int(100 * abs(aside) + start))
    world.names = World([], POINTS).names  # landmarks look alike on all walks
    sequence = sequence_of(world)
    moved = {group.index: Pose(np.eye(3), shift) for group in sequence.groups}
    anchors = anchors_of(world, sequence, moved=moved, sigma_m=sigma_m)
    known = np.diag([0.001, 0.001, 0.001, sigma_m, sigma_m, sigma_m]) ** 2
    groups = tuple(
        replace(group, poses=tuple(replace(pose, covariance=known) for pose in group.poses)) for group in anchors.groups
    )
    trajectory, _ = recover(scaffold(), sequence, anchors, TrajectoryConfig(), source=world)
    return NetworkWalk(name, trajectory, groups, world)


def errors(walk: NetworkWalk, network: Network, k: int) -> Floats:
    """(F, 3), where frames are minus where they were, metres."""
    assert isinstance(walk.source, World)
    true = rigid.centres_in_world(walk.source.poses)
    found = posed(network.trajectories[k])
    return np.array([rigid.centre_in_world(found[f]) - true[f] for f in sorted(found)])


def test_walks_that_see_the_same_share_what_the_flight_says_of_each() -> None:
    """Independent shifts of equal sigma: all walks end at their mean, and say so."""
    walks = [walk(str(k), shift, aside) for k, (shift, aside) in enumerate(zip(SHIFTS, (0.0, 0.6, -0.5), strict=True))]
    network = adjust_network(walks)
    off = [errors(one, network, k) for k, one in enumerate(walks)]
    for k, each in enumerate(off):
        np.testing.assert_allclose(each.mean(axis=0), SHIFTS.mean(axis=0), atol=0.012)
        assert np.linalg.norm(each - off[0][: len(each)], axis=1).max() < 0.02  # it was 11 cm between the first two
        figures = network.figures[k]
        assert figures.ties > 500 and figures.contradictions == 0 and 0.01 < figures.moved_m < 0.06
        assert abs(figures.sigma_before_m - SIGMA_M) < 0.01
        assert 0.9 < figures.sigma_after_m / (SIGMA_M / np.sqrt(3.0)) < 1.4  # of three walks
    before = [np.linalg.norm(shift) for shift in SHIFTS]
    after = [float(np.sqrt((each**2).sum(axis=1).mean())) for each in off]
    assert np.mean(after) < 0.75 * np.mean(before) and min(after) > 0.01


def test_a_walk_elsewhere_stays_bit_for_bit() -> None:
    walks = [walk("a", SHIFTS[0], 0.0), walk("b", SHIFTS[1], 0.6), walk("far", SHIFTS[2], 0.0, start=20.0)]
    network = adjust_network(walks)
    assert network.figures[2].ties == 0 and network.figures[0].ties > 500
    assert network.trajectories[2] is walks[2].trajectory


def test_what_contradicts_is_counted_and_not_averaged() -> None:
    walks = [walk("a", np.zeros(3), 0.0, sigma_m=0.01), walk("b", np.array([0.3, 0.2, 0.0]), 0.6, sigma_m=0.01)]
    network = adjust_network(walks)
    assert network.figures[0].contradictions > 5 and network.figures[0].ties == 0
    assert network.trajectories[0] is walks[0].trajectory and network.trajectories[1] is walks[1].trajectory
