"""Rigs and frames of a COLMAP model from and to disk, value for value.

A rig is a set of sensors with fixed places to each other, a frame one moment of a rig: rig_from_world and what every
sensor recorded. A model of single cameras has one rig per camera and one frame per image.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pycolmap

from skyanchor.errors import InputError
from skyanchor.scaffold.checked_file import COPY_ADVICE, CheckedBytes, bad_line, contents, id_of, numbered_lines
from skyanchor.storage.foreign import is_there
from skyanchor.types import Floats, Ints

CAMERA = int(pycolmap.SensorType.CAMERA)
"""COLMAP's number of the sensor type."""
LARGEST_ID = 2**63 - 1
"""Of what a sensor recorded."""


@dataclass(frozen=True, eq=False)
class Sensor:
    """A sensor of a rig."""

    kind: int
    """COLMAP's number of the sensor type."""
    sensor_id: int
    """Camera id of a camera."""
    from_rig: Floats | None = None
    """(7,), wxyz and translation of sensor_from_rig; None for the reference sensor and where it is not known."""


@dataclass(frozen=True, eq=False)
class Rig:
    """Sensors that move together, the reference first."""

    rig_id: int
    sensors: tuple[Sensor, ...]


@dataclass(frozen=True, eq=False)
class RigFrame:
    """One moment of a rig."""

    frame_id: int
    rig_id: int
    from_world: Floats
    """(7,), wxyz and translation of rig_from_world."""
    data: Ints
    """(D, 3), type and id of each sensor and what it recorded: the image id of a camera."""


@dataclass(frozen=True, eq=False)
class Rigs:
    """All rigs and frames of a model, in file order."""

    rigs: tuple[Rig, ...]
    frames: tuple[RigFrame, ...]


def with_single_cameras(rigs: Rigs, cameras: Sequence[int], images: Mapping[int, tuple[int, Floats]]) -> Rigs:
    """The rigs with one more for every camera id, and a frame for every image id: (its camera id, (7,) of its pose).

    What is there stays as it is; new ids follow the largest ones.
    """
    next_rig = max((rig.rig_id for rig in rigs.rigs), default=0) + 1
    next_frame = max((frame.frame_id for frame in rigs.frames), default=0) + 1
    rig_of = {camera: next_rig + k for k, camera in enumerate(cameras)}
    added = tuple(Rig(rig_id, (Sensor(CAMERA, camera),)) for camera, rig_id in rig_of.items())
    moments = tuple(
        RigFrame(next_frame + k, rig_of[camera], pose, np.array([[CAMERA, camera, image]]))
        for k, (image, (camera, pose)) in enumerate(images.items())
    )
    return Rigs((*rigs.rigs, *added), (*rigs.frames, *moments))


# --- in ---------------------------------------------------------------------------------------------------------


def read_rigs(folder: Path, suffix: str) -> Rigs | None:
    """The rigs and frames beside a model's files; None where there are none."""
    rigs, frames = folder / f"rigs{suffix}", folder / f"frames{suffix}"
    found = [path for path in (rigs, frames) if is_there(path, COPY_ADVICE)]
    if not found:
        return None
    missing = next((path for path in (rigs, frames) if path not in found), None)
    if missing is not None:
        raise InputError(missing, "is missing, its companion is there", COPY_ADVICE)
    if suffix == ".bin":
        return Rigs(_rigs_bin(rigs), _frames_bin(frames))
    return Rigs(_rigs_txt(rigs), _frames_txt(frames))


def _rigs_bin(path: Path) -> tuple[Rig, ...]:
    file, rigs = CheckedBytes(path, contents(path)), []
    for k in range(file.number("<u8")):
        file.what = f"rig {k + 1}"
        rig_id, count = file.number("<u4"), file.number("<u4")
        sensors = [Sensor(file.number("<i4"), file.number("<u4"))] if count else []
        for _ in range(count - 1):
            kind, sensor_id = file.number("<i4"), file.number("<u4")
            sensors.append(Sensor(kind, sensor_id, file.take("<f8", 7).copy() if file.number("u1") else None))
        rigs.append(Rig(rig_id, tuple(sensors)))
    file.finish()
    return tuple(rigs)


