"""The aerial model as a user has it, as one checked value in a local frame."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from skyanchor.bounds import Positive
from skyanchor.errors import InputError
from skyanchor.gaussians.ply_header import check_header
from skyanchor.geometry import rigid
from skyanchor.photos import find_mask, natural_key, refuse_odd_name
from skyanchor.scaffold import colmap_files, georeference, orientation, photo_files
from skyanchor.scaffold.checked_file import COPY_ADVICE
from skyanchor.scaffold.colmap_model import ColmapImage, ColmapModel
from skyanchor.scaffold.orientation import OrientationConfig
from skyanchor.storage.foreign import is_there, refuse_no_file
from skyanchor.storage.names import leads_outside
from skyanchor.types import Floats, Georeference, Ints, Plane, Pose, Scaffold, Tracks, View

log = logging.getLogger(__name__)

ALTITUDES = (0.5, 30_000.0)
"""Median height of a flight's photos above the ground, metres: a model with another one has other units."""
FARTHEST = 1e9
"""Coordinates are less than this, metres."""


@dataclass(frozen=True)
class ScaffoldConfig:
    """How the aerial model is read."""

    orientation: OrientationConfig = field(default_factory=OrientationConfig)
    """Up and ground."""
    move_beyond_m: Positive = 1e4
    """Coordinates beyond this are moved to a local frame, metres: float32 resolves a millimetre up to here."""
    crs: str | None = None
    """Map projection of the coordinates, EPSG:25832, where no georef.json beside the model names it."""
    check_photos: bool = True
    """Whether every photo's header and end are looked at, so that a bad file is named now and not hours later."""


def load_scaffold(
    path: Path, images: Path | None = None, splats: Path | None = None, config: ScaffoldConfig | None = None
) -> Scaffold:
    """The aerial model in a local frame near zero, with up and ground.

    `path` holds sparse/ (or sparse/0) and images/, or is the model folder itself with `images` given or found beside
    it. `splats` is an aerial Gaussian .ply of the same frame; splats.ply or point_cloud/iteration_*/ is found.
    """
    config = config or ScaffoldConfig()
    path = Path(path)
    folder = colmap_files.find_model(path)
    model = colmap_files.read_model(folder)
    check_model(folder, model)
    folder_of_images = photo_files.find_images(path, folder, [image.name for image in model.images], images)
    georef, georef_up = _georeference(path, folder, model, config)
    views = _views(model, folder_of_images, georeference.moved_by(georef))
    if config.check_photos:
        photo_files.check_photos(views)
    return _scaffold(path, folder, model, views, georef, georef_up, find_splats(path, folder, splats), config)


def _scaffold(
    path: Path,
    folder: Path,
    model: ColmapModel,
    views: tuple[View, ...],
    georef: Georeference,
    georef_up: Floats | None,
    splats: Path | None,
    config: ScaffoldConfig,
) -> Scaffold:
    """The value, from checked parts."""
    finite = np.all(np.abs(model.points.xyz) <= FARTHEST, axis=1)
    if not finite.all():
        log.warning("%s: %d points that lie nowhere were left out", folder, int((~finite).sum()))
    points = model.points.xyz[finite] - georeference.moved_by(georef)
    ids = model.points.ids[finite]
    poses = [view.cam_from_world for view in views]
    up, source = orientation.find_up(poses, points, georef_up, config.orientation)
    height = config.orientation.ground_height
    if height is not None:
        height -= float(georeference.moved_by(georef) @ up)
    ground = orientation.find_ground(poses, points, up, height)
    if ground is None:
        raise InputError(
            folder,
            "has no 3D points, so the ground is unknown",
            "Triangulate it (colmap point_triangulator) or give the ground's height with --ground-height (of a run: "
            "--scaffold.orientation.ground-height).",
        )
    refuse_underground(folder, poses, ground)
    refuse_other_units(folder, poses, ground)
    tracks = tracks_of(model, views, ids)
    return Scaffold(
        path, views, points, model.points.rgb[finite], ids, tracks, up, ground, georef, splats, folder, source
    )


# --- checks -----------------------------------------------------------------------------------------------------


def check_model(folder: Path, model: ColmapModel) -> None:
    """InputError for an empty model, poses that are none, images without a camera, bad names, names or ids twice."""
    suffix = colmap_files.suffix_of_model(folder) or ""
    path = folder / f"images{suffix}"
    if not model.images:
        raise InputError(path, "holds no image: the model is empty", "Give a model with posed aerial photos.")
    names: set[str] = set()
    for image in model.images:
        if leads_outside(image.name):
            raise InputError(
                path,
                f"image {image.name!r} has a name that leads out of the image folder",
                "Rename it in the model: names are relative to the image folder and have no '..'.",
            )
        refuse_odd_name(path, image.name)
        refuse_no_pose(path, image)
        if image.camera_id not in model.cameras:
            raise InputError(path, f"image {image.name} has camera {image.camera_id}, which is missing", COPY_ADVICE)
        if image.name in names:
            raise InputError(path, f"image {image.name} is there twice", COPY_ADVICE)
        names.add(image.name)
    if len({image.image_id for image in model.images}) < len(model.images):
        raise InputError(path, "has an image id twice", COPY_ADVICE)
    if len(np.unique(model.points.ids)) < len(model.points.ids):
        raise InputError(folder / f"points3D{suffix}", "has a point id twice", COPY_ADVICE)


