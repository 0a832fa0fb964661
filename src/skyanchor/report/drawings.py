"""Pictures for the report: top view, error maps, matches drawn on photos, data URIs."""

from __future__ import annotations

import base64

import cv2
import numpy as np

from skyanchor.types import Bools, Bytes, Floats

GOOD = (52, 168, 83)
BAD = (217, 48, 37)


def data_uri(pixels: Bytes, quality: int = 85) -> str:
    """The image as a JPEG data URI."""
    ok, encoded = cv2.imencode(".jpg", pixels[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])
    assert ok
    return "data:image/jpeg;base64," + base64.b64encode(encoded.tobytes()).decode()


def horizontal_axes(up: Floats) -> Floats:
    """East-like and north-like unit vectors, (2, 3): world x (or y) made level, and up × it."""
    seed = np.array([1.0, 0.0, 0.0]) if abs(up[0]) < 0.9 else np.array([0.0, 1.0, 0.0])
    east = seed - up * (seed @ up)
    east /= np.linalg.norm(east)
    return np.stack([east, np.cross(up, east)])


def top_view(points: Floats, colors: Bytes, up: Floats, width: int = 1200) -> tuple[Bytes, tuple[float, ...]]:
    """Orthographic view from above (highest point wins) and its extent x_min, y_min, x_max, y_max in metres."""
    xy = points @ horizontal_axes(up).T
    low, high = np.percentile(xy, 0.5, axis=0), np.percentile(xy, 99.5, axis=0)
    margin = 0.03 * (high - low).max() + 1e-6
    low, high = low - margin, high + margin
    cell = (high[0] - low[0]) / width
    height = max(1, int(np.ceil((high[1] - low[1]) / cell)))
    image = np.full((height, width, 3), 0, np.uint8)
    column = np.floor((xy[:, 0] - low[0]) / cell).astype(int)
    row = np.floor((high[1] - xy[:, 1]) / cell).astype(int)
    inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
    order = np.flatnonzero(inside)[np.argsort((points @ up)[inside], kind="stable")]
    image[row[order], column[order]] = colors[order]
    return _fill_gaps(image), (float(low[0]), float(high[1] - height * cell), float(high[0]), float(high[1]))


def _fill_gaps(image: Bytes, rounds: int = 6) -> Bytes:
    """Empty pixels take the mean of their filled neighbours, a few times over; what stays empty is light grey."""
    filled = image.max(axis=2) > 0
    value = image.astype(np.float32)
    for _ in range(rounds):
        weight = cv2.blur(filled.astype(np.float32), (3, 3))
        mean = cv2.blur(value * filled[..., None], (3, 3)) / np.maximum(weight, 1e-6)[..., None]
        new = ~filled & (weight > 0)
        value[new] = mean[new]
        filled |= new
    value[~filled] = 225.0
    return value.astype(np.uint8)


def error_map(photo: Bytes, render: Bytes, full_scale: float = 64.0) -> Bytes:
    """Mean absolute difference as colour: dark = equal, bright = `full_scale` grey levels or more."""
    difference = np.abs(photo.astype(np.float32) - render.astype(np.float32)).mean(axis=2)
    grey = np.clip(difference / full_scale * 255.0, 0, 255).astype(np.uint8)
    return np.ascontiguousarray(cv2.applyColorMap(grey, cv2.COLORMAP_INFERNO)[..., ::-1])


def draw_matches(a: Bytes, b: Bytes, xy_a: Floats, xy_b: Floats, inlier: Bools, most: int = 120) -> Bytes:
    """The two photos side by side at one height, inliers joined in green over outliers in red."""
    height = min(a.shape[0], b.shape[0], 480)
    scale_a, scale_b = height / a.shape[0], height / b.shape[0]
    left = cv2.resize(a, (round(a.shape[1] * scale_a), height), interpolation=cv2.INTER_AREA)
    right = cv2.resize(b, (round(b.shape[1] * scale_b), height), interpolation=cv2.INTER_AREA)
    canvas = np.ascontiguousarray(np.concatenate([left, right], axis=1))
    order = np.argsort(inlier, kind="stable")
    for i in order[:: max(1, len(order) // most)]:
        p = (round(xy_a[i, 0] * scale_a), round(xy_a[i, 1] * scale_a))
        q = (round(xy_b[i, 0] * scale_b) + left.shape[1], round(xy_b[i, 1] * scale_b))
        colour = GOOD if inlier[i] else BAD
        cv2.line(canvas, p, q, colour, 1, cv2.LINE_AA)
        cv2.circle(canvas, p, 2, colour, -1, cv2.LINE_AA)
        cv2.circle(canvas, q, 2, colour, -1, cv2.LINE_AA)
    return np.asarray(canvas, dtype=np.uint8)
