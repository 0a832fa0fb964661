"""Any matcher of the `vismatch` package by its name; the package finds its own weights."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from skyanchor.backends.packages import imported, missing
from skyanchor.errors import BackendError
from skyanchor.matching.choices import VISMATCH, Vismatch
from skyanchor.matching.dense import Crops, DenseMatcher
from skyanchor.types import Bytes, Matches

OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
"""Environment variables that keep the Hugging Face hub from connecting."""


def load(choice: Vismatch, device: str) -> DenseMatcher:
    """The matcher of a choice."""
    network = VismatchNetwork(load_network(choice.name, device, choice.keypoints), choice.longest, choice.sigma)
    return DenseMatcher(network, f"vismatch {choice.name}", choice.keypoints, choice.longest, Crops(0))


@lru_cache(maxsize=2)
def load_network(name: str, device: str, keypoints: int) -> Any:
    """The package's matcher."""
    with _offline():
        vismatch = imported(VISMATCH)
    if name not in vismatch.available_models:
        raise BackendError(f"vismatch has no matcher {name}. It has: {', '.join(vismatch.available_models)}")
    try:
        with _offline():
            return vismatch.get_matcher(name, device=device, max_num_keypoints=keypoints).eval()
    except ModuleNotFoundError as error:
        raise BackendError(missing(VISMATCH, error.name or "")) from error
    except (OSError, RuntimeError) as error:
        command = f'python -c "import vismatch; vismatch.get_matcher({name!r})"'
        raise BackendError(f"The weights of {name} are not here. Let vismatch get them once: {command}") from error


@contextmanager
def _offline() -> Iterator[None]:
    before = {variable: os.environ.get(variable) for variable in OFFLINE}
    os.environ.update(dict.fromkeys(OFFLINE, "1"))
    try:
        yield
    finally:
        for variable, value in before.items():
            if value is None:
                os.environ.pop(variable, None)
            else:
                os.environ[variable] = value


class VismatchNetwork:
    """Pair network around one of the package's matchers."""

    def __init__(self, network: Any, side: int, sigma: float) -> None:
        self.network = network
        self.side = side
        self.sigma = sigma

    def match_pixels(self, a: Bytes, b: Bytes) -> Matches:
        """The package's matches before its homography test; the score is its confidence, 1 where it gives none."""
        images = [torch.from_numpy(np.ascontiguousarray(pixels)).permute(2, 0, 1).float() / 255.0 for pixels in (a, b)]
        found = self.network(*images)
        xy_a, xy_b = (np.asarray(found[f"matched_kpts{k}"], np.float64).reshape(-1, 2) + 0.5 for k in (0, 1))
        given = found.get("matched_confidences")
        score = np.ones(len(xy_a)) if given is None else np.asarray(given, np.float64)
        return Matches(xy_a, xy_b, score, self.sigma)
