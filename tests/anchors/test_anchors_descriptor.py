"""A chosen global descriptor makes the shortlist of places; without one, local features do."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from skyanchor.anchors.place_index import PlaceIndex, PlaceView, make_tile
from skyanchor.anchors.places import PlacesConfig, count_votes, fit_words, likeness
from skyanchor.matching import Features
from skyanchor.matching.retrieval import vlad
from skyanchor.storage import files


def features(seed: int, count: int = 60) -> Features:
    rng = np.random.default_rng(seed)
    held = rng.normal(size=(count, 64)).astype(np.float32)
    held /= np.linalg.norm(held, axis=1, keepdims=True)
    ones = np.ones(count, np.float32)
    return Features(rng.uniform(0, 400, (count, 2)), held, ones, ones, 416, 234, 1.0)


def view(number: int, described: np.ndarray | None) -> PlaceView:
    points = np.zeros((60, 3), np.float32)
    eye = np.array([10.0 * number, 0.0, 1.7])
    return PlaceView(eye, 0.1 * number, features(number), points, np.full(60, number), described)


def by_words(views: tuple[PlaceView, ...]) -> PlaceIndex:
    """Two tiles and an empty one between them."""
    words = fit_words(views, 16)
    return PlaceIndex(tuple(make_tile(part, words) for part in (views[:3], (), views[3:])), words)


EYE = np.eye(8, dtype=np.float32)
CONFIG = PlacesConfig(shortlist=1)


def test_the_chosen_descriptor_makes_the_shortlist() -> None:
    views = tuple(view(k, EYE[k]) for k in range(8))
    voters = (features(2), features(2))  # local features say view 2
    everywhere = np.ones(8, bool)
    assert count_votes(by_words(views), voters, everywhere, CONFIG)[0].tolist() == [2]
    index = PlaceIndex((make_tile(views, None),), None)
    looks = np.stack([EYE[5], EYE[5]])  # the descriptor says view 5
    assert count_votes(index, voters, everywhere, CONFIG, looks)[0].tolist() == [5]
    assert likeness(index, voters, looks)[5] == pytest.approx(2.0, rel=1e-6)
    two = replace(CONFIG, shortlist=2)
    found, votes = count_votes(index, voters, everywhere, two, np.stack([EYE[5], EYE[2]]))
    assert found.tolist() == [2, 5] and votes.tolist() == [120.0, 0.0]  # matches rank the shortlist


def test_an_index_without_descriptors_falls_back_on_local_features() -> None:
    index = by_words(tuple(view(k, None) for k in range(8)))
    looks = np.stack([EYE[5], EYE[5]])
    assert count_votes(index, (features(3),), np.ones(8, bool), CONFIG, looks)[0].tolist() == [3]


def test_places_that_the_walk_hints_at_are_matched_besides_the_shortlist() -> None:
    index = by_words(tuple(view(k, None) for k in range(8)))
    voters, everywhere = (features(3), features(6)), np.ones(8, bool)
    short = int(count_votes(index, voters, everywhere, CONFIG)[0][0])  # one of the two, as the looks have it
    other = 9 - short
    hinted = np.arange(8) == other
    found, votes = count_votes(index, voters, everywhere, CONFIG, None, hinted)
    assert set(found.tolist()) == {3, 6} and votes.tolist() == [60.0, 60.0]
    found, _ = count_votes(index, voters, np.arange(8) != other, CONFIG, None, hinted)  # a prior forbids it
    assert found.tolist() == [short]


def test_tiles_keep_what_was_described(tmp_path: Path) -> None:
    """Views are numbered through the tiles; descriptors and looks come back to a two-hundredth, the rest as it was."""
    views = tuple(view(k, None) for k in range(8))
    held = by_words(views)
    for k, tile in enumerate(held.tiles):
        files.save(tmp_path / f"{k}.npz", tile)
    index = PlaceIndex(tuple(tmp_path / f"{k}.npz" for k in range(3)), held.vocabulary)
    assert len(index) == 8 and index.eyes[:, 0].tolist() == [10.0 * k for k in range(8)]
    for k in (0, 2, 3, 7):
        again = index.view(k)
        assert again.heading == views[k].heading and np.array_equal(again.source, views[k].source)
        assert np.allclose(again.features.xy, views[k].features.xy, atol=1e-4)
        assert np.allclose(again.features.descriptors, views[k].features.descriptors, atol=0.5 / 127 + 1e-6)
    assert held.vocabulary is not None
    looks = np.stack([vlad(v.features.descriptors, held.vocabulary) for v in views])
    assert np.allclose(index.likeness(looks), looks @ looks.T, atol=0.01)
    files.save(tmp_path / "0.npz", held.tiles[2])
    os.utime(tmp_path / "0.npz", ns=(1, 1))
    assert len(PlaceIndex((tmp_path / "0.npz",), None)) == 5  # a tile that was made anew
