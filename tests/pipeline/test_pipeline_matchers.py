"""Another matcher in one call: the settings it changes, those it leaves, and roles it cannot take."""

from __future__ import annotations

from dataclasses import replace

import pytest

import skyanchor
from skyanchor import CPU, PipelineConfig, with_matcher
from skyanchor.errors import BackendError
from skyanchor.matching import AnyMatcher, Mast3r, Own, Sift, XFeat, XFeatStar
from skyanchor.storage import codec


def matchers(config: PipelineConfig) -> tuple[AnyMatcher, ...]:
    """Cross-view with bridges and without, trajectory, groups, steps."""
    anchors = config.anchors
    above = (anchors.refine.matcher, anchors.paper.matcher)
    return *above, config.trajectory.matcher, anchors.ground_matcher, anchors.odometry.matcher


BRIDGES, PHOTOS, TRAJECTORY, GROUPS, STEPS = matchers(CPU)


@pytest.mark.parametrize(
    ("matcher", "expected"),
    [
        (Sift(keypoints=123), (Sift(123),) * 5),
        (XFeat(keypoints=123), (XFeat(123),) * 5),
        (XFeatStar(keypoints=123), (XFeatStar(123), XFeatStar(123), TRAJECTORY, GROUPS, STEPS)),
        (Mast3r(), (Mast3r(), Mast3r(), TRAJECTORY, GROUPS, STEPS)),
        (Own("mine.py:Mine"), (Own("mine.py:Mine"), Own("mine.py:Mine"), TRAJECTORY, GROUPS, STEPS)),
    ],
)
def test_without_a_role_it_is_everywhere_it_can_be(matcher: AnyMatcher, expected: tuple[AnyMatcher, ...]) -> None:
    config = with_matcher(CPU, matcher)
    assert matchers(config) == expected
    assert codec.from_json(PipelineConfig, codec.to_json(config)) == config


def test_a_role_is_changed_alone() -> None:
    mine = Sift(keypoints=123)
    assert matchers(with_matcher(CPU, mine, "cross-view")) == (mine, mine, TRAJECTORY, GROUPS, STEPS)
    assert matchers(with_matcher(CPU, mine, "trajectory")) == (BRIDGES, PHOTOS, mine, GROUPS, STEPS)
    assert matchers(with_matcher(CPU, mine, "groups")) == (BRIDGES, PHOTOS, TRAJECTORY, mine, STEPS)
    assert matchers(with_matcher(CPU, mine, "steps")) == (BRIDGES, PHOTOS, TRAJECTORY, GROUPS, mine)
    assert matchers(with_matcher(CPU, mine, "groups", "trajectory")) == (BRIDGES, PHOTOS, mine, mine, STEPS)


def test_all_else_stays() -> None:
    config = skyanchor.GPU
    back = with_matcher(config, Sift(keypoints=123))
    back = with_matcher(back, config.anchors.refine.matcher, "cross-view")
    back = with_matcher(back, config.anchors.ground_matcher, "groups")
    back = with_matcher(back, config.trajectory.matcher, "trajectory")
    back = with_matcher(back, config.anchors.odometry.matcher, "steps")
    assert back.anchors.refine.last is None, "no other matcher after the one that was asked for"
    refine = replace(back.anchors.refine, last=config.anchors.refine.last)
    anchors = replace(back.anchors, refine=refine, paper=config.anchors.paper)
    assert replace(back, anchors=anchors) == config


def test_a_role_that_it_cannot_take_is_refused() -> None:
    with pytest.raises(BackendError, match=r"XFeatStar cannot serve trajectory\. Ask it for cross-view"):
        with_matcher(CPU, XFeatStar(), "cross-view", "trajectory")
    with pytest.raises(BackendError, match=r"Mast3r cannot serve groups or steps\. Ask it for cross-view"):
        with_matcher(CPU, Mast3r(), "groups", "steps")
