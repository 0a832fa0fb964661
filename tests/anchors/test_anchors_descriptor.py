"""A chosen global descriptor makes the shortlist of places; without one, local features do."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from skyanchor.anchors.place_description import fit_words
from skyanchor.anchors.place_finding import PlacesConfig, count_votes, likeness
from skyanchor.anchors.place_index import PlaceIndex, PlaceTile, PlaceView, make_tile
from skyanchor.matching import Features
from skyanchor.matching.retrieval import vlad
from skyanchor.storage import files


def features(seed: int, count: int = 60) -> Features:
    rng = np.random.default_rng(seed)
    held = rng.normal(size=(count, 64)).astype(np.float32)
    held /= np.linalg.norm(held, axis=1, keepdims=True)
    ones = np.ones(count, np.float32)
    return Features(rng.uniform(0, [400, 230], (count, 2)), held, ones, ones, 416, 234, 1.0)


def view(number: int, described: np.ndarray | None) -> PlaceView:
    eye = np.array([10.0 * number, 0.0, 1.7])
    points = (eye + np.random.default_rng([9, number]).normal(0.0, 25.0, (60, 3))).astype(np.float32)
    return PlaceView(
        eye, 0.1 * number, 416, features(number).descriptors, points, np.full(60, 70_000 + number), described
    )


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
    """Views are numbered through the tiles and come back as near to what they were as their files say."""
    views = tuple(view(k, None) for k in range(8))
    held = by_words(views)
    for k, tile in enumerate(held.tiles):
        files.save(tmp_path / f"{k}.npz", tile)
    index = PlaceIndex(tuple(tmp_path / f"{k}.npz" for k in range(3)), held.vocabulary)
    assert len(index) == 8 and index.eyes[:, 0].tolist() == [10.0 * k for k in range(8)]
    for k in (0, 2, 3, 7):
        again = index.view(k)
        assert again.heading == views[k].heading and np.array_equal(again.source, views[k].source)
        assert again.width == 416
        assert np.allclose(again.points, views[k].points, atol=0.005 + 1e-5)
        kept, was = again.descriptors, views[k].descriptors
        # drawn alike in all directions: 3.5 bits over 6.6 deviations
        assert np.linalg.norm(kept - was, axis=1).mean() < 0.19
    assert held.vocabulary is not None
    looks = np.stack([vlad(v.descriptors, held.vocabulary) for v in views])
    assert np.allclose(index.likeness(looks), looks @ looks.T, atol=0.01)
    files.save(tmp_path / "0.npz", held.tiles[2])
    os.utime(tmp_path / "0.npz", ns=(1, 1))
    assert len(PlaceIndex((tmp_path / "0.npz",), None)) == 5  # a tile that was made anew


SEARCH = """
import resource, sys
from pathlib import Path
import numpy as np
allowed = int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
from skyanchor.anchors import place_index
index = place_index.PlaceIndex(tuple(sorted(Path(sys.argv[1]).glob("*.npz"))), None)
for _ in range(2):
    like = index.likeness(np.ones((1, 64), np.float32))
opened = place_index._mapped.cache_info()
print(like.shape[1], opened.misses, opened.currsize)
"""


@pytest.mark.parametrize(("allowed", "opened", "held"), [(64, 160, 16), (400, 80, 80)])
def test_more_tiles_than_files_that_may_be_open(tmp_path: Path, allowed: int, opened: int, held: int) -> None:
    """All tiles are looked at whatever the system allows, and opened once where that has room for them."""
    one = make_tile((view(0, np.eye(64, dtype=np.float32)[0]),), None)
    for k in range(80):
        files.save(tmp_path / f"{k:02d}.npz", one)
    words = [sys.executable, "-c", SEARCH, str(tmp_path), str(allowed)]
    said = subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()
    assert [int(word) for word in said] == [80, opened, held]


def test_points_further_away_than_16_bits_of_centimetres_are_kept_in_larger_steps() -> None:
    far = replace(view(1, EYE[1]), points=np.full((60, 3), 900.0, np.float32))
    tile = make_tile((far,), None)
    assert tile.point_step_m == pytest.approx((900.0 + 0.0) / 32767, rel=0.02)
    assert np.allclose(tile.view(0).points, 900.0, atol=0.03)


@pytest.mark.parametrize(("photos", "size"), [(256, 1), (257, 2)])
def test_the_photo_of_a_keypoint_takes_a_byte_where_that_can_name_them_all(
    tmp_path: Path, photos: int, size: int
) -> None:
    numbers = 1000 + np.arange(photos)
    rng = np.random.default_rng(6)
    held, points = rng.normal(size=(photos, 64)).astype(np.float32) / 8.0, rng.normal(size=(photos, 3))
    seen = PlaceView(np.zeros(3), 0.0, 416, held, points.astype(np.float32), numbers, EYE[0])
    files.save(tmp_path / "tile.npz", make_tile((seen,), None))
    tile = files.load_mapped(tmp_path / "tile.npz", PlaceTile)
    assert np.array_equal(tile.view(0).source, numbers) and tile.source.itemsize == size
    assert sum(part[:1].nbytes for part in (tile.descriptors, tile.points, tile.source)) == 34 + size
