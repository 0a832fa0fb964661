"""What a camera does to its photos: how much, and nothing at severity zero."""

from __future__ import annotations

import importlib
from dataclasses import fields
from pathlib import Path

import cv2
import numpy as np
import pytest

from skyanchor.town import CLEAR
from skyanchor.town.conditions import (
    HARD,
    MIDDLE,
    MILD,
    Condition,
    drifting_leaf_shade,
    drifting_shadows,
    leaf_shade,
    shadows,
    traffic,
)
from skyanchor.town.spoiling import (
    OPERATIONS,
    compression,
    defocus,
    exposure,
    mbit_per_s,
    motion_blur,
    spoiled,
)
from skyanchor.town.weather import Photos, changed
from skyanchor.types import Bytes, Floats

ROOT = Path(__file__).parents[2]


def textured() -> Bytes:
    rng = np.random.default_rng(4)
    coarse = rng.uniform(30.0, 220.0, (45, 80, 3)).astype(np.float32)
    return np.clip(cv2.resize(coarse, (320, 180), interpolation=cv2.INTER_CUBIC), 0, 255).astype(np.uint8)


def sharpness(pixels: Bytes) -> Floats:
    """Variance of the differences along x and along y."""
    grey = pixels.mean(axis=2)
    return np.array([np.diff(grey, axis=1).var(), np.diff(grey, axis=0).var()])


@pytest.mark.parametrize("name", list(OPERATIONS))
def test_severity_zero_leaves_the_photo_and_one_seed_gives_one_photo(name: str) -> None:
    operation = OPERATIONS[name]
    assert np.array_equal(operation(textured(), 0.0, 3, 5), textured())
    once, again = (operation(textured(), MIDDLE, 3, 12) for _ in range(2))
    assert np.array_equal(once, again)
    assert not np.array_equal(once, textured())


@pytest.mark.parametrize("operation", [motion_blur, defocus])
def test_blur_takes_detail_and_leaves_the_light(operation: Condition) -> None:
    shown = [operation(textured(), severity, 3, 7) for severity in (MILD, MIDDLE, HARD)]
    detail = [sharpness(textured()).sum(), *(sharpness(one).sum() for one in shown)]
    assert detail[0] > detail[1] > detail[2] > detail[3] > 0.0
    linear = [np.mean((pixels / 255.0) ** 2.2) for pixels in (textured(), *shown)]
    assert np.allclose(linear, linear[0], rtol=0.03)


def test_motion_smears_along_its_way() -> None:
    left = np.mean([sharpness(motion_blur(textured(), HARD, 3, k)) for k in range(8)], axis=0) / sharpness(textured())
    assert left[0] < 0.7 * left[1]


def test_a_blurred_point_stays_in_its_place() -> None:
    dot = np.zeros((61, 61, 3), np.uint8)
    dot[30, 30] = 255
    for operation in (motion_blur, defocus):
        light = (operation(dot, HARD, 3, 2)[..., 0] / 255.0) ** 2.2
        middle = [np.sum(light * axis) / light.sum() for axis in np.mgrid[0:61, 0:61]]
        assert np.allclose(middle, 30.0, atol=0.1)


def test_the_exposure_jumps_and_stays_for_some_photos() -> None:
    grey = np.full((4, 4, 3), 90, np.uint8)
    shown = [float(exposure(grey, HARD, 3, k).mean()) for k in range(40)]
    changes = np.flatnonzero(np.diff(shown))
    assert 4 <= len(changes) <= 13
    stops = 2.2 * np.log2(np.array(shown) / 90.0)
    assert 1.0 < stops.max() - stops.min() <= 4.1


def test_a_video_has_its_bit_rate() -> None:
    assert [mbit_per_s(severity) for severity in (MILD, MIDDLE, HARD)] == pytest.approx([8.0, 4.0, 2.0])
    errors = [np.abs(compression(textured(), s, 3, 0).astype(float) - textured()).mean() for s in (MILD, HARD)]
    assert 0.0 < errors[0] < errors[1]


def test_every_operation_is_a_setting_and_every_setting_an_operation() -> None:
    """What lies over a photo in `conditions` can be asked for by name, and is what that name does."""
    assert list(OPERATIONS) == [field.name for field in fields(Photos)]
    held = set(OPERATIONS.values())
    over_photos = {shadows, drifting_shadows, leaf_shade, drifting_leaf_shade, traffic}
    assert over_photos <= held and len(held) == len(OPERATIONS)
    for name, operation in OPERATIONS.items():
        day = changed(CLEAR, [f"photos.{name}={MIDDLE}"]).photos
        assert np.array_equal(spoiled(textured(), day, 3, 4), operation(textured(), MIDDLE, 3, 4)), name


def test_every_operation_is_a_condition_of_the_benchmark_and_in_the_docs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    hard = importlib.import_module("hard")
    listed = (ROOT / "docs/commands.md").read_text()
    for name in OPERATIONS:
        hardship = hard.CONDITIONS[name.replace("_", "-")]
        assert hardship.operation == name and getattr(hardship.weather("hard").photos, name) == HARD
        assert f"| `photos.{name}` |" in listed


def test_all_of_it_comes_in_order() -> None:
    both = spoiled(textured(), Photos(defocus=MIDDLE, compression=MIDDLE), 3, 4)
    assert np.array_equal(both, compression(defocus(textured(), MIDDLE, 3, 4), MIDDLE, 3, 4))
    assert np.array_equal(spoiled(textured(), Photos(), 3, 4), textured())
