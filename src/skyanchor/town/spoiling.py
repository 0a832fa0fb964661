"""What a camera does to its photos, for photos of any scene: blur, focus, exposure, compression.

Each is a `Condition` of `conditions`: a photo, a severity, a seed and the photo's number in its walk give the photo.
"""

from __future__ import annotations

import cv2
import numpy as np

from skyanchor.town import conditions
from skyanchor.town.weather import Photos
from skyanchor.types import Bytes, Floats32

BLUR = 0.03
"""Way of the longest motion blur, image widths."""
DEFOCUS = 0.006
"""Radius of the widest disc of defocus, image widths."""
STOPS = 2.0
"""The largest jump of the exposure."""
FULL_HD, RATE = 1920.0 * 1080.0, 30.0
"""Pixels and frames per second of the video that a bit rate is stated for."""
KEY_FRAME = 6.0
"""Bits of a key frame over the mean of all frames: frames a stride apart have little to be predicted from."""
GAMMA = 2.2


def motion_blur(pixels: Bytes, severity: float, seed: int, number: int) -> Bytes:
    """The photo smeared along a line of 0.3 to 1 times 3 % of its width · severity, mostly sideways."""
    if severity <= 0.0:
        return pixels
    rng = np.random.default_rng([seed, 24, number])
    length = BLUR * severity * pixels.shape[1] * rng.uniform(0.3, 1.0)
    angle = rng.normal(0.0, 0.35)
    size = 2 * int(np.ceil(length / 2.0)) + 3
    kernel, middle = np.zeros((size, size), np.float32), (size - 1) / 2.0
    for way in np.linspace(-0.5, 0.5, 4 * size):
        x, y = middle + way * length * np.cos(angle), middle + way * length * np.sin(angle)
        i, j = int(x), int(y)
        for a, b, weight in _around(x - i, y - j):
            kernel[j + b, i + a] += weight
    return _stored(cv2.filter2D(_light(pixels), -1, kernel / kernel.sum(), borderType=cv2.BORDER_REFLECT))


def _around(u: float, v: float) -> tuple[tuple[int, int, float], ...]:
    """Shares of a point between four pixels."""
    return (0, 0, (1 - u) * (1 - v)), (1, 0, u * (1 - v)), (0, 1, (1 - u) * v), (1, 1, u * v)


def defocus(pixels: Bytes, severity: float, seed: int, number: int) -> Bytes:
    """The photo through a disc of radius 0.6 % of its width · severity; the focus hunts a little."""
    if severity <= 0.0:
        return pixels
    hunting = np.random.default_rng([seed, 25, number]).uniform(0.7, 1.0)
    radius = DEFOCUS * severity * pixels.shape[1] * hunting
    reach = int(np.ceil(radius)) + 1
    y, x = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    kernel = np.clip(radius + 1.0 - np.hypot(x, y), 0.0, 1.0).astype(np.float32)
    return _stored(cv2.filter2D(_light(pixels), -1, kernel / kernel.sum(), borderType=cv2.BORDER_REFLECT))


def exposure(pixels: Bytes, severity: float, seed: int, number: int) -> Bytes:
    """The photo after the automatic exposure jumped, every third to ninth photo, by up to 2 stops · severity."""
    if severity <= 0.0:
        return pixels
    rng, until, stops = np.random.default_rng([seed, 26]), 0, 0.0
    while until <= number:
        until, stops = until + int(rng.integers(3, 10)), float(rng.uniform(-1.0, 1.0)) * STOPS * severity
    return _stored(_light(pixels) * np.float32(2.0**stops))


def compression(pixels: Bytes, severity: float, seed: int, number: int) -> Bytes:
    """The photo as a key frame of a video of 16 · 8^-severity Mbit/s in full HD: 8, 4 and 2 at the three severities."""
    if severity <= 0.0:
        return pixels
    height, width = pixels.shape[:2]
    wanted = KEY_FRAME * mbit_per_s(severity) * 1e6 / 8.0 * (height * width) / (FULL_HD * RATE)
    low, high = 1, 100
    while low < high:  # the best quality that fits; WebP is a key frame of VP8
        middle = (low + high + 1) // 2
        low, high = (middle, high) if len(_key_frame(pixels, middle)) <= wanted else (low, middle - 1)
    decoded = np.asarray(cv2.imdecode(_key_frame(pixels, low), cv2.IMREAD_COLOR), dtype=np.uint8)
    return np.ascontiguousarray(decoded[..., ::-1])


def mbit_per_s(severity: float) -> float:
    """Bit rate of a compression's severity."""
    return 16.0 * 8.0**-severity


def _key_frame(pixels: Bytes, quality: int) -> Bytes:
    _, data = cv2.imencode(".webp", pixels[..., ::-1], [cv2.IMWRITE_WEBP_QUALITY, quality])
    return np.asarray(data, dtype=np.uint8)


def _light(pixels: Bytes) -> Floats32:
    """Linear light of stored values."""
    return np.asarray((pixels.astype(np.float32) / 255.0) ** GAMMA, dtype=np.float32)


def _stored(light: Floats32) -> Bytes:
    return np.round(255.0 * np.clip(light, 0.0, 1.0) ** (1.0 / GAMMA)).astype(np.uint8)


OPERATIONS: dict[str, conditions.Condition] = {
    "shadows": conditions.shadows,
    "drifting_shadows": conditions.drifting_shadows,
    "leaf_shade": conditions.leaf_shade,
    "drifting_leaf_shade": conditions.drifting_leaf_shade,
    "passers": conditions.traffic,
    "motion_blur": motion_blur,
    "defocus": defocus,
    "exposure": exposure,
    "compression": compression,
}
"""By the fields of `Photos`, in the order in which light, lens, sensor and codec come."""


def spoiled(pixels: Bytes, photos: Photos, seed: int, number: int) -> Bytes:
    """The photo after all that happens to it."""
    for name, operation in OPERATIONS.items():
        pixels = operation(pixels, getattr(photos, name), seed, number)
    return pixels
