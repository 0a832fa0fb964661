"""COLMAP's text files from disk; what is wrong names the line."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from skyanchor.errors import InputError
from skyanchor.scaffold.checked_file import COPY_ADVICE, bad_line, id_of, numbered_lines
from skyanchor.scaffold.colmap_model import ColmapImage, ColmapPoints, camera_of, no_points, refuse_twice
from skyanchor.types import Camera


def read_cameras_txt(path: Path) -> dict[int, Camera]:
    """Cameras by id."""
    cameras: dict[int, Camera] = {}
    for number, line in numbered_lines(path):
        words = line.split()
        try:
            camera_id, width, height = id_of(words[0]), int(words[2]), int(words[3])
            params = np.array(words[4:], dtype=np.float64)
        except (ValueError, IndexError) as error:
            raise bad_line(path, number, "camera", error) from error
        refuse_twice(path, camera_id, cameras)
        cameras[camera_id] = camera_of(path, camera_id, words[1], width, height, params)
    return cameras


def read_images_txt(path: Path) -> tuple[ColmapImage, ...]:
    """Images in file order: two lines each, the second (keypoints) may be empty."""
    lines = numbered_lines(path, keep_empty=True)
    while lines and not lines[0][1]:
        lines.pop(0)
    images: list[ColmapImage] = []
    k = 0
    while k < len(lines) and lines[k][1]:
        number, head = lines[k]
        tail = lines[k + 1][1] if k + 1 < len(lines) else ""
        try:
            images.append(_image_of_lines(head, tail))
        except (ValueError, IndexError, OverflowError) as error:
            raise bad_line(path, number, "image with keypoints below it", error) from error
        k += 2
    if any(text for _, text in lines[k:]):
        raise InputError(path, f"has an empty line {lines[k][0]} where an image should be", COPY_ADVICE)
    return tuple(images)


def _image_of_lines(head: str, tail: str) -> ColmapImage:
    words = head.split(maxsplit=9)
    if len(words) < 10:
        raise ValueError(f"{len(words)} values instead of 10")
    pose = np.array(words[1:8], dtype=np.float64)
    values = tail.split()
    if len(values) % 3:
        raise ValueError(f"{len(values)} keypoint values, not a multiple of 3")
    x = np.array(values[0::3], dtype=np.float64)
    y = np.array(values[1::3], dtype=np.float64)
    ids = np.array(values[2::3], dtype=np.int64)
    xy = np.stack([x, y], axis=1).reshape(-1, 2)
    return ColmapImage(id_of(words[0]), id_of(words[8]), words[9], pose[:4], pose[4:], xy, ids)


def read_points_txt(path: Path) -> ColmapPoints:
    """Points with their tracks."""
    ids, xyz, rgb, error, length, elements = [], [], [], [], [], []
    for number, line in numbered_lines(path):
        words = line.split()
        try:
            ids.append(id_of(words[0], 2**63 - 1))
            xyz.append([float(words[k]) for k in (1, 2, 3)])
            rgb.append([min(255, max(0, int(words[k]))) for k in (4, 5, 6)])
            error.append(float(words[7]))
            track = np.array(words[8:], dtype=np.int64).reshape(-1, 2)
        except (ValueError, IndexError, OverflowError) as problem:
            raise bad_line(path, number, "point", problem) from problem
        length.append(len(track))
        elements.append(track)
    if not ids:
        return no_points()
    flat = np.concatenate(elements).reshape(-1, 2)
    start = np.concatenate([[0], np.cumsum(length)]).astype(np.int64)
    colors = np.array(rgb, dtype=np.uint8)
    return ColmapPoints(
        np.array(ids, np.int64), np.array(xyz), colors, np.array(error), start, flat[:, 0].copy(), flat[:, 1].copy()
    )
