"""People and cars on the move: in every frame elsewhere, as many as cover a share of the pictures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import cv2
import numpy as np

from skyanchor.geometry import cameras, rigid
from skyanchor.town import furniture
from skyanchor.town.coats import Coat, Material, Rgb
from skyanchor.town.layout import Layout
from skyanchor.town.solids import Cylinder, Place, Solid, box, tapered
from skyanchor.types import Camera, Floats, Floats32, Pose

FIRST_BIT = 3
"""Epoch bits from here on stand for single frames."""
FRAMES = 56
"""Frames that have a bit of their own in one packed town."""
MOST = 160
"""Movers on a walk at most."""
CLOTHES: tuple[Rgb, ...] = (
    *((0.12, 0.13, 0.16), (0.55, 0.12, 0.14), (0.78, 0.76, 0.70), (0.16, 0.24, 0.42), (0.30, 0.34, 0.26)),
    *((0.62, 0.50, 0.30), (0.45, 0.45, 0.47), (0.70, 0.42, 0.20)),
)
PERSON, CAR, VAN = (0.5, 0.55, 1.75), (4.4, 1.9, 1.5), (5.6, 2.0, 2.7)
"""Length, width and height, metres."""
FILLED = 0.65
"""Share of the box around a person that the person fills."""
SKIN = Coat(Material.PLAIN, (0.78, 0.60, 0.50))


@dataclass(frozen=True)
class Mover:
    """Someone or something that follows the street."""

    size: tuple[float, float, float]
    """Length, width, height of a box around it, metres: `PERSON`, `CAR` or `VAN`."""
    ahead_m: float
    """Way from the walker's start to where it is in the first frame, along the walk."""
    side_m: float
    """To the right of the middle of the street."""
    pace: float
    """Metres along the walk per frame; below 0 against the walker."""
    seed: int


@dataclass(frozen=True, eq=False)
class Way:
    """The street that a walk follows, beyond both of its ends."""

    lengths: Floats
    """(N,), metres from the first frame."""
    points: Floats
    """(N, 2)."""
    headings: Floats
    """(N,), radians."""

    def at(self, metres: float, side: float) -> tuple[Floats, float]:
        """(2,) point and heading, straight on beyond the ends."""
        inside = float(np.clip(metres, self.lengths[0], self.lengths[-1]))
        x, y = (float(np.interp(inside, self.lengths, self.points[:, k])) for k in (0, 1))
        heading = float(np.interp(inside, self.lengths, self.headings))
        along, right = np.array([np.cos(heading), np.sin(heading)]), np.array([np.sin(heading), -np.cos(heading)])
        return np.array([x, y]) + along * (metres - inside) + right * side, heading


def way_of(points: Floats, headings: Floats) -> Way:
    """The way of a walk's frames (N, 2)."""
    steps = np.linalg.norm(np.diff(points, axis=0), axis=1)
    return Way(np.concatenate([[0.0], np.cumsum(steps)]), points, headings)


def crowd(
    share: float, way: Way, camera: Camera, frames: list[int], poses: list[Pose], depths: list[Floats32],
    layout: Layout, rng: np.random.Generator
) -> list[Mover]:  # fmt: skip
    """As many movers as cover `share` of the pictures, mean of the walk; `depths` are what `camera` sees without them.

    A mover covers what the box around it covers before the street behind it, a part of that if it is a person.
    """
    step = float(np.median(np.diff(way.lengths)))
    covered = np.zeros((len(poses), *depths[0].shape), np.float32)
    chosen: list[Mover] = []
    while covered.mean() < share and len(chosen) < MOST:
        mover = _someone(way, step, len(way.lengths), rng)
        if _close(mover, way, len(way.lengths)):
            continue
        for k, (frame, pose) in enumerate(zip(frames, poses, strict=True)):
            drawn = _silhouette(_corners(mover, way, layout, frame), camera, pose, depths[k])
            filled = FILLED * drawn if mover.size == PERSON else drawn
            covered[k] += (1.0 - covered[k]) * filled
        chosen.append(mover)
    return chosen


