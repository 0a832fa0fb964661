"""Depth maps on disk: one compact .npz per photo, readable without pickle.

Depth is stored as the logarithm on 16 bits between the nearest and the farthest depth of the map (for a map that spans
1:4 the step is 2e-5 of the depth, 2 mm at 100 m), the normal as two octahedral bytes (about half a degree), the
confidence as one byte.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path, PurePosixPath

import numpy as np
import numpy.typing as npt

from skyanchor.ahead import made_ahead
from skyanchor.errors import InputError
from skyanchor.storage import codec, files
from skyanchor.storage.names import beneath, names_for
from skyanchor.types import Bytes, Camera, DepthMap, Floats32, Pose

FORMAT = 1
LEVELS = 65534
MARK = "%"
BESIDE = ("progress", "recipe.json", "georef.json")
"""What a stage that writes depth has in its folder besides."""


def depth_files(names: Sequence[str]) -> tuple[str, ...]:
    """Where to write the depth of every photo, relative to a folder of it alone: see `names_for`."""
    return names_for([_kept_apart(name) for name in names], ".npz")


def depth_path(folder: Path, name: str) -> Path:
    """Where the depth of photo `name` lies in a folder that was written to the places of `depth_files`."""
    stored = _kept_apart(name)
    own = beneath(folder, f"{stored}.npz")
    return own if own.is_file() else beneath(folder, Path(stored).with_suffix(".npz").as_posix())


def _kept_apart(name: str) -> str:
    """The photo's name, marked where its folder is named like something else that lies beside depth."""
    first = PurePosixPath(name).parts[:1]
    return f"{MARK}{name}" if first and len(PurePosixPath(name).parts) > 1 and _is_taken(first[0]) else name


def _is_taken(first: str) -> bool:
    return first in BESIDE or first.startswith(MARK)


@dataclass
class DepthFolder:
    """The depth of named photos in a folder, read when asked for; forgets the least recently used beyond a limit."""

    folder: Path
    names: tuple[str, ...]
    limit_bytes: int = 1 << 30
    _held: OrderedDict[str, DepthMap] = field(default_factory=OrderedDict)
    _bytes: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __len__(self) -> int:
        """How many photos there are."""
        return len(self.names)

    def __getitem__(self, index: int) -> DepthMap:
        """The depth of photo `index`; several threads may ask at once."""
        name = self.names[index]
        with self._lock:
            if name in self._held:
                self._held.move_to_end(name)
                return self._held[name]
        path = depth_path(self.folder, name)
        loaded = load_depth(path)
        if loaded.name != name:
            raise InputError(path, f"is the depth of {loaded.name}, not of {name}", "Remove it; it will be made again.")
        with self._lock:
            self._keep(name, loaded)
        return loaded

    def __iter__(self) -> Iterator[DepthMap]:
        """One map after the other, the next ones read meanwhile."""
        return made_ahead(self.__getitem__, range(len(self)))

    def _keep(self, name: str, loaded: DepthMap) -> None:
        if name in self._held:
            return
        self._held[name] = loaded
        self._bytes += _bytes_of(loaded)
        while self._bytes > self.limit_bytes and len(self._held) > 1:
            self._bytes -= _bytes_of(self._held.popitem(last=False)[1])


def _bytes_of(held: DepthMap) -> int:
    return held.depth.nbytes + held.confidence.nbytes + held.completed.nbytes + held.normal.nbytes


def save_depth(path: Path, depth_map: DepthMap, compressed: bool = True) -> None:
    """Write the map to one file, atomically: a reader never sees half a file; `compressed` where it is to stay."""
    codes, near, far = _encode_depth(depth_map.depth)
    arrays = {
        "format": np.array(FORMAT),
        "name": np.array(depth_map.name),
        "model": np.array(depth_map.camera.model),
        "size": np.array([depth_map.camera.width, depth_map.camera.height]),
        "params": np.array(depth_map.camera.params),
        "rotation": depth_map.cam_from_world.rotation,
        "translation": depth_map.cam_from_world.translation,
        "range": np.array([near, far]),
        "depth": codes,
        "confidence": np.round(np.clip(depth_map.confidence, 0.0, 1.0) * 255.0).astype(np.uint8),
        "completed": np.packbits(depth_map.completed),
        "normal": _encode_normal(depth_map.normal),
    }
    files.write_arrays(path, arrays, compressed)


def load_depth(path: Path) -> DepthMap:
    """The map written by `save_depth`."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            if int(stored["format"]) != FORMAT:
                raise InputError(path, f"has depth format {int(stored['format'])}", "Compute it again.")
            width, height = (int(v) for v in stored["size"])
            camera = Camera(str(stored["model"]), width, height, tuple(float(p) for p in stored["params"]))
            depth = _decode_depth(stored["depth"], float(stored["range"][0]), float(stored["range"][1]))
            normal = _decode_normal(stored["normal"])
            normal[depth <= 0] = 0.0
            return DepthMap(
                name=str(stored["name"]),
                camera=camera,
                cam_from_world=Pose(stored["rotation"], stored["translation"]),
                depth=depth,
                confidence=stored["confidence"].astype(np.float32) / np.float32(255.0),
                completed=np.unpackbits(stored["completed"], count=width * height).reshape(height, width).astype(bool),
                normal=normal,
            )
    except codec.UNREADABLE as error:
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
    share = (np.arange(LEVELS + 2, dtype=np.float64) - 1.0) / LEVELS
    depth = near * (far / near) ** share
    depth[0] = 0.0
    return np.asarray(depth.astype(np.float32)[codes])


def _encode_normal(normal: Floats32) -> Bytes:
    """Octahedral map of unit vectors (H, W, 3) to two bytes: project on |x|+|y|+|z| = 1, fold the lower half out."""
    size = np.abs(normal).sum(axis=-1, keepdims=True)
    p = normal / np.where(size > 0, size, 1.0)
    folded = (1.0 - np.abs(p[..., 1::-1])) * np.where(p[..., :2] >= 0, 1.0, -1.0)
    xy = np.where(p[..., 2:] < 0, folded, p[..., :2])
    return np.round((xy * 0.5 + 0.5) * 254.0).astype(np.uint8)


def _decode_normal(codes: Bytes) -> Floats32:
    """(H, W, 3) of octahedral bytes (H, W, 2)."""
    return np.take(_normals(), codes[..., 0].astype(np.uint16) << 8 | codes[..., 1], axis=0)


@cache
def _normals() -> Floats32:
    """(65536, 3), the unit vector of every pair of bytes, the first times 256."""
    codes = np.stack(np.meshgrid(np.arange(256), np.arange(256), indexing="ij"), axis=-1)
    xy = codes.astype(np.float32) / np.float32(127.0) - np.float32(1.0)
    z = 1.0 - np.abs(xy).sum(axis=-1, keepdims=True)
    unfolded = (1.0 - np.abs(xy[..., ::-1])) * np.where(xy >= 0, 1.0, -1.0)
    normal = np.concatenate([np.where(z < 0, unfolded, xy), z], axis=-1)
    return (normal / np.linalg.norm(normal, axis=-1, keepdims=True)).astype(np.float32).reshape(-1, 3)
