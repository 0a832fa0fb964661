"""Pictures for the report: top view, error maps, data URIs."""

from __future__ import annotations

import base64
import io
from typing import TypeAlias

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image

from skyanchor.bridges.surface import horizontal_axes
from skyanchor.types import Bytes, Floats

Levels: TypeAlias = npt.NDArray[np.uint16]
MEASURED = 200_000
"""Points by which the extent of a map is measured, at most."""


def data_uri(pixels: Bytes, quality: int = 85) -> str:
    """The image as a JPEG data URI."""
    ok, encoded = cv2.imencode(".jpg", pixels[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])
    assert ok
    return "data:image/jpeg;base64," + base64.b64encode(encoded.tobytes()).decode()


def transparent_uri(pixels: Bytes, quality: int = 82) -> str:
    """An image with alpha, (H, W, 4), as a WebP data URI."""
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="WEBP", quality=quality)
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode()


def top_view(points: Floats, colors: Bytes, up: Floats, width: int = 1200) -> tuple[Bytes, tuple[float, ...]]:
    """Orthographic view from above and its extent x_min, y_min, x_max, y_max in metres.

    (H, W, 4): where there are several points the highest is seen, where there is none the alpha is 0.
    """
    xy = points @ horizontal_axes(up).T
    low, high = np.percentile(xy[:: -(-len(xy) // MEASURED)], (0.5, 99.5), axis=0)
    margin = 0.03 * (high - low).max() + 1e-6
    low, high = low - margin, high + margin
    cell = (high[0] - low[0]) / width
    height = max(1, int(np.ceil((high[1] - low[1]) / cell)))
    column, row = np.floor((xy[:, 0] - low[0]) / cell), np.floor((high[1] - xy[:, 1]) / cell)
    inside = np.flatnonzero((column >= 0) & (column < width) & (row >= 0) & (row < height))
    rising = inside[np.argsort(_levels((points @ up)[inside]), kind="stable")]
    highest = np.full(height * width, -1, np.int64)
    highest[(row[rising] * width + column[rising]).astype(np.int64)] = rising
    image = np.where(highest[:, None] >= 0, colors[highest], np.uint8(0)).reshape(height, width, 3)
    return _fill_gaps(image), (float(low[0]), float(high[1] - height * cell), float(high[0]), float(high[1]))


def _levels(heights: Floats) -> Levels:
    """Heights in 65536 even steps, which sort faster than floats."""
    low, high = heights.min(initial=np.inf), heights.max(initial=-np.inf)
    return ((heights - low) * (65535.0 / max(high - low, 1e-9))).astype(np.uint16)


def _fill_gaps(image: Bytes, rounds: int = 6) -> Bytes:
    """(H, W, 4): empty pixels take the mean of their filled neighbours, a few times over; what stays empty is clear."""
    filled = image.max(axis=2) > 0
    value = image.astype(np.float32)
    for _ in range(rounds):
        weight = cv2.blur(filled.astype(np.float32), (3, 3))
        mean = cv2.blur(value * filled[..., None], (3, 3)) / np.maximum(weight, 1e-6)[..., None]
        new = ~filled & (weight > 0)
        value[new] = mean[new]
        filled |= new
    return np.dstack([value, np.where(filled, 255.0, 0.0)]).astype(np.uint8)


def error_map(photo: Bytes, render: Bytes, full_scale: float = 64.0) -> Bytes:
    """Mean absolute difference as colour: dark = equal, bright = `full_scale` grey levels or more."""
    difference = np.abs(photo.astype(np.float32) - render.astype(np.float32)).mean(axis=2)
    grey = np.clip(difference / full_scale * 255.0, 0, 255).astype(np.uint8)
    return np.ascontiguousarray(cv2.applyColorMap(grey, cv2.COLORMAP_INFERNO)[..., ::-1])
