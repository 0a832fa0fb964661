"""Photos of a town as files: rendered, developed by a sensor, and spoiled as the day has it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import cv2
import numba
import numpy as np

from skyanchor.events import Listener, Progress
from skyanchor.geometry import cameras
from skyanchor.town import movers, routes, sensor, spoiling
from skyanchor.town.presets import WalkPlan
from skyanchor.town.rendering import render_depth, render_shot
from skyanchor.town.routes import Shot
from skyanchor.town.town import Epoch, Town, with_more
from skyanchor.types import Bytes, Camera

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

SMALL = 80
"""Width at which the share of the picture that movers cover is counted, pixels."""


@dataclass(frozen=True, eq=False)
class Roll:
    """Photos to take with one camera."""

    camera: Camera
    shots: list[Shot]
    epoch: Epoch
    sensor: sensor.Sensor
    walk: WalkPlan | None = None
    """None for a flight."""


def photograph(town: Town, roll: Roll, folder: Path, seed: int, listen: Listener) -> None:
    """Write the photos of a roll into a new folder."""
    folder.mkdir(parents=True)
    name = roll.epoch.name.lower() if roll.epoch.name else ""
    done = 0
    for there, shots in _by_frames(town, roll, seed):

        def take(numbered: tuple[int, Shot], there: Town = there) -> None:
            number, shot = numbered
            _write_jpeg(folder / shot.name, _photo(there, roll, shot, number, seed), roll.sensor.quality)

        for _ in side_by_side(take, list(enumerate(shots, done))):
            done += 1
            listen(Progress("town", f"{name} photos", done, len(roll.shots)))


def side_by_side(work: Callable[[_Item], _Result], items: Sequence[_Item]) -> Iterator[_Result]:
    """The results in order, as many at work as numba may use threads; few wait to be taken."""
    threads = numba.get_num_threads()
    with ThreadPoolExecutor(threads) as pool:
        coming = deque(pool.submit(work, item) for item in items[: 2 * threads])
        try:
            for k in range(len(items)):
                yield coming.popleft().result()
                if k + 2 * threads < len(items):
                    coming.append(pool.submit(work, items[k + 2 * threads]))
        finally:
            pool.shutdown(cancel_futures=True)


def _photo(town: Town, roll: Roll, shot: Shot, number: int, seed: int) -> Bytes:
    passing = movers.passing_bit(shot.frame) if roll.walk and town.weather.world.traffic > 0.0 else 0
    light = render_shot(town, roll.camera, shot, roll.epoch, passing)
    eye = replace(roll.sensor, gain=roll.sensor.gain * shot.gain)
    world = town.weather.world
    if roll.walk and max(world.overcast, world.snow, world.dusk, world.wet) > 0.0:
        eye = sensor.metered(eye, light)
    pixels = sensor.develop(light, eye, np.random.default_rng([seed, int(roll.epoch), number]))
    return spoiling.spoiled(pixels, town.weather.photos, seed, shot.frame) if roll.walk else pixels


def _by_frames(town: Town, roll: Roll, seed: int) -> Iterator[tuple[Town, list[Shot]]]:
    """Stretches of the roll, each with the town that holds what moves in its frames."""
    share = town.weather.world.traffic
    if roll.walk is None or share <= 0.0:
        yield town, roll.shots
        return
    way = movers.way_of(*routes.walk_line(roll.walk, town.layout))
    seen = [shot for shot in roll.shots if shot.name.endswith(f"{shot.frame:04d}.jpg")]
    small = cameras.scaled(cameras.undistorted(roll.camera), SMALL)
    poses = [shot.cam_from_world for shot in seen]
    depths = [render_depth(town, small, pose, roll.epoch) for pose in poses]
    rng = np.random.default_rng([seed, 33, int(roll.epoch)])
    people = movers.crowd(share, way, small, [shot.frame for shot in seen], poses, depths, town.layout, rng)
    for first in range(0, roll.walk.frames, movers.FRAMES):
        frames = range(first, min(first + movers.FRAMES, roll.walk.frames))
        shots = [shot for shot in roll.shots if shot.frame in frames]
        yield with_more(town, movers.present(people, way, town.layout, frames)), shots


def _write_jpeg(path: Path, pixels: Bytes, quality: int) -> None:
    done, data = cv2.imencode(".jpg", pixels[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])
    if not done:
        raise OSError(f"{path}: the image could not be encoded")
    path.write_bytes(data.tobytes())