def _someone(way: Way, step: float, frames: int, rng: np.random.Generator) -> Mover:
    """One more: half of them go with the camera, near it, the others come towards it; every fourth has wheels."""
    seed, with_us = int(rng.integers(1 << 20)), bool(rng.random() < 0.5)
    total, size, side = float(way.lengths[-1]), PERSON, float(rng.uniform(-4.5, 4.5))
    pace = step * (rng.uniform(0.9, 1.1) if with_us else rng.uniform(-1.2, -0.7))
    if rng.random() < 0.25:
        size = VAN if rng.random() < 0.5 else CAR
        pace, side = (step * rng.uniform(0.9, 1.2), 0.4) if with_us else (-step * rng.uniform(3.0, 8.0), -1.35)
    start = rng.uniform(1.5, 9.0) + size[0] if with_us else rng.uniform(3.0, total - pace * frames)
    return Mover(size, float(start), float(side), float(pace), seed)


def _close(mover: Mover, way: Way, frames: int) -> bool:
    """Whether it runs into the walker, who keeps within 0.6 m of the middle."""
    gap = mover.ahead_m + mover.pace * np.arange(frames) - np.linspace(0.0, way.lengths[-1], frames)
    length, width, _ = mover.size
    inside = abs(mover.side_m - 0.5) < 0.5 * width + 0.45
    return bool(inside and np.any(np.abs(gap) < 0.5 * length + 0.7))


def _place(mover: Mover, way: Way, layout: Layout, frame: int) -> Place:
    point, heading = way.at(mover.ahead_m + mover.pace * frame, mover.side_m)
    level = layout.height(*point) + (layout.plan.kerb if abs(mover.side_m) > layout.plan.half_width else 0.0)
    return Place(np.array([*point, level]), heading if mover.pace > 0.0 else heading + np.pi)


def _corners(mover: Mover, way: Way, layout: Layout, frame: int) -> Floats:
    """(8, 3), of the box around it, world."""
    length, width, height = mover.size
    x, y, z = np.meshgrid([-length / 2, length / 2], [-width / 2, width / 2], [0.0, height])
    return _place(mover, way, layout, frame).world(np.stack([x.ravel(), y.ravel(), z.ravel()], axis=1))


def _silhouette(corners: Floats, camera: Camera, pose: Pose, depth: Floats32) -> Floats32:
    """(H, W), 1 where the hull of the corners stands before `depth`, 0 elsewhere and where it is beside the camera."""
    drawn = np.zeros(depth.shape, np.float32)
    in_cam = pose(corners)
    if in_cam[:, 2].min() < 0.3 or np.linalg.norm(rigid.centre_in_world(pose) - corners.mean(axis=0)) > 60.0:
        return drawn
    outline = cv2.convexHull(cameras.project(camera, in_cam).astype(np.float32))
    cv2.fillConvexPoly(drawn, np.round(outline).astype(np.int32), 1.0)
    drawn[(depth > 0.0) & (depth < in_cam[:, 2].mean())] = 0.0
    return drawn


def present(movers: list[Mover], way: Way, layout: Layout, frames: range) -> list[Solid]:
    """The solids of all movers in some frames, each there in one frame alone."""
    solids: list[Solid] = []
    for frame in frames:
        for mover in movers:
            place = _place(mover, way, layout, frame)
            rng = np.random.default_rng(mover.seed)
            if mover.size == PERSON:
                solids.extend(_person(place, rng, frame, passing_bit(frame)))
            else:
                solids.extend((furniture.car if mover.size == CAR else _van)(place, rng, passing_bit(frame)))
    return solids


def passing_bit(frame: int) -> int:
    """The epoch bit of what is there in one frame alone."""
    return 1 << FIRST_BIT + frame % FRAMES


