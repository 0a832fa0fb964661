"""What was understood of a walk, in figures a person can check before anything long begins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from skyanchor.errors import InputError
from skyanchor.events import Listener, Progress, silent
from skyanchor.geometry import cameras
from skyanchor.photos import find_mask, photo_size
from skyanchor.sequence import intrinsics, loading, segments, submaps, video
from skyanchor.sequence.intrinsics import Exif
from skyanchor.sequence.loading import SequenceConfig
from skyanchor.sequence.same_photos import copies_among
from skyanchor.sequence.video import Survey, VideoConfig
from skyanchor.types import Bools, Camera, Floats, Frame
from skyanchor.types import Sequence as Walk

BLURRED = 0.5
"""A frame is blurred that is less than this as sharp as the median of those around it."""
AROUND = 15
"""Frames that one is compared with, its own among them."""
SAMPLED = 200
"""Photos whose sharpness is looked at, about."""
GLANCE = 40
"""The same at the start of a run."""
MANY_BLURRED = 0.15
EMPTY = 0.01
"""Sharpness of a picture of one colour; noise alone has more."""
STILL = 0.002
"""Motion below which a frame of a video stands still, share of the width."""
JUMP = 0.25
"""Motion from one frame of a video to the next that is a cut or a jerk, share of the width."""
SQUARE = 1.1
"""Focal length across over that along, or the other way round, from which on a camera is told."""
SMALL_PX = 400
"""Width below which pictures show too little of a facade."""
WIDE_DEG = 100.0
"""Field of view across that a pinhole does not describe, degrees."""


@dataclass(frozen=True)
class WalkSummary:
    """The street photos or video as understood."""

    path: str
    frames: int
    """Taken."""
    given: int
    """Photos of the folder, or frames of the video."""
    still: int
    """Frames of a video where nothing moves."""
    seconds: float | None
    """Length of a video."""
    choice: str
    """Which frames are taken, for people."""
    width: int
    """Pixels."""
    height: int
    """Pixels."""
    focal_px: float
    focal_from: str
    """given, EXIF or guess."""
    field_of_view_deg: float
    """Across the width."""
    blurred: float
    """Share of the frames taken that are much less sharp than those around them."""
    masks: int
    """Frames with a mask."""
    gps: tuple[tuple[float, float, float], ...]
    """Latitude, longitude (deg), altitude (m) of the photos that say where they were taken."""
    taken: tuple[str, str] | None
    """Time of the first and the last photo by the camera's clock."""
    submaps: int
    groups: int
    """Anchor groups."""
    cuts: tuple[str, ...]
    """Photos that begin a new stretch; those of a video are found when a run has taken its frames."""
    warnings: tuple[str, ...]


def describe(path: Path, config: SequenceConfig | None = None, listen: Listener = silent) -> WalkSummary:
    """Frames, camera, sharpness, place, time, and what looks wrong; nothing is written."""
    config = config or SequenceConfig()
    return _of_video(path, config, listen) if path.is_file() else _of_photos(path, config, listen)


