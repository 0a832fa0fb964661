"""RoMa and vismatch adapters with stand-ins for the packages: coordinates, masks, refusals."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch

from skyanchor.backends.checkpoints import without_downloads
from skyanchor.errors import BackendError
from skyanchor.matching import LighterGlue, Roma, Vismatch, roma, vismatch_adapter
from skyanchor.types import Photo

MOVE = (0.25, -0.125)
"""Of the second image against the first, with the image spanning -1..1."""


def noise(height: int, width: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (height, width, 3)).astype(np.uint8)


def moved_grid(height: int, width: int) -> torch.Tensor:
    return roma.centres(height, width, "cpu") + torch.tensor(MOVE)


class FakeRoma:
    def match(self, a, b, device):
        here, there = roma.centres(20, 30, "cpu"), moved_grid(20, 30)
        back = torch.cat([here - torch.tensor(MOVE), here], dim=-1)
        warp = torch.cat([torch.cat([here, there], dim=-1), back], dim=1)[None]
        certainty = torch.full(warp.shape[:3], 0.9)
        certainty[:, :5] = 0.01
        return warp, certainty


class FakeRomaV2:
    def match(self, a, b):
        assert a.shape == (100, 150, 3) and b.shape == (60, 80, 3)
        one = torch.ones(1, 20, 30, 1)
        here = roma.centres(20, 30, "cpu")
        found = {"warp_AB": moved_grid(20, 30)[None], "overlap_AB": one}
        return found | {"warp_BA": (here - torch.tensor(MOVE))[None], "overlap_BA": 0.5 * one}


@pytest.mark.parametrize("network", [roma.RomaNetwork(FakeRoma(), "cpu"), roma.RomaV2Network(FakeRomaV2())])
def test_warps_become_pixels_of_both_photos(network):
    a, b = noise(100, 150), noise(60, 80)
    found = network.match_pixels(a, b)
    assert len(found.score) > 500 and (found.score > 0.05).all()
    unit_a, unit_b = found.xy_a / [150, 100] * 2 - 1, found.xy_b / [80, 60] * 2 - 1
    assert np.allclose(unit_b - unit_a, MOVE, atol=1e-6)
    assert (found.xy_a > 0).all() and (found.xy_b < [80, 60]).all()
    assert found.sigma_px == 0.5


def test_centres_are_those_of_pixels():
    grid = roma.centres(2, 4, "cpu")
    assert torch.allclose(grid[0, :, 0], torch.tensor([-0.75, -0.25, 0.25, 0.75]))
    assert torch.allclose(grid[:, 0, 1], torch.tensor([-0.5, 0.5]))


class FakeNet:
    def __init__(self) -> None:
        self.eval = lambda: self

    def __call__(self, a, b):
        assert a.shape[0] == 3 and float(a.max()) <= 1.0
        xy = np.stack(np.meshgrid(np.arange(0, 60, 3), np.arange(0, 40, 3)), -1).reshape(-1, 2).astype(np.float32)
        return {"matched_kpts0": xy, "matched_kpts1": xy + 5, "matched_confidences": None}


@pytest.fixture()
def vismatch(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    module = ModuleType("vismatch")
    module.available_models = ["good", "weightless"]

    def get_matcher(name: str, device: str, max_num_keypoints: int):
        import os

        assert os.environ["HF_HUB_OFFLINE"] == "1"
        if name == "weightless":
            raise OSError("offline")
        return FakeNet()

    module.get_matcher = get_matcher
    monkeypatch.setitem(sys.modules, "vismatch", module)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    vismatch_adapter.load_network.cache_clear()
    return module


def test_any_vismatch_matcher_by_name(vismatch, monkeypatch):
    a, b = Photo("a", noise(100, 140)), Photo("b", noise(110, 150))
    mask = np.ones((100, 140), bool)
    mask[:, :40] = False
    found = Vismatch(name="good", longest=75).load("cpu").match(Photo("a", a.pixels, mask), b)
    # a is shrunk by 140 / 75, b by 2; a keypoint at pixel (0, 0) is the centre of the first pixel
    factor = np.array([140 / 75] * 2)
    expected = (found.xy_a / factor + 5) * 2.0
    assert len(found.score) > 20 and np.allclose(found.xy_b, expected)
    steps = (found.xy_a / factor - 0.5) / 3
    assert np.allclose(steps, np.round(steps)) and found.xy_a[:, 0].min() > 40
    assert found.sigma_px == pytest.approx(2.0)
    import os

    assert "HF_HUB_OFFLINE" not in os.environ


def test_vismatch_refusals_say_what_to_do(vismatch, monkeypatch):
    with pytest.raises(BackendError, match="It has: good, weightless"):
        Vismatch(name="unheard-of").load("cpu")
    with pytest.raises(BackendError, match=r"vismatch\.get_matcher\('weightless'\)"):
        Vismatch(name="weightless").load("cpu")
    monkeypatch.setitem(sys.modules, "vismatch", None)
    vismatch_adapter.load_network.cache_clear()
    with pytest.raises(BackendError, match=r"pip install vismatch==1\.4\.0"):
        Vismatch(name="good").load("cpu")


def test_missing_roma_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("romatch", "romav2"):
        monkeypatch.setitem(sys.modules, name, None)
    torch.save({"a": torch.zeros(1)}, tmp_path / "roma_outdoor.pth")
    with pytest.raises(BackendError, match=r"pip install romav2==2\.0\.1"):
        Roma(version=2, weights=tmp_path / "roma_outdoor.pth").load("cpu")
    with pytest.raises(BackendError, match=r"pip install romatch==0\.1\.2"):
        Roma(weights=tmp_path / "roma_outdoor.pth", encoder=tmp_path / "roma_outdoor.pth").load("cpu")


def test_weights_of_another_network_are_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def start(**_: object) -> None:
        network = torch.nn.Linear(2, 2)
        network.load_state_dict({"weight": torch.zeros(3, 3), "bias": torch.zeros(2), "more": torch.zeros(1)})

    for name, entry in (("romatch", "roma_outdoor"), ("romav2", "RoMaV2")):
        module = ModuleType(name)
        setattr(module, entry, start)
        monkeypatch.setitem(sys.modules, name, module)
    path = tmp_path / "other.pth"
    torch.save({"a": torch.zeros(1)}, path)
    for choice in (Roma(weights=path, encoder=path), Roma(version=2, weights=path)):
        with pytest.raises(BackendError, match=r"other\.pth belongs to another architecture than RoMa") as told:
            choice.load("cpu")
        assert "\n" not in str(told.value) and "more" in str(told.value)


def test_packages_read_local_files_instead_of_downloading(tmp_path: Path):
    path = tmp_path / "mine.pt"
    torch.save({"w": torch.arange(3.0)}, path)
    before = torch.hub.load_state_dict_from_url
    with without_downloads({"romav2.0.1.pt": path}):
        assert torch.equal(torch.hub.load_state_dict_from_url("https://x.org/romav2.0.1.pt")["w"], torch.arange(3.0))
        with pytest.raises(BackendError, match="would be downloaded"):
            torch.hub.load_state_dict_from_url("https://x.org/other.pt")
        with pytest.raises(BackendError, match="would be downloaded"):
            torch.hub.download_url_to_file("https://x.org/code.zip", str(tmp_path / "code.zip"))
    assert torch.hub.load_state_dict_from_url is before


def test_lighterglue_shares_the_features_of_xfeat():
    from skyanchor.matching import XFeat

    assert LighterGlue(500, 320).load("cpu").key == XFeat(500, 320).load("cpu").key


def test_attention_of_glue_is_not_compiled_for_every_number_of_keypoints(monkeypatch: pytest.MonkeyPatch):
    """cuDNN's attention is: each pair of photos would wait for a compiler."""
    from skyanchor.matching import XFeat

    features = XFeat(50, 320).load("cpu").extract(Photo("a", noise(96, 128)))
    matcher, asked = LighterGlue(50, 320).load("cpu"), []

    def network(pair):
        asked.append((torch.backends.cuda.cudnn_sdp_enabled(), torch.backends.cuda.math_sdp_enabled()))
        return {"matches": [torch.zeros(0, 2)], "scores": [torch.zeros(0)]}

    network.conf = SimpleNamespace()
    monkeypatch.setattr(matcher, "network", network)
    assert matcher.pairs(features, features).shape == (0, 2) and asked == [(False, True)]
    assert torch.backends.cuda.cudnn_sdp_enabled()
