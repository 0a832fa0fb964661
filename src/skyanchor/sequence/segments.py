"""Where a walk is cut: said by the user, or found where photos do not go on from those before them.

A lift, a paused video, two walks in one folder: what lies between is unknown, so neither dead reckoning nor submaps nor
the verdicts of groups on each other reach across.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

import numpy as np
import poselib

from skyanchor.bounds import Few
from skyanchor.errors import InputError
from skyanchor.events import Listener, Progress, silent
from skyanchor.matching import AnySparse, Features, Sift, SparseMatcher, TwoView, VerifyConfig, verify
from skyanchor.photos import read_frame
from skyanchor.sequence import submaps
from skyanchor.sequence.submaps import SubmapConfig
from skyanchor.types import Frame, Sequence

VERIFY = VerifyConfig(trials=(50, 2000))
"""When a photo goes on from another with the camera as far as it is known."""
MANY, HALF = 60, 0.5
"""Matches, and share of all, that agree with some motion of some camera where a photo goes on: the focal length may be
a guess. Windows of two streets agree by chance, with a motion that nobody has to explain, in half as many."""


GLANCE = Sift(keypoints=800, longest=480)
"""Photos of a walk that is only looked at, not located."""
PART = 20
"""Photos of a walk that are looked at in one go."""
GOING_ON = "photos that go on"
"""What is told of the progress."""

Looked: TypeAlias = Callable[[tuple[tuple[int, int], ...]], list[tuple[int, ...]]]
"""What `cuts_among` gives for each of several parts (first, end) of a walk."""


@dataclass(frozen=True)
class SegmentConfig:
    """Where the walk is cut."""

    begin: tuple[str, ...] = ()
    """Photos that begin a new stretch, by name or by number from 0."""
    find: bool = True
    """Whether cuts are also looked for where photos do not match those before them."""
    glance: AnySparse | None = None
    """Each photo with the next; most of them go on. None is what measures the steps of a run, else small SIFT."""
    look: AnySparse = field(default_factory=lambda: Sift(keypoints=3000, longest=1280))
    """Photos that seem not to."""
    reach: Few = 3
    """Photos on either side that are tried before a cut is believed: one alone may be blurred or hidden."""


# --- what the user says ---------------------------------------------------------------------------------------------


def said(frames: tuple[Frame, ...], config: SegmentConfig, root: Path) -> tuple[int, ...]:
    """The frames that begin a stretch as the user says; InputError for one that is not there."""
    names = {name: frame.index for frame in frames for name in (Path(frame.name).stem, frame.name)}
    names |= {str(k): k for k in range(len(frames)) if str(k) not in names}
    unknown = [name for name in config.begin if name not in names]
    if unknown:
        raise InputError(root, f"has no photo {unknown[0]}", "Name the photo that begins a stretch, or its number.")
    return tuple(sorted({names[name] for name in config.begin} - {0}))


def cut_at(sequence: Sequence, cuts: Iterable[int], config: SubmapConfig) -> Sequence:
    """The sequence with submaps and groups that lie in one stretch each."""
    cuts = tuple(sorted(set(cuts)))
    parts = submaps.cut_submaps(len(sequence.frames), config, cuts)
    groups = submaps.anchor_groups(parts, config, cuts)
    return replace(sequence, submaps=parts, groups=groups, cuts=cuts)


# --- what the photos say --------------------------------------------------------------------------------------------


def find_cuts(
    sequence: Sequence,
    config: SegmentConfig,
    least: int,
    listen: Listener = silent,
    looked: Looked | None = None,
) -> tuple[int, ...]:
    """The frames that begin a stretch: no photo before goes on to them or to those after.

    Most of the walk must lie in stretches of `least` photos or more: else the photos are hard to match, not cut.
    `looked` looks at parts of the walk, in whatever process (one after another here).
    """
    count = len(sequence.frames)
    parts = tuple((first, min(first + PART, count)) for first in range(1, count, PART))
    cuts = looked(parts) if looked else _looked_here(sequence, config, parts, listen)
    return believed(tuple(k for part in cuts for k in part), count, least)


def _looked_here(
    sequence: Sequence, config: SegmentConfig, parts: tuple[tuple[int, int], ...], listen: Listener
) -> list[tuple[int, ...]]:
    found = []
    for first, end in parts:
        found.append(cuts_among(sequence, config, first, end))
        listen(Progress("walk", GOING_ON, end - 1, len(sequence.frames) - 1))
    return found


def cuts_among(
    sequence: Sequence, config: SegmentConfig, first: int, end: int, glances: WalkPhotos | None = None
) -> tuple[int, ...]:
    """The frames first .. end - 1 that no photo before them goes on to; `glances` stand in for those of `config`."""
    count = len(sequence.frames)
    glances, looks = glances or WalkPhotos(sequence, config.glance or GLANCE), WalkPhotos(sequence, config.look)
    return tuple(
        k
        for k in range(first, end)
        if not glances.go_on(k - 1, k) and not _bridged(k, count, config.reach, looks.go_on)
    )


def believed(cuts: tuple[int, ...], count: int, least: int) -> tuple[int, ...]:
    """The cuts of `count` frames, or none when less than half of them lie in stretches of `least` or more."""
    lengths = np.diff([0, *cuts, count])
    return cuts if lengths[lengths >= least].sum() > 0.5 * count else ()


def _bridged(k: int, count: int, reach: int, go_on: Callable[[int, int], bool]) -> bool:
    """Whether any photo before k goes on to one from k, the nearest first."""
    pairs = [(a, b) for a in range(max(0, k - reach), k) for b in range(k, min(count, k + reach))]
    return any(go_on(a, b) for a, b in sorted(pairs, key=lambda pair: pair[1] - pair[0]))


class WalkPhotos:
    """The photos of a walk through one matcher, whose keypoints `features` may know; a few are kept."""

    def __init__(
        self, sequence: Sequence, choice: AnySparse, features: Callable[[int], Features] | None = None
    ) -> None:
        self.sequence, self.choice = sequence, choice
        self.features = lru_cache(maxsize=8)(features or self._features)

    def _features(self, frame: int) -> Features:
        return _loaded(self.choice).extract(read_frame(self.sequence, frame))

    def go_on(self, a: int, b: int) -> bool:
        """Whether one motion of the camera explains enough of what two photos have in common."""
        here, there = self.features(a), self.features(b)
        pairs = _loaded(self.choice).pairs(here, there)
        xy_a, xy_b, sigma_px = here.xy[pairs[:, 0]], there.xy[pairs[:, 1]], max(here.sigma_px, there.sigma_px)
        camera = self.sequence.camera
        if isinstance(verify(xy_a, xy_b, camera, camera, sigma_px, VERIFY), TwoView):
            return True
        if len(pairs) < MANY:
            return False
        options = {"max_epipolar_error": VERIFY.threshold * sigma_px, "max_iterations": 2000, "seed": 0}
        _, info = poselib.estimate_fundamental(xy_a, xy_b, options, {})
        inliers = np.array(info["inliers"], dtype=bool)
        return bool(inliers.sum() >= MANY and inliers.mean() >= HALF)


@lru_cache(maxsize=2)
def _loaded(choice: AnySparse) -> SparseMatcher:
    return choice.load()