def _of_photos(path: Path, config: SequenceConfig, listen: Listener) -> WalkSummary:
    folder, photos = loading.find_photos(path)
    exifs = [intrinsics.read_exif(photo) for photo in photos]
    loading.one_camera(photos, exifs)
    size = loading.one_size(photos, exifs)
    loading.choose_camera(config.camera, exifs[0], size)
    step = max(1, len(photos) // SAMPLED)
    sharpness = _sharpness(photos[::step], listen)
    return _summary(
        path,
        config,
        size,
        exifs,
        (len(photos), len(photos), 0, None, "every photo, in the natural order of the names"),
        blurred_among(sharpness),
        sum((find_mask(folder, p.name) or find_mask(path, p.name)) is not None for p in photos),
        (*_empty(path, sharpness), *_copied(photos), *loading.passed_over(path)),
        _cuts(path, photos, config, listen),
    )


def _cuts(path: Path, photos: list[Path], config: SequenceConfig, listen: Listener) -> tuple[Frame, ...]:
    """Photos that begin a new stretch, as the user says and as they are found."""
    frames = tuple(Frame(k, photo.name, photo) for k, photo in enumerate(photos))
    cuts = set(segments.said(frames, config.segments, path))
    if config.segments.find:
        walk = Walk(path, frames, intrinsics.guessed_camera(*photo_size(photos[0])), True, (), ())
        cuts |= set(segments.find_cuts(walk, config.segments, config.cut.group_size, listen))
    return tuple(frames[k] for k in sorted(cuts))


def _of_video(path: Path, config: SequenceConfig, listen: Listener) -> WalkSummary:
    loading.refuse_photo(path)
    size = video.frame_size(path)
    loading.choose_camera(config.camera, intrinsics.NO_EXIF, size)
    survey = video.survey_video(path, listen)
    chosen = video.choose_frames(survey, config.video)
    still = int(np.sum(survey.motion[1:] < STILL))
    count = len(survey.motion)
    jumps = int(np.sum(survey.motion > JUMP))
    cut = [f"the video jumps {jumps} times: a run cuts the walk where the picture does not go on"]
    return _summary(
        path,
        config,
        size,
        [intrinsics.NO_EXIF],
        (len(chosen), count, still, count / survey.frame_rate, choice_said(config.video)),
        blurred_among(survey.sharpness)[chosen],
        sum(find_mask(path.parent, f"frame_{k:06d}.jpg") is not None for k in chosen),
        (*_empty(path, survey.sharpness), *(cut if jumps else ()), *_standing(survey, still)),
    )


def _summary(
    path: Path,
    config: SequenceConfig,
    size: tuple[int, int],
    exifs: list[Exif],
    taken: tuple[int, int, int, float | None, str],
    blurred: Bools,
    masks: int,
    warnings: tuple[str, ...],
    cuts: tuple[Frame, ...] = (),
) -> WalkSummary:
    known = loading.choose_camera(config.camera, exifs[0], size)
    begins, names = tuple(frame.index for frame in cuts), tuple(frame.name for frame in cuts)
    cut = submaps.cut_submaps(taken[0], config.cut, begins)
    times = sorted(exif.taken for exif in exifs if exif.taken)
    share = float(np.mean(blurred)) if len(blurred) else 0.0
    looks = (*camera_warnings(known.camera, known.focal_sigma), *_blurry(share), *warnings)
    return WalkSummary(
        str(path),
        *taken,
        *size,
        cameras.focal_px(known.camera),
        focal_from(known.focal_sigma),
        across_deg(known.camera),
        share,
        masks,
        tuple(exif.gps for exif in exifs if exif.gps is not None),
        (times[0], times[-1]) if times else None,
        len(cut),
        len(submaps.anchor_groups(cut, config.cut, begins)),
        names,
        (*_few(taken[0], config), *looks, *cuts_said(names)),
    )


# --- in words ---------------------------------------------------------------------------------------------------


def focal_from(sigma: float) -> str:
    """Where a focal length of this relative sigma comes from: given, EXIF or guess."""
    return "given" if sigma == 0.0 else "EXIF" if sigma <= loading.EXIF_FOCAL_SIGMA else "guess"


def across_deg(camera: Camera) -> float:
    """Field of view across the width of a pinhole with this focal length, degrees."""
    return math.degrees(2.0 * math.atan(camera.width / 2.0 / cameras.focal_px(camera)))


def choice_said(config: VideoConfig) -> str:
    """Which frames of a video are taken."""
    if config.frames_per_second is not None:
        return f"{config.frames_per_second:g} a second (--sequence.video.frames-per-second)"
    return (
        f"one per {100 * config.motion:g} % of the width that the picture has moved, the sharpest thereabouts "
        "(--sequence.video.motion)"
    )


def told(walk: Walk, listen: Listener = silent) -> tuple[str, ...]:
    """The same of a walk that a run begins with, in a line and its warnings."""
    camera, sigma, count = walk.camera, walk.focal_sigma, len(walk.frames)
    step = max(1, count // GLANCE)
    photos = [frame.path for frame in walk.frames]
    sharpness = _sharpness(photos[::step], listen)
    blurred = float(np.mean(blurred_among(sharpness)))
    positions = sum(place is not None for place in walk.gps)
    line = (
        f"{count} frames of {camera.width}x{camera.height}, anchor groups: {len(walk.groups)}, "
        f"submaps: {len(walk.submaps)}; focal length {cameras.focal_px(camera):.0f} px ({focal_from(sigma)}); GPS of "
        f"{positions or 'no'} frames; {100 * blurred:.0f} % blurred"
    )
    cut = cuts_said([walk.frames[k].name for k in walk.cuts])
    odd = (*_empty(walk.root, sharpness), *_copied(photos), *loading.passed_over(walk.root))
    return (line, *camera_warnings(camera, sigma), *_blurry(blurred), *odd, *cut)


def cuts_said(names: Sequence[str]) -> tuple[str, ...]:
    """Where a walk is cut, and how to say otherwise; nothing for a walk without cuts."""
    if not names:
        return ()
    some = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
    advice = "--sequence.segments.no-find takes it as one walk, --sequence.segments.begin NAMES cuts it elsewhere"
    return (f"the walk is cut before {some}: each stretch needs anchors of its own; {advice}",)


# --- sharpness --------------------------------------------------------------------------------------------------


def blurred_among(sharpness: Floats) -> Bools:
    """(N,), whether a frame is less than half as sharp as the median of those around it, from sharpness (N,)."""
    reach = AROUND // 2
    medians = [np.median(sharpness[max(0, k - reach) : k + reach + 1]) for k in range(len(sharpness))]
    return np.asarray(sharpness < BLURRED * np.array(medians), dtype=bool)


def _sharpness(photos: Sequence[Path], listen: Listener) -> Floats:
    """(N,), as in a video's survey, of photos of one size."""
    found = []
    for k, photo in enumerate(photos):
        picture = cv2.imread(str(photo), cv2.IMREAD_REDUCED_COLOR_2)
        if picture is None:
            raise InputError(photo, "cannot be read as an image", "Copy the photo again, or take it out of the folder.")
        found.append(video.sharpness_of(video.small_grey(np.asarray(picture, dtype=np.uint8))))
        listen(Progress("walk", "sharpness of photos", k + 1, len(photos)))
    return np.array(found)


# --- what looks wrong -------------------------------------------------------------------------------------------


def camera_warnings(camera: Camera, sigma: float) -> tuple[str, ...]:
    """A guessed focal length, a lens that is no pinhole, small pictures; with what to do."""
    off = f"{100 * loading.GUESS_FOCAL_SIGMA:.0f} %"
    across = across_deg(camera)
    lens = cameras.calibration(camera)
    (x, y), focal = lens[:2, 2], (lens[0, 0], lens[1, 1])
    checks = [
        (
            focal_from(sigma) == "guess",
            f"the focal length is a guess and may be {off} off: give --camera f=PIXELS if you know it",
        ),
        (
            across > WIDE_DEG and "FISHEYE" not in camera.model,
            f"{across:.0f} degrees across is a wide-angle lens: give its distortion, --camera OPENCV,fx,fy,...",
        ),
        (
            not (0.0 <= x <= camera.width and 0.0 <= y <= camera.height),
            f"the principal point ({x:.0f}, {y:.0f}) lies outside the picture: is the order fx, fy, cx, cy?",
        ),
        (
            max(focal) > SQUARE * min(focal),
            f"the pixels are not square, fx {focal[0]:.0f} and fy {focal[1]:.0f}: is that so?",
        ),
        (
            camera.width < SMALL_PX,
            f"pictures of {camera.width} pixels across show little: give them as large as they were taken",
        ),
    ]
    return tuple(text for wrong, text in checks if wrong)


def _few(frames: int, config: SequenceConfig) -> tuple[str, ...]:
    least = config.cut.group_size
    advice = "give a longer walk, or take more frames of a video with a smaller --sequence.video.motion"
    return (f"only {frames} frames: an anchor group needs {least}; {advice}",) if frames < least else ()


def _blurry(share: float) -> tuple[str, ...]:
    advice = "walk slower or in better light; photos that are blurred can be taken out of the folder"
    return (f"{100 * share:.0f} % of the frames are blurred: {advice}",) if share > MANY_BLURRED else ()


def _empty(walk: Path, sharpness: Floats) -> tuple[str, ...]:
    """A note where photos are of one colour, of those that were looked at; InputError where all are."""
    empty = int(np.sum(sharpness < EMPTY))
    if empty == len(sharpness):
        raise InputError(walk, "shows nothing: its photos are of one colour", "Is it the walk, and was the lens free?")
    return (f"{empty} of {len(sharpness)} photos that were looked at are of one colour",) if empty else ()


def _copied(photos: Sequence[Path]) -> tuple[str, ...]:
    """A note where photos are copies of others; InputError where only one is left."""
    copies = copies_among(photos)
    if len(photos) > 1 and len(copies) == len(photos) - 1:
        raise InputError(photos[0].parent, "holds one photo, and copies of it", "Give the photos of the walk.")
    some = f"{copies[0].name}{f' and {len(copies) - 1} more' if len(copies) > 1 else ''}" if copies else ""
    return (f"photos that hold what another one holds can be taken out: {some}",) if copies else ()


def _standing(survey: Survey, still: int) -> tuple[str, ...]:
    mostly = still > 0.5 * len(survey.motion)
    return ("nothing moves in more than half of the video: is it the walk?",) if mostly else ()
