"""Dead reckoning: where the sequence's own motion puts one anchor group, seen from another.

Turns and directions between consecutive frames are measured, the length of a step is the pace of a localised group.
That is good to some tenths of the way, enough to tell look-alike places apart that no picture can.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skyanchor.anchors.config import OdometryConfig
from skyanchor.anchors.frames import GroundFrames, Lens, seen_through
from skyanchor.geometry import cameras, rigid
from skyanchor.matching import Features, TwoView, strongest, verify
from skyanchor.types import AnchorGroup, Camera, Floats, LocalisedGroup, Pose

UNMEASURED = 3.0
"""Steps that one between frames that could not be matched counts for: nobody knows how long it was."""


@dataclass(frozen=True, eq=False)
class Steps:
    """Motion from each frame of a stretch to the next."""

    next_from_frame: tuple[Pose, ...]
    """Translation of unit length, or none where the walker stood."""
    measured: tuple[bool, ...]
    """False where two frames could not be matched; the step is then the one before."""


@dataclass(frozen=True, eq=False)
class Walk:
    """The whole sequence by dead reckoning; the unit is one step."""

    cams_from_start: tuple[Pose, ...]
    path: Floats
    """(F,), steps walked up to each frame; unmeasured ones count threefold."""
    cuts: tuple[int, ...] = ()
    """Frames that begin a new stretch."""

    def joins(self, a: AnchorGroup, b: AnchorGroup) -> bool:
        """Whether the walk leads from one group to the other without a cut."""
        first, last = sorted((a.frames[0], b.frames[0]))
        return not any(first < cut <= last for cut in self.cuts)


def _motion(a: Features, b: Features, camera: Camera, pair: TwoView, pairs: np.ndarray) -> float:
    """Median motion of the picture with the turn taken out, pixels."""
    rays_a = cameras.unproject(camera, a.xy[pairs[:, 0]]) @ pair.b_from_a.rotation.T
    off = cameras.project(camera, rays_a) - b.xy[pairs[:, 1]]
    return float(np.median(np.linalg.norm(off, axis=1)))


def measure_steps(frames: GroundFrames, first: int, last: int, lens: Lens, config: OdometryConfig) -> Steps:
    """The steps first -> first + 1 -> ... -> last."""
    frames, lens = frames.through(lens)
    matcher, camera = config.matcher.load(), seen_through(frames.sequence, lens)

    def keypoints(k: int) -> Features:
        return strongest(frames.features(k, config.matcher), config.strongest)

    still = config.still * camera.width
    steps: list[Pose] = []
    measured: list[bool] = []
    before = keypoints(first)
    for k in range(first + 1, last + 1):
        now = keypoints(k)
        pairs = matcher.pairs(before, now)
        points = (before.xy[pairs[:, 0]], now.xy[pairs[:, 1]])
        pair = verify(*points, camera, camera, before.sigma_px, config.verify)
        measured.append(isinstance(pair, TwoView))
        if isinstance(pair, TwoView):
            moved = _motion(before, now, camera, pair, pairs[pair.inliers]) >= still
            steps.append(Pose(pair.b_from_a.rotation, pair.b_from_a.translation * moved))
        else:
            steps.append(steps[-1] if steps else rigid.identity())
        before = now
    return Steps(tuple(steps), tuple(measured))


def walked(parts: tuple[Steps, ...], cuts: tuple[int, ...] = ()) -> Walk:
    """The parts one after the other; nothing is known of a step to one of the `cuts`."""
    poses, path = [rigid.identity()], [0.0]
    for part in parts:
        for step, measured in zip(part.next_from_frame, part.measured, strict=True):
            poses.append(step @ poses[-1])
            path.append(path[-1] + (float(np.linalg.norm(step.translation)) if measured else UNMEASURED))
    return Walk(tuple(poses), np.array(path), cuts)


def reckoned(walk: Walk, known: LocalisedGroup, wanted: AnchorGroup, config: OdometryConfig) -> tuple[Floats, float]:
    """(where the middle of a group should be, within how many metres), seen from a localised one at its pace.

    With a the frame of the known group nearest to the wanted one, x = world_from_a (pace · a_from_start c).
    """
    middle = int(np.mean(wanted.frames))
    anchor = min(known.poses, key=lambda pose: abs(pose.frame - middle))
    pace = known.figures.step_m
    centre = rigid.centre_in_world(walk.cams_from_start[middle])
    in_anchor = walk.cams_from_start[anchor.frame](centre[None]) * pace
    place = anchor.cam_from_world.inverse(in_anchor)[0]
    way = abs(float(walk.path[middle] - walk.path[anchor.frame])) * pace
    return place, config.slack + config.drift * way
