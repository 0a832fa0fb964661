"""True depth maps of known cameras: read, asked for a point, and the planes that their pixels lie on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path, PurePosixPath

import numpy as np

from skyanchor.errors import InputError
from skyanchor.geometry import cameras
from skyanchor.geometry.depth import inside, lift, pixel_centres
from skyanchor.photos import opened
from skyanchor.sequence import depth_files
from skyanchor.types import Camera, Floats, Floats32, Ints, Pose

ADVICE = "Give PNGs of one channel and 16 bits, named like the photos."
UNIT_M = 0.002
"""Of a 16-bit PNG that does not say its own, along the optical axis; 0 says nothing."""
UNIT_TEXT = "unit_m"
"""Name of the text in a PNG that says it."""


@dataclass(frozen=True, eq=False)
class TrueDepth:
    """Exact depth of one camera."""

    camera: Camera
    cam_from_world: Pose
    depth: Floats32
    """(H, W), metres along the optical axis, 0 where nothing is known."""


def read_true_depths(folder: Path, seen_by: Mapping[str, tuple[Camera, Pose]]) -> list[TrueDepth]:
    """The PNGs of a folder, by the file name of the camera that saw them; InputError for one that is none of its."""
    stems = {PurePosixPath(name).stem: value for name, value in seen_by.items()}
    found = []
    for path in sorted(folder.glob("*.png")):
        if path.stem in stems:
            found.append(_true_depth(path, *stems[path.stem]))
    if not found:
        raise InputError(folder, "holds no depth of a camera of the run", ADVICE)
    return found


def _true_depth(path: Path, camera: Camera, pose: Pose) -> TrueDepth:
    """The depth in a PNG of the picture that a camera took, at any scale."""
    values = depth_files.png_values(path)
    seen = cameras.undistorted(cameras.scaled(camera, values.shape[1]))
    if values.dtype != np.uint16:
        raise InputError(path, f"has {8 * values.dtype.itemsize} bits a pixel", ADVICE)
    if abs(values.shape[0] - seen.height) > 1:
        problem = f"is {values.shape[1]}x{values.shape[0]}, its camera {camera.width}x{camera.height}"
        raise InputError(path, problem, "Depth of the whole picture is needed, at any scale.")
    return TrueDepth(seen, pose, values.astype(np.float32) * np.float32(unit_m(path)))


def unit_m(path: Path) -> float:
    """Metres per count of a depth PNG; InputError where it says something that is no length."""
    with opened(path) as image:
        said = image.info.get(UNIT_TEXT, UNIT_M)
    try:
        unit = float(said)
    except (TypeError, ValueError):
        unit = 0.0
    if not (isfinite(unit) and unit > 0.0):
        raise InputError(
            path, f"says that its {UNIT_TEXT} is {said!r}", "Metres per count of depth are a number above 0."
        )
    return unit


def pixels_of(one: TrueDepth, in_cam: Floats, farthest_m: float) -> tuple[Ints, Ints, Ints]:
    """Rows of the points in the picture, and the pixels that they fall on."""
    rows = np.flatnonzero((in_cam[:, 2] > 0.1) & (in_cam[:, 2] < farthest_m))
    xy = cameras.project(one.camera, in_cam[rows])
    good = inside(one.camera, xy)
    column, row = xy[good].astype(np.int64).T
    return rows[good], np.minimum(row, one.depth.shape[0] - 1), np.minimum(column, one.depth.shape[1] - 1)


def normals_of(one: TrueDepth) -> Floats:
    """(H, W, 3), unit normals of the true surface in camera axes, from the neighbours that are nearer in depth."""
    height, width = one.depth.shape
    rows, columns = (axis.ravel() for axis in np.mgrid[:height, :width])
    here = Pose(np.eye(3), np.zeros(3))
    points = lift(one.camera, here, pixel_centres(rows, columns), one.depth.ravel().astype(np.float64))
    points = points.reshape(height, width, 3)
    right, down = _smaller_step(points, 1), _smaller_step(points, 0)
    normal = np.cross(right, down)
    return np.asarray(normal / np.maximum(np.linalg.norm(normal, axis=-1, keepdims=True), 1e-12))


def _smaller_step(points: Floats, axis: int) -> Floats:
    """To the next or from the last pixel along an axis, whichever is less in depth: edges do not bend normals."""
    ahead = np.roll(points, -1, axis) - points
    behind = points - np.roll(points, 1, axis)
    first, last = (np.take(np.arange(points.shape[axis]), [k]) for k in (0, -1))
    place = np.arange(points.shape[axis]).reshape([-1 if k == axis else 1 for k in range(2)])
    forward = (np.abs(ahead[..., 2]) <= np.abs(behind[..., 2])) | (place == first)
    return np.where((forward & (place != last))[..., None], ahead, behind)
