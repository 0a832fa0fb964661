"""Dense networks behind the matchers' protocol: pictures survive, crops recover detail, coordinates are exact."""

from __future__ import annotations

import numpy as np
import pytest

from skyanchor.matching.dense import Crops, DenseMatcher, crop_pairs, picture, picture_features, spread, tiles
from skyanchor.matching.features import FeatureCache
from skyanchor.types import Matches, Photo


def noise(height: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3)).astype(np.uint8)


class ShiftNetwork:
    """Knows that b shows what a shows, moved by a shift; sees no finer than `side` pixels across."""

    def __init__(self, whole_a: np.ndarray, whole_b: np.ndarray, side: int = 64, shift: float = 0.0) -> None:
        self.whole = whole_a, whole_b
        self.side = side
        self.shift = np.array([0.0, shift])

    def match_pixels(self, a: np.ndarray, b: np.ndarray) -> Matches:
        corners = [corner(part, whole) for part, whole in zip((a, b), self.whole, strict=True)]
        unit = max(*a.shape[:2], *b.shape[:2]) / self.side
        grid = np.stack(np.meshgrid(np.arange(0.5, a.shape[1]), np.arange(0.5, a.shape[0])), -1).reshape(-1, 2)[::7]
        there = grid + corners[0] + self.shift - corners[1]
        there = (np.floor(there / unit) + 0.5) * unit if unit > 1 else there
        inside = ((there > 0) & (there < [b.shape[1], b.shape[0]])).all(axis=1)
        return Matches(grid[inside], there[inside], np.ones(int(inside.sum())), 0.5 * unit)


def corner(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Where a crop lies in its picture, by its first pixels."""
    rows, columns = np.nonzero((whole[: whole.shape[0], : whole.shape[1]] == part[0, 0]).all(axis=2))
    for y, x in zip(rows, columns, strict=True):
        if np.array_equal(whole[y : y + part.shape[0], x : x + part.shape[1]], part):
            return np.array([x, y], float)
    raise AssertionError("not a crop of the picture")


@pytest.mark.parametrize("size", [(48, 64), (50, 70), (7, 100)])
def test_a_picture_comes_back_to_the_bit_through_the_cache(size, tmp_path):
    pixels = noise(*size)
    mask = np.ones(size, bool)
    mask[:5, : size[1] // 2] = False
    matcher = DenseMatcher(ShiftNetwork(pixels, pixels), "shift", 100, 1000, Crops(0))
    photo = Photo("p", pixels, mask)
    FeatureCache(matcher, tmp_path).features(photo)
    again, kept, factor = picture(FeatureCache(matcher, tmp_path).features(photo))
    assert factor == 1.0 and np.array_equal(kept, mask)
    assert np.array_equal(again[mask], pixels[mask])


def test_a_shrunk_picture_remembers_its_scale():
    matcher = DenseMatcher(ShiftNetwork(noise(4, 4), noise(4, 4)), "shift", 10, 100, Crops(4))
    features = matcher.extract(Photo("p", noise(150, 200)))
    pixels, mask, factor = picture(features)
    assert pixels.shape == (75, 100, 3) and mask.all() and factor == 2.0
    assert features.sigma_px == 0.5 * 2.0  # crops see the shrunk picture in its own pixels
    coarse = DenseMatcher(matcher.network, "shift", 10, 100, Crops(0)).extract(Photo("p", noise(150, 200)))
    assert coarse.sigma_px == 0.5 * 200 / 64


def test_squares_without_a_usable_pixel_are_dropped():
    mask = np.zeros((64, 64), bool)
    mask[20, 40] = True
    features = picture_features(noise(64, 64), mask, 1.0, (64, 64), 0.5)
    assert features.xy.tolist() == [[40.0, 24.0]]
    assert picture(features)[1].sum() == 1


def test_crops_bring_full_resolution_back():
    whole = noise(200, 330)
    a, b = whole[:160, :260], whole[11:171, :]  # b[y, x] = a[y + 11, x], so a point of a is 11 rows higher in b
    b = b[:, :260]
    network = ShiftNetwork(a, b, shift=-11.0)
    wide = np.array([0.0, -11.0])
    coarse = DenseMatcher(network, "shift", 2000, 1000, Crops(0)).match(Photo("a", a), Photo("b", b))
    fine = DenseMatcher(network, "shift", 2000, 1000, Crops(40)).match(Photo("a", a), Photo("b", b))
    errors = [np.abs(m.xy_b - m.xy_a - wide).max() for m in (coarse, fine)]
    assert errors[0] > 1.0 and errors[1] < 1e-9
    assert coarse.sigma_px == pytest.approx(0.5 * 260 / 64) and fine.sigma_px == 0.5
    covered = np.histogram2d(*fine.xy_a.T, bins=(6, 4), range=((0, 260), (11, 160)))[0]
    assert (covered > 0).all()


def test_masked_pixels_take_no_part():
    whole = noise(90, 120)
    left = np.ones((90, 120), bool)
    left[:, 60:] = False
    matcher = DenseMatcher(ShiftNetwork(whole, whole, 200), "shift", 500, 200, Crops(0))
    filled = picture(matcher.extract(Photo("a", whole, left)))[0]
    matcher.network.whole = filled, whole
    found = matcher.match(Photo("a", whole, left), Photo("b", whole))
    assert len(found.score) > 50 and found.xy_a[:, 0].max() < 60
    nothing = matcher.match(Photo("a", whole, np.zeros((90, 120), bool)), Photo("b", whole))
    assert nothing.xy_a.shape == (0, 2)


def test_tiles_cover_and_stay_inside():
    for shape in ((100, 100), (64, 300), (500, 65), (64, 64)):
        seen = np.zeros(shape, int)
        for window in tiles((*shape, 3), 64, 0.25):
            assert window.x >= 0 and window.x + window.width <= shape[1]
            assert window.y >= 0 and window.y + window.height <= shape[0]
            seen[window.y : window.y + window.height, window.x : window.x + window.width] += 1
        assert seen.min() >= 1


def test_the_counterpart_of_a_crop_follows_scale_and_place():
    rng = np.random.default_rng(0)
    xy = rng.uniform([0, 0], [60, 60], (300, 2))
    coarse = Matches(xy, 2.0 * xy + [100.0, 50.0], np.ones(300))
    pairs = crop_pairs(coarse, (64, 64, 3), (400, 400, 3), 64, Crops(3))
    assert len(pairs) == 1
    in_b = pairs[0][1]
    assert abs(in_b.width - 128) <= 4 and abs(in_b.x + in_b.width / 2 - 160) < 8
    assert crop_pairs(Matches(xy[:5], xy[:5], np.ones(5)), (64, 64, 3), (64, 64, 3), 64, Crops(3)) == []


def test_spread_keeps_the_best_of_every_cell():
    rng = np.random.default_rng(1)
    xy, score = rng.uniform(0, 100, (5000, 2)), rng.uniform(size=5000)
    keep = spread(xy, score, 100, (100, 100, 3))
    assert len(keep) == 100
    cells = np.floor(xy[keep] / 10).astype(int)
    assert len(np.unique(cells, axis=0)) == 100
    slow = [score[(np.floor(xy / 10).astype(int) == cell).all(axis=1)].max() for cell in cells]
    assert np.allclose(score[keep], slow)
