"""Other programs' ways to place a walk, on the same photos, so that all can be scored alike.

    WORK/images/aerial, ground     links to the photos
    WORK/matches.db                features and verified matches, made once per matcher
    WORK/<way>/                    a COLMAP model each, or several (0/, 1/, ...); names begin with aerial/ and ground/

COLMAP extends the fixed flight, or maps flight and walk together, step by step or globally (GLOMAP). `peers_pnp` has
the ways that place one frame at a time.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pycolmap

from skyanchor.errors import SkyAnchorError
from skyanchor.evaluation.foreign import aerial_poses
from skyanchor.geometry.colmap import to_camera, to_rigid3d
from skyanchor.matching.features import Features
from skyanchor.matching.protocol import SparseMatcher
from skyanchor.matching.retrieval import fit_vocabulary, ranked, vlad
from skyanchor.photos import natural_key, read_pixels
from skyanchor.scaffold.colmap_files import find_model, read_model
from skyanchor.types import Camera, Photo

AERIAL, GROUND = "aerial/", "ground/"
"""What stands before the names of photos."""
DATABASE, PAIRS = "matches.db", "pairs.txt"
RETRIEVED = 20
"""Aerial photos that a street photo is matched with, where not all are."""
NEXT = 8
"""Street photos before and after that one is matched with, where not all are."""


@dataclass(frozen=True)
class PeerScene:
    """What every program is given."""

    aerial: Path
    """Aerial model with its photos."""
    ground: Path
    """Folder of the street photos."""
    camera: Camera | None = None
    """Of the street, where it is known; COLMAP guesses and refines it without."""
    cameras_known: bool = True
    """Whether the intrinsics of the flight are given as well."""


@dataclass(frozen=True)
class GivenModel:
    """What another program made elsewhere."""

    name: str
    path: Path
    aerial_prefix: str = ""
    """What it puts before the names of aerial photos."""
    ground_prefix: str = ""
    """What it puts before the names of street photos."""


def given_model(text: str) -> GivenModel:
    """The model that NAME=PATH or NAME=PATH,AERIAL_PREFIX,GROUND_PREFIX names."""
    name, _, rest = text.partition("=")
    path, *prefixes = rest.split(",")
    if not name or not path or len(prefixes) not in (0, 2):
        raise SkyAnchorError(f"--model {text}: give NAME=PATH, or NAME=PATH,AERIAL_PREFIX,GROUND_PREFIX")
    return GivenModel(name, Path(path), *prefixes)


# --- features and matches -----------------------------------------------------------------------------------------


def collect_photos(scene: PeerScene, work: Path) -> None:
    """WORK/images with both kinds, and a database that knows them and their cameras."""
    (work / "images").mkdir(parents=True)
    for name, folder in ((AERIAL, scene.aerial / "images"), (GROUND, scene.ground)):
        (work / "images" / name.rstrip("/")).symlink_to(folder.resolve(), target_is_directory=True)
    pycolmap.Database.open(work / DATABASE).close()
    for camera, names in _by_camera(scene, work):
        options = pycolmap.ImageReaderOptions()
        if camera is not None:
            options.camera_model = camera.model
            options.camera_params = ",".join(map(repr, camera.params))
        pycolmap.import_images(work / DATABASE, work / "images", pycolmap.CameraMode.SINGLE, names, options)


def _by_camera(scene: PeerScene, work: Path) -> Iterable[tuple[Camera | None, list[str]]]:
    model = read_model(find_model(scene.aerial))
    if scene.cameras_known:
        for number, camera in model.cameras.items():
            yield camera, [AERIAL + image.name for image in model.images if image.camera_id == number]
    else:
        yield None, [AERIAL + image.name for image in model.images]
    street = (path for path in (work / "images/ground").iterdir() if path.is_file())
    yield scene.camera, [GROUND + path.name for path in sorted(street, key=lambda path: natural_key(path.name))]


def match_sift(work: Path) -> None:
    """COLMAP's own SIFT, all pairs, verified."""
    pycolmap.extract_features(work / DATABASE, work / "images", image_names=names_in(work))
    pycolmap.match_exhaustive(work / DATABASE)


def match_with(work: Path, matcher: SparseMatcher, all_pairs: bool) -> None:
    """Keypoints and matches of one of our matchers, verified by COLMAP; all pairs, or those that look alike."""
    with pycolmap.Database.open(work / DATABASE) as database:
        ids = {image.name: image.image_id for image in database.read_all_images()}
        held = {name: matcher.extract(Photo(name, read_pixels(work / "images" / name))) for name in ids}
        for name, features in held.items():
            database.write_keypoints(ids[name], features.xy.astype(np.float32))
        pairs = list(combinations(held, 2)) if all_pairs else alike(held)
        for a, b in pairs:
            database.write_matches(ids[a], ids[b], matcher.pairs(held[a], held[b]).astype(np.uint32))
    (work / PAIRS).write_text("".join(f"{a} {b}\n" for a, b in pairs))
    pycolmap.verify_matches(work / DATABASE, work / PAIRS)


