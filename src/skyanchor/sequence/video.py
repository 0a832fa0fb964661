"""Frames of a video: sampled by time or by motion, the sharp ones, written once as photos."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import cv2
import numpy as np

from skyanchor.bounds import Range
from skyanchor.errors import InputError
from skyanchor.events import Listener, Progress, silent
from skyanchor.sequence.copies import INDEX, Copies
from skyanchor.storage import files
from skyanchor.types import Bytes, Floats

log = logging.getLogger(__name__)

ADVICE = "Check that it plays, or extract the frames yourself and give the folder."
SMALL_WIDTH = 320
"""Motion and sharpness are measured at this width, pixels."""


@dataclass(frozen=True)
class VideoConfig:
    """Which frames of a video are taken."""

    frames_per_second: Annotated[float, Range(0.001, 1000.0)] | None = None
    """Take this many frames a second; by motion without it."""
    motion: Annotated[float, Range(0.0, 10.0, above=True)] = 0.03
    """By motion: median image motion between frames taken, as a share of the image width."""
    quality: Annotated[int, Range(1, 100)] = 97
    """JPEG quality of the frames written."""


@dataclass(frozen=True, eq=False)
class Survey:
    """What one pass over a video measured, per frame."""

    motion: Floats
    """(N,), median motion from the frame before, share of the width; 0 for the first."""
    sharpness: Floats
    """(N,), variance of the Laplacian."""
    frame_rate: float
    """Frames per second."""


def extract_frames(path: Path, config: VideoConfig, copies: Copies, listen: Listener = silent) -> list[Path]:
    """The chosen frames as JPEGs in images/, in order; frames of the same video and settings are kept.

    InputError where the video is another one by the end than it was at first.
    """
    recipe = {"video": path.name, "digest": _digest(path), "settings": asdict(config)}
    if (done := _extracted(copies.folder, recipe)) is not None:
        return done
    survey = survey_video(path, listen)
    chosen = choose_frames(survey, config)
    photos = _write_frames(path, chosen, copies, config.quality)
    if not path.is_file() or _digest(path) != recipe["digest"]:
        advice = "Leave it alone until its frames are written; the same command writes them again."
        raise InputError(path, "was changed or removed while its frames were written", advice)
    document = json.dumps({**recipe, "frames": [photo.name for photo in photos]}, indent=1)
    files.write_text(copies.written / INDEX, document + "\n")
    return photos


def _extracted(folder: Path, recipe: dict[str, Any]) -> list[Path] | None:
    """The frames of an earlier extraction with the same recipe, when all are still there."""
    held = files.recall(folder / INDEX, dict[str, Any])
    names = None if held is None else held.pop("frames", None)
    if held != recipe or not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return None
    photos = [folder / "images" / Path(name).name for name in names]
    return photos if photos and all(photo.is_file() for photo in photos) else None


def _digest(path: Path) -> str:
    """A digest of size, beginning and end."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(1 << 20)
        file.seek(max(0, size - (1 << 20)))
        return hashlib.sha256(head + file.read() + str(size).encode()).hexdigest()


# --- reading ----------------------------------------------------------------------------------------------------


def _frames(path: Path) -> Iterator[Bytes]:
    """BGR frames in order, turned upright as the container says."""
    capture = cv2.VideoCapture(str(path))
    try:
        if not capture.isOpened():
            raise InputError(path, "cannot be opened as a video", ADVICE)
        while True:
            there, frame = capture.read()
            if not there:
                return
            yield frame
    finally:
        capture.release()


def _frame_rate_and_count(path: Path) -> tuple[float, int]:
    capture = cv2.VideoCapture(str(path))
    rate, count = capture.get(cv2.CAP_PROP_FPS), capture.get(cv2.CAP_PROP_FRAME_COUNT)
    capture.release()
    return (float(rate) if 0 < rate < 1000 else 30.0), max(0, int(count))


def frame_size(path: Path) -> tuple[int, int]:
    """(width, height) of the frames."""
    first = next(_frames(path), None)
    if first is None:
        raise InputError(path, "holds no frame", ADVICE)
    return first.shape[1], first.shape[0]


