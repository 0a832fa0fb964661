"""Which anchors and submaps are used, and which group is blamed when two contradict."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from trajectory_world import anchors_of, sequence_of, street

from skyanchor.trajectory.closure import Closure, measure
from skyanchor.trajectory.config import Ablation, ClosureConfig, TrajectoryConfig
from skyanchor.trajectory.jobs import anchor_segments
from skyanchor.trajectory.planning import accepted_anchors, joined_submaps, plan_jobs, submap_anchors, wrong_groups
from skyanchor.types import Pose


@pytest.fixture(scope="module")
def walked():
    world = street(90)
    sequence = sequence_of(world, submaps=3)
    return world, sequence, anchors_of(world, sequence)


def test_segments_split_where_anchors_are_far_apart():
    assert anchor_segments([40, 1, 2, 3, 41]) == [(1, 2, 3), (40, 41)]
    assert anchor_segments([]) == []


@pytest.mark.parametrize(
    ("refused", "spans"),
    [
        (set(), [(0, 29), (30, 59), (60, 89)]),
        ({1}, [(0, 59), (60, 89)]),
        ({1, 2}, [(0, 89)]),
        ({0}, [(0, 29), (30, 59), (60, 89)]),
        ({0, 1}, [(0, 59), (60, 89)]),
    ],
)
def test_submaps_without_a_common_anchor_are_joined(walked, refused, spans):
    world, sequence, _ = walked
    held = accepted_anchors(anchors_of(world, sequence, refused=frozenset(refused)))
    joined = joined_submaps(sequence, held, merge_refused=True)
    assert [(s.frames[0], s.frames[-1]) for s in joined] == spans
    assert all(list(s.frames) == list(range(s.frames[0], s.frames[-1] + 1)) for s in joined)


def test_submaps_are_not_joined_across_a_cut(walked):
    world, sequence, _ = walked
    held = accepted_anchors(anchors_of(world, sequence, refused=frozenset({1, 2})))
    cut = replace(sequence, cuts=(30,))
    joined = joined_submaps(cut, held, merge_refused=True)
    assert [(s.frames[0], s.frames[-1]) for s in joined] == [(0, 29), (30, 89)]


def test_no_anchors_no_jobs(walked):
    world, sequence, _ = walked
    anchors = anchors_of(world, sequence, refused=frozenset(range(4)))
    assert plan_jobs(sequence, accepted_anchors(anchors), anchors, TrajectoryConfig()) == ()


def test_switches_choose_the_anchors(walked):
    _, sequence, anchors = walked
    held, submap = accepted_anchors(anchors), sequence.submaps[1]

    def frames(**switches) -> list[int]:
        config = replace(TrajectoryConfig(), ablation=Ablation(**switches))
        return [a.frame for a in submap_anchors(submap, held, config)]

    assert frames() == [*range(30, 36), *range(54, 60)]
    assert frames(group_size=2) == [30, 31, 58, 59]
    assert frames(rear_anchors=False) == list(range(30, 36))


def closure(a: int, b: int, bad: bool) -> Closure:
    """Between the groups a and b of the walk of three submaps."""
    starts = {0: 0, 1: 30, 2: 60}
    return Closure(a, tuple(range(starts[a] + 24, starts[a] + 30)), (starts[a],), 15.0, 2.0, 1.0, 1.0, 9.0, bad)


@pytest.mark.parametrize(
    ("bad", "blamed"),
    [((False, False, False), []), ((True, True, False), [1]), ((True, False, False), [0]), ((False, False, True), [3])],
)
def test_the_group_that_agrees_with_no_other_is_blamed(walked, bad, blamed):
    closures = [closure(k, k + 1, wrong) for k, wrong in enumerate(bad)]
    found = wrong_groups(closures, walked[2])
    assert [g.group for g in found] == blamed
    assert all(f"group {g.group}" in g.refusal.detail for g in found)


def test_of_two_alone_the_less_certain_is_blamed():
    world = street(30)
    sequence = sequence_of(world)
    anchors = anchors_of(world, sequence)
    vague = tuple(replace(p, covariance=4.0 * p.covariance) for p in anchors.groups[0].poses)
    anchors = replace(anchors, groups=(replace(anchors.groups[0], poses=vague), anchors.groups[1]))
    contradiction = Closure(0, tuple(range(24, 30)), (0,), 15.0, 2.0, 1.0, 1.0, 9.0, True)
    assert [g.group for g in wrong_groups([contradiction], anchors)] == [0]


@pytest.mark.parametrize(
    ("shift", "bad"), [((0.3, 0.0, 0.0), False), ((0.0, 0.3, 0.0), False), ((0.0, 2.5, 0.0), True)]
)
def test_closure_tells_drift_from_contradiction(shift, bad):
    world = street(30)
    visual = {f: world.poses[f] for f in range(24, 30)}
    moved = Pose(np.eye(3), np.array(shift)).inverse
    anchored = {f: pose @ moved for f, pose in visual.items()}
    found = measure(0, visual, anchored, {0: world.poses[0]}, 12.0, 0.0, ClosureConfig())
    assert found.gap_m == pytest.approx(np.linalg.norm(shift)) and found.gap_deg == pytest.approx(0.0, abs=1e-6)
    assert found.scale == pytest.approx(1.0) and found.contradiction is bad