def _van(place: Place, rng: np.random.Generator, epochs: int) -> Iterator[Solid]:
    """A delivery van along local x: box with letters on its sides, cabin, windows, wheels, lights."""
    seed, paint = int(rng.integers(1 << 20)), furniture.PAINTS[int(rng.integers(len(furniture.PAINTS)))]
    body, side = Coat(Material.BODYWORK, paint), Coat(Material.LETTERS, paint, numbers=(3.6,))
    sides = (side, body, side, body, body, body)
    yield box(place, (-2.7, -0.98, 0.45), (1.2, 0.98, 2.65), *sides, seed=seed, epochs=epochs)
    yield tapered(place, (1.2, -0.95, 0.45), (2.7, 0.95, 2.2), (0.0, 0.8, 0.06, 0.06), body, seed=seed, epochs=epochs)
    yield tapered(place, (1.4, -0.97, 1.25), (2.55, 0.97, 2.05), (0.0, 0.7, 0.1, 0.1), furniture.GLASS, seed=seed,
                  epochs=epochs)  # fmt: skip
    yield box(place, (-2.74, -0.8, 1.5), (-2.7, 0.8, 2.3), furniture.GLASS, seed=seed, epochs=epochs)
    for y in (-0.9, 0.7):
        yield box(place, (-2.75, y, 0.7), (-2.7, y + 0.2, 1.1), furniture.LAMP_RED, seed=seed, epochs=epochs)
    for x in (-1.8, 1.8):
        for y, out in ((-1.0, 0.25), (1.0, -0.25)):
            ends = place.world(np.array([[x, y, 0.36], [x, y + out, 0.36]]))
            yield Cylinder(ends[0], ends[1], 0.36, furniture.RUBBER, seed, epochs)


def _person(place: Place, rng: np.random.Generator, frame: int, epochs: int) -> Iterator[Solid]:
    """Someone who walks along local x: legs and arms that swing, trunk, head, hair, perhaps a bag."""
    seed, size = int(rng.integers(1 << 20)), float(rng.uniform(0.92, 1.06))
    coat, legs, hair = (
        Coat(Material.STRIPES if rng.random() < 0.3 else Material.STONE, CLOTHES[int(rng.integers(len(CLOTHES)))],
             CLOTHES[int(rng.integers(len(CLOTHES)))], (0.05,)),
        Coat(Material.STONE, CLOTHES[int(rng.integers(len(CLOTHES)))]),
        Coat(Material.PLAIN, (0.22, 0.16, 0.12)),
    )  # fmt: skip
    swing = 0.25 * np.sin(2.4 * frame + rng.uniform(0.0, 6.0))
    for y, way in ((-0.1, swing), (0.1, -swing)):
        ends = place.world(size * np.array([[way, y, 0.02], [0.0, y, 0.85], [-0.8 * way, 2.6 * y, 0.8]]))
        yield Cylinder(ends[0], ends[1], 0.075 * size, legs, seed, epochs)
        shoulder = place.world(size * np.array([0.0, 2.4 * y, 1.4]))
        yield Cylinder(ends[2], shoulder, 0.05 * size, coat, seed, epochs)
    low, high = (-0.11 * size, -0.2 * size, 0.8 * size), (0.11 * size, 0.2 * size, 1.45 * size)
    yield tapered(place, low, high, (0.0, 0.0, -0.02, -0.02), coat, seed=seed, epochs=epochs)
    neck = place.world(size * np.array([[0.02, 0.0, 1.45], [0.03, 0.0, 1.68], [0.0, 0.0, 1.62], [0.0, 0.0, 1.76]]))
    yield Cylinder(neck[0], neck[1], 0.085 * size, SKIN, seed, epochs)
    yield Cylinder(neck[2], neck[3], 0.1 * size, hair, seed, epochs)
    if rng.random() < 0.4:
        bag = Coat(Material.STONE, CLOTHES[int(rng.integers(len(CLOTHES)))])
        yield box(place, (-0.3 * size, -0.15 * size, 0.95 * size), (-0.11 * size, 0.15 * size, 1.4 * size), bag,
                  seed=seed, epochs=epochs)  # fmt: skip
