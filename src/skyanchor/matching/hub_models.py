"""Retrieval networks from torch.hub folders that the user has: MegaLoc, SALAD, or any other with a hubconf.py."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch

from skyanchor import weights
from skyanchor.errors import BackendError
from skyanchor.matching.anyloc import normalised
from skyanchor.matching.checkpoints import without_downloads
from skyanchor.matching.global_descriptors import HubModel
from skyanchor.types import Floats32, Photo

NEEDED = {"megaloc": (weights.MEGALOC,), "salad": (weights.SALAD,), "other": ()}


def load(choice: HubModel, device: str) -> HubDescriptor:
    """The descriptor of a choice."""
    return HubDescriptor(load_network(choice, device), choice, device)


def folder_of(repository: str) -> Path:
    """The repository's folder: a path, or its name in torch's hub cache."""
    for folder in (Path(repository), weights.torch_cache() / repository):
        if (folder / "hubconf.py").is_file():
            return folder
    name = repository.removesuffix("_main").replace("_", "/", 1)
    command = f"git clone https://github.com/{name} {weights.torch_cache() / repository}"
    raise BackendError(f"There is no torch.hub folder {repository} here. Get it: {command}")


@lru_cache(maxsize=1)
def load_network(choice: HubModel, device: str) -> Any:
    """The network, by the folder's own code; whatever it would download comes from files or is refused."""
    folder = folder_of(choice.repository)
    local = {known.files[0]: weights.resolve(known) for known in NEEDED[choice.name]}
    local |= {known.files[0]: found for known in weights.KNOWN if (found := weights.find(known)) is not None}
    with without_downloads(local):
        network = torch.hub.load(str(folder), choice.entry, source="local")
    return network.eval().to(device)


class HubDescriptor:
    """Global descriptor of `HubModel`."""

    def __init__(self, network: Any, choice: HubModel, device: str) -> None:
        self.network = network
        self.choice = choice
        self.device = device

    @property
    def key(self) -> str:
        """Name and settings."""
        return f"{self.choice.repository} {self.choice.entry} {self.choice.side}"

    def describe(self, photo: Photo) -> Floats32:
        """(D,), unit."""
        size = (self.choice.side, self.choice.side)
        pixels = cv2.resize(photo.pixels, size, interpolation=cv2.INTER_AREA)
        with torch.inference_mode():
            found = self.network(normalised(pixels, self.device)).reshape(-1).float()
        return np.asarray(torch.nn.functional.normalize(found, dim=0).cpu().numpy(), dtype=np.float32)
