"""A matcher is a frozen choice: swap it in one line, everything else stays."""

from __future__ import annotations

import cv2
import numpy as np

from skyanchor.matching import Sift, XFeat
from skyanchor.types import Photo


def texture(seed: int = 0) -> np.ndarray:
    noise = np.random.default_rng(seed).integers(0, 255, (60, 80, 3), dtype=np.uint8)
    return cv2.GaussianBlur(cv2.resize(noise, (320, 240), interpolation=cv2.INTER_NEAREST), (0, 0), 1.0)


def main() -> None:
    picture = texture()
    a = Photo("a", picture[:, :280])
    b = Photo("b", picture[:, 20:300])  # the same wall, 20 pixels to the right
    for choice in (Sift(), XFeat()):
        matches = choice.load("cpu").match(a, b)
        shift = np.median(matches.xy_a - matches.xy_b, axis=0)
        print(f"{type(choice).__name__}: {len(matches.xy_a)} matches, median shift {shift.round(2)}")


if __name__ == "__main__":
    main()
