"""Where a whole stretch of a walk may have been: its frames vote for one position together.

One frame looks like many places of a city; a hundred that lie to each other as dead reckoning says rarely do. Every
place, direction and pace is tried: S(p, a, s) = Σ_f like_f(p + s R(a) x_f, a + a_f), with x_f the steps that lead from
the middle frame to frame f and a_f the turn between them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from skyanchor.anchors.config import WalkVotesConfig
from skyanchor.anchors.odometry import Walk
from skyanchor.anchors.place_index import PlaceIndex
from skyanchor.anchors.priors import Near
from skyanchor.bridges.ground import Ground
from skyanchor.bridges.views import NodeConfig
from skyanchor.compiled import njit
from skyanchor.geometry import rigid
from skyanchor.types import AnchorGroup, Bools, Floats, Floats32, Ints, Sequence


@dataclass(frozen=True, eq=False)
class Looks:
    """How much some frames are like all views of an index."""

    likeness: Floats32
    """(F, V)."""


Said: TypeAlias = Callable[[tuple[int, ...]], Floats32]
"""What some frames said of all views of an index, (F, V) for any of them: read when it is asked for, and held no longer
than that, for all that the frames of a long walk say neither fits into memory nor into as many files as may be open."""


@dataclass(frozen=True, eq=False)
class Voters:
    """Frames that vote together."""

    walk: Walk
    """How they lie to each other."""
    middle: int
    """The frame whose position is voted on."""
    frames: tuple[int, ...]
    likeness: Floats32
    """(F, V), how much each is like the views of the index."""


def voting_frames(sequence: Sequence, group: AnchorGroup, config: WalkVotesConfig) -> tuple[int, ...]:
    """The frames that vote for a group, its middle one among them, in one stretch; groups share as many as they can."""
    middle = middle_frame(group)
    near = range(max(0, middle - config.reach), min(len(sequence.frames), middle + config.reach + 1))
    own = [f for f in near if sequence.stretch_of(f) == sequence.stretch_of(middle)]
    return tuple(f for f in own if f % config.every == 0 or f == middle)


def middle_frame(group: AnchorGroup) -> int:
    """The frame whose position is voted on."""
    return group.frames[len(group.frames) // 2]


@dataclass(frozen=True, eq=False)
class _Grid:
    """The places of an index on the grid they were laid out on."""

    places: Floats
    """(P, 2), horizontal coordinates, metres."""
    numbers: Ints
    """(X, Y), place in each square of the grid, -1 without one."""
    origin: Floats
    """(2,), horizontal coordinates of the grid's corner, metres."""
    spacing: float
    """Metres."""
    place: Ints
    """(V,), of each view."""
    firsts: Floats
    """(P,), heading of the first of each place's views, less than one turn between them, radians."""
    slot: Ints
    """(V,), heading of each view in equal turns from the first of its place."""


def _grid(index: PlaceIndex, ground: Ground, spacing: float, headings: int) -> _Grid:
    flat = index.eyes @ ground.across.T
    squares = np.floor(flat / spacing).astype(np.int64)
    low = squares.min(axis=0)
    shape = squares.max(axis=0) - low + 1
    keys = (squares[:, 0] - low[0]) * shape[1] + squares[:, 1] - low[1]
    held, first, place = np.unique(keys, return_index=True, return_inverse=True)
    numbers = np.full(int(shape.prod()), -1, np.int64)
    numbers[held] = np.arange(len(held))
    turn = 2.0 * np.pi / headings
    firsts = index.headings[first] % turn
    slot = np.round((index.headings - firsts[place]) / turn).astype(np.int64) % headings
    return _Grid(flat[first], numbers.reshape(shape), low * spacing, spacing, place.astype(np.int64), firsts, slot)


