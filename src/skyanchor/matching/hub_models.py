"""Retrieval networks from torch.hub folders that the user has: MegaLoc, SALAD, or any other with a hubconf.py."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import cv2
import numpy as np
import torch

from skyanchor.backends import weights
from skyanchor.backends.checkpoints import without_downloads
from skyanchor.matching.anyloc import normalised
from skyanchor.matching.global_descriptors import HubModel
from skyanchor.matching.needs import HUB, hub_folder
from skyanchor.types import Floats32, Photo


def load(choice: HubModel, device: str) -> HubDescriptor:
    """The descriptor of a choice."""
    return HubDescriptor(load_network(choice, device), choice, device)


@lru_cache(maxsize=1)
def load_network(choice: HubModel, device: str) -> Any:
    """The network, by the folder's own code; whatever it would download comes from files or is refused."""
    folder = hub_folder(choice.repository)
    local = {known.files[0]: weights.resolve(known) for known in HUB[choice.name]}
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