def _frames_bin(path: Path) -> tuple[RigFrame, ...]:
    file, frames = CheckedBytes(path, contents(path)), []
    for k in range(file.number("<u8")):
        file.what = f"frame {k + 1}"
        frame_id, rig_id, pose = file.number("<u4"), file.number("<u4"), file.take("<f8", 7).copy()
        data = [(file.number("<i4"), file.number("<u4"), _recorded(file)) for _ in range(file.number("<u4"))]
        frames.append(RigFrame(frame_id, rig_id, pose, np.array(data, np.int64).reshape(-1, 3)))
    file.finish()
    return tuple(frames)


def _recorded(file: CheckedBytes) -> int:
    """What a sensor recorded: its id."""
    number = file.number("<u8")
    if number > LARGEST_ID:
        raise InputError(file.path, f"{file.what} has the id {number}, which cannot be", COPY_ADVICE)
    return number


def _rigs_txt(path: Path) -> tuple[Rig, ...]:
    rigs = []
    for number, line in numbered_lines(path):
        try:
            rigs.append(_rig_of(line.split()))
        except (ValueError, IndexError, KeyError) as error:
            raise bad_line(path, number, "rig", error) from error
    return tuple(rigs)


def _rig_of(words: list[str]) -> Rig:
    sensors, at = [], 2
    for k in range(int(words[1])):
        kind, sensor_id = _kind(words[at]), id_of(words[at + 1])
        at += 2
        posed = k > 0 and int(words[at]) == 1
        at += k > 0
        sensors.append(Sensor(kind, sensor_id, _transform(words[at : at + 7]) if posed else None))
        at += 7 if posed else 0
    if at != len(words):
        raise ValueError(f"{len(words)} values instead of {at}")
    return Rig(id_of(words[0]), tuple(sensors))


def _frames_txt(path: Path) -> tuple[RigFrame, ...]:
    frames = []
    for number, line in numbered_lines(path):
        words = line.split()
        try:
            named, pose, count = (id_of(words[0]), id_of(words[1])), _transform(words[2:9]), int(words[9])
            if len(words) != 10 + 3 * count:
                raise ValueError(f"{len(words)} values instead of {10 + 3 * count}")
            triples = [
                (_kind(words[k]), id_of(words[k + 1]), id_of(words[k + 2], LARGEST_ID))
                for k in range(10, len(words), 3)
            ]
        except (ValueError, IndexError, KeyError) as error:
            raise bad_line(path, number, "frame", error) from error
        frames.append(RigFrame(*named, pose, np.array(triples, np.int64).reshape(-1, 3)))
    return tuple(frames)


def _transform(words: Sequence[str]) -> Floats:
    """(7,), wxyz and translation; ValueError for fewer."""
    if len(words) != 7:
        raise ValueError(f"{len(words)} numbers of a pose instead of 7")
    return np.array(words, np.float64)


def _kind(name: str) -> int:
    return int(pycolmap.SensorType.__members__[name])


# --- out --------------------------------------------------------------------------------------------------------


def rig_files(rigs: Rigs | None) -> dict[str, bytes | None]:
    """Contents by file name; None for a file that must not be there."""
    if rigs is None:
        return {"rigs.bin": None, "frames.bin": None}
    return {"rigs.bin": _rigs_bytes(rigs.rigs), "frames.bin": _frames_bytes(rigs.frames)}


def _numbers(dtype: str, *values: int) -> bytes:
    return np.array(values, dtype).tobytes()


def _rigs_bytes(rigs: tuple[Rig, ...]) -> bytes:
    parts = [_numbers("<u8", len(rigs))]
    for rig in rigs:
        parts.append(_numbers("<u4", rig.rig_id, len(rig.sensors)))
        for k, sensor in enumerate(rig.sensors):
            parts += [_numbers("<i4", sensor.kind), _numbers("<u4", sensor.sensor_id)]
            if k > 0:
                parts.append(_numbers("u1", sensor.from_rig is not None))
            if sensor.from_rig is not None:
                parts.append(sensor.from_rig.astype("<f8").tobytes())
    return b"".join(parts)


def _frames_bytes(frames: tuple[RigFrame, ...]) -> bytes:
    parts = [_numbers("<u8", len(frames))]
    for frame in frames:
        parts += [_numbers("<u4", frame.frame_id, frame.rig_id), frame.from_world.astype("<f8").tobytes()]
        parts.append(_numbers("<u4", len(frame.data)))
        for kind, sensor, recorded in frame.data.tolist():
            parts += [_numbers("<i4", kind), _numbers("<u4", sensor), _numbers("<u8", recorded)]
    return b"".join(parts)
