"""What a group that stands says of the lens and the shutter of its camera: distortion, and how long rows are read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skyanchor.geometry import rigid
from skyanchor.sfm.bundle import Bundle, in_cameras
from skyanchor.sfm.self_calibration import estimated, pixels_by_pose
from skyanchor.types import Floats, LensWord

SURE_SIGMAS = 4.0
"""Standard deviations from which something that was measured is there."""
LIKELY_SIGMAS = 3.0
"""Standard deviations from which it is worth a trial, which then decides."""
LEAST_K1 = 0.01
"""Distortion that is worth a turn: about a pixel at the edge of a photo 500 pixels wide."""
LEAST_READOUT = 0.03
"""Of the time between frames."""


def word_of(bundle: Bundle, frames: tuple[int, ...]) -> LensWord | None:
    """What the adjusted group says, its `frames` first in the bundle; None where it cannot."""
    ground = bundle.camera < len(frames)
    columns = np.zeros((len(bundle.camera), 2, 3))
    columns[ground] = np.concatenate([_by_lens(bundle), _by_readout(bundle, frames)], axis=2)[ground]
    extra = estimated(bundle, columns)
    if extra is None:
        return None
    (_, k1, readout), (_, k1_sigma, readout_sigma) = extra.values.tolist(), extra.sigmas.tolist()
    return LensWord(k1, k1_sigma, readout, readout_sigma)


def heard(words: Sequence[LensWord | None]) -> LensWord | None:
    """What groups say together: means by their variances, as sure as they agree; None where none says a thing."""
    said = [word for word in words if word is not None]
    if not said:
        return None
    k1 = _mean([(word.k1, word.k1_sigma) for word in said])
    return LensWord(*k1, *_mean([(word.readout, word.readout_sigma) for word in said]))


def distortion(words: Sequence[LensWord | None]) -> float:
    """The k1 that most of the groups are sure of, by its mean; 0 where they are not.

    How much they differ does not count: one that sees more of the edge of its photos tells more of the distortion.
    """
    sure = [word for word in words if word is not None and bends(word, LIKELY_SIGMAS)]
    if 2 * len(sure) <= len(words) or len({word.k1 > 0.0 for word in sure}) > 1:
        return 0.0
    return _mean([(word.k1, word.k1_sigma) for word in sure])[0]


def _mean(said: list[tuple[float, float]]) -> tuple[float, float]:
    """(mean, its standard deviation), widened by the scatter where that is more than is stated."""
    values, sigmas = np.array(said).T
    weights = 1.0 / sigmas**2
    mean = float(weights @ values / weights.sum())
    scatter = float(weights @ (values - mean) ** 2) / max(1, len(said) - 1)
    return mean, float(np.sqrt(max(1.0, scatter) / weights.sum()))


def bends(word: LensWord, sigmas: float = SURE_SIGMAS) -> bool:
    """Whether the photos are distorted by so many standard deviations, and by more than matches are off anyway."""
    return abs(word.k1) > max(sigmas * word.k1_sigma, LEAST_K1)


def rolls(word: LensWord) -> bool:
    """Whether the rows of a photo are surely not of one moment."""
    return abs(word.readout) > max(SURE_SIGMAS * word.readout_sigma, LEAST_READOUT)


def what_it_means(word: LensWord | None, guessed: bool) -> tuple[str, ...]:
    """What to tell the user about the camera; nothing where it is as it was taken to be."""
    told: list[str] = []
    if word is not None and bends(word):
        help = "Calibrate the lens" if guessed else "The given camera is not that of the photos: calibrate the lens"
        told.append(
            f"The photos are distorted, k1 = {word.k1:.3f} ± {word.k1_sigma:.3f} is left. {help} and give"
            " --camera OPENCV,fx,fy,cx,cy,k1,k2,p1,p2."
        )
    if word is not None and rolls(word):
        told.append(
            f"Rows of a photo are read one after the other, over {abs(word.readout):.0%} ± {word.readout_sigma:.0%}"
            " of the time between frames (rolling shutter). Poses are those of the middle row; walk slower, or take"
            " a camera with a global shutter, where that matters."
        )
    return tuple(told)


def _by_lens(bundle: Bundle) -> Floats:
    """(K, 2, 2), pixels by the logarithm of the focal length and by k1: f x and f x r²."""
    seen = in_cameras(bundle)
    flat = seen[:, :2] / seen[:, 2:]
    pixels = flat * bundle.calibrations[bundle.camera, :2]
    return np.stack([pixels, pixels * (flat**2).sum(axis=1)[:, None]], axis=2)


def _by_readout(bundle: Bundle, frames: tuple[int, ...]) -> Floats:
    """(K, 2, 1), pixels by the readout: a row at the height s of the picture, 0 to 1, was read s - 1/2 of it later.

    The camera of frame i is then exp((s - 1/2) readout m_i) cam_i, m_i its motion to the next frame.
    """
    motion = np.zeros((len(bundle.cams_from_world), 6))
    motion[: len(frames)] = motions(bundle, frames)
    heights = np.array([lens.height for lens in bundle.lenses], dtype=np.float64)[bundle.camera]
    late = bundle.xy[:, 1] / heights - 0.5
    moved = np.einsum("kij,kj->ki", pixels_by_pose(bundle), motion[bundle.camera])
    return (moved * late[:, None])[:, :, None]


def motions(bundle: Bundle, frames: tuple[int, ...]) -> Floats:
    """(F, 6), (rotation rad, translation m) of each camera from half a frame before its own to half a frame after."""
    out = np.zeros((len(frames), 6))
    for i in range(len(frames)):
        a, b = max(0, i - 1), min(len(frames) - 1, i + 1)
        step = bundle.cams_from_world[b] @ bundle.cams_from_world[a].inverse
        gap = max(1, frames[b] - frames[a])
        out[i] = np.append(rigid.rotation_log(step.rotation), step.translation) / gap
    return out
