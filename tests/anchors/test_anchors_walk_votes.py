"""A stretch of a walk finds its position among places that each frame alone cannot tell apart."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from skyanchor.anchors.config import AnchorConfig, WalkVotesConfig
from skyanchor.anchors.frames import Lens
from skyanchor.anchors.odometry import Steps, Walk
from skyanchor.anchors.place_finding import PlacesConfig
from skyanchor.anchors.place_index import PlaceIndex, PlaceTile, make_tile
from skyanchor.anchors.priors import Near
from skyanchor.anchors.walk import GroupTask, _Outing, _with_hints
from skyanchor.anchors.walk_votes import Said, Voters, hints_for, middle_frame, voting_frames
from skyanchor.bridges.ground import Ground
from skyanchor.bridges.views import NodeConfig
from skyanchor.geometry import cameras, rigid
from skyanchor.types import AnchorGroup, Floats, Frame, Sequence

SIDE, HEADINGS, SPACING = 30, 6, 8.0
UP = np.array([0.0, 0.0, 1.0])
GROUND = Ground(np.eye(3)[:2], UP, np.zeros(2), 0.5, np.zeros((1, 1)), np.ones((1, 1), bool))
NODES = NodeConfig(spacing=SPACING, headings=HEADINGS)
EVERYWHERE = np.ones(SIDE * SIDE * HEADINGS, bool)


def index(count: int = HEADINGS, turned: float = 0.0) -> PlaceIndex:
    """A place in every square of a map of 240 x 240 m, some views each, in two tiles; what they show plays no part.

    The first heading of each place lies anywhere between 0 and `turned`, radians.
    """
    x, y, k = (part.ravel() for part in np.mgrid[:SIDE, :SIDE, :count])
    eyes = np.stack([(x + 0.5) * SPACING, (y + 0.5) * SPACING, np.full(x.shape, 1.7)], axis=1)
    headings = np.random.default_rng(5).uniform(0.0, turned, (SIDE, SIDE))[x, y] + k * 2.0 * np.pi / count

    def tile(part: slice) -> PlaceTile:
        return replace(make_tile((), None), eyes=eyes[part], headings=headings[part])

    half = len(eyes) // 2
    return PlaceIndex((tile(slice(None, half)), tile(slice(half, None))), None)


def path(frames: int, pace: float) -> tuple[Floats, Floats]:
    """(positions (F, 2), headings (F,)) of a walk that turns left half-way; it looks about."""
    turn = np.where(np.arange(frames) < frames // 2, 0.3, 0.3 + np.pi / 2.0)
    steps = pace * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    looking = turn + 0.4 * np.sin(np.arange(frames) / 5.0)
    return np.array([70.0, 90.0]) + np.cumsum(steps, axis=0), looking


def reckoned_walk(places: Floats, headings: Floats, pace: float, drift: float) -> Walk:
    """Dead reckoning of the path in steps, its turns off by so many radians a frame."""
    poses = []
    for k, ((x, y), a) in enumerate(zip(places / pace, headings + drift * np.arange(len(places)), strict=True)):
        c, s = np.cos(drift * k), np.sin(drift * k)
        eye = np.array([c * x - s * y, s * x + c * y, 1.7])
        poses.append(rigid.look_at(eye, eye + np.array([np.cos(a), np.sin(a), 0.05]), UP))
    start = poses[0].inverse
    return Walk(tuple(pose @ start for pose in poses), np.arange(len(poses), dtype=float))


def looks(held: PlaceIndex, places: Floats, headings: Floats, alike: int, seed: int = 0) -> np.ndarray:
    """(F, V), every frame as much like the views of so many other places as like those of its own, and noise."""
    rng = np.random.default_rng(seed)
    rows = []
    for place, heading in zip(places, headings, strict=True):
        near = np.exp(-(np.linalg.norm(held.eyes[:, :2] - place, axis=1) ** 2) / 2.0 / 6.0**2)
        near *= np.exp(2.0 * (np.cos(held.headings - heading) - 1.0))
        other = sum(np.roll(near, int(shift) * HEADINGS) for shift in rng.integers(1, SIDE * SIDE, alike))
        rows.append(0.2 * (near + other) + rng.normal(0.0, 0.05, len(near)))
    return np.array(rows, np.float32)


@pytest.mark.parametrize("pace", [0.4, 1.1])
def test_a_stretch_votes_for_its_place(pace: float) -> None:
    held, config = index(), WalkVotesConfig()
    places, headings = path(97, pace)
    walk = reckoned_walk(places, headings, pace, 0.001)
    frames = tuple(range(0, 97, 3))
    likeness = looks(held, places[list(frames)], headings[list(frames)], alike=8)
    hints = hints_for(held, GROUND, Voters(walk, 48, frames, likeness), EVERYWHERE, NODES, config)
    assert len(hints) == config.hints
    assert np.hypot(*(places[48] - [hints[0].x, hints[0].y])) < SPACING
    alone = hints_for(held, GROUND, Voters(walk, 48, (48,), likeness[16:17]), EVERYWHERE, NODES, config)
    assert np.hypot(*(places[48] - [alone[0].x, alone[0].y])) > SPACING  # one frame looks like elsewhere


def test_every_place_may_have_a_first_heading_of_its_own() -> None:
    held, config = index(2, np.pi), WalkVotesConfig()
    places, headings = path(97, 1.1)
    walk, frames = reckoned_walk(places, headings, 1.1, 0.0), tuple(range(0, 97, 3))
    chosen = list(frames)
    away = np.linalg.norm(held.eyes[None, :, :2] - places[chosen, None], axis=2)
    elsewhere = np.linalg.norm(held.eyes[None, :, :2] - places[chosen, None] - [60.0, 50.0], axis=2)
    towards = np.cos(held.headings - headings[chosen, None])
    likeness = ((away < 12.0) * towards + 0.2 * (elsewhere < 12.0)).astype(np.float32)  # elsewhere it is all the same
    stretch = Voters(walk, 48, frames, likeness)
    hint = hints_for(held, GROUND, stretch, np.ones(len(held), bool), NodeConfig(SPACING, headings=2), config)[0]
    assert np.hypot(*(places[48] - [hint.x, hint.y])) < SPACING


def test_only_places_that_are_free_are_named() -> None:
    held = index()
    places, headings = path(97, 1.1)
    walk, frames = reckoned_walk(places, headings, 1.1, 0.0), tuple(range(0, 97, 6))
    likeness = looks(held, places[list(frames)], headings[list(frames)], alike=2)
    stretch = Voters(walk, 48, frames, likeness)
    free = held.eyes[:, 0] > 150.0  # the walk was not there
    hints = hints_for(held, GROUND, stretch, free, NODES, WalkVotesConfig())
    assert hints and all(hint.x > 150.0 for hint in hints)
    assert hints_for(held, GROUND, stretch, np.zeros_like(free), NODES, WalkVotesConfig()) == ()


def test_frames_that_vote_lie_round_the_group_and_are_shared() -> None:
    frames = tuple(Frame(k, f"{k}.jpg", Path(f"{k}.jpg")) for k in range(100))
    walk = Sequence(Path(), frames, cameras.pinhole(64, 48, 50.0), False, (), (), cuts=(30,))
    config = WalkVotesConfig(reach=10, every=3)
    first, second = AnchorGroup(0, tuple(range(6)), (0,)), AnchorGroup(1, tuple(range(20, 26)), (0,))
    assert voting_frames(walk, first, config) == (0, 3, 6, 9, 12)
    assert middle_frame(second) == 23
    assert voting_frames(walk, second, config) == (15, 18, 21, 23, 24, 27)  # 30 begins another stretch


class Runner:
    """What all frames of a walk say, and the steps between them."""

    def __init__(self, held: PlaceIndex, places: Floats, headings: Floats, walk: Walk) -> None:
        self.likeness = looks(held, places, headings, alike=8)
        self.walk = walk
        self.asked: list[int] = []

    def looks(self, frames: tuple[int, ...]) -> Said:
        self.asked += frames
        return lambda some: self.likeness[list(some)]

    def steps(self, lens: Lens) -> tuple[Steps, ...]:
        poses = self.walk.cams_from_start
        moved = tuple(b @ a.inverse for a, b in pairwise(poses))
        return (Steps(moved, (True,) * len(moved)),)


def test_groups_that_may_stand_anywhere_are_told_what_the_walk_says() -> None:
    """Every group gets the hints of its own frames; one whose prior leaves few places is not told any."""
    held = index()
    places, headings = path(97, 1.1)
    runner = Runner(held, places, headings, reckoned_walk(places, headings, 1.1, 0.001))
    frames = tuple(Frame(k, f"{k}.jpg", Path(f"{k}.jpg")) for k in range(97))
    sequence = Sequence(Path(), frames, cameras.pinhole(64, 48, 50.0), False, (), ())
    prepared = SimpleNamespace(places=held, ground=GROUND, described_with=PlacesConfig(nodes=NODES))
    middles = (20, 48, 80)
    groups = [AnchorGroup(k, tuple(range(middle - 3, middle + 3)), (0,)) for k, middle in enumerate(middles)]
    tasks = (*(GroupTask(group, ()) for group in groups[:2]), GroupTask(groups[2], (Near(90.0, 90.0, 40.0),)))
    told: list[str] = []
    outing = _Outing(prepared, sequence, AnchorConfig(), runner, lambda event: told.append(event.text))  # type: ignore[arg-type]
    found = _with_hints(outing, tasks)
    for task, middle in zip(found[:2], middles, strict=False):
        best = task.hints[0]
        assert np.hypot(*(places[middle] - [best.x, best.y])) < SPACING
    assert found[2].hints == ()
    assert runner.asked == sorted(set(runner.asked)) and len(runner.asked) < 40, "each frame that votes once"
    assert "voted on where 2 groups stand, among 5400 views" in told[0]
