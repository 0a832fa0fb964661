"""RootSIFT through OpenCV."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from skyanchor.matching.choices import Sift
from skyanchor.matching.features import Features, inside_mask, one_per_place, shrunk
from skyanchor.matching.neighbours import as_matches, match_features, paired_cosine
from skyanchor.types import Bytes, Floats, Floats32, Ints, Matches, Photo

SIGMA_PX = 1.0


@dataclass(frozen=True)
class SiftMatcher:
    """Sparse matcher of `Sift`."""

    choice: Sift
    device: str = "cpu"

    @property
    def key(self) -> str:
        """Name and settings of the extraction."""
        return self._key(self.choice.longest)

    def key_of(self, photo: Photo) -> str:
        """The same for a photo: a small one is found again whatever larger ones would be shrunk to."""
        return self._key(min(self.choice.longest, max(photo.pixels.shape[:2])))

    def _key(self, longest: int) -> str:
        return f"sift {self.choice.keypoints} {longest} {self.choice.contrast}"

    def extract(self, photo: Photo) -> Features:
        """RootSIFT keypoints inside the mask, the strongest first."""
        pixels, mask, factor = shrunk(photo, self.choice.longest)
        xy, score, size, sift = _detect(pixels, self.choice)
        keep = np.flatnonzero(inside_mask(xy, mask))
        keep = keep[one_per_place(xy[keep])]
        keep = keep[np.argsort(-score[keep], kind="stable")][: self.choice.keypoints]
        height, width = photo.pixels.shape[:2]
        scale = (size[keep] * factor).astype(np.float32)
        return Features(xy[keep] * factor, root_sift(sift[keep]), score[keep], scale, width, height, SIGMA_PX * factor)

    def pairs(self, a: Features, b: Features) -> Ints:
        """(M, 2), indices of mutual nearest neighbours that pass the ratio test."""
        return match_features(a, b, self.choice.ratio, device=self.device)

    def match_extracted(self, a: Features, b: Features) -> Matches:
        """Correspondences; the score is the cosine between descriptors."""
        pairs = self.pairs(a, b)
        return as_matches(a, b, pairs, paired_cosine(a, b, pairs))

    def match(self, a: Photo, b: Photo) -> Matches:
        """Correspondences between two photos."""
        return self.match_extracted(self.extract(a), self.extract(b))


def _detect(pixels: Bytes, choice: Sift) -> tuple[Floats, Floats32, Floats32, Floats32]:
    """Pixels (N, 2), responses (N,), sizes (N,) in units of the smallest level, descriptors (N, 128)."""
    grey = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)
    detector = cv2.SIFT.create(nfeatures=round(choice.keypoints * 1.25), contrastThreshold=choice.contrast)
    points, descriptors = detector.detectAndCompute(grey, None)
    if descriptors is None or not len(points):
        empty = np.empty(0, np.float32)
        return np.empty((0, 2)), empty, empty, np.empty((0, 128), np.float32)
    xy = np.array([point.pt for point in points], dtype=np.float64).reshape(-1, 2) + 0.5
    response = np.array([point.response for point in points], dtype=np.float32)
    size = np.array([point.size for point in points], dtype=np.float32)
    return xy, response, size / 2.0, np.asarray(descriptors, dtype=np.float32)


def root_sift(descriptors: Floats32) -> Floats32:
    """Unit vectors √(d / |d|₁), whose dot product is the Hellinger kernel, (N, 128)."""
    total = np.maximum(descriptors.sum(axis=1, keepdims=True), 1e-9)
    return np.sqrt(descriptors / total, dtype=np.float32)
