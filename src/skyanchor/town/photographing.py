"""Photos of a town as files: rendered, developed by a sensor, and spoiled as the day has it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import cv2
import numpy as np

from skyanchor.events import Listener, Progress
from skyanchor.geometry import cameras
from skyanchor.town import movers, routes, sensor, spoiling
from skyanchor.town.presets import WalkPlan
from skyanchor.town.rendering import render_depth, render_shot
from skyanchor.town.routes import Shot
from skyanchor.town.town import Epoch, Town, with_more
from skyanchor.types import Bytes, Camera

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
    done = 0
    for there, shots in _by_frames(town, roll, seed):
        for shot in shots:
            pixels = _photo(there, roll, shot, done, seed)
            _write_jpeg(folder / shot.name, pixels, roll.sensor.quality)
            done += 1
            name = roll.epoch.name.lower() if roll.epoch.name else ""
            listen(Progress("town", f"{name} photos", done, len(roll.shots)))


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
