"""One contract for every whole-image descriptor: unit, repeatable, quiet, and it finds the place again."""

from __future__ import annotations

from typing import get_args

import cv2
import numpy as np
import pytest

from skyanchor.backends.names import name_of
from skyanchor.errors import BackendError
from skyanchor.matching import Sift
from skyanchor.matching.global_descriptors import (
    AnyDescriptor,
    AnyLoc,
    HubModel,
    MegaLoc,
    Salad,
    SceneVlad,
    described,
)
from skyanchor.matching.retrieval import ranked
from skyanchor.types import Photo

CHOICES = [
    SceneVlad(Sift(keypoints=300), 16),
    AnyLoc("s"),
    AnyLoc("b"),
    AnyLoc("g", vocabulary="urban"),
    MegaLoc(),
    Salad(),
]
HUBCONF = """
import torch

class Corners(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.adaptive_avg_pool2d(x, 12).flatten(1)

def corners():
    return Corners()
"""
"""A torch.hub folder as a user may have it."""


def photo(seed: int, shift: int = 0) -> Photo:
    rng = np.random.default_rng(seed)
    pixels = np.zeros((260, 340, 3), np.float32)
    for cell in (6, 14, 40):
        grid = rng.normal(size=(260 // cell + 2, 340 // cell + 2, 3)).astype(np.float32)
        pixels += cell**0.5 * cv2.resize(grid, (340, 260), interpolation=cv2.INTER_CUBIC)
    scaled = 255 * (pixels - pixels.min()) / (pixels.max() - pixels.min())
    return Photo(str(seed), scaled[shift : shift + 224, shift : shift + 308].astype(np.uint8))


@pytest.fixture(scope="module")
def scene() -> list[Photo]:
    return [photo(seed) for seed in range(5)]


@pytest.fixture(scope="module", params=[*CHOICES, HubModel], ids=[*map(name_of, CHOICES), "hub-model"])
def descriptor(request: pytest.FixtureRequest, scene: list[Photo], tmp_path_factory: pytest.TempPathFactory):
    choice = request.param
    if choice is HubModel:
        folder = tmp_path_factory.mktemp("hub")
        (folder / "hubconf.py").write_text(HUBCONF)
        choice = HubModel(str(folder), "corners")
    try:
        choice.check()
        return choice.load("cpu", scene)
    except BackendError as error:
        pytest.skip(str(error))


def test_descriptors_are_unit_repeatable_and_quiet(descriptor, scene, capfd):
    first, again = descriptor.describe(scene[0]), descriptor.describe(scene[0])
    assert first.ndim == 1 and np.linalg.norm(first) == pytest.approx(1.0, abs=1e-4)
    assert np.array_equal(first, again) and descriptor.key
    assert capfd.readouterr().out == ""


def test_shifted_photos_find_their_place(descriptor, scene):
    queries = described(descriptor, [photo(seed, shift=12) for seed in range(5)])
    assert ranked(queries, described(descriptor, scene), 1)[:, 0].tolist() == list(range(5))


def test_the_contract_covers_every_kind():
    assert {type(choice) for choice in CHOICES} | {HubModel} == set(get_args(AnyDescriptor))
