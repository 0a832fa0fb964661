"""A matcher that knows which pixels of the tests' street show the same spot: off by noise, a share of them wrong."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from anchors_street import AERIAL, GROUND, aerial_poses, faces, shoot, street_poses

from skyanchor.geometry import cameras
from skyanchor.geometry.depth import inside, under
from skyanchor.matching import Features
from skyanchor.types import Camera, Floats, Matches, Photo, Pose

COPY = np.array([0.0, 6.0, 0.0])
"""From a spot to the one that looks the same, metres along the street."""


EACH = 500
"""Spots of each face."""
ON_FRONT = np.arange(len(faces())).repeat(EACH) == len(faces()) - 1
"""(N,), which landmarks are on the last face, across the end of the street."""


@cache
def landmarks() -> Floats:
    """(N, 3), spots of the ground and the facades."""
    rng = np.random.default_rng(3)
    spots = []
    for face in faces():
        u, v = rng.random((2, EACH, 1)) * np.array(face.size)[:, None, None]
        spots.append(face.corner + u * face.first + v * face.second)
    return np.concatenate(spots)


@cache
def seen(name: str, copied: bool = False) -> Floats:
    """(N, 2), where a photo shows the landmarks, or their copies; nan where it does not."""
    camera, pose = _taken(name[0], int(name[1:3]))
    in_cam = pose(landmarks() + COPY * copied)
    xy = cameras.project(camera, in_cam)
    depth = shoot(camera, pose)[1]
    shown = inside(camera, np.nan_to_num(xy, nan=-1.0)) & (in_cam[:, 2] > 0.2)
    at = under(depth, np.where(shown[:, None], np.nan_to_num(xy), 1.0))
    shown &= np.abs(at - in_cam[:, 2]) < 0.1 + 0.02 * in_cam[:, 2]
    return np.where(shown[:, None], xy, np.nan)


def _taken(kind: str, number: int) -> tuple[Camera, Pose]:
    return (AERIAL, aerial_poses()[number]) if kind == "a" else (GROUND, street_poses()[number])


@dataclass(frozen=True)
class Oracle:
    """As a choice and as the matcher that it loads: pairs of pixels alone, which make no tracks by themselves."""

    noise_px: float = 0.7
    """Standard deviation of a pixel along an axis."""
    wrong: float = 0.2
    """Share of matches that lead anywhere, 0..1."""
    blind: bool = False
    """Wrong about every aerial photo: what it matches is never the same spot."""
    copied: float = 0.0
    """Share of the matches of street and aerial photos that lead to the copy of the spot, 0..1."""
    front: bool = False
    """Whether street and aerial photos match on the facade across the end of the street alone."""
    most: int = 10_000
    """Matches of two photos."""
    draw: int = 0

    @property
    def key(self) -> str:
        return f"oracle {self}"

    def load(self) -> Oracle:
        return self

    def extract(self, photo: Photo) -> Features:
        code, one = np.frombuffer(photo.name.encode(), np.uint8).astype(np.float32)[None], np.ones(1, np.float32)
        size = (AERIAL if photo.name[0] == "a" else GROUND).width, 1
        return Features(np.zeros((1, 2)), code, one, one, *size, 1.0)

    def match_extracted(self, a: Features, b: Features) -> Matches:
        names = [bytes(one.descriptors[0].astype(np.uint8)).decode() for one in (a, b)]
        rng = np.random.default_rng(sum(names[0].encode()) * 1000 + sum(names[1].encode()) + 1_000_000 * self.draw)
        across = names[0][0] != names[1][0]
        shown_a, shown_b = (self._shown(name, across) for name in names)
        both = np.isfinite(shown_a[:, 0]) & np.isfinite(shown_b[:, 0])
        rows = np.flatnonzero(both & (ON_FRONT if across and self.front else True))
        rows = np.sort(rng.permutation(rows)[: self.most]) if len(rows) > self.most else rows
        xy_a, xy_b = (xy[rows] + rng.normal(0, self.noise_px, (len(rows), 2)) for xy in (shown_a, shown_b))
        wrong = rng.random(len(rows)) < (1.0 if self.blind and "a" in (names[0][0], names[1][0]) else self.wrong)
        xy_b[wrong] = rng.uniform(0, [b.width, 0.6 * b.width], (int(wrong.sum()), 2))
        return Matches(xy_a, xy_b, np.ones(len(rows)), 1.0)

    def _shown(self, name: str, across: bool) -> Floats:
        """(N, 2), pixels of the landmarks in a photo; of the same share of copies in every aerial one."""
        if not across or name[0] != "a" or self.copied == 0.0:
            return seen(name)
        fooled = np.random.default_rng(9).random(len(landmarks())) < self.copied
        return np.where(fooled[:, None], seen(name, copied=True), seen(name))

    def match(self, a: Photo, b: Photo) -> Matches:
        return self.match_extracted(self.extract(a), self.extract(b))
