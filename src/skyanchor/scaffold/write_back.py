"""Models in the user's own coordinates: the aerial part bit for bit as it came, street frames added."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from skyanchor.errors import InputError
from skyanchor.geometry import rigid
from skyanchor.scaffold import colmap_files, georeference
from skyanchor.scaffold.colmap_model import NO_POINT, ColmapImage, ColmapModel, ColmapPoints, no_points
from skyanchor.scaffold.colmap_rigs import Rigs, with_single_cameras
from skyanchor.types import Bytes, Camera, Floats, Scaffold, Tracks, View


def combined_model(
    scaffold: Scaffold,
    added: Sequence[View],
    points: Floats | None = None,
    colors: Bytes | None = None,
    tracks: Tracks | None = None,
) -> ColmapModel:
    """The user's aerial model, unchanged, with views, points (M, 3) and tracks of the local frame added.

    `tracks.image` counts through `added`. Ids and values of the aerial part are those of the user's files; new ids
    follow the largest ones there.
    """
    if scaffold.model_path is None:
        raise ValueError("the scaffold was not read from files")
    source = colmap_files.read_model(scaffold.model_path)
    _check_names(scaffold.model_path, source, added)
    return _with_added(source, georeference.moved_by(scaffold.georef), added, points, colors, tracks)


def street_model(
    scaffold: Scaffold,
    added: Sequence[View],
    points: Floats | None = None,
    colors: Bytes | None = None,
    tracks: Tracks | None = None,
) -> ColmapModel:
    """As `combined_model`, without the aerial part: the street alone, in the coordinates of the user's aerial files."""
    empty = ColmapModel({}, (), no_points())
    return _with_added(empty, georeference.moved_by(scaffold.georef), added, points, colors, tracks)


def _with_added(
    source: ColmapModel,
    moved: Floats,
    added: Sequence[View],
    points: Floats | None,
    colors: Bytes | None,
    tracks: Tracks | None,
) -> ColmapModel:
    empty = Tracks(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 2)))
    tracks = empty if tracks is None else tracks
    xyz = np.zeros((0, 3)) if points is None else points + moved
    rgb = np.zeros((len(xyz), 3), np.uint8) if colors is None else colors
    first_point = int(source.points.ids.max(initial=0)) + 1
    first_image = max((image.image_id for image in source.images), default=0) + 1
    cameras, camera_ids = _with_cameras(source.cameras, [view.camera for view in added])
    images, keypoints = _added_images(added, camera_ids, moved, first_image, first_point, tracks)
    new_points = _added_points(xyz, rgb, first_point, first_image, tracks, keypoints)
    rigs = None if source.rigs is None else _with_rigs(source.rigs, camera_ids, images)
    return ColmapModel(cameras, (*source.images, *images), _joined(source.points, new_points), rigs)


def write_in_original_frame(folder: Path, model: ColmapModel, scaffold: Scaffold) -> None:
    """The model's files in the coordinates of the user's files, with their georef.json when they had one."""
    colmap_files.write_model(folder, model)
    georef = scaffold.georef
    if georef.moved is not None:
        own = replace(georef, offset=georef.offset - georef.moved, moved=None)
        georeference.write_georef(folder, own, scaffold.up)


# --- parts ------------------------------------------------------------------------------------------------------


def _check_names(path: Path, source: ColmapModel, added: Sequence[View]) -> None:
    taken = {image.name for image in source.images}
    twice = next((view.name for view in added if view.name in taken), None)
    if twice is not None:
        raise InputError(
            path, f"already has an image named {twice}", "Rename the street frames or put them in a folder."
        )


def _with_cameras(cameras: dict[int, Camera], new: list[Camera]) -> tuple[dict[int, Camera], dict[Camera, int]]:
    """All cameras by id, and the ids of the new ones."""
    ids = {camera: max(cameras, default=0) + 1 + k for k, camera in enumerate(dict.fromkeys(new))}
    return {**cameras, **{camera_id: camera for camera, camera_id in ids.items()}}, ids


def _with_rigs(rigs: Rigs, camera_ids: dict[Camera, int], images: list[ColmapImage]) -> Rigs:
    """The user's rigs as they are; every street camera is a rig of its own, every street image a frame."""
    poses = {one.image_id: (one.camera_id, np.concatenate([one.quaternion, one.translation])) for one in images}
    return with_single_cameras(rigs, list(camera_ids.values()), poses)


def _added_images(
    added: Sequence[View],
    camera_ids: dict[Camera, int],
    moved: Floats,
    first_image: int,
    first_point: int,
    tracks: Tracks,
) -> tuple[list[ColmapImage], np.ndarray]:
    """Images with one keypoint per observation, and the keypoint index of every observation."""
    keypoints = np.zeros(len(tracks.image), np.int64)
    order = np.argsort(tracks.image, kind="stable")
    starts = np.searchsorted(tracks.image[order], np.arange(len(added) + 1))
    images = []
    for k, view in enumerate(added):
        own = order[starts[k] : starts[k + 1]]
        keypoints[own] = np.arange(len(own))
        placed = georeference.to_original(view.cam_from_world, moved)
        quaternion = rigid.quaternion_from_rotation(placed.rotation)
        ids = tracks.point[own] + first_point if len(own) else np.full(0, NO_POINT)
        images.append(
            ColmapImage(
                first_image + k, camera_ids[view.camera], view.name, quaternion, placed.translation, tracks.xy[own], ids
            )
        )
    return images, keypoints


def _added_points(
    xyz: Floats, rgb: Bytes, first_point: int, first_image: int, tracks: Tracks, keypoints: np.ndarray
) -> ColmapPoints:
    order = np.argsort(tracks.point, kind="stable")
    length = np.bincount(tracks.point, minlength=len(xyz)) if len(xyz) else np.zeros(0, np.int64)
    return ColmapPoints(
        np.arange(len(xyz)) + first_point,
        xyz,
        rgb,
        np.zeros(len(xyz)),
        np.concatenate([[0], np.cumsum(length)]).astype(np.int64),
        tracks.image[order] + first_image,
        keypoints[order],
    )


def _joined(a: ColmapPoints, b: ColmapPoints) -> ColmapPoints:
    return ColmapPoints(
        np.concatenate([a.ids, b.ids]),
        np.concatenate([a.xyz, b.xyz]),
        np.concatenate([a.rgb, b.rgb]),
        np.concatenate([a.error, b.error]),
        np.concatenate([a.track_start, b.track_start[1:] + a.track_start[-1]]),
        np.concatenate([a.track_image_ids, b.track_image_ids]),
        np.concatenate([a.track_keypoints, b.track_keypoints]),
    )
