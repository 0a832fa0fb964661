"""COLMAP's binary files from and to disk, every length checked before it is trusted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pycolmap

from skyanchor.errors import InputError
from skyanchor.scaffold.checked_file import COPY_ADVICE, CheckedBytes, contents, truncated
from skyanchor.scaffold.colmap_model import (
    ColmapImage,
    ColmapPoints,
    camera_of,
    no_points,
    parameter_count,
    refuse_twice,
)
from skyanchor.types import Camera, Ints


def read_cameras_bin(path: Path) -> dict[int, Camera]:
    """Cameras by id."""
    file = CheckedBytes(path, contents(path))
    cameras: dict[int, Camera] = {}
    for k in range(file.number("<u8")):
        file.what = f"camera {k + 1}"
        camera_id, model = file.number("<u4"), file.number("<i4")
        width, height = file.number("<u8"), file.number("<u8")
        name = next((n for n, v in pycolmap.CameraModelId.__members__.items() if int(v) == model), "")
        count = parameter_count(name)
        params = file.take("<f8", count) if count is not None else np.zeros(0)
        refuse_twice(path, camera_id, cameras)
        cameras[camera_id] = camera_of(path, camera_id, model, width, height, params)
    file.finish()
    return cameras


def read_images_bin(path: Path) -> tuple[ColmapImage, ...]:
    """Images in file order."""
    file = CheckedBytes(path, contents(path))
    images: list[ColmapImage] = []
    keypoint = np.dtype([("xy", "<f8", 2), ("id", "<i8")])
    for k in range(file.number("<u8")):
        file.what = f"image {k + 1}"
        image_id = file.number("<u4")
        pose = file.take("<f8", 7).astype(np.float64)
        camera_id = file.number("<u4")
        name = file.text()
        file.what = f"image {k + 1} ({name})"
        count = file.number("<u8")
        if count * keypoint.itemsize > len(file.data) - file.at:
            raise truncated(path, file.what)
        keypoints = np.frombuffer(file.data, keypoint, count, file.at)
        file.at += count * keypoint.itemsize
        xy, ids = keypoints["xy"].astype(np.float64), keypoints["id"].astype(np.int64)
        images.append(ColmapImage(image_id, camera_id, name, pose[:4], pose[4:], xy.reshape(-1, 2), ids))
    file.finish()
    return tuple(images)


POINT_BYTES = 51
"""id 8, xyz 24, rgb 3, error 8, track length 8."""
POINT_DTYPE = np.dtype([("id", "<i8"), ("xyz", "<f8", 3), ("rgb", "u1", 3), ("error", "<f8"), ("length", "<i8")])


def read_points_bin(path: Path) -> ColmapPoints:
    """Points with their tracks."""
    data = contents(path)
    count = CheckedBytes(path, data).number("<u8")
    start = _point_offsets(path, data, count)
    if count == 0:
        return no_points()
    table = np.frombuffer(data, np.uint8)
    rows = np.ascontiguousarray(table[start[:, None] + np.arange(POINT_BYTES)]).view(POINT_DTYPE)[:, 0]
    length = rows["length"].astype(np.int64)
    first = np.concatenate([[0], np.cumsum(length)])
    within = np.arange(first[-1]) - np.repeat(first[:-1], length)
    at = np.repeat(start + POINT_BYTES, length) + 8 * within
    elements = np.ascontiguousarray(table[at[:, None] + np.arange(8)]).view("<u4").reshape(-1, 2).astype(np.int64)
    return ColmapPoints(
        rows["id"].astype(np.int64),
        rows["xyz"].astype(np.float64),
        rows["rgb"].copy(),
        rows["error"].astype(np.float64),
        first.astype(np.int64),
        elements[:, 0],
        elements[:, 1],
    )


def _point_offsets(path: Path, data: bytes, count: int) -> Ints:
    """Where each point's record begins; records have different lengths, so this walks through them."""
    if count > (len(data) - 8) // POINT_BYTES:
        raise truncated(path, f"its {count} points")
    at, size, offsets = 8, len(data), np.empty(count, np.int64)
    for k in range(count):
        end = at + POINT_BYTES
        if end > size:
            raise truncated(path, f"point {k + 1} of {count}")
        offsets[k] = at
        at = end + 8 * int.from_bytes(data[end - 8 : end], "little")
    if at > size:
        raise truncated(path, f"point {count} of {count}")
    if at < size:
        raise InputError(path, f"has {size - at} bytes more than it announces", COPY_ADVICE)
    return offsets


# --- out --------------------------------------------------------------------------------------------------------


def _number(value: int, size: int) -> bytes:
    return int(value).to_bytes(size, "little", signed=value < 0)


def cameras_bytes(cameras: dict[int, Camera]) -> bytes:
    """cameras.bin."""
    parts = [_number(len(cameras), 8)]
    for camera_id, camera in cameras.items():
        model = int(pycolmap.CameraModelId.__members__[camera.model])
        parts += [_number(camera_id, 4), _number(model, 4), _number(camera.width, 8), _number(camera.height, 8)]
        parts.append(np.array(camera.params, "<f8").tobytes())
    return b"".join(parts)


def images_bytes(images: tuple[ColmapImage, ...]) -> bytes:
    """images.bin."""
    parts = [_number(len(images), 8)]
    for image in images:
        pose = np.concatenate([image.quaternion, image.translation]).astype("<f8")
        parts += [_number(image.image_id, 4), pose.tobytes(), _number(image.camera_id, 4)]
        parts += [image.name.encode() + b"\0", _number(len(image.xy), 8)]
        keypoints = np.empty(len(image.xy), np.dtype([("xy", "<f8", 2), ("id", "<i8")]))
        keypoints["xy"], keypoints["id"] = image.xy, image.point_ids
        parts.append(keypoints.tobytes())
    return b"".join(parts)


def points_bytes(points: ColmapPoints) -> bytes:
    """points3D.bin."""
    length = np.diff(points.track_start)
    rows = np.empty(len(points.ids), POINT_DTYPE)
    rows["id"], rows["xyz"], rows["rgb"] = points.ids, points.xyz, points.rgb
    rows["error"], rows["length"] = points.error, length
    start = POINT_BYTES * np.arange(len(rows)) + 8 * points.track_start[:-1]
    out = np.empty(POINT_BYTES * len(rows) + 8 * int(points.track_start[-1]), np.uint8)
    out[start[:, None] + np.arange(POINT_BYTES)] = rows.view(np.uint8).reshape(-1, POINT_BYTES)
    elements = np.stack([points.track_image_ids, points.track_keypoints], axis=1).astype("<u4")
    within = np.arange(int(points.track_start[-1])) - np.repeat(points.track_start[:-1], length)
    at = np.repeat(start + POINT_BYTES, length) + 8 * within
    out[at[:, None] + np.arange(8)] = elements.view(np.uint8).reshape(-1, 8)
    return _number(len(rows), 8) + out.tobytes()
