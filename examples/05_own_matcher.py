"""A matcher of your own, without touching SkyAnchor: python examples/05_own_matcher.py RUN [OUT [TRUTH]]

RUN is a run folder with poses. `Orb` below is tried on two of its street photos. With OUT the anchors are located again
with it, on the scaffold and with the settings of RUN; TRUTH is a COLMAP model to measure both against. ORB is short to
write, not good at this: on the demo's run it places no group, and the run says why.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import cv2
import numpy as np

import skyanchor
from skyanchor.matching import Features, Matcher, Own, TwoView, VerifyConfig, match_features, verify
from skyanchor.matching.features import shrunk
from skyanchor.photos import read_pixels
from skyanchor.pipeline import read_settings
from skyanchor.types import Matches, Photo


@dataclass(frozen=True)
class Orb:
    """The choice: what a run's settings name."""

    keypoints: int = 4000
    longest: int = 640

    def load(self, device: str = "auto") -> Matcher:
        return OrbMatcher(self)


class OrbMatcher:
    """OpenCV's ORB; 256 bits become a unit vector, so that the cosine counts those that agree."""

    def __init__(self, choice: Orb) -> None:
        self.choice = choice

    @property
    def key(self) -> str:
        return f"orb {self.choice.keypoints} {self.choice.longest}"

    def extract(self, photo: Photo) -> Features:
        pixels, mask, factor = shrunk(photo, self.choice.longest)
        grey = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)
        allowed = None if mask is None else mask.astype(np.uint8)
        found, words = cv2.ORB_create(self.choice.keypoints, fastThreshold=7).detectAndCompute(grey, allowed)
        bits = np.unpackbits(np.zeros((0, 32), np.uint8) if words is None else words, axis=1)
        xy = np.array([point.pt for point in found]).reshape(-1, 2) + 0.5  # pixel centres at .5
        scores = np.array([point.response for point in found], np.float32)
        scales = np.array([1.2**point.octave for point in found], np.float32)
        height, width = photo.pixels.shape[:2]
        return Features(
            xy * factor, (bits.astype(np.float32) - 0.5) / 8.0, scores, scales * factor, width, height, factor
        )

    def match_extracted(self, a: Features, b: Features) -> Matches:
        pairs = match_features(a, b, ratio=0.9)
        score = (a.descriptors[pairs[:, 0]] * b.descriptors[pairs[:, 1]]).sum(axis=1).astype(np.float64)
        return Matches(a.xy[pairs[:, 0]], b.xy[pairs[:, 1]], score, max(a.sigma_px, b.sigma_px))

    def match(self, a: Photo, b: Photo) -> Matches:
        return self.match_extracted(self.extract(a), self.extract(b))


def main(folder: str, out: str | None = None, truth: str | None = None) -> None:
    run = skyanchor.open_run(folder)
    choice = Own(f"{__file__}:Orb", keypoints=4000, longest=640)
    names = [name for name in run.names if name in run.poses][:2]
    a, b = (Photo(name, read_pixels(run.photos[name])) for name in names)
    matches = choice.load("cpu").match(a, b)
    found = verify(matches.xy_a, matches.xy_b, run.camera, run.camera, matches.sigma_px, VerifyConfig())
    told = f"{found.inliers.sum()} agree with one pose" if isinstance(found, TwoView) else found.detail
    print(f"{a.name} and {b.name}: {len(matches.xy_a)} matches; {told}")

    config = skyanchor.with_matcher(read_settings(run.root) or skyanchor.CPU, choice)
    print("street photos are matched with the aerial model by", config.anchors.refine.matcher)
    if out is not None:
        again = skyanchor.localise(run.prepared.root, run.inputs.ground, out, config)
        print(again)
        for group in again.anchors.groups:
            if group.refusal is not None:
                print(f"group {group.group.index} was refused: {group.refusal.reason}, {group.refusal.detail}")
        if truth is not None:
            print("errors", run.errors(truth), "in RUN,", again.errors(truth), "in OUT")


if __name__ == "__main__":
    if len(sys.argv) < 2 or "--help" in sys.argv:
        print(__doc__)
    else:
        main(*sys.argv[1:4])
