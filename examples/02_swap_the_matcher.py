"""A matcher is a frozen choice: swap it, everything else stays: python examples/02_swap_the_matcher.py RUN

RUN is a run folder with poses. Two neighbouring street photos are matched, and the poses say which matches are right.
Keypoints of XFeat are whole pixels of the picture that its network sees, whose sides are multiples of 32: in a photo
280 pixels wide they lie 280 / 256 = 1.09 pixels apart, and 20 pixels are measured as 18 of these, 19.69. Those of SIFT
are interpolated, XFeat* moves its own inside a cell; `sigma_px` tells the geometry what to expect.
"""

from __future__ import annotations

import sys

import numpy as np

import skyanchor
from skyanchor import Camera, Pose
from skyanchor.geometry import cameras
from skyanchor.matching import Sift, XFeat, XFeatStar
from skyanchor.photos import read_pixels
from skyanchor.types import Floats, Matches, Photo


def off_the_line(matches: Matches, camera: Camera, b_from_a: Pose) -> Floats:
    """(N,), distance of the matches in b from the line on which the pose lets them lie, pixels."""
    rays_a, rays_b = (cameras.unproject(camera, xy) for xy in (matches.xy_a, matches.xy_b))
    lines = np.cross(np.broadcast_to(b_from_a.translation, rays_a.shape), rays_a @ b_from_a.rotation.T)
    distances = np.abs((lines * rays_b).sum(axis=1)) / np.linalg.norm(lines[:, :2], axis=1)
    return cameras.focal_px(camera) * distances


def main(folder: str) -> None:
    run = skyanchor.open_run(folder)
    middle = len(run.poses) // 2
    names = [name for name in run.names if name in run.poses][middle : middle + 2]
    a, b = (Photo(name, read_pixels(run.photos[name])) for name in names)
    b_from_a = run.poses[b.name] @ run.poses[a.name].inverse
    for choice in (Sift(), XFeat(), XFeatStar()):
        matches = choice.load("cpu").match(a, b)
        off = off_the_line(matches, run.camera, b_from_a)
        right = off < 3.0 * matches.sigma_px
        figures = f"{len(off)} matches, {right.mean():.0%} right, these {np.median(off[right]):.2f} px off"
        print(f"{type(choice).__name__}: {figures} (sigma_px {matches.sigma_px:.2f})")


if __name__ == "__main__":
    if len(sys.argv) < 2 or "--help" in sys.argv:
        print(__doc__)
    else:
        main(sys.argv[1])
