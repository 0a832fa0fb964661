"""A chosen global descriptor makes the shortlist of places; without one, local features do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from skyanchor.anchors.places import PlacesConfig, PlaceView, count_votes, index_places, likeness
from skyanchor.bridges.views import Node
from skyanchor.geometry import rigid
from skyanchor.matching import Features


def features(seed: int, count: int = 60) -> Features:
    rng = np.random.default_rng(seed)
    held = rng.normal(size=(count, 64)).astype(np.float32)
    held /= np.linalg.norm(held, axis=1, keepdims=True)
    ones = np.ones(count, np.float32)
    return Features(rng.uniform(0, 400, (count, 2)), held, ones, ones, 416, 234, 1.0)


def view(number: int, described: np.ndarray | None) -> PlaceView:
    node = Node(np.array([10.0 * number, 0.0, 1.7]), 0.0, rigid.identity())
    points = np.zeros((60, 3), np.float32)
    return PlaceView(node, features(number), points, np.zeros(60, np.int64), described)


EYE = np.eye(8, dtype=np.float32)
CONFIG = PlacesConfig(shortlist=1)


def test_the_chosen_descriptor_makes_the_shortlist() -> None:
    index = index_places(tuple(view(k, EYE[k]) for k in range(8)), 16)
    voters = (features(2), features(2))  # local features say view 2
    everywhere = np.ones(8, bool)
    assert count_votes(index, voters, everywhere, CONFIG)[0].tolist() == [2]
    looks = np.stack([EYE[5], EYE[5]])  # the descriptor says view 5
    assert count_votes(index, voters, everywhere, CONFIG, looks)[0].tolist() == [5]
    assert likeness(index, voters, looks)[5] == pytest.approx(2.0)
    two = replace(CONFIG, shortlist=2)
    views, votes = count_votes(index, voters, everywhere, two, np.stack([EYE[5], EYE[2]]))
    assert views.tolist() == [2, 5] and votes.tolist() == [120.0, 0.0]  # matches rank the shortlist


def test_an_index_without_descriptors_falls_back_on_local_features() -> None:
    index = index_places(tuple(view(k, None) for k in range(8)), 16)
    looks = np.stack([EYE[5], EYE[5]])
    assert count_votes(index, (features(3),), np.ones(8, bool), CONFIG, looks)[0].tolist() == [3]
