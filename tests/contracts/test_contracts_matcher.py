"""One contract for every matcher: known homographies, masks, repeatability, quiet."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import cv2
import numpy as np
import pytest

from skyanchor.errors import BackendError
from skyanchor.matching import AnyMatcher, AnySparse, Own
from skyanchor.types import Photo

SIZE = (480, 320)

OWN = Path(__file__).parents[1] / "support" / "own_matcher.py"
GIVEN = {Own: {"target": f"{OWN}:Mine"}}
"""What only the user can say."""

CHOICES = [pytest.param(kind(keypoints=1500, **GIVEN.get(kind, {})), id=kind.__name__) for kind in get_args(AnyMatcher)]


def loaded(choice):
    """The matcher, or a skip that says what it would need here; one that passes its check loads."""
    try:
        choice.check()
    except BackendError as error:
        pytest.skip(str(error))
    return choice.load("cpu")


def textured(seed: int = 0) -> np.ndarray:
    """Blobs, edges and grain of several sizes, RGB."""
    rng = np.random.default_rng(seed)
    width, height = SIZE
    image = np.zeros((height, width), np.float32)
    for cell in (4, 8, 16, 40):
        grid = rng.normal(size=(height // cell + 2, width // cell + 2)).astype(np.float32)
        image += cell**0.5 * cv2.resize(grid, (width, height), interpolation=cv2.INTER_CUBIC)
    for _ in range(60):
        x, y = rng.integers(0, width), rng.integers(0, height)
        corner = (int(x + rng.integers(8, 40)), int(y + rng.integers(8, 40)))
        cv2.rectangle(image, (int(x), int(y)), corner, float(rng.normal(0, 8)), -1)
    scaled = (image - image.min()) / (image.max() - image.min()) * 255
    return np.repeat(scaled.astype(np.uint8)[..., None], 3, axis=2)


def homography() -> np.ndarray:
    """A mild change of view, in pixel-centre coordinates."""
    c, s = 1.08 * np.cos(0.06), 1.08 * np.sin(0.06)
    return np.array([[c, -s, 4.3], [s, c, -9.7], [6e-5, -3e-5, 1.0]])


def warped(pixels: np.ndarray, h: np.ndarray) -> np.ndarray:
    half = np.array([[1, 0, 0.5], [0, 1, 0.5], [0, 0, 1.0]])
    return np.asarray(cv2.warpPerspective(pixels, np.linalg.inv(half) @ h @ half, SIZE, flags=cv2.INTER_CUBIC))


def errors(matches, h: np.ndarray) -> np.ndarray:
    image = np.c_[matches.xy_a, np.ones(len(matches.xy_a))] @ h.T
    return matches.xy_b - image[:, :2] / image[:, 2:]


@pytest.fixture(scope="module")
def pair() -> tuple[Photo, Photo, np.ndarray]:
    pixels, h = textured(), homography()
    return Photo("a", pixels), Photo("b", warped(pixels, h)), h


@pytest.mark.parametrize("choice", CHOICES)
def test_matches_follow_the_homography_without_bias(choice, pair):
    a, b, h = pair
    matches = loaded(choice).match(a, b)
    off = errors(matches, h)
    near = np.linalg.norm(off, axis=1) < 6 * matches.sigma_px
    assert len(matches.score) == len(matches.xy_a) == len(matches.xy_b) >= 80
    assert near.mean() > 0.6
    assert np.abs(np.median(off[near], axis=0)).max() < 0.8 * matches.sigma_px
    assert np.median(np.linalg.norm(off[near], axis=1)) < 2.0 * matches.sigma_px


@pytest.mark.parametrize("choice", CHOICES)
def test_same_photos_same_matches(choice, pair):
    a, b, _ = pair
    first, second = loaded(choice).match(a, b), loaded(choice).match(a, b)
    assert np.array_equal(first.xy_a, second.xy_a) and np.array_equal(first.xy_b, second.xy_b)


@pytest.mark.parametrize("choice", CHOICES)
def test_masked_pixels_are_not_matched(choice, pair):
    a, b, _ = pair
    mask = np.ones(a.pixels.shape[:2], dtype=bool)
    mask[:, :240] = False
    matcher = loaded(choice)
    features = matcher.extract(Photo("a", a.pixels, mask))
    assert len(features) > 20 and features.xy[:, 0].min() >= 240.0
    matches = matcher.match(Photo("a", a.pixels, mask), b)
    assert matches.xy_a[:, 0].min() > 240.0 - 8.0  # semi-dense cells may move by their own size


@pytest.mark.parametrize("choice", CHOICES)
def test_nothing_to_match_is_no_error(choice, pair):
    a, _, _ = pair
    plain = Photo("plain", np.full((*a.pixels.shape[:2], 3), 128, np.uint8), np.zeros(a.pixels.shape[:2], dtype=bool))
    matches = loaded(choice).match(a, plain)
    assert matches.xy_a.shape == matches.xy_b.shape == (0, 2)


@pytest.mark.parametrize("choice", CHOICES)
def test_matchers_are_quiet(choice, pair, capfd):
    a, b, _ = pair
    loaded(choice).match(a, b)
    told = capfd.readouterr()
    assert told.out == "" and told.err == ""


@pytest.mark.parametrize("choice", [c for c in CHOICES if isinstance(c.values[0], get_args(AnySparse))])
def test_sparse_pairs_use_each_keypoint_once(choice, pair):
    a, b, _ = pair
    matcher = loaded(choice)
    left, right = matcher.extract(a), matcher.extract(b)
    pairs = matcher.pairs(left, right)
    assert len(np.unique(pairs[:, 0])) == len(np.unique(pairs[:, 1])) == len(pairs) > 0
    matches = matcher.match_extracted(left, right)
    assert np.array_equal(matches.xy_a, left.xy[pairs[:, 0]]) and np.array_equal(matches.xy_b, right.xy[pairs[:, 1]])
