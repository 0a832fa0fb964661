"""Hard days laid over photos of any scene: shadows of another hour, leaf shade, people and cars.

A condition takes a photo, its severity, a seed and the number of the photo in the walk, and returns the photo as it
would have been. It knows nothing of the scene: what it draws is not tied to the world, which is harsher than the real.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import cv2
import numpy as np

from skyanchor.types import Bytes, Floats, Floats32

MILD, MIDDLE, HARD = 1.0 / 3.0, 2.0 / 3.0, 1.0
"""Severities; 0 leaves a photo as it is."""

Condition: TypeAlias = Callable[[Bytes, float, int, int], Bytes]
"""(photo (H, W, 3) RGB, severity 0..1, seed, number of the photo in its walk) -> the photo."""


def photo_under(source: Path, target: Path, condition: Condition, severity: float, seed: int, number: int) -> None:
    """Write the photo `source` under a condition to the file `target`."""
    pixels = cv2.cvtColor(cv2.imread(str(source)), cv2.COLOR_BGR2RGB)
    changed = condition(pixels, severity, seed, number)
    cv2.imwrite(str(target), changed[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 95])


# --- another hour -----------------------------------------------------------------------------------------------

SHADE = (0.35, 0.6)
"""Stored value in a shadow over that in the light, middle severity."""
GLARE = (1.3, 1.7)
"""Stored value in a sunlit patch over that around it, middle severity."""
BLUE, WARM = (0.92, 0.98, 1.12), (1.08, 1.0, 0.9)
"""Red, green and blue of light from the sky alone and of a low sun, over white."""
LEAVES = 0.2
"""Size of the spots of leaf shade, image widths over 8^severity."""
DRIFT = 0.04
"""Way of drifting shadows from photo to photo, image widths."""


_Cover: TypeAlias = tuple[Floats32, tuple[float, float], tuple[float, float, float]]
"""(H, W) share of each pixel, least and most factor, tint."""


def shadows(pixels: Bytes, severity: float, seed: int, number: int) -> Bytes:
    """The photo with shadows and sunlit patches that no other photo has."""
    return _lit(pixels, severity, np.random.default_rng([seed, 21, number]), 0.0)


def drifting_shadows(pixels: Bytes, severity: float, seed: int, number: int) -> Bytes:
    """The photo with shadows and sunlit patches that move across the photos of a walk."""
    return _lit(pixels, severity, np.random.default_rng([seed, 22]), DRIFT * number)


def leaf_shade(pixels: Bytes, severity: float, seed: int, number: int) -> Bytes:
    """The photo in light and shade that falls through leaves everywhere, no two photos alike: the harshest."""
    return _under_leaves(pixels, severity, np.random.default_rng([seed, 24, number]), 0.0)


def drifting_leaf_shade(pixels: Bytes, severity: float, seed: int, number: int) -> Bytes:
    """The photo in light and shade that falls through leaves everywhere and moves across the photos of a walk."""
    return _under_leaves(pixels, severity, np.random.default_rng([seed, 25]), DRIFT * number)


def _lit(pixels: Bytes, severity: float, rng: np.random.Generator, moved: float) -> Bytes:
    """Four shadows and three sunlit patches at middle severity."""
    height, width = pixels.shape[:2]
    covers = [
        (_polygon(height, width, rng, moved), *light)
        for count, light in ((6.0, (SHADE, BLUE)), (4.5, (GLARE, WARM)))
        for _ in range(round(count * severity))
    ]
    return _relit(pixels, severity, covers, rng)


def _under_leaves(pixels: Bytes, severity: float, rng: np.random.Generator, moved: float) -> Bytes:
    """Spots of shade on two fifths of the photo and of light on a fourth."""
    height, width = pixels.shape[:2]
    size = LEAVES * width / 8.0**severity
    covers = [
        (_spots(height, width, rng, moved, size, share), *light)
        for share, light in ((0.4, (SHADE, BLUE)), (0.25, (GLARE, WARM)))
    ]
    return _relit(pixels, severity, covers, rng)


def _relit(pixels: Bytes, severity: float, covers: list[_Cover], rng: np.random.Generator) -> Bytes:
    """v · Π (tint · factor)^(1.5 severity · cover)."""
    if severity <= 0.0:
        return pixels
    gain = np.zeros(pixels.shape, np.float32)
    for cover, limits, tint in covers:
        gain += cover[..., None] * np.log(rng.uniform(*limits) * np.array(tint)).astype(np.float32)
    exposed = pixels * np.exp(1.5 * severity * np.clip(gain, -1.6, 0.8))
    return np.clip(np.round(exposed), 0, 255).astype(np.uint8)


def _spots(height: int, width: int, rng: np.random.Generator, moved: float, size: float, share: float) -> Floats32:
    """(H, W), 1 in spots of about `size` pixels that take up a share of the photo, with a soft edge."""
    wide = round(1.4 * width)
    field = np.zeros((height, wide), np.float32)
    for weight, cell in ((1.0, size), (0.5, 0.4 * size)):
        coarse = rng.standard_normal((round(height / cell) + 3, round(wide / cell) + 3)).astype(np.float32)
        field += weight * cv2.resize(coarse, (wide, height), interpolation=cv2.INTER_CUBIC)
    above = field - np.quantile(field, 1.0 - share)
    bright = np.clip(above / 0.2 + 0.5, 0.0, 1.0)
    return np.asarray(np.roll(bright, round(moved * width), axis=1)[:, :width], np.float32)


def _polygon(height: int, width: int, rng: np.random.Generator, moved: float) -> Floats32:
    """(H, W), 1 inside a convex polygon a fourth to two thirds as wide as the photo, with a soft edge."""
    angles = np.sort(rng.uniform(0.0, 2.0 * np.pi, int(rng.integers(4, 8))))
    span = 0.5 * np.array([rng.uniform(0.25, 0.65), rng.uniform(0.2, 0.6)]) * width
    across = (rng.uniform(0.0, 1.4) + moved) % 1.4 - 0.2  # comes back on the other side, out of sight
    centre = np.array([across * width, rng.uniform(0.15, 0.95) * height])
    corners = centre + np.stack([np.cos(angles), np.sin(angles)], axis=1) * span
    cover = np.zeros((height, width), np.float32)
    cv2.fillPoly(cover, [np.round(corners * 16).astype(np.int32)], 1.0, cv2.LINE_8, 4)
    return np.asarray(cv2.GaussianBlur(cover, (0, 0), rng.uniform(0.002, 0.015) * width), np.float32)


# --- people and cars --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Passer:
    """Someone or something that crosses the picture."""

    car: bool
    tall: float
    """Height in the picture, image heights."""
    start: float
    """Where it is in the first photo, image widths."""
    speed: float
    """Way from photo to photo, image widths."""
    colour: tuple[float, float, float]
    """Of clothes or paint, 0..255."""
    pattern: int
    """0 plain, 1 stripes, 2 checks."""


def traffic(pixels: Bytes, severity: float, seed: int, number: int) -> Bytes:
    """The photo with people and cars that move on from photo to photo; they cover about 5 % · 8^severity of it."""
    if severity <= 0.0:
        return pixels
    height, width = pixels.shape[:2]
    rng, wanted = np.random.default_rng([seed, 23]), 0.05 * 8.0**severity
    covered, present = np.zeros((height, width), bool), list[tuple[_Passer, Floats]]()
    while covered.mean() < wanted:
        passer = _passer(rng)
        at = _standing(passer, height, width, number)
        if not -1.5 * at[2] < at[0] < width + 1.5 * at[2]:
            continue
        behind = np.any([_filled(part, height, width) > 0.5 for part in _outline(passer, at)], axis=0)
        if behind.any() and (covered | behind).mean() < 1.3 * wanted:
            covered |= behind
            present.append((passer, at))
    drawn = pixels.astype(np.float32)
    for passer, at in sorted(present, key=lambda pair: pair[0].tall):
        _draw(drawn, passer, at)
    return np.clip(np.round(drawn), 0, 255).astype(np.uint8)


def _passer(rng: np.random.Generator) -> _Passer:
    car = bool(rng.random() < 0.45)
    pace = rng.uniform(0.05, 0.15) if car else rng.uniform(0.01, 0.04)
    red, green, blue = rng.uniform(15.0, 235.0, 3)
    return _Passer(
        car,
        float(rng.uniform(0.12, 0.35)) if car else float(rng.uniform(0.15, 0.55)),
        float(rng.uniform(0.0, 2.0)),
        float(pace * rng.choice([-1.0, 1.0])),
        (float(red), float(green), float(blue)),
        int(rng.integers(0, 3)),
    )


def _standing(passer: _Passer, height: int, width: int, number: int) -> Floats:
    """(x, y, size): the middle of its feet and its height, pixels; heads are about as high as the camera."""
    across = (passer.start + passer.speed * number) % 2.0 - 0.5
    return np.array([across * width, (0.5 + (1.1 if passer.car else 1.0) * passer.tall) * height, passer.tall * height])


PERSON = (
    ((-0.06, -0.98), (0.06, -0.98), (0.08, -0.9), (0.05, -0.84), (-0.05, -0.84), (-0.08, -0.9)),
    ((-0.16, -0.83), (0.16, -0.83), (0.2, -0.46), (0.12, -0.46), (-0.12, -0.46), (-0.2, -0.46)),
    ((-0.12, -0.46), (0.0, -0.46), (-0.06, 0.0), (-0.16, 0.0)),
    ((0.0, -0.46), (0.12, -0.46), (0.18, 0.0), (0.08, 0.0)),
)
"""Head, trunk and legs, in heights; the feet at the origin."""
CAR = (
    ((-1.4, -0.62), (1.3, -0.62), (1.5, -0.5), (1.5, -0.12), (-1.5, -0.12), (-1.5, -0.5)),
    ((-0.8, -0.62), (-0.5, -1.0), (0.6, -1.0), (1.0, -0.62)),
    ((-0.68, -0.64), (-0.45, -0.94), (0.02, -0.94), (0.02, -0.64)),
    ((0.08, -0.64), (0.08, -0.94), (0.55, -0.94), (0.84, -0.64)),
    ((-1.1, -0.24), (-0.7, -0.24), (-0.66, -0.1), (-0.75, 0.0), (-1.05, 0.0), (-1.14, -0.1)),
    ((0.7, -0.24), (1.1, -0.24), (1.14, -0.1), (1.05, 0.0), (0.75, 0.0), (0.66, -0.1)),
)
"""Body, cabin, windows and wheels, in heights; the middle of the tyres at the origin."""
GLASS, TYRE, SKIN = (60.0, 75.0, 90.0), (25.0, 25.0, 27.0), (200.0, 160.0, 135.0)


def _outline(passer: _Passer, at: Floats) -> list[Floats]:
    """(K, 2) corners of each part, pixels."""
    parts = CAR if passer.car else PERSON
    facing = np.array([np.sign(passer.speed), 1.0])
    return [at[:2] + np.array(part) * facing * at[2] for part in parts]


def _filled(corners: Floats, height: int, width: int) -> Floats32:
    """(H, W), share of each pixel inside the corners."""
    cover = np.zeros((height, width), np.uint8)
    cv2.fillPoly(cover, [np.round(corners * 16).astype(np.int32)], 255, cv2.LINE_AA, 4)
    return cover.astype(np.float32) / 255.0


def _draw(picture: Floats32, passer: _Passer, at: Floats) -> None:
    """Paint one of them into the picture."""
    reach = np.array([1.6, 1.1]) * at[2]
    left, top = np.maximum(at[:2] - reach, 0.0).astype(int)
    part = picture[top : int(at[1] + 2), left : int(at[0] + reach[0])]
    height, width = part.shape[:2]
    y, x = np.mgrid[top : top + height, left : left + width].astype(np.float32)
    u, v = (x - at[0]) / at[2], (y - at[1]) / at[2]
    wave = np.sin(90.0 * v) * (np.sin(90.0 * u) if passer.pattern == 2 else 1.0)
    cloth = 1.0 + (0.15 * np.sign(wave) if passer.pattern else 0.0) - 0.3 * np.abs(v + 0.6)
    dressed = np.array(passer.colour, np.float32)
    plain = (
        (dressed, dressed, GLASS, GLASS, TYRE, TYRE) if passer.car else (SKIN, dressed, 0.5 * dressed, 0.5 * dressed)
    )
    for k, (corners, colour) in enumerate(zip(_outline(passer, at), plain, strict=True)):
        cover = _filled(corners - [left, top], height, width)[..., None]
        shade = cloth[..., None] if k < 2 else np.float32(1.0)
        part += cover * (np.asarray(colour, np.float32) * shade - part)
