"""The ground photos or video as a user has them, as one checked value."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from skyanchor.errors import InputError
from skyanchor.events import Listener, silent
from skyanchor.photos import find_mask, natural_key, photo_size, refuse_odd_name
from skyanchor.sequence import intrinsics, segments, upright, video
from skyanchor.sequence.copies import Copies
from skyanchor.sequence.intrinsics import Exif
from skyanchor.sequence.segments import SegmentConfig
from skyanchor.sequence.submaps import SubmapConfig
from skyanchor.sequence.video import VideoConfig
from skyanchor.storage.foreign import is_there
from skyanchor.storage.kinds import kind_of
from skyanchor.types import Camera, Frame, Sequence

PHOTO_SUFFIXES = (".jpg", ".jpeg", ".png", ".tif", ".tiff", ".bmp", ".webp")
UNREAD_SUFFIXES = (
    *(".heic", ".heif", ".avif", ".jxl", ".jp2", ".gif", ".insp"),
    *(".dng", ".arw", ".cr2", ".cr3", ".nef", ".raf", ".orf", ".rw2"),
)
"""Of photos that are none here until they are converted."""
VIDEO_SUFFIXES = (".mp4", ".mov", ".avi", ".mkv", ".m4v", ".webm", ".mts", ".insv")
NO_PHOTOS = f"Expected {' '.join(PHOTO_SUFFIXES)} files, or give a video."
EXIF_FOCAL_SIGMA = 0.03
"""35 mm equivalents are whole millimetres and ignore the crop of some modes."""
GUESS_FOCAL_SIGMA = 0.25


@dataclass(frozen=True)
class SequenceConfig:
    """How the ground photos are read."""

    camera: str | None = None
    """Intrinsics: MODEL,params in COLMAP order (PINHOLE,fx,fy,cx,cy) or f=900, pixels; EXIF or a guess without it."""
    cut: SubmapConfig = field(default_factory=SubmapConfig)
    """Submaps and anchor groups."""
    video: VideoConfig = field(default_factory=VideoConfig)
    """Which frames of a video are taken."""
    segments: SegmentConfig = field(default_factory=SegmentConfig)
    """Where the walk is cut."""


@dataclass(frozen=True)
class Intrinsics:
    """The camera of a sequence and how well it is known."""

    camera: Camera
    focal_sigma: float
    """Relative."""


def load_sequence(
    path: Path,
    config: SequenceConfig | None = None,
    frames_folder: Path | Copies | None = None,
    listen: Listener = silent,
) -> Sequence:
    """The frames in order, their camera, submaps and anchor groups.

    `path` is a folder of photos, a folder that holds images/, or a video. Frames of a video, and upright copies of
    photos that are stored sideways, are written to `frames_folder`.
    """
    config = config or SequenceConfig()
    path = Path(path)
    if path.is_file():
        refuse_photo(path)
        choose_camera(config.camera, intrinsics.NO_EXIF, video.frame_size(path))
        copies = _needed(path, frames_folder, "is a video")
        photos = video.extract_frames(path, config.video, copies, listen)
        return build_sequence(path, photos, config, masked=(copies.folder / "images",))
    folder, photos = find_photos(path)
    exifs = [intrinsics.read_exif(photo) for photo in photos]
    if any(exif.orientation != 1 for exif in exifs):
        target = _needed(photos[0], frames_folder, "is stored sideways (EXIF orientation)")
        choose_camera(config.camera, exifs[0], one_size(photos, exifs))
        one_camera(photos, exifs)
        photos = upright.write_upright(folder, photos, target)
        return build_sequence(path, photos, config, exifs, (photos[0].parent, target.folder / "images"))
    return build_sequence(path, photos, config, exifs, (folder,))


def street_camera(path: Path | None, config: SequenceConfig) -> Camera:
    """The camera of a walk that is not read: as given, from EXIF, or a guess; of a full HD video without a path."""
    if path is None:
        return choose_camera(config.camera, intrinsics.NO_EXIF, (1920, 1080)).camera
    if path.is_file():
        refuse_photo(path)
        return choose_camera(config.camera, intrinsics.NO_EXIF, video.frame_size(path)).camera
    first = find_photos(path)[1][0]
    exif, size = intrinsics.read_exif(first), photo_size(first)
    return choose_camera(config.camera, exif, size if exif.orientation <= 4 else size[::-1]).camera


def _needed(path: Path, frames_folder: Path | Copies | None, why: str) -> Copies:
    if frames_folder is None:
        raise InputError(path, f"{why} and needs a folder for its frames", "Give frames_folder.")
    return frames_folder if isinstance(frames_folder, Copies) else Copies(frames_folder)


def build_sequence(
    root: Path,
    photos: list[Path],
    config: SequenceConfig,
    exifs: list[Exif] | None = None,
    masked: tuple[Path, ...] = (),
) -> Sequence:
    """The sequence of checked photos, one camera; masks lie beside the folders `masked`, or beside `root`."""
    least = config.cut.group_size
    if len(photos) < least:
        raise InputError(
            root, f"has {len(photos)} frames, fewer than one anchor group of {least}", "Give a longer sequence."
        )
    size = one_size(photos)
    exifs = exifs or [intrinsics.read_exif(photo) for photo in photos]
    one_camera(photos, exifs)
    known = choose_camera(config.camera, exifs[0], size)
    frames = tuple(Frame(k, p.name, p, _mask((*masked, root), p, size)) for k, p in enumerate(photos))
    gps = tuple(exif.gps for exif in exifs)
    uncut = Sequence(
        root,
        frames,
        known.camera,
        known.focal_sigma > 0.0,
        (),
        (),
        gps if any(gps) else (),
        known.focal_sigma,
    )
    walk = segments.cut_at(uncut, segments.said(frames, config.segments, root), config.cut)
    if not walk.groups:
        raise InputError(root, f"has no stretch of {least} frames between its cuts", "Cut it at fewer photos.")
    return walk


def find_photos(path: Path) -> tuple[Path, list[Path]]:
    """The folder with the photos and the photos in natural order."""
    if not path.is_dir():
        raise InputError(path, "does not exist", "Give a folder of photos or a video file.")
    if kind := kind_of(path):
        raise InputError(path, f"is {kind}", "Give the street photos of the walk, or its video.")
    folder = path / "images" if (path / "images").is_dir() else path
    photos = _photos_in(folder)
    if not photos:
        below = [sub for sub in sorted(folder.iterdir()) if sub.is_dir() and sub.name != "masks" and _photos_in(sub)]
        if len(below) > 1:
            names = ", ".join(sub.name for sub in below[:4])
            raise InputError(
                folder, f"holds several folders of photos ({names})", "Give one of them: one camera's walk."
            )
        if not below:
            refuse_unread(folder, photos)
            videos = [f.name for f in sorted(folder.iterdir()) if f.suffix.lower() in VIDEO_SUFFIXES]
            advice = f"Give one of its videos, e.g. {folder / videos[0]}." if videos else NO_PHOTOS
            raise InputError(folder, "holds no photos", advice)
        folder, photos = below[0], _photos_in(below[0])
    refuse_unread(folder, photos)
    return folder, photos


def refuse_unread(folder: Path, photos: list[Path]) -> None:
    """InputError for photos of a kind that is not read here, unless the same photo is there in one that is."""
    read = {photo.stem.casefold() for photo in photos}
    odd = [f for f in folder.iterdir() if f.suffix.lower() in UNREAD_SUFFIXES and not f.name.startswith(".")]
    unread = sorted((f.name for f in odd if f.stem.casefold() not in read), key=natural_key)
    if unread:
        problem = f"holds {len(unread)} photos of a kind that is not read, {unread[0]} first"
        raise InputError(folder, problem, "Convert them to JPEG, all alike, or take them out of the folder.")


def refuse_photo(path: Path) -> None:
    """InputError for a single photo where a video was to be."""
    if path.suffix.lower() in (*PHOTO_SUFFIXES, *UNREAD_SUFFIXES):
        raise InputError(path, "is one photo", "Give the folder of the walk's photos, or its video.")


def passed_over(path: Path) -> tuple[str, ...]:
    """What lies among the street photos and is not taken, a sentence each; nothing for a video."""
    if not path.is_dir():
        return ()
    folder = find_photos(path)[0]
    places = [path] if folder != path else []
    places += sorted(below for below in folder.iterdir() if below.is_dir())
    counts = {place: len(_photos_in(place)) for place in places}
    return tuple(_passed_over(path, place, count) for place, count in counts.items() if count)


def _passed_over(path: Path, place: Path, count: int) -> str:
    where = "beside images/" if place == path else f"in {place.relative_to(path)}/"
    if place.name == "masks":
        return f"{count} pictures {where} are passed over: masks belong beside the folder of photos, not in it"
    return f"{count} photos {where} are passed over: put them among the others, or give them as a walk of their own"


def _photos_in(folder: Path) -> list[Path]:
    files = [f for f in folder.iterdir() if f.suffix.lower() in PHOTO_SUFFIXES and not f.name.startswith(".")]
    photos = [f for f in files if not f.is_dir() and is_there(f, "Put the photo there, or take it out of the folder.")]
    for photo in photos:
        refuse_odd_name(folder, photo.name)
    return sorted(photos, key=lambda f: natural_key(f.name))


# --- one camera -------------------------------------------------------------------------------------------------


def one_size(photos: list[Path], exifs: list[Exif] | None = None) -> tuple[int, int]:
    """The width and height of all photos, upright where `exifs` are given; InputError that names the odd ones."""
    sizes = [photo_size(photo) for photo in photos]
    if exifs is not None:
        sizes = [size[::-1] if exif.orientation > 4 else size for size, exif in zip(sizes, exifs, strict=True)]
    usual = max(sorted(set(sizes)), key=sizes.count)
    odd = [k for k, size in enumerate(sizes) if size != usual]
    if odd:
        size = sizes[odd[0]]
        others = f" and {len(odd) - 1} more" if len(odd) > 1 else ""
        like = photos[sizes.index(usual)].name
        raise InputError(
            photos[odd[0]],
            f"is {size[0]}x{size[1]}{others}, but {sizes.count(usual)} photos like {like} are {usual[0]}x{usual[1]}",
            "One sequence has one camera and one size: split the folder or remove the odd files.",
        )
    return usual


def one_camera(photos: list[Path], exifs: list[Exif]) -> None:
    """InputError that names two photos whose EXIF tells of different cameras or zooms; silence of EXIF is no proof."""
    first = next((k for k, exif in enumerate(exifs) if exif.make_model), None)
    for photo, exif in zip(photos, exifs, strict=True):
        if first is None or not exif.make_model:
            continue
        usual = exifs[first]
        zoomed = usual.focal_mm and exif.focal_mm and abs(exif.focal_mm / usual.focal_mm - 1.0) > 0.01
        if exif.make_model != usual.make_model or zoomed:
            raise InputError(
                photo,
                f"was taken with {_described(exif)}, but {photos[first].name} with {_described(usual)}",
                "One sequence has one camera and one zoom: split the folder.",
            )


def _described(exif: Exif) -> str:
    return f"{exif.make_model} at {exif.focal_mm:g} mm" if exif.focal_mm else exif.make_model


def choose_camera(given: str | None, exif: Exif, size: tuple[int, int]) -> Intrinsics:
    """The camera as given, else from EXIF, else a guess."""
    if given is not None:
        return Intrinsics(intrinsics.parse_camera(given, *size), 0.0)
    if exif.focal_px is not None:
        return Intrinsics(intrinsics.exif_camera(exif.focal_px, *size), EXIF_FOCAL_SIGMA)
    return Intrinsics(intrinsics.guessed_camera(*size), GUESS_FOCAL_SIGMA)


def _mask(beside: tuple[Path, ...], photo: Path, size: tuple[int, int]) -> Path | None:
    """The photo's mask, checked for size; beside the first of the folders, or the video, that has one."""
    path = next((path for folder in beside if (path := find_mask(folder, photo.name))), None)
    if path is not None and (found := photo_size(path)) != size:
        raise InputError(
            path, f"is {found[0]}x{found[1]} but its photo is {size[0]}x{size[1]}", "Give masks of the photos' size."
        )
    return path
