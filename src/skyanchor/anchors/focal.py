"""Which focal length a camera has that nobody described: the one at which most of a group agrees with some place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skyanchor.anchors.frames import with_focal
from skyanchor.anchors.places import PlaceQuery, find_places
from skyanchor.anchors.search import Search
from skyanchor.anchors.shape.choice import Remembered, moving_shape
from skyanchor.anchors.shape.incremental import LocalGroup
from skyanchor.types import AnchorGroup


@dataclass(frozen=True)
class FocalVotes:
    """What one group says about the focal lengths that were tried."""

    support: tuple[float, ...]
    """Per factor of `FocalConfig.factors`: ground keypoints that agree with the best place, 0 where there is none."""


def vote_focal(search: Search, group: AnchorGroup) -> FocalVotes:
    """The group's shape and best place at each focal length that is tried."""
    frames, config = search.frames, search.config
    ground = tuple(frames.features(i, config.ground_matcher) for i in group.frames)
    features = tuple(frames.features(i, config.places.features) for i in group.frames)
    matcher = Remembered(config.ground_matcher.load())
    support: list[float] = []
    for factor in config.focal.factors:
        camera = with_focal(search.camera, factor)
        local = moving_shape(frames, group.frames, ground, camera, matcher, config)
        best = 0
        if isinstance(local, LocalGroup):
            query = PlaceQuery(local, camera, features, search.near)
            places = find_places(search.prepared.places, search.prepared.ground, query, config.places)
            best = places[0].support if places else 0
        support.append(float(best))
    return FocalVotes(tuple(support))


def elected(votes: tuple[FocalVotes, ...], factors: tuple[float, ...]) -> float:
    """The factor with the most support, every group's own best counting one; 1 when no group found any place."""
    total = np.zeros(len(factors))
    for vote in votes:
        most = max(vote.support)
        total += np.array(vote.support) / most if most > 0 else 0.0
    return float(factors[int(np.argmax(total))]) if total.any() else 1.0
