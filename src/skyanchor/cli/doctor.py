"""What of SkyAnchor can run on this machine, and how to get the rest."""

from __future__ import annotations

import importlib.util
import platform
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from skyanchor.backends.choices import Choice
from skyanchor.backends.names import named
from skyanchor.backends.packages import Package
from skyanchor.errors import SkyAnchorError
from skyanchor.evaluation import perceptual
from skyanchor.feedforward import AnyLocal
from skyanchor.gaussians.devices import AnyRasteriser
from skyanchor.gaussians.gsplat_adapter import missing_for_cuda
from skyanchor.matching import AnyMatcher
from skyanchor.matching.global_descriptors import AnyDescriptor
from skyanchor.stereo import AnyStereo

ROLES = {
    "matcher": AnyMatcher,
    "place finding": AnyDescriptor,
    "local reconstruction": AnyLocal,
    "stereo": AnyStereo,
    "rasteriser": AnyRasteriser,
}
"""What backends are for, and the choices there are."""
CORE = ("numpy", "scipy", "pycolmap", "opencv-python-headless", "torch", "numba", "poselib", "pillow", "tyro", "rich")
VIEWER = Package("viser", "viser", "pip install -c constraints.txt viser")


@dataclass(frozen=True)
class Finding:
    """One part of the machine or the installation."""

    part: str
    usable: bool
    detail: str
    """What was found."""
    advice: str = ""
    """How to get it, where it is missing."""


def verdict() -> str:
    """Where everything runs on this machine, in one sentence."""
    absent = [finding.part for finding in _core() if not finding.usable]
    if absent:
        return f"SkyAnchor does not run here: {', '.join(absent)} of its own packages are missing."
    gpu, reason = _gpu(), missing_for_cuda()
    if not gpu.usable:
        return "Everything runs on this CPU; for the GPU, take an NVIDIA one and a CUDA build of torch."
    if reason is not None:
        return f"Everything runs on this CPU; for the GPU ({gpu.detail}): {reason}."
    return f"Everything runs on this GPU ({gpu.detail})."


def diagnose() -> tuple[Finding, ...]:
    """Everything a user may wonder about, the necessary parts first; every choice of a backend is really tried."""
    return (
        _python(),
        *_core(),
        _gpu(),
        *(_choice(f"{role} {name}", choice) for role, union in ROLES.items() for name, choice in named(union).items()),
        _viewer(),
        _lpips(),
    )


def _python() -> Finding:
    version = platform.python_version()
    usable = sys.version_info >= (3, 11)
    return Finding("Python", usable, version, "" if usable else "Use Python 3.11 or newer.")


def _core() -> Iterator[Finding]:
    for name in CORE:
        package = Package(name, name, f"pip install -c constraints.txt {name}")
        version = package.place()
        yield Finding(name, version is not None, version or "not installed", "" if version else package.command)


def _choice(part: str, choice: Choice) -> Finding:
    """A choice with its default settings, tried as a run would; what is absent is told with all commands at once."""
    places = [(need, need.place()) for need in choice.needs]
    held = ", ".join(f"{need.label}: {place or 'not found'}" for need, place in places) or "part of SkyAnchor"
    absent = [need.command for need, place in places if place is None]
    try:
        choice.check()
    except SkyAnchorError as error:
        known = any(command in str(error) for command in absent)
        return Finding(part, False, held, "; ".join(absent if known else [str(error), *absent]))
    return Finding(part, True, held)


def _viewer() -> Finding:
    version = VIEWER.place()
    advice = "" if version else VIEWER.command
    return Finding("live viewer", version is not None, f"{VIEWER.name} {version or 'not installed'}", advice)


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
