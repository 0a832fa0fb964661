"""Conditions laid over photos: what they change, how much, and what stays from photo to photo."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

from skyanchor.town.conditions import (
    DRIFT,
    HARD,
    MIDDLE,
    MILD,
    Condition,
    drifting_leaf_shade,
    drifting_shadows,
    leaf_shade,
    photo_under,
    shadows,
    traffic,
)
from skyanchor.types import Bytes, Floats

LIGHT = (shadows, drifting_shadows, leaf_shade, drifting_leaf_shade)
ALL = (*LIGHT, traffic)


def grey(value: int = 120) -> Bytes:
    return np.full((180, 320, 3), value, np.uint8)


def factor(condition: Condition, severity: float, number: int = 0, seed: int = 3) -> Floats:
    """(H, W), brightness over that of a grey photo."""
    return condition(grey(), severity, seed, number).mean(axis=2) / 120.0


@pytest.mark.parametrize("condition", ALL)
def test_severity_zero_leaves_the_photo(condition: Condition) -> None:
    assert np.array_equal(condition(grey(), 0.0, 3, 5), grey())


@pytest.mark.parametrize("condition", ALL)
def test_one_seed_gives_one_photo(condition: Condition) -> None:
    once, again, other = (condition(grey(), MIDDLE, seed, 4) for seed in (3, 3, 8))
    assert np.array_equal(once, again)
    assert not np.array_equal(once, other)


@pytest.mark.parametrize("condition", LIGHT)
def test_shadows_darken_and_patches_brighten_more_with_severity(condition: Condition) -> None:
    ranges = []
    for severity in (MILD, MIDDLE, HARD):
        seen = np.stack([factor(condition, severity, number) for number in range(0, 24, 3)])
        ranges.append(np.percentile(seen, (2, 98)))
    (dark1, light1), (dark2, light2), (dark3, light3) = ranges
    assert dark3 < dark2 < dark1 < 0.9
    assert light3 > light2 > light1 > 1.03
    assert 0.2 < dark2 < 0.6  # shadows of 0.35 to 0.6, some of them over each other
    assert 1.2 < light2 < 1.9


def test_shadows_are_blue_and_patches_warm() -> None:
    changed = shadows(grey(), MIDDLE, 3, 0).astype(float)
    light = changed.mean(axis=2) / 120.0
    red_over_blue = changed[..., 0] / changed[..., 2]
    assert red_over_blue[light < 0.7].mean() < 0.9
    assert red_over_blue[(light > 1.2) & (light < 1.9)].mean() > 1.05


def test_drifting_shadows_move_on_and_others_begin_anew() -> None:
    def likeness(condition: Condition) -> float:
        pairs = [(factor(condition, MIDDLE, k), factor(condition, MIDDLE, k + 1)) for k in range(6)]
        way = round(DRIFT * 320)
        return float(np.mean([np.corrcoef(a[:, :-way].ravel(), b[:, way:].ravel())[0, 1] for a, b in pairs]))

    assert min(likeness(drifting_shadows), likeness(drifting_leaf_shade)) > 0.6
    assert max(likeness(shadows), likeness(leaf_shade)) < 0.4


@pytest.mark.parametrize(("severity", "wanted"), ((MILD, 0.1), (MIDDLE, 0.2), (HARD, 0.4)))
def test_traffic_covers_its_share(severity: float, wanted: float) -> None:
    # a grey that nothing is painted in
    shares = [(traffic(grey(1), severity, seed, 2) != 1).any(axis=2).mean() for seed in range(3)]
    assert all(wanted <= share < 1.35 * wanted for share in shares)


def test_traffic_moves() -> None:
    a, b = ((traffic(grey(1), MIDDLE, 3, number) != 1).any(axis=2) for number in (0, 1))
    both = (a & b).sum() / (a | b).sum()
    assert 0.05 < both < 0.95


def test_a_photo_on_disk_under_a_condition(tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "b.jpg"), grey())
    photo_under(tmp_path / "b.jpg", tmp_path / "other.jpg", shadows, MIDDLE, 3, 1)
    stored = cv2.cvtColor(cv2.imread(str(tmp_path / "other.jpg")), cv2.COLOR_BGR2RGB)
    assert np.abs(stored.astype(float) - shadows(grey(), MIDDLE, 3, 1)).mean() < 3.0
