"""Tracks: components without double frames, triangulation at the truth, selection that covers."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from trajectory_world import CAMERA, street_points, street_poses

from skyanchor.geometry import cameras
from skyanchor.sfm import tracks as tr
from skyanchor.sfm.triangulation import TrackFilter, structure


def slow_tracks(pairs: tr.Pairs, twice: tr.Twice) -> set[frozenset[tuple[int, int]]]:
    """The same with dictionaries, one keypoint at a time."""
    home: dict[tuple[int, int], tuple[int, int]] = {}

    def root(node: tuple[int, int]) -> tuple[int, int]:
        home.setdefault(node, node)
        while home[node] != node:
            node = home[node]
        return node

    for (i, j), held in pairs.items():
        for a, b in held.tolist():
            home[root((i, a))] = root((j, b))
    members: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for node in list(home):
        members.setdefault(root(node), []).append(node)
    found = set()
    for nodes in members.values():
        frames = [f for f, _ in nodes]
        alone = frozenset(n for n in nodes if frames.count(n[0]) == 1)
        if twice is tr.Twice.IS_DROPPED and len(alone) < len(nodes):
            continue
        if len(alone) >= 2:
            found.add(alone)
    return found


edges = st.dictionaries(
    st.tuples(st.integers(0, 4), st.integers(0, 4)).filter(lambda ij: ij[0] < ij[1]),
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=7, unique=True),
    max_size=8,
)


@settings(max_examples=150, deadline=None)
@given(edges, st.sampled_from(tr.Twice))
def test_tracks_are_the_components_without_what_a_frame_met_twice_costs(drawn, twice):
    pairs = {key: np.array(held, dtype=np.int64).reshape(-1, 2) for key, held in drawn.items()}
    table = tr.build_tracks(pairs, twice)
    found = {
        frozenset(zip(table.frame[table.point == p].tolist(), table.keypoint[table.point == p].tolist(), strict=True))
        for p in range(table.points)
    }
    assert found == slow_tracks(pairs, twice)
    assert np.all(np.diff(table.point) >= 0) and np.all(np.diff(table.point) <= 1)


def seen_by(poses, points, noise, rng):
    """Keypoints of every pose (keypoint k shows landmark k) and pairs of all frames that share landmarks."""
    xy, visible = {}, {}
    for k, pose in enumerate(poses):
        in_cam = pose(points)
        pixels = cameras.project(CAMERA, in_cam)
        inside = (pixels > 0).all(axis=1) & (pixels[:, 0] < CAMERA.width) & (pixels[:, 1] < CAMERA.height)
        visible[k] = inside & (in_cam[:, 2] < 20)
        xy[k] = np.nan_to_num(pixels) + rng.normal(0, noise, pixels.shape)
    shared = {(i, j): np.flatnonzero(visible[i] & visible[j]) for i in xy for j in xy if i < j}
    return xy, {key: np.stack([rows, rows], axis=1) for key, rows in shared.items()}


def test_structure_is_at_the_truth_and_drops_what_is_wrong():
    rng = np.random.default_rng(3)
    poses = dict(enumerate(street_poses(8)))
    points = street_points(4.0, 900, 3)
    xy, pairs = seen_by(list(poses.values()), points, 0.2, rng)
    xy[3][:100] += 30.0  # one frame is wrong about a quarter of the landmarks
    limits = TrackFilter(error_px=1.5, least_angle=np.radians(2.0), most_depth_m=100.0)
    table, found = structure(pairs, poses, CAMERA, xy, limits)
    landmark = np.zeros(table.points, dtype=np.int64)
    landmark[table.point] = table.keypoint
    error = np.linalg.norm(found - points[landmark], axis=1)
    assert table.points > 100
    assert 1e-4 < np.median(error) < 0.05
    assert np.quantile(error, 0.99) < 0.5
    assert not np.any((table.frame == 3) & (table.keypoint < 100))


def test_far_and_flat_points_are_left_out():
    rng = np.random.default_rng(4)
    poses = dict(enumerate(street_poses(3, step=0.3)))
    points = np.array([[6.0, 3.0, 2.0], [400.0, 120.0, 40.0]])
    xy = {k: cameras.project(CAMERA, p(points)) + rng.normal(0, 0.01, (2, 2)) for k, p in poses.items()}
    pairs = {(i, j): np.array([[0, 0], [1, 1]]) for i in poses for j in poses if i < j}
    limits = TrackFilter(error_px=1.5, least_angle=np.radians(1.0), most_depth_m=100.0)
    table, found = structure(pairs, poses, CAMERA, xy, limits)
    assert table.points == 1 and np.linalg.norm(found[0] - points[0]) < 0.05


def test_selection_keeps_the_budget_the_quota_and_every_frame():
    rng = np.random.default_rng(5)
    point = np.repeat(np.arange(3000), 3)
    start = rng.integers(0, 18, 3000)
    frame = (start[:, None] + np.arange(3)).ravel()
    table = tr.TrackTable(point, frame, np.arange(len(point)))
    cell = rng.integers(0, tr.GRID**2, len(point))
    anchored = frame < 2
    chosen = tr.select(table, cell, anchored, budget=500, quota=0.2)
    assert len(chosen) == 500 and len(np.unique(chosen)) == 500
    small, _ = tr.subset(table, np.zeros((3000, 3)), chosen)
    assert set(small.frame.tolist()) == set(frame.tolist())
    touching = np.unique(point[anchored])
    assert np.isin(chosen, touching).sum() >= 100


def test_selection_prefers_long_tracks():
    point = np.concatenate([np.repeat(np.arange(50), 2), np.repeat(np.arange(50, 100), 5)])
    frame = np.concatenate([np.tile([0, 1], 50), np.tile(np.arange(5), 50)])
    table = tr.TrackTable(point, frame, np.arange(len(point)))
    chosen = tr.select(table, np.zeros(len(point), dtype=np.int64), np.zeros(len(point), dtype=bool), 40, 0.0)
    assert (chosen >= 50).all()
