"""Submaps and anchor groups: METHOD's counts, and invariants for any length."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyanchor.sequence.submaps import SubmapConfig, anchor_groups, cut_submaps

JOINED, PAPER = SubmapConfig(), SubmapConfig(join_boundaries=False)


@pytest.mark.parametrize(("frames", "count"), [(6, 1), (40, 1), (149, 1), (151, 2), (436, 4), (1000, 10)])
def test_number_of_submaps(frames: int, count: int) -> None:
    assert len(cut_submaps(frames, JOINED)) == count


def test_fewer_frames_than_a_group_give_nothing() -> None:
    assert cut_submaps(5, JOINED) == () and anchor_groups((), JOINED) == ()


@settings(deadline=None, derandomize=True, database=None)
@given(st.integers(6, 2000), st.integers(4, 210), st.integers(2, 6))
def test_submaps_cover_the_sequence_evenly(frames: int, length: int, size: int) -> None:
    submaps = cut_submaps(frames, SubmapConfig(length, size))
    assert [f for submap in submaps for f in submap.frames] == list(range(frames))
    lengths = [len(submap.frames) for submap in submaps]
    assert max(lengths) - min(lengths) <= 1
    for submap in submaps:
        assert submap.front == submap.frames[:size] and submap.rear == submap.frames[-size:]
        assert len(submaps) == 1 or len(submap.frames) >= 2 * size


@settings(deadline=None, derandomize=True, database=None)
@given(st.integers(12, 2000), st.integers(20, 210), st.booleans())
def test_groups_hold_every_anchor_frame_once(frames: int, length: int, join: bool) -> None:
    config = SubmapConfig(length, 6, join)
    submaps = cut_submaps(frames, config)
    groups = anchor_groups(submaps, config)
    anchors = [f for group in groups for f in group.frames]
    assert anchors == sorted(set(anchors)) and len(anchors) == 12 * len(submaps)  # the paper's 12 n
    assert [group.index for group in groups] == list(range(len(groups)))
    for group in groups:
        assert list(group.frames) == list(range(group.frames[0], group.frames[-1] + 1))
    assert len(groups) == (len(submaps) + 1 if join else 2 * len(submaps))


def test_boundary_groups_are_joined_or_kept_apart() -> None:
    submaps = cut_submaps(200, JOINED)
    joined = [(g.frames[0], g.frames[-1], g.submaps) for g in anchor_groups(submaps, JOINED)]
    apart = [(g.frames[0], g.frames[-1], g.submaps) for g in anchor_groups(submaps, PAPER)]
    assert joined == [(0, 5, (0,)), (94, 105, (0, 1)), (194, 199, (1,))]
    assert apart == [(0, 5, (0,)), (94, 99, (0,)), (100, 105, (1,)), (194, 199, (1,))]


@pytest.mark.parametrize("config", [JOINED, PAPER])
def test_neither_submap_nor_group_crosses_a_cut(config: SubmapConfig) -> None:
    cuts = (100, 103, 217)
    submaps = cut_submaps(320, config, cuts)
    groups = anchor_groups(submaps, config, cuts)
    for frames in [s.frames for s in submaps] + [g.frames for g in groups]:
        assert list(frames) == list(range(frames[0], frames[-1] + 1))
        assert not any(frames[0] < cut <= frames[-1] for cut in cuts)
    assert [(s.frames[0], s.frames[-1]) for s in submaps] == [(0, 99), (103, 216), (217, 319)]
    assert [s.index for s in submaps] == [0, 1, 2]  # three frames between two cuts are no stretch of their own
    assert [g.frames[0] for g in groups] == [0, 94, 103, 211, 217, 314]


def test_a_short_sequence_is_one_group() -> None:
    groups = anchor_groups(cut_submaps(9, JOINED), JOINED)
    assert [(g.frames, g.submaps) for g in groups] == [(tuple(range(9)), (0,))]
