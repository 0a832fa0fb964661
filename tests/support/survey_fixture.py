"""A small aerial survey with known truth, written to disk as a user would bring it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import cv2
import numpy as np
import pycolmap

from skyanchor.geometry import cameras, rigid
from skyanchor.scaffold import colmap_files
from skyanchor.scaffold.colmap_model import ColmapImage, ColmapModel, ColmapPoints, no_points
from skyanchor.types import Camera, Floats

UP = np.array([0.0, 0.0, 1.0])
PINHOLE = Camera("PINHOLE", 64, 48, (55.0, 55.0, 32.0, 24.0))
DISTORTED = Camera("OPENCV", 64, 48, (55.0, 56.0, 31.5, 24.2, -0.08, 0.01, 0.001, -0.0005))
GROUND = -3.0
HEIGHT_M = 40.0


@dataclass(frozen=True, eq=False)
class Survey:
    """What the files say, before any option was applied to how they are written."""

    model: ColmapModel
    turn: Floats
    """(3, 3), world_from_enu."""
    offset: Floats
    """(3,), added to all coordinates."""


def make_survey(
    camera: Camera = PINHOLE,
    offset: Floats | None = None,
    turn: Floats | None = None,
    tracks: bool = True,
    folder: str = "",
    stations: int = 4,
    roll_deg: float = 0.0,
    seed: int = 0,
) -> Survey:
    """Stations on a square block, nadir and two obliques each, over ground with flat roofs."""
    rng = np.random.default_rng(seed)
    offset = np.zeros(3) if offset is None else offset
    turn = np.eye(3) if turn is None else turn
    xyz = _points(rng) @ turn.T + offset
    ids = np.arange(len(xyz)) * 2 + 5
    images, image_id = [], 3
    for k in range(stations * stations):
        eye = np.array([k % stations * 15.0, k // stations * 15.0, GROUND + HEIGHT_M])
        for tilt, (dx, dy) in zip("nfl", [(0.0, 0.01), (0.9, 0.0), (-0.2, -0.8)], strict=True):
            pose = rigid.look_at(eye, eye + np.array([dx, dy, -1.0]), UP)
            roll = rigid.rotation_exp(np.array([0.0, 0.0, np.radians(rng.normal(0.0, roll_deg))]))
            placed = rigid.from_centre(roll @ pose.rotation @ turn.T, turn @ eye + offset)
            name = f"{folder}s{k}_{tilt}.jpg"
            images.append(_image(image_id, name, camera, placed, xyz, ids, tracks))
            image_id += 2
    model = ColmapModel({7: camera}, tuple(images), _with_tracks(ids, xyz, images))
    return Survey(model, turn, offset)


def _points(rng: np.random.Generator) -> Floats:
    xy = rng.uniform(-15, 60, (1500, 2))
    roof = (np.floor(xy / 10).sum(axis=1) % 3) == 0
    return np.column_stack([xy, np.where(roof, GROUND + 6.0, GROUND) + rng.normal(0, 0.03, len(xy))])


def _image(
    image_id: int, name: str, camera: Camera, pose: rigid.Pose, xyz: Floats, ids: np.ndarray, tracks: bool
) -> ColmapImage:
    pixels = cameras.project(camera, pose(xyz))
    seen = np.flatnonzero(np.all((pixels > 0) & (pixels < [camera.width, camera.height]), axis=1))
    seen = seen if tracks else seen[:0]
    quaternion = rigid.quaternion_from_rotation(pose.rotation)
    return ColmapImage(image_id, 7, name, quaternion, pose.translation, pixels[seen], ids[seen])


def _with_tracks(ids: np.ndarray, xyz: Floats, images: list[ColmapImage]) -> ColmapPoints:
    point = np.concatenate([np.searchsorted(ids, image.point_ids) for image in images])
    image = np.concatenate([np.full(len(i.point_ids), i.image_id) for i in images])
    keypoint = np.concatenate([np.arange(len(i.point_ids)) for i in images])
    order = np.argsort(point, kind="stable")
    start = np.concatenate([[0], np.cumsum(np.bincount(point, minlength=len(ids)))])
    rgb = np.full((len(ids), 3), 120, np.uint8)
    return ColmapPoints(ids, xyz, rgb, np.full(len(ids), 0.5), start, image[order], keypoint[order])


def write_photos(folder: Path, model: ColmapModel) -> None:
    """A noisy JPEG of the right size per image."""
    rng = np.random.default_rng(0)
    for image in model.images:
        camera = model.cameras[image.camera_id]
        path = folder / image.name
        path.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(path), rng.integers(0, 255, (camera.height, camera.width, 3), dtype=np.uint8))


def write_survey(root: Path, survey: Survey, sparse: str = "sparse", text: bool = False, modern: bool = False) -> Path:
    """root/images and the model in root/<sparse>; as text, or as pycolmap writes it with rigs and frames."""
    write_photos(root / "images", survey.model)
    target = root / sparse
    colmap_files.write_model(target, survey.model)
    if text or modern:
        model = pycolmap.Reconstruction(str(target))
        if text:
            model.write_text(str(target))
            for old in target.glob("*.bin"):
                old.unlink()
        else:
            model.write_binary(str(target))
    return root


def without_points(survey: Survey) -> Survey:
    """The same poses, no points at all."""
    images = tuple(replace(i, xy=np.zeros((0, 2)), point_ids=np.zeros(0, np.int64)) for i in survey.model.images)
    return replace(survey, model=ColmapModel(survey.model.cameras, images, no_points()))