def refuse_no_pose(path: Path, image: ColmapImage) -> None:
    """InputError for an image whose pose, in the file `path`, no camera can have."""
    pose = np.concatenate([image.quaternion, image.translation])
    if not np.all(np.abs(pose) <= FARTHEST) or np.linalg.norm(image.quaternion) < 1e-6:
        raise InputError(path, f"image {image.name} has a pose that is not a number", "Remove or export it anew.")


def refuse_underground(folder: Path, poses: list[Pose], ground: Plane) -> None:
    """InputError for a model whose photos were all taken below its ground."""
    heights = rigid.centres_in_world(poses) @ ground.normal - ground.offset
    if len(heights) and np.max(heights) <= 0.0:
        problem = f"has all its photos below the ground, {-float(np.max(heights)):.1f} m and more"
        advice = "Is up the right way round, and the ground's height along it? Leave them out, or mend georef.json."
        raise InputError(folder, problem, advice)


def refuse_other_units(folder: Path, poses: list[Pose], ground: Plane) -> None:
    """InputError for a model whose photos are so near to the ground, or so far from it, that it is not metric."""
    height = float(np.median(rigid.centres_in_world(poses) @ ground.normal - ground.offset))
    low, high = ALTITUDES
    if not low <= height <= high:
        problem = f"has its cameras {height:.3g} m above the ground: its units are not metres"
        advice = "Scale it, by GPS with colmap model_aligner or by known distances; or give the ground's height."
        raise InputError(folder, problem, advice)


def find_splats(path: Path, model: Path, given: Path | None) -> Path | None:
    """The aerial Gaussian file, checked by its header: the one given, or the usual places beneath the folder."""
    if given is not None:
        refuse_no_file(given, "Give the aerial Gaussian model, a .ply of the INRIA convention.")
    found = given or _usual_splats(path) or _usual_splats(model.parent)
    if found is not None and found.suffix == ".ply":
        check_header(found)
    return found


def _usual_splats(folder: Path) -> Path | None:
    trained = sorted(folder.glob("point_cloud/iteration_*/point_cloud.ply"), key=lambda p: natural_key(str(p)))
    candidates = [folder / "splats.ply", folder / "point_cloud.ply", *reversed(trained)]
    advice = "Put the splats there, or take it away."
    return next((candidate for candidate in candidates if is_there(candidate, advice)), None)


# --- parts ------------------------------------------------------------------------------------------------------


def _georeference(
    path: Path, folder: Path, model: ColmapModel, config: ScaffoldConfig
) -> tuple[Georeference, Floats | None]:
    """The local frame, and the up that it implies: z of a projected or ENU system, None without any georeference."""
    centres = rigid.centres_in_world([pose_of(image) for image in model.images])
    moved = georeference.local_offset(centres, config.move_beyond_m)
    file = georeference.find_georef(folder, path, folder.parent)
    if file is None:
        found = georeference.named(Georeference(moved), config.crs, path)
        return found, orientation.Z.copy() if np.any(moved) or found.crs is not None else None
    said = georeference.read_georef(file)
    up = orientation.Z.copy() if said.up is None else said.up
    georef = georeference.named(said.georef, config.crs, file)
    return replace(georef, offset=georef.offset + moved, moved=moved), up


def pose_of(image: ColmapImage) -> Pose:
    """cam_from_world as the file says, in the file's frame."""
    return Pose(rigid.rotation_from_quaternion(image.quaternion), image.translation.copy())


def _views(model: ColmapModel, images: Path, moved: Floats) -> tuple[View, ...]:
    """One view per image, in natural order of the names, in the local frame."""
    ordered = sorted(model.images, key=lambda image: natural_key(image.name))
    return tuple(
        View(
            image.name,
            images / image.name,
            model.cameras[image.camera_id],
            georeference.to_local(pose_of(image), moved),
            find_mask(images, image.name),
            image.image_id,
        )
        for image in ordered
    )


def tracks_of(model: ColmapModel, views: tuple[View, ...], point_ids: Ints) -> Tracks:
    """Every observation of a known point, ordered by view and keypoint."""
    by_id = {image.image_id: image for image in model.images}
    order = np.argsort(point_ids, kind="stable")
    ordered = point_ids[order]
    point, image, xy = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros((0, 2))]
    for index, view in enumerate(views):
        source = by_id[view.image_id]
        at = np.minimum(np.searchsorted(ordered, source.point_ids), max(0, len(ordered) - 1))
        known = (source.point_ids >= 0) & (ordered[at] == source.point_ids) if len(ordered) else source.point_ids < -1
        known &= np.isfinite(source.xy).all(axis=1)
        point.append(order[at[known]])
        image.append(np.full(int(known.sum()), index))
        xy.append(source.xy[known])
    return Tracks(np.concatenate(point), np.concatenate(image), np.concatenate(xy))
