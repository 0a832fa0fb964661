"""A matcher as a user may write it: SIFT with another ratio, and what must be refused."""

from __future__ import annotations

from dataclasses import dataclass

from skyanchor.matching import Matcher, Sift


@dataclass(frozen=True)
class Mine:
    keypoints: int = 1000
    longest: int = 800

    def load(self, device: str = "auto") -> Matcher:
        return Sift(self.keypoints, self.longest, ratio=0.9).load(device)


@dataclass(frozen=True)
class Half:
    keypoints: int = 1000
    longest: int = 800

    def load(self, device: str = "auto") -> str:
        return "a word is no matcher"
