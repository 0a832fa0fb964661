"""What groups that stand say of the lens and the shutter of their camera: distortion, and how long rows are read.

From the optimum of an adjusted group one more step is taken, with the quantities that its cameras do not model: that is
the group's estimate (`estimate_lens`). Distortion that most groups agree on is taken out of the photos (`agreed_k1`,
`agreed_k1_k2`). In the end all estimates are joined (`joint_estimate`), and what is left is told (`lens_advice`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skyanchor.geometry import rigid
from skyanchor.sfm.bundle import Bundle, in_cameras
from skyanchor.sfm.self_calibration import Extra, estimated, pixels_by_pose
from skyanchor.types import Camera, Floats, LensEstimate, RadialEstimate

SURE_SIGMAS = 4.0
"""Standard deviations from which something that was measured is there."""
LIKELY_SIGMAS = 3.0
"""Standard deviations from which it is worth a trial, which then decides."""
LEAST_K1 = 0.01
"""Distortion that is worth a turn: about a pixel at the edge of a photo 500 pixels wide."""
LEAST_MOVED = 0.001
"""What k1 alone must leave of the distortion to be too little, widths: half a pixel of a photo 500 pixels wide."""
RADII = 65
"""Distances from the centre at which that is looked at."""
LEAST_READOUT = 0.03
"""Of the time between frames."""


def estimate_lens(bundle: Bundle, frames: tuple[int, ...]) -> LensEstimate | None:
    """What the adjusted group says, its `frames` first in the bundle; None where it cannot."""
    ground = bundle.camera < len(frames)
    columns = np.zeros((len(bundle.camera), 2, 4))
    by_lens, by_readout = _by_lens(bundle), _by_readout(bundle, frames)
    columns[ground] = np.concatenate([by_lens[:, :, :2], by_readout, by_lens[:, :, 2:]], axis=2)[ground]
    extra, more = estimated(bundle, columns[:, :, :3]), estimated(bundle, columns)
    if extra is None:
        return None
    (_, k1, readout), (_, k1_sigma, readout_sigma) = extra.values.tolist(), extra.sigmas.tolist()
    both = None if more is None else radial_estimate(extra, more, bundle.lenses[0])
    return LensEstimate(k1, k1_sigma, readout, readout_sigma, both)


def radial_estimate(alone: Extra, more: Extra, lens: Camera) -> RadialEstimate:
    """k1 and k2, of extras (logarithm of the focal length, k1, readout) and the same with k2 behind them.

    Much of k2 is another k1 and another focal length. What counts is the difference of the two at their best,
    f r (Δlog f + Δk1 r² + k2 r⁴), where it is largest between the centre and the corner.
    """
    (focal, k1, _, k2), (_, k1_sigma, _, k2_sigma) = more.values.tolist(), more.sigmas.tolist()
    focal_px, half_px = lens.params[0], float(np.hypot(lens.width, lens.height)) / 2.0
    r = np.linspace(0.0, half_px / focal_px, RADII)
    off_px = focal_px * r * (focal - alone.values[0] + (k1 - alone.values[1]) * r**2 + k2 * r**4)
    return RadialEstimate(k1, k1_sigma, k2, k2_sigma, float(np.abs(off_px).max()) / lens.width)


def is_needed(both: RadialEstimate, sigmas: float = LIKELY_SIGMAS) -> bool:
    """Whether k1 alone is too little: k2 is so many standard deviations, with all else free, and moves a pixel."""
    return abs(both.k2) > sigmas * both.k2_sigma and both.moved > LEAST_MOVED


def joint_estimate(estimates: Sequence[LensEstimate | None]) -> LensEstimate | None:
    """What groups say together: means by their variances, as sure as they agree; None where none says a thing."""
    told = [one for one in estimates if one is not None]
    if not told:
        return None
    k1 = _mean([(one.k1, one.k1_sigma) for one in told])
    return LensEstimate(*k1, *_mean([(one.readout, one.readout_sigma) for one in told]), agreed_k1_k2(told))


def agreed_k1(estimates: Sequence[LensEstimate | None]) -> float:
    """The k1 that most of the groups are sure of, by its mean; 0 where they are not.

    How much they differ does not count: one that sees more of the edge of its photos tells more of the distortion.
    """
    sure = [one for one in estimates if one is not None and bends(one, LIKELY_SIGMAS)]
    if 2 * len(sure) <= len(estimates) or len({one.k1 > 0.0 for one in sure}) > 1:
        return 0.0
    return _mean([(one.k1, one.k1_sigma) for one in sure])[0]


def agreed_k1_k2(estimates: Sequence[LensEstimate | None]) -> RadialEstimate | None:
    """k1 and k2 by the mean of the groups; None unless most of them need k2 and all together surely do.

    A group knows k1 + c k2 far better than either, so all its numbers have one weight and stay together. How much
    they differ does not count, as with k1, except in the standard deviations that are told.
    """
    said = [one.both for one in estimates if one is not None and one.both is not None]
    need = [both for both in said if is_needed(both)]
    if 2 * len(need) <= len(estimates) or len({both.k2 > 0.0 for both in need}) > 1:
        return None
    weights = np.array([both.k2_sigma for both in said]) ** -2.0
    told = np.array([(both.k1, both.k2, both.moved) for both in said])
    k1, k2, moved = (weights @ told / weights.sum()).tolist()
    k1_sigma = _mean([(both.k1, both.k1_sigma) for both in said])[1]
    k2_sigma = _mean([(both.k2, both.k2_sigma) for both in said])[1]
    if not is_needed(RadialEstimate(k1, k1_sigma, k2, float(weights.sum() ** -0.5), moved), SURE_SIGMAS):
        return None
    return RadialEstimate(k1, k1_sigma, k2, k2_sigma, moved)


def _mean(said: list[tuple[float, float]]) -> tuple[float, float]:
    """(mean, its standard deviation), widened by the scatter where that is more than is stated."""
    values, sigmas = np.array(said).T
    weights = 1.0 / sigmas**2
    mean = float(weights @ values / weights.sum())
    scatter = float(weights @ (values - mean) ** 2) / max(1, len(said) - 1)
    return mean, float(np.sqrt(max(1.0, scatter) / weights.sum()))


def bends(lens: LensEstimate, sigmas: float = SURE_SIGMAS) -> bool:
    """Whether the photos are distorted by so many standard deviations, and by more than matches are off anyway."""
    return abs(lens.k1) > max(sigmas * lens.k1_sigma, LEAST_K1)


def rolls(lens: LensEstimate) -> bool:
    """Whether the rows of a photo are surely not of one moment."""
    return abs(lens.readout) > max(SURE_SIGMAS * lens.readout_sigma, LEAST_READOUT)


def lens_advice(lens: LensEstimate | None, guessed: bool) -> tuple[str, ...]:
    """What to tell the user about the camera; nothing where it is as it was taken to be."""
    told: list[str] = []
    left = "" if lens is None else _what_is_left(lens)
    if left:
        help = "Calibrate the lens" if guessed else "The given camera is not that of the photos: calibrate the lens"
        told.append(f"The photos are distorted, {left} left. {help} and give --camera OPENCV,fx,fy,cx,cy,k1,k2,p1,p2.")
    if lens is not None and rolls(lens):
        told.append(
            f"Rows of a photo are read one after the other, over {abs(lens.readout):.0%} ± {lens.readout_sigma:.0%}"
            " of the time between frames (rolling shutter). Poses are those of the middle row; walk slower, or take"
            " a camera with a global shutter, where that matters."
        )
    return tuple(told)


def _what_is_left(lens: LensEstimate) -> str:
    """The distortion that is surely there, in words; empty where none is."""
    both = lens.both
    if both is not None and is_needed(both, SURE_SIGMAS):
        return f"k1 = {both.k1:.3f} ± {both.k1_sigma:.3f} and k2 = {both.k2:.3f} ± {both.k2_sigma:.3f} are"
    return f"k1 = {lens.k1:.3f} ± {lens.k1_sigma:.3f} is" if bends(lens) else ""


def _by_lens(bundle: Bundle) -> Floats:
    """(K, 2, 3), pixels by the logarithm of the focal length, by k1 and by k2: f x, f x r² and f x r⁴."""
    seen = in_cameras(bundle)
    flat = seen[:, :2] / seen[:, 2:]
    pixels, squares = flat * bundle.calibrations[bundle.camera, :2], (flat**2).sum(axis=1)[:, None]
    return np.stack([pixels, pixels * squares, pixels * squares**2], axis=2)


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
