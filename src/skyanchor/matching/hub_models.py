"""Retrieval networks from torch.hub folders that the user has: MegaLoc, SALAD, or any other with a hubconf.py."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch

from skyanchor.backends import weights
from skyanchor.backends.checkpoints import checked, without_downloads
from skyanchor.backends.hub import HubFolder
from skyanchor.errors import BackendError
from skyanchor.matching.anyloc import normalised
from skyanchor.matching.global_descriptors import HubModel
from skyanchor.types import Floats32, Photo


def load(choice: HubModel, device: str, *known: weights.Weights) -> HubDescriptor:
    """The descriptor of a choice, whose code will ask for the known weights."""
    folder = HubFolder(choice.repository).found()
    network = load_network(folder, choice.entry, device, *((one.files[0], checked(one)) for one in known))
    return HubDescriptor(network, choice, device)


@lru_cache(maxsize=1)
def load_network(folder: Path, entry: str, device: str, *local: tuple[str, Path]) -> Any:
    """The network, by the folder's own code; whatever it would download comes from files or is refused."""
    others = {known.files[0]: found for known in weights.KNOWN if (found := weights.find(known)) is not None}
    try:
        with without_downloads(others | dict(local)):
            network = torch.hub.load(str(folder), entry, source="local")
    except (ImportError, RuntimeError, AttributeError) as error:
        reason = str(error).partition("\n")[0]
        advice = f"Try it: torch.hub.load({str(folder)!r}, {entry!r}, source='local')"
        raise BackendError(f"{folder / 'hubconf.py'} gives no {entry} ({reason}). {advice}") from error
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
