"""A joint model of flight and walk made a scene: a fixed aerial model, unposed walks, and their poses kept as truth.

    SCENE/aerial/sparse, images       the flight: its cameras, and the points that two of its photos see
    SCENE/ground/images               the walk in order; ground-1, ground-2, ... where it has cuts
    SCENE/ground/truth                its reference poses, which only `evaluate` reads
    SCENE/protocol.json               how it is run, and the paper's row

Photos are links to where they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

import numpy as np

from skyanchor.errors import InputError
from skyanchor.evaluation.paper_scenes import Choice, PaperRow
from skyanchor.gaussians.split import TEST_EVERY
from skyanchor.geometry import rigid
from skyanchor.photos import natural_key
from skyanchor.scaffold import ScaffoldConfig, load_scaffold
from skyanchor.scaffold.colmap_files import find_model, read_model, write_model
from skyanchor.scaffold.colmap_model import NO_POINT, ColmapImage, ColmapModel, ColmapPoints, no_points
from skyanchor.scaffold.photo_files import find_images
from skyanchor.storage import files, foreign
from skyanchor.storage.names import beneath
from skyanchor.types import Camera, Floats, Plane

PROTOCOL_FILE = "protocol.json"


@dataclass(frozen=True)
class SplitConfig:
    """How a joint model is taken apart."""

    choice: Choice
    submap: int
    """Frames per submap."""
    group_size: int = 6
    """Frames of an anchor group."""
    metres_per_unit: float = 1.0
    """What one unit of the model is in metres."""
    least_height_m: float | None = None
    """Aerial photos lower above the ground link it with the flight and are left out, metres; all stay without it."""
    segments: tuple[tuple[str, str], ...] = ()
    """First and last image of every walk; one walk of all street images without it."""


@dataclass(frozen=True)
class Walk:
    """One street sequence of a scene."""

    folder: str
    camera: str
    """As `--camera` takes it."""
    frames: int


@dataclass(frozen=True)
class Protocol:
    """protocol.json: how a scene is run and what it is compared with."""

    title: str
    source: str
    aerial: int
    """Photos of the flight."""
    dropped: int
    """Images of the joint model that are in neither part."""
    walks: tuple[Walk, ...]
    submap: int
    group_size: int
    held_out: tuple[str, ...]
    """Aerial photos that the Gaussians never see."""
    paper: PaperRow | None = None


def split_model(
    joint: Path, images: Path | None, out: Path, title: str, config: SplitConfig, paper: PaperRow | None = None
) -> Protocol:
    """The scene of a joint model with the paper's row, written to `out` whole or not at all."""
    if out.is_symlink() or out.is_file() or (out.is_dir() and any(out.iterdir())):
        raise InputError(out, "is not an empty folder", "Give a new or empty folder.")
    files.sweep_dead(out)
    found: list[Protocol] = []
    files.write_through(out, lambda draft: found.append(_written(joint, images, draft, title, config, paper)))
    return found[0]


def _written(
    joint: Path, images: Path | None, out: Path, title: str, config: SplitConfig, paper: PaperRow | None
) -> Protocol:
    folder = find_model(joint)
    model = scaled(read_model(folder), config.metres_per_unit)
    aerial, ground = chosen(joint, [image.name for image in model.images], config.choice)
    photos = find_images(joint, folder, [*aerial, *ground], images)
    aerial = write_aerial(out / "aerial", model, aerial, photos, config.least_height_m)
    walks = _written_walks(out, model, ground, photos, config.segments)
    held = tuple(aerial[::TEST_EVERY])
    dropped = len(model.images) - len(aerial) - sum(walk.frames for walk in walks)
    protocol = Protocol(title, str(joint), len(aerial), dropped, walks, config.submap, config.group_size, held, paper)
    files.save(out / PROTOCOL_FILE, protocol)
    return protocol


# --- which images -------------------------------------------------------------------------------------------------


def chosen(joint: Path, names: Sequence[str], choice: Choice) -> tuple[list[str], list[str]]:
    """Names of the flight and of the walk, each in natural order; InputError where one of them is empty."""
    free = [name for name in sorted(names, key=natural_key) if not _matches(name, _patterns(choice.drop))]
    aerial = [name for name in free if _matches(name, _patterns(choice.aerial))]
    ground = [name for name in free if name not in set(aerial) and _matches(name, _patterns(choice.ground))]
    for kind, held in (("aerial", aerial), ("ground", ground)):
        if not held:
            some = ", ".join(sorted({str(PurePosixPath(name).parent) for name in names})[:6])
            advice = f"Give --{kind} PATTERN; its images lie in {some}."
            raise InputError(joint, f"has no {kind} image by the patterns", advice)
    return aerial, ground


def _patterns(given: Iterable[str]) -> tuple[str, ...]:
    """The patterns, those of @files read."""
    found: list[str] = []
    for pattern in given:
        if not pattern.startswith("@"):
            found.append(pattern)
            continue
        text = foreign.read_text(Path(pattern[1:]), "It should hold one image name per line.")
        found += [line.strip() for line in text.splitlines() if line.strip()]
    return tuple(pattern.casefold() for pattern in found)


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name.casefold(), pattern) for pattern in patterns)


# --- models -------------------------------------------------------------------------------------------------------


def scaled(model: ColmapModel, factor: float) -> ColmapModel:
    """The same model in other units; without rigs, which a part of the images would contradict."""
    images = tuple(replace(image, translation=image.translation * factor) for image in model.images)
    return ColmapModel(model.cameras, images, replace(model.points, xyz=model.points.xyz * factor))


