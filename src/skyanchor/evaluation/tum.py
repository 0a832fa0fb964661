"""Trajectories in TUM format, as MASt3R-SLAM, VGGT-SLAM and most SLAM programs write them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import numpy as np

from skyanchor.errors import InputError
from skyanchor.geometry import rigid
from skyanchor.storage import foreign
from skyanchor.types import Pose

ADVICE = "Give lines of `frame tx ty tz qx qy qz qw`."
FARTHEST = 1e9
"""Metres from the origin; nothing that is surveyed lies beyond."""


def read_tum(path: Path, sequence: Sequence[str], fps: float | None = None) -> dict[str, Pose]:
    """cam_from_world by the names of `sequence`, from lines `frame tx ty tz qx qy qz qw` of world_from_cam.

    `frame` is the name of a photo with or without its ending, the whole number in its name, or its place in the
    sequence from 0, whichever tells every line. With `fps` it is the second: place / fps.
    """
    lines = [line for line in foreign.read_text(path, ADVICE).splitlines() if line.strip() and line[0] != "#"]
    rows = [_row(path, line) for line in lines]
    if not rows:
        raise InputError(path, "holds no pose", ADVICE)
    if fps is not None:
        rows = [(_place(key, fps), pose) for key, pose in rows]
    meanings = _frames(sequence) if fps is None else (_places(sequence),)
    for known in meanings:
        if all(key in known for key, _ in rows):
            return _once(path, [(known[key], pose) for key, pose in rows])
    key = next(key for key, _ in rows if key not in meanings[-1])
    advice = "Name the photo, or its place from 0, in the first column, or say with --fps how many make a second."
    raise InputError(path, f"does not tell which photo {key} is", advice)


def _once(path: Path, poses: list[tuple[str, Pose]]) -> dict[str, Pose]:
    """The poses by the names of their photos; InputError where one has two."""
    found = dict(poses)
    if len(found) < len(poses):
        name = next(name for name, count in Counter(name for name, _ in poses).items() if count > 1)
        raise InputError(path, f"has more than one pose of {name}", "Leave one line for each photo.")
    return found


def _place(key: str, fps: float) -> str:
    try:
        return str(round(float(key) * fps))
    except (ValueError, OverflowError):
        return key


def _row(path: Path, line: str) -> tuple[str, Pose]:
    key, *values = line.split()
    try:
        x, y, z, qx, qy, qz, qw = map(float, values)
    except ValueError as error:
        raise InputError(path, f"has a line that is not TUM: {line[:60]}", "Eight columns are needed.") from error
    if not all(abs(value) <= FARTHEST for value in (x, y, z, qx, qy, qz, qw)) or math.hypot(qx, qy, qz, qw) < 1e-6:
        raise InputError(path, f"has a pose that is none: {line[:60]}", "Leave out lines of photos without a pose.")
    world_from_cam = rigid.rotation_from_quaternion(np.array([qw, qx, qy, qz]))
    return _whole(key), rigid.from_centre(world_from_cam.T, np.array([x, y, z]))


def _whole(key: str) -> str:
    """12 for 12.0 and 0012."""
    try:
        number = float(key)
    except ValueError:
        return key
    return str(int(number)) if number.is_integer() else key


def _frames(sequence: Sequence[str]) -> tuple[dict[str, str], ...]:
    """What the first column may say, and the frame it means."""
    stems = [PurePosixPath(name).stem for name in sequence]
    digits = ["".join(filter(str.isdecimal, stem)) for stem in stems]
    numbers = {str(int(text)): name for text, name in zip(digits, sequence, strict=True) if text}
    return (
        {name: name for name in sequence},
        dict(zip(map(_whole, stems), sequence, strict=True)),
        numbers if len(numbers) == len(sequence) else {},
        _places(sequence),
    )


def _places(sequence: Sequence[str]) -> dict[str, str]:
    return {str(k): name for k, name in enumerate(sequence)}
