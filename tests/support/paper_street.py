"""A street of three textured planes, photographed from the air and on foot, written as a user would bring it.

Small and quick: every photo is one ray-plane intersection per pixel. The walk goes along x between two walls.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from skyanchor.geometry import cameras, rigid
from skyanchor.scaffold import colmap_files
from skyanchor.scaffold.colmap_model import ColmapImage, ColmapModel, ColmapPoints
from skyanchor.types import Bytes, Camera, Floats, Pose

UP = np.array([0.0, 0.0, 1.0])
AERIAL = cameras.pinhole(320, 240, 280.0)
MIXED = (AERIAL, cameras.pinhole(240, 320, 280.0), cameras.pinhole(200, 150, 175.0))
"""Landscape, portrait, and one of fewer pixels than depth is measured at."""
WALKER = cameras.pinhole(320, 180, 230.0)
HALF_WIDTH, WALL, LENGTH = 4.0, 7.0, 40.0
PIXELS_PER_METRE = 40


@dataclass(frozen=True, eq=False)
class Face:
    """A textured rectangle: origin + u * across + v * along, u and v in metres."""

    origin: Floats
    across: Floats
    along: Floats
    texture: Bytes


def _texture(seed: int, width_m: float, height_m: float) -> Bytes:
    """Patches of colour with soft noise of several sizes: enough corners for any detector."""
    rng = np.random.default_rng(seed)
    shape = (int(height_m * PIXELS_PER_METRE), int(width_m * PIXELS_PER_METRE))
    image = np.full((*shape, 3), 120.0)
    for size in (4, 12, 40, 120):
        small = rng.normal(size=(shape[0] // size + 2, shape[1] // size + 2, 3)).astype(np.float32)
        image += 22.0 * cv2.resize(small, shape[::-1], interpolation=cv2.INTER_CUBIC)
    for _ in range(int(width_m * height_m * 1.5)):
        x, y = rng.integers(0, shape[1]), rng.integers(0, shape[0])
        w, h = rng.integers(6, 40, 2)
        image[y : y + h, x : x + w] = 0.5 * image[y : y + h, x : x + w] + 0.5 * rng.uniform(20, 235, 3)
    return np.clip(image, 0, 255).astype(np.uint8)


def street() -> tuple[Face, ...]:
    """Ground and two walls, the left one lower."""
    x, y, z = np.eye(3)
    ground = Face(np.array([-20.0, -20.0, 0.0]), x, y, _texture(1, LENGTH + 40.0, 40.0))
    left = Face(np.array([-20.0, HALF_WIDTH, 0.0]), x, z, _texture(2, LENGTH + 40.0, WALL - 1.0))
    right = Face(np.array([-20.0, -HALF_WIDTH, 0.0]), x, z, _texture(3, LENGTH + 40.0, WALL))
    return ground, left, right


BOX = (np.array([5.0, 1.6, 0.0]), np.array([6.2, 2.8, 1.5]))
"""Low and high corner of a thing that stands beside the walk on some days."""


def box() -> tuple[Face, ...]:
    """Its two sides that the walk sees, and its top."""
    x, y, z = np.eye(3)
    (low, high), size = BOX, BOX[1] - BOX[0]
    front = Face(low, y, z, _texture(11, size[1], size[2]))
    beside = Face(low, x, z, _texture(12, size[0], size[2]))
    top = Face(np.array([low[0], low[1], high[2]]), x, y, _texture(13, size[0], size[1]))
    return front, beside, top


def photograph(faces: tuple[Face, ...], camera: Camera, cam_from_world: Pose) -> Bytes:
    """(H, W, 3) RGB; the nearest face along each ray, sky elsewhere."""
    x, y = np.meshgrid(np.arange(camera.width) + 0.5, np.arange(camera.height) + 0.5)
    rays = cameras.unproject(camera, np.stack([x.ravel(), y.ravel()], axis=1)) @ cam_from_world.rotation
    centre = rigid.centre_in_world(cam_from_world)
    nearest = np.full(len(rays), np.inf)
    image = np.full((len(rays), 3), 200, np.uint8)
    for face in faces:
        normal = np.cross(face.across, face.along)
        with np.errstate(divide="ignore", invalid="ignore"):
            depth = (face.origin - centre) @ normal / (rays @ normal)
        hit = centre + depth[:, None] * rays - face.origin
        uv = np.stack([hit @ face.across, hit @ face.along], axis=1) * PIXELS_PER_METRE - 0.5
        inside = np.all((uv > 0) & (uv < np.array(face.texture.shape[1::-1]) - 1), axis=1)
        front = (depth > 0.05) & (depth < nearest) & inside
        u, v = (np.nan_to_num(c).reshape(camera.height, camera.width).astype(np.float32) for c in uv.T)
        sampled = cv2.remap(face.texture, u, v, cv2.INTER_LINEAR)
        image[front] = sampled.reshape(-1, 3)[front]
        nearest[front] = depth[front]
    return image.reshape(camera.height, camera.width, 3)


def walk(frames: int, aside: float = 0.0) -> list[Pose]:
    """Steps of 0.4 m along the street, swaying a little, looking ahead and to the left wall; `aside` moves it to it."""
    poses = []
    for k in range(frames):
        eye = np.array([0.4 * k, aside + 0.4 * np.sin(k / 4.0), 1.6 + 0.03 * np.cos(k)])
        poses.append(rigid.look_at(eye, eye + np.array([1.0, 0.55 + 0.1 * np.sin(k / 5.0), 0.02]), UP))
    return poses


def flight() -> list[Pose]:
    """Nadir and oblique photos on a grid 22 m above the street."""
    poses = []
    for x in np.arange(-6.0, 19.0, 4.0):
        for y, tilt in ((-9.0, 0.7), (0.0, 0.0), (9.0, -0.7)):
            eye = np.array([x, y, 22.0])
            poses.append(rigid.look_at(eye, eye + np.array([0.02, tilt, -1.0]), np.array([1.0, 0.0, 0.0])))
    return poses


def _surface_points(rng: np.random.Generator) -> Floats:
    x = rng.uniform(-12.0, 26.0, 600)
    ground = np.column_stack([x[:400], rng.uniform(-14.0, 14.0, 400), np.zeros(400)])
    side = np.where(rng.random(200) < 0.5, HALF_WIDTH, -HALF_WIDTH)
    return np.vstack([ground, np.column_stack([x[400:], side, rng.uniform(0.0, WALL - 1.0, 200)])])


def _model(lenses: list[Camera], poses: list[Pose], names: list[str], points: Floats) -> ColmapModel:
    ids = np.arange(len(points)) + 1
    known = list(dict.fromkeys(lenses))
    images, track_image, track_point, track_slot = [], [], [], []
    for k, (camera, pose, name) in enumerate(zip(lenses, poses, names, strict=True)):
        xy = cameras.project(camera, pose(points))
        seen = np.flatnonzero(np.all((xy > 0) & (xy < [camera.width, camera.height]), axis=1))
        quaternion = rigid.quaternion_from_rotation(pose.rotation)
        number = known.index(camera) + 1
        images.append(ColmapImage(k + 1, number, name, quaternion, pose.translation, xy[seen], ids[seen]))
        track_image.append(np.full(len(seen), k + 1))
        track_point.append(seen)
        track_slot.append(np.arange(len(seen)))
    point = np.concatenate(track_point) if track_point else np.zeros(0, np.int64)
    order = np.argsort(point, kind="stable")
    starts = np.searchsorted(point[order], np.arange(len(points) + 1))
    tracks = (starts, np.concatenate(track_image)[order], np.concatenate(track_slot)[order])
    colors = np.full((len(points), 3), 128, np.uint8)
    held = ColmapPoints(ids, points, colors, np.zeros(len(points)), *tracks)
    return ColmapModel({k + 1: camera for k, camera in enumerate(known)}, tuple(images), held)


def _write_photos(
    folder: Path, faces: tuple[Face, ...], lenses: list[Camera], poses: list[Pose], stem: str
) -> list[str]:
    folder.mkdir(parents=True)
    names = [f"{stem}{k:03}.png" for k in range(len(poses))]
    for name, camera, pose in zip(names, lenses, poses, strict=True):
        assert cv2.imwrite(str(folder / name), photograph(faces, camera, pose)[..., ::-1])
    return names


def write_walk(folder: Path, frames: int, faces: tuple[Face, ...], aside: float = 0.0) -> None:
    """images and truth of a walk on a day when the street was like this."""
    lenses, poses = [WALKER] * frames, walk(frames, aside)
    names = _write_photos(folder / "images", faces, lenses, poses, "g")
    nothing = _surface_points(np.random.default_rng(0))[:0]
    colmap_files.write_model(folder / "truth", _model(lenses, poses, names, nothing))


def write_scene(root: Path, frames: int, flown_with: tuple[Camera, ...] = (AERIAL,)) -> None:
    """aerial/images, aerial/sparse, ground/images and ground/truth; the flight's cameras take turns.

    A scene that this process has written before is copied.
    """
    held = Path(_WRITTEN.name) / str(frames)
    if flown_with != (AERIAL,):
        write_scene_of(root, walk(frames), flown_with)
        return
    if not held.is_dir():
        write_scene_of(held, walk(frames), flown_with)
    shutil.copytree(held, root, dirs_exist_ok=True)


_WRITTEN = tempfile.TemporaryDirectory(prefix="paper-street-")
"""Scenes by their number of frames; gone with the process."""


def write_scene_of(root: Path, poses: list[Pose], flown_with: tuple[Camera, ...] = (AERIAL,)) -> None:
    """The same scene with a walk of one's own."""
    faces, points = street(), _surface_points(np.random.default_rng(0))
    above, below = [flown_with[k % len(flown_with)] for k in range(len(flight()))], [WALKER] * len(poses)
    aerial = _write_photos(root / "aerial/images", faces, above, flight(), "a")
    colmap_files.write_model(root / "aerial/sparse", _model(above, flight(), aerial, points))
    ground = _write_photos(root / "ground/images", faces, below, poses, "g")
    colmap_files.write_model(root / "ground/truth", _model(below, poses, ground, points[:0]))