def part(model: ColmapModel, names: Sequence[str], points: bool = True) -> ColmapModel:
    """The images of these names, and the points that two of them see."""
    wanted = set(names)
    images = tuple(image for image in model.images if image.name in wanted)
    cameras = {number: model.cameras[number] for number in sorted({image.camera_id for image in images})}
    held = _points_of(model.points, {image.image_id for image in images}) if points else no_points()
    return ColmapModel(cameras, tuple(_with_points(image, held, points) for image in images), held)


def _points_of(points: ColmapPoints, image_ids: set[int]) -> ColmapPoints:
    """Points with two observations in the images, and those observations."""
    seen = np.isin(points.track_image_ids, np.array(sorted(image_ids), np.int64))
    owner = np.repeat(np.arange(len(points.ids)), np.diff(points.track_start))
    counts = np.bincount(owner[seen], minlength=len(points.ids))
    kept = counts >= 2
    elements = seen & kept[owner]
    start = np.concatenate([[0], np.cumsum(counts[kept])])
    return ColmapPoints(
        points.ids[kept],
        points.xyz[kept],
        points.rgb[kept],
        points.error[kept],
        start,
        points.track_image_ids[elements],
        points.track_keypoints[elements],
    )


def _with_points(image: ColmapImage, held: ColmapPoints, points: bool) -> ColmapImage:
    if not points:
        return replace(image, xy=np.zeros((0, 2)), point_ids=np.zeros(0, np.int64))
    there = np.isin(image.point_ids, held.ids)
    return replace(image, point_ids=np.where(there, image.point_ids, NO_POINT))


# --- files --------------------------------------------------------------------------------------------------------


def write_aerial(
    out: Path, model: ColmapModel, names: list[str], photos: Path, least_height_m: float | None
) -> list[str]:
    """OUT/sparse and OUT/images of the flight; the names that are in it, those of low photos left out."""
    _link(out / "images", photos, {name: name for name in names})
    write_model(out / "sparse", part(model, names))
    if least_height_m is None:
        return names
    high = _above(out, names, least_height_m)
    for name in set(names) - set(high):
        files.remove(beneath(out / "images", name))
    write_model(out / "sparse", part(model, high))
    return high


def _above(aerial: Path, names: Sequence[str], least_m: float) -> list[str]:
    """Photos that were taken so high above the ground."""
    held = load_scaffold(aerial, config=ScaffoldConfig(check_photos=False))
    heights = {view.name: _height(rigid.centre_in_world(view.cam_from_world), held.ground) for view in held.views}
    high = [name for name in names if heights[name] >= least_m]
    if not high:
        most = max(heights.values())
        raise InputError(aerial, f"has no photo {least_m:g} m above the ground", f"The highest is at {most:.0f} m.")
    return high


def _height(centre: Floats, ground: Plane) -> float:
    return float(ground.normal @ centre - ground.offset)


def _written_walks(
    out: Path, model: ColmapModel, ground: list[str], photos: Path, segments: tuple[tuple[str, str], ...]
) -> tuple[Walk, ...]:
    spans = [_span(ground, *ends) for ends in segments] or [ground]
    shared = next((name for name, count in Counter(name for span in spans for name in span).items() if count > 1), None)
    if shared is not None:
        raise InputError("--segments", f"{shared} lies in two of them", "Give walks that share no image.")
    folders = [f"ground-{k}" if segments else "ground" for k in range(1, len(spans) + 1)]
    return tuple(_written_walk(out, folder, model, names, photos) for folder, names in zip(folders, spans, strict=True))


def _span(ground: list[str], first: str, last: str) -> list[str]:
    """The images from one to another, by name or by file name."""
    ends = [next((k for k, name in enumerate(ground) if end in (name, Path(name).name)), None) for end in (first, last)]
    if ends[0] is None or ends[1] is None or ends[1] < ends[0]:
        advice = "Give the first and the last image of each walk, in natural order of the names."
        raise InputError(f"--segments {first}:{last}", "names no stretch of the street images", advice)
    return ground[ends[0] : ends[1] + 1]


def _written_walk(out: Path, folder: str, model: ColmapModel, names: list[str], photos: Path) -> Walk:
    """One walk and its truth under the names that its frames have."""
    called = _flat(names)
    _link(out / folder / "images", photos, {called[name]: name for name in names})
    held = part(model, names, points=False)
    images = tuple(replace(image, name=called[image.name]) for image in held.images)
    write_model(out / folder / "truth", replace(held, images=images))
    if len(set(held.cameras.values())) > 1:
        advice = "Choose the images of one camera with --ground."
        raise InputError(out / folder, f"would hold photos of {len(held.cameras)} cameras", advice)
    camera: Camera = next(iter(held.cameras.values()))
    return Walk(folder, ",".join([camera.model, *map(repr, camera.params)]), len(names))


def _flat(names: Sequence[str]) -> dict[str, str]:
    """A file name for every image, in the order of the images: their own where they lie in one folder."""
    if len({PurePosixPath(name).parent for name in names}) == 1:
        return {name: PurePosixPath(name).name for name in names}
    return {name: name.replace("/", "_") for name in names}


def _link(target: Path, photos: Path, names: dict[str, str]) -> None:
    for name, source in names.items():
        files.link_to(beneath(photos, source), beneath(target, name))
