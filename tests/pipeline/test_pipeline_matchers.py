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
    """Cross-view with bridges and without, trajectory, groups."""
    anchors = config.anchors
    return anchors.refine.matcher, anchors.paper.matcher, config.trajectory.matcher, anchors.ground_matcher


BRIDGES, PHOTOS, TRAJECTORY, GROUPS = matchers(CPU)


@pytest.mark.parametrize(
    ("matcher", "expected"),
    [
        (Sift(keypoints=123), (Sift(123), Sift(123), Sift(123), Sift(123))),
        (XFeat(keypoints=123), (XFeat(123), XFeat(123), XFeat(123), GROUPS)),
        (XFeatStar(keypoints=123), (XFeatStar(123), XFeatStar(123), TRAJECTORY, GROUPS)),
        (Mast3r(), (Mast3r(), Mast3r(), TRAJECTORY, GROUPS)),
        (Own("mine.py:Mine"), (Own("mine.py:Mine"), Own("mine.py:Mine"), TRAJECTORY, GROUPS)),
    ],
)
def test_without_a_role_it_is_everywhere_it_can_be(matcher: AnyMatcher, expected: tuple[AnyMatcher, ...]) -> None:
    config = with_matcher(CPU, matcher)
    assert matchers(config) == expected
    assert codec.from_json(PipelineConfig, codec.to_json(config)) == config


def test_a_role_is_changed_alone() -> None:
    mine = Sift(keypoints=123)
    assert matchers(with_matcher(CPU, mine, "cross-view")) == (mine, mine, TRAJECTORY, GROUPS)
    assert matchers(with_matcher(CPU, mine, "trajectory")) == (BRIDGES, PHOTOS, mine, GROUPS)
    assert matchers(with_matcher(CPU, mine, "groups")) == (BRIDGES, PHOTOS, TRAJECTORY, mine)
    assert matchers(with_matcher(CPU, mine, "groups", "trajectory")) == (BRIDGES, PHOTOS, mine, mine)


def test_all_else_stays() -> None:
    config = skyanchor.GPU
    back = with_matcher(config, Sift(keypoints=123))
    back = with_matcher(back, config.anchors.refine.matcher, "cross-view")
    back = with_matcher(back, config.anchors.ground_matcher, "groups")
    back = with_matcher(back, config.trajectory.matcher, "trajectory")
    anchors = replace(back.anchors, paper=config.anchors.paper)
    assert replace(back, anchors=anchors) == config


def test_a_role_that_it_cannot_take_is_refused() -> None:
    with pytest.raises(BackendError, match=r"XFeatStar cannot serve trajectory\. Ask it for cross-view"):
        with_matcher(CPU, XFeatStar(), "cross-view", "trajectory")
    with pytest.raises(BackendError, match=r"XFeat cannot serve groups\. Ask it for cross-view and trajectory"):
        with_matcher(CPU, XFeat(), "groups")