def survey_video(path: Path, listen: Listener = silent) -> Survey:
    """Motion and sharpness of every frame."""
    motion, sharpness, before = [], [], None
    rate, expected = _frame_rate_and_count(path)
    for frame in _frames(path):
        small = small_grey(frame)
        motion.append(0.0 if before is None else median_motion(before, small) / small.shape[1])
        sharpness.append(sharpness_of(small))
        before = small
        listen(Progress("walk", "frames of the video looked at", len(motion), max(expected, len(motion))))
    if not motion:
        raise InputError(path, "holds no frame that can be decoded", ADVICE)
    if len(motion) < expected // 2:
        raise InputError(path, f"is cut off: {len(motion)} of {expected} frames can be decoded", ADVICE)
    if len(motion) < 0.95 * expected:
        log.warning("%s: %d of %d frames could be decoded", path, len(motion), expected)
    return Survey(np.array(motion), np.array(sharpness), rate)


def small_grey(frame: Bytes) -> Bytes:
    """(h, 320), a BGR frame as motion and sharpness are measured on it."""
    height = max(8, round(frame.shape[0] * SMALL_WIDTH / frame.shape[1]))
    small = cv2.resize(frame, (SMALL_WIDTH, height), interpolation=cv2.INTER_AREA)
    return np.asarray(cv2.cvtColor(small, cv2.COLOR_BGR2GRAY), dtype=np.uint8)


def sharpness_of(small: Bytes) -> float:
    """Variance of the Laplacian of a small grey picture."""
    return float(cv2.Laplacian(small, cv2.CV_64F).var())


def median_motion(before: Bytes, after: Bytes) -> float:
    """Median length of the optical flow of tracked corners, pixels; 0 when nothing can be tracked."""
    corners = cv2.goodFeaturesToTrack(before, 300, 0.01, 6)
    if corners is None:
        return 0.0
    moved, found, _ = cv2.calcOpticalFlowPyrLK(before, after, corners, None, winSize=(15, 15), maxLevel=3)
    tracked = found.ravel() == 1
    if tracked.sum() < 8:
        return 0.0
    return float(np.median(np.linalg.norm((moved - corners).reshape(-1, 2)[tracked], axis=1)))


# --- choosing ---------------------------------------------------------------------------------------------------


def choose_frames(survey: Survey, config: VideoConfig) -> list[int]:
    """Indices of the frames to take, ascending, from the first frame on."""
    if config.frames_per_second is not None:
        if config.frames_per_second <= 0:
            raise InputError("frames per second", "must be above zero", "Leave it out to sample by motion.")
        seconds = np.arange(len(survey.motion)) / survey.frame_rate
        steps = np.floor(seconds * config.frames_per_second + 1e-9)
        return [0, *np.flatnonzero(np.diff(steps) > 0) + 1]
    return choose_by_motion(survey, config.motion)


def choose_by_motion(survey: Survey, step: float) -> list[int]:
    """Frames about `step` of motion apart, each the sharpest between 3/4 and 5/4 of a step from the one before.

    Where nothing moves nothing is taken.
    """
    travelled = np.cumsum(survey.motion)
    chosen, tiny = [0], 1e-9
    while True:
        first = chosen[-1] + 1
        since = travelled[first:] - travelled[first - 1]
        window = first + np.flatnonzero((since >= 0.75 * step - tiny) & (since <= 1.25 * step + tiny))
        if len(window) == 0:
            window = first + np.flatnonzero(since > 1.25 * step)[:1]
        if len(window) == 0:
            return chosen
        chosen.append(int(window[np.argmax(survey.sharpness[window])]))


def _write_frames(path: Path, chosen: list[int], copies: Copies, quality: int) -> list[Path]:
    """frame_000123.jpg per chosen frame, numbered as in the video."""
    wanted = dict(zip(chosen, copies.paths([f"frame_{k:06d}.jpg" for k in chosen]), strict=True))
    photos = []
    for k, frame in enumerate(_frames(path)):
        if k in wanted:
            photos.append(wanted[k])
            copies.write(photos[-1], _jpeg(frame, quality))
    return photos


def _jpeg(frame: Bytes, quality: int) -> bytes:
    return bytes(cv2.imencode(".jpg", frame, [cv2.IMWRITE_JPEG_QUALITY, quality])[1])