def hints_for(
    index: PlaceIndex, ground: Ground, voters: Voters, free: Bools, nodes: NodeConfig, config: WalkVotesConfig
) -> tuple[Near, ...]:
    """Where a stretch of the walk says that its middle frame stands, the best first.

    `free` (V,) is which views may be the middle frame's, `nodes` how the views of the index were laid out.
    """
    if not free.any():
        return ()
    grid = _grid(index, ground, nodes.spacing, nodes.headings)
    votes = np.zeros((len(voters.frames), len(grid.places), nodes.headings), np.float32)
    votes[:, grid.place, grid.slot] = np.clip(_standard(voters.likeness), *config.clip)
    may = np.zeros(len(grid.places), bool)
    may[grid.place[free]] = True
    paces = np.geomspace(config.paces[0], config.paces[1], config.paces[2])
    lying = (grid.places, may, grid.numbers, grid.origin, grid.spacing, grid.firsts)
    score = _scores(*lying, votes, *_lie(voters), paces, config.directions)
    return _best(grid.places, score, config)


def _standard(looks: Floats32) -> Floats32:
    """(F, V), every frame's likeness less its mean over all views, over its standard deviation."""
    mean, spread = looks.mean(axis=1, keepdims=True), looks.std(axis=1, keepdims=True)
    return np.asarray((looks - mean) / np.maximum(spread, 1e-9), dtype=np.float32)


def _lie(voters: Voters) -> tuple[Floats, Floats]:
    """((F, 2) steps ahead of the middle frame and to its right, (F,) turn to the left of it, radians)."""
    at = voters.walk.cams_from_start[voters.middle]
    poses = [voters.walk.cams_from_start[f] for f in voters.frames]
    centres = at(rigid.centres_in_world(poses))
    ahead = np.array([at.rotation @ pose.rotation[2] for pose in poses])
    return np.stack([centres[:, 2], centres[:, 0]], axis=1), -np.arctan2(ahead[:, 0], ahead[:, 2])


@njit(cache=True, fastmath=True)
def _scores(
    places: Floats, may: Bools, numbers: Ints, origin: Floats, spacing: float, firsts: Floats, votes: Floats32,
    offsets: Floats, turns: Floats, paces: Floats, directions: int,
) -> Floats:  # fmt: skip
    """(P,), the most votes that a place gets from any direction and pace; -inf where `may` is False."""
    headings = votes.shape[2]
    best = np.full(len(places), -np.inf)
    for p in range(len(places)):
        if not may[p]:
            continue
        for d in range(directions):
            angle = 2.0 * np.pi * d / directions
            c, s = np.cos(angle), np.sin(angle)
            for pace in paces:
                total = 0.0
                for f in range(len(turns)):
                    x = places[p, 0] + pace * (offsets[f, 0] * c + offsets[f, 1] * s)
                    y = places[p, 1] + pace * (offsets[f, 0] * s - offsets[f, 1] * c)
                    i = int(np.floor((x - origin[0]) / spacing))
                    j = int(np.floor((y - origin[1]) / spacing))
                    if i < 0 or j < 0 or i >= numbers.shape[0] or j >= numbers.shape[1] or numbers[i, j] < 0:
                        continue
                    q = numbers[i, j]
                    turn = (angle + turns[f] - firsts[q]) * headings / (2.0 * np.pi)
                    low = int(np.floor(turn))
                    part = turn - low
                    total += (1.0 - part) * votes[f, q, low % headings] + part * votes[f, q, (low + 1) % headings]
                best[p] = max(best[p], total)
    return best


def _best(places: Floats, score: Floats, config: WalkVotesConfig) -> tuple[Near, ...]:
    """The best places, each apart from those before it."""
    hints: list[Near] = []
    for p in np.argsort(-score, kind="stable"):
        if len(hints) == config.hints or not np.isfinite(score[p]):
            break
        x, y = places[p]
        if all(np.hypot(hint.x - x, hint.y - y) > config.radius for hint in hints):
            hints.append(Near(float(x), float(y), config.radius))
    return tuple(hints)