def alike(held: dict[str, Features]) -> list[tuple[str, str]]:
    """Pairs as hloc makes them: photos with the aerial ones most like them, street photos with their neighbours."""
    aerial, ground = ([name for name in held if name.startswith(kind)] for kind in (AERIAL, GROUND))
    words = fit_vocabulary(np.concatenate([held[name].descriptors for name in held]))
    summed = {name: vlad(features.descriptors, words) for name, features in held.items()}
    database = np.stack([summed[name] for name in aerial])
    best = ranked(np.stack([summed[name] for name in held]), database, min(RETRIEVED + 1, len(aerial)))
    found = {(name, aerial[k]) for name, row in zip(held, best, strict=True) for k in row if aerial[k] != name}
    found |= {(a, b) for k, a in enumerate(ground) for b in ground[k + 1 : k + 1 + NEXT]}
    return sorted({(min(pair), max(pair)) for pair in found})


def names_in(work: Path) -> list[str]:
    """All photos of a database."""
    with pycolmap.Database.open(work / DATABASE) as database:
        return [image.name for image in database.read_all_images()]


# --- COLMAP -------------------------------------------------------------------------------------------------------


def fixed_flight(scene: PeerScene, work: Path, out: Path) -> Any:
    """The flight at its reference poses with points triangulated from the matches, as COLMAP and hloc begin."""
    model, known = pycolmap.Reconstruction(), aerial_poses(scene.aerial)
    with pycolmap.Database.open(work / DATABASE) as database:
        images = [image for image in database.read_all_images() if image.name.startswith(AERIAL)]
        frames = {frame.frame_id: frame for frame in database.read_all_frames()}
        for camera in database.read_all_cameras():
            model.add_camera(camera)
        for rig in database.read_all_rigs():
            model.add_rig(rig)
        for image in images:
            frame = frames[image.frame_id]
            frame.rig_from_world = to_rigid3d(known[image.name.removeprefix(AERIAL)])
            model.add_frame(frame)
            image.points2D = pycolmap.Point2DList(
                [pycolmap.Point2D(xy) for xy in database.read_keypoints(image.image_id)[:, :2]]
            )
            model.add_image(image)
            model.register_frame(frame.frame_id)
    out.mkdir(parents=True)
    return pycolmap.triangulate_points(model, work / DATABASE, work / "images", out)


def extend(scene: PeerScene, work: Path, out: Path) -> None:
    """COLMAP registers the walk into the flight, whose poses and cameras are constant."""
    model = fixed_flight(scene, work, out / "flight")
    options = pycolmap.IncrementalPipelineOptions()
    options.fix_existing_frames = True
    options.constant_cameras = {image.camera_id for image in model.images.values() if image.name.startswith(AERIAL)}
    options.multiple_models = False
    (out / "sparse").mkdir()
    pycolmap.incremental_mapping(work / DATABASE, work / "images", out / "sparse", options, out / "flight")


def joint(scene: PeerScene, work: Path, out: Path) -> None:
    """COLMAP maps flight and walk together, one photo after the other."""
    (out / "sparse").mkdir(parents=True)
    pycolmap.incremental_mapping(work / DATABASE, work / "images", out / "sparse")


def joint_global(scene: PeerScene, work: Path, out: Path) -> None:
    """COLMAP's global mapper (GLOMAP) maps flight and walk together."""
    (out / "sparse").mkdir(parents=True)
    shutil.copyfile(work / DATABASE, out / DATABASE)  # it writes into the database
    pycolmap.global_mapping(out / DATABASE, work / "images", out / "sparse")


Way = Callable[[PeerScene, Path, Path], None]
WAYS: dict[str, tuple[str, Way]] = {
    "extend": ("COLMAP, the fixed flight extended", extend),
    "joint": ("COLMAP, joint mapping", joint),
    "global": ("GLOMAP, joint mapping", joint_global),
}


def write_poses(out: Path, cameras: Sequence[tuple[str, Camera, Any]]) -> None:
    """A COLMAP model of (name, camera, cam_from_world as Rigid3d)."""
    model = pycolmap.Reconstruction()
    for number, (name, camera, cam_from_world) in enumerate(cameras, 1):
        model.add_camera_with_trivial_rig(to_camera(camera, number))
        image = pycolmap.Image(name=name, camera_id=number, image_id=number)
        model.add_image_with_trivial_frame(image, cam_from_world)
    out.mkdir(parents=True, exist_ok=True)
    model.write(out)
