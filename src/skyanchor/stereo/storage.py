"""Depth maps on disk: one compact .npz per photo, readable without pickle.

Depth is stored as the logarithm on 16 bits between the nearest and the farthest depth of the map (for a map that spans
1:4 the step is 2e-5 of the depth, 2 mm at 100 m), the normal as two octahedral bytes (about half a degree), the
confidence as one byte.
"""

from __future__ import annotations

from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from skyanchor.errors import InputError
from skyanchor.types import Bytes, Camera, DepthMap, Floats32, Pose

FORMAT = 1
LEVELS = 65534


def depth_path(folder: Path, name: str) -> Path:
    """Where the depth of photo `name` lies in a folder: the name with its suffix replaced by .npz."""
    return folder / Path(name).with_suffix(".npz")


def save_depth(path: Path, depth_map: DepthMap) -> None:
    """Write the map to one file, atomically: a reader never sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    codes, near, far = _encode_depth(depth_map.depth)
    partial = path.with_name(path.name + ".part")
    with partial.open("wb") as file:
        np.savez_compressed(
            file,
            format=np.array(FORMAT),
            name=np.array(depth_map.name),
            model=np.array(depth_map.camera.model),
            size=np.array([depth_map.camera.width, depth_map.camera.height]),
            params=np.array(depth_map.camera.params),
            rotation=depth_map.cam_from_world.rotation,
            translation=depth_map.cam_from_world.translation,
            range=np.array([near, far]),
            depth=codes,
            confidence=np.round(np.clip(depth_map.confidence, 0.0, 1.0) * 255.0).astype(np.uint8),
            completed=np.packbits(depth_map.completed),
            normal=_encode_normal(depth_map.normal),
        )
    partial.replace(path)


def load_depth(path: Path) -> DepthMap:
    """The map written by `save_depth`."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            if int(stored["format"]) != FORMAT:
                raise InputError(path, f"has depth format {int(stored['format'])}", "Compute it again.")
            width, height = (int(v) for v in stored["size"])
            camera = Camera(str(stored["model"]), width, height, tuple(float(p) for p in stored["params"]))
            depth = _decode_depth(stored["depth"], float(stored["range"][0]), float(stored["range"][1]))
            return DepthMap(
                name=str(stored["name"]),
                camera=camera,
                cam_from_world=Pose(stored["rotation"], stored["translation"]),
                depth=depth,
                confidence=stored["confidence"].astype(np.float32) / np.float32(255.0),
                completed=np.unpackbits(stored["completed"], count=width * height).reshape(height, width).astype(bool),
                normal=np.where(depth[..., None] > 0, _decode_normal(stored["normal"]), np.float32(0.0)),
            )
    except (OSError, KeyError, ValueError, BadZipFile) as error:
        raise InputError(path, f"is no depth map ({error})", "Remove the file; it will be computed again.") from error


def _encode_depth(depth: Floats32) -> tuple[npt.NDArray[np.uint16], float, float]:
    """Codes 1..65535 linear in log depth, 0 = none, and the range they span."""
    valid = depth > 0
    if not valid.any():
        return np.zeros(depth.shape, np.uint16), 1.0, 2.0
    near = float(depth[valid].min())
    far = max(float(depth[valid].max()), near * (1.0 + 1e-6))
    codes = np.zeros(depth.shape, np.uint16)
    share = np.log(depth[valid].astype(np.float64) / near) / np.log(far / near)
    codes[valid] = 1 + np.round(share * LEVELS).astype(np.uint16)
    return codes, near, far


def _decode_depth(codes: npt.NDArray[np.uint16], near: float, far: float) -> Floats32:
    share = (codes.astype(np.float64) - 1.0) / LEVELS
    return np.where(codes > 0, near * (far / near) ** share, 0.0).astype(np.float32)


def _encode_normal(normal: Floats32) -> Bytes:
    """Octahedral map of unit vectors (H, W, 3) to two bytes: project on |x|+|y|+|z| = 1, fold the lower half out."""
    size = np.abs(normal).sum(axis=-1, keepdims=True)
    p = normal / np.where(size > 0, size, 1.0)
    folded = (1.0 - np.abs(p[..., 1::-1])) * np.where(p[..., :2] >= 0, 1.0, -1.0)
    xy = np.where(p[..., 2:] < 0, folded, p[..., :2])
    return np.round((xy * 0.5 + 0.5) * 254.0).astype(np.uint8)


def _decode_normal(codes: Bytes) -> Floats32:
    xy = codes.astype(np.float32) / np.float32(127.0) - np.float32(1.0)
    z = 1.0 - np.abs(xy).sum(axis=-1, keepdims=True)
    unfolded = (1.0 - np.abs(xy[..., ::-1])) * np.where(xy >= 0, 1.0, -1.0)
    normal = np.concatenate([np.where(z < 0, unfolded, xy), z], axis=-1)
    return (normal / np.linalg.norm(normal, axis=-1, keepdims=True)).astype(np.float32)
