"""Ways that place one frame at a time: hloc's retrieval with PnP, and a chain of PnP from the first anchors."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pycolmap

from skyanchor.evaluation.peers import DATABASE, GROUND, PeerScene, fixed_flight, write_poses
from skyanchor.geometry import cameras, rigid
from skyanchor.geometry.colmap import from_camera, to_rigid3d
from skyanchor.photos import natural_key
from skyanchor.sfm.resection import Trials, resect
from skyanchor.types import Bools, Camera, Floats, Ints, Pose

RETRIEVED = 20
"""Aerial photos that place a street photo."""
HLOC_PX, HLOC_LEAST = 12.0, 12
"""hloc's threshold, pixels, and inliers of a pose that is believed."""
CHAIN_PX, CHAIN_LEAST, CHAIN_TRIALS = 3.0, 30, 8_000
"""The paper's for PnP: pixels, inliers, hypotheses."""
WINDOW = 6
"""Frames before that one is registered to."""
LEAST_ANGLE_DEG = 1.0
"""Between the rays of a point of the chain."""


@dataclass(frozen=True, eq=False)
class Matched:
    """What a database says of the walk."""

    names: tuple[str, ...]
    """Street photos in order, with their prefix."""
    camera: Camera
    given: bool
    """Whether the focal length was given and not guessed."""
    ids: dict[str, int]
    xy: dict[str, Floats]
    """(N, 2), keypoints by name."""
    pairs: dict[tuple[str, str], Ints]
    """(M, 2), verified matches of two photos, both ways round."""


def read_matched(work: Path) -> Matched:
    """Keypoints, verified matches and the street camera of a database."""
    with pycolmap.Database.open(work / DATABASE) as database:
        images = {image.image_id: image for image in database.read_all_images()}
        ids = {image.name: number for number, image in images.items()}
        names = tuple(sorted((name for name in ids if name.startswith(GROUND)), key=natural_key))
        camera = database.read_camera(images[ids[names[0]]].camera_id)
        xy = {name: np.array(database.read_keypoints(k)[:, :2], np.float64) for name, k in ids.items()}
        pairs: dict[tuple[str, str], Ints] = {}
        for (a, b), geometry in zip(*_geometries(database), strict=True):
            held = np.array(geometry.inlier_matches, dtype=np.int64).reshape(-1, 2)
            pairs[images[a].name, images[b].name] = held
            pairs[images[b].name, images[a].name] = held[:, ::-1]
    return Matched(names, from_camera(camera), bool(camera.has_prior_focal_length), ids, xy, pairs)


def _geometries(database: Any) -> tuple[list[tuple[int, int]], list[Any]]:
    pair_ids, geometries = database.read_two_view_geometries()
    return [tuple(pycolmap.pair_id_to_image_pair(pair)) for pair in pair_ids], geometries


# --- hloc ---------------------------------------------------------------------------------------------------------


def single_frames(scene: PeerScene, work: Path, out: Path) -> None:
    """Every frame for itself: the aerial photos that share most verified matches, their points, PnP.

    hloc gives a frame that cannot be placed the pose of the photo most like it; here it has none.
    """
    flight, matched = fixed_flight(scene, work, out / "flight"), read_matched(work)
    points = _point_ids(flight)
    known = [(image.name, image.camera_id, image.cam_from_world()) for image in flight.images.values()]
    posed = [(name, from_camera(flight.cameras[number]), pose) for name, number, pose in known]
    for name in matched.names:
        best = sorted(points, key=lambda aerial: -len(matched.pairs.get((name, aerial), ())))[:RETRIEVED]
        keypoints, seen = _correspondences(matched, name, best, points)
        found = _placed(matched, matched.xy[name][keypoints], np.array([flight.points3D[p].xyz for p in seen]))
        posed += [(name, *found)] if found is not None else []
    write_poses(out / "sparse", posed)


def _point_ids(flight: Any) -> dict[str, Ints]:
    """(N,), by aerial photo: the point of each keypoint, -1 where there is none."""
    return {
        image.name: np.array([p.point3D_id if p.has_point3D() else -1 for p in image.points2D], np.int64)
        for image in flight.images.values()
    }


def _correspondences(
    matched: Matched, name: str, aerial: list[str], points: Mapping[str, Ints]
) -> tuple[Ints, list[int]]:
    """Keypoints of a frame and the points they show, each pair once."""
    found: set[tuple[int, int]] = set()
    for other in aerial:
        held = matched.pairs.get((name, other), np.zeros((0, 2), np.int64))
        ids = points[other][held[:, 1]]
        found |= set(zip(held[ids >= 0, 0].tolist(), ids[ids >= 0].tolist(), strict=True))
    ordered = sorted(found)
    return np.array([k for k, _ in ordered], np.int64), [p for _, p in ordered]


def _placed(matched: Matched, xy: Floats, points: Floats) -> tuple[Camera, Any] | None:
    """Camera and pose from pixels (N, 2) and points (N, 3); None where too few agree."""
    if len(xy) < HLOC_LEAST:
        return None
    options = pycolmap.AbsolutePoseEstimationOptions()
    options.ransac.max_error = HLOC_PX
    options.estimate_focal_length = not matched.given
    refinement = pycolmap.AbsolutePoseRefinementOptions()
    refinement.refine_focal_length = not matched.given
    camera = pycolmap.Camera(
        model=matched.camera.model,
        width=matched.camera.width,
        height=matched.camera.height,
        params=list(matched.camera.params),
    )
    found = pycolmap.estimate_and_refine_absolute_pose(xy, points, camera, options, refinement)
    if found is None or found["num_inliers"] < HLOC_LEAST:
        return None
    return from_camera(camera), found["cam_from_world"]


# --- chain --------------------------------------------------------------------------------------------------------


@dataclass
class Chain:
    """Points that grow with the frames: no adjustment goes back over them."""

    matched: Matched
    flat: Camera
    """The street camera without distortion."""
    poses: dict[str, Pose] = field(default_factory=dict)
    points: dict[str, Floats] = field(default_factory=dict)
    """(N, 3), by frame: the point of each keypoint, nan where there is none."""
    recent: deque[str] = field(default_factory=lambda: deque(maxlen=WINDOW))

    def add(self, name: str, cam_from_world: Pose) -> None:
        """One more posed frame; matches with those before it become points."""
        self.poses[name] = cam_from_world
        self.points[name] = np.full((len(self.matched.xy[name]), 3), np.nan)
        for other in self.recent:
            self._join(name, other)
        self.recent.append(name)

    def _join(self, name: str, other: str) -> None:
        """Matched keypoints take over points that are there, the others are triangulated."""
        pairs = self.matched.pairs.get((name, other), np.zeros((0, 2), np.int64))
        here, there = self.points[name], self.points[other]
        held = np.isfinite(there[pairs[:, 1], 0])
        here[pairs[held, 0]] = there[pairs[held, 1]]
        fresh = pairs[~held]
        new, good = self._triangulated(name, other, fresh)
        here[fresh[good, 0]], there[fresh[good, 1]] = new[good], new[good]

    def _triangulated(self, name: str, other: str, pairs: Ints) -> tuple[Floats, Bools]:
        """(N, 3), the middle of both rays at their nearest, and which to believe."""
        rays, centres = [], []
        for frame, column in ((name, 0), (other, 1)):
            pose = self.poses[frame]
            in_cam = cameras.unproject(self.matched.camera, self.matched.xy[frame][pairs[:, column]])
            rays.append(in_cam / np.linalg.norm(in_cam, axis=1, keepdims=True) @ pose.rotation)
            centres.append(rigid.centre_in_world(pose))
        cosine = np.sum(rays[0] * rays[1], axis=1)
        base = centres[1] - centres[0]
        apart = np.maximum(1.0 - cosine**2, 1e-12)
        along = (rays[0] @ base - cosine * (rays[1] @ base)) / apart
        back = (cosine * (rays[0] @ base) - rays[1] @ base) / apart
        points = (centres[0] + along[:, None] * rays[0] + centres[1] + back[:, None] * rays[1]) / 2.0
        good = (along > 0) & (back > 0) & (cosine < np.cos(np.radians(LEAST_ANGLE_DEG)))
        for frame, column in ((name, 0), (other, 1)):
            seen = cameras.project(self.matched.camera, self.poses[frame](points))
            good &= np.linalg.norm(seen - self.matched.xy[frame][pairs[:, column]], axis=1) < CHAIN_PX
        return points, good

    def register(self, name: str) -> Pose | None:
        """The pose by points of the frames before; None where too few agree."""
        xy, points = [np.zeros((0, 2))], [np.zeros((0, 3))]
        for other in self.recent:
            pairs = self.matched.pairs.get((name, other), np.zeros((0, 2), np.int64))
            known = self.points[other][pairs[:, 1]]
            held = np.isfinite(known[:, 0])
            xy.append(self.matched.xy[name][pairs[held, 0]])
            points.append(known[held])
        pixels, world = np.concatenate(xy), np.concatenate(points)
        if len(world) < CHAIN_LEAST:
            return None
        straight = cameras.project(self.flat, cameras.unproject(self.matched.camera, pixels))
        found = resect(straight, world, self.flat, CHAIN_PX, Trials(CHAIN_TRIALS), 1.0)
        return found.cam_from_world if int(found.inliers.sum()) >= CHAIN_LEAST else None


def chain(scene: PeerScene, work: Path, out: Path, anchors: Mapping[str, Pose]) -> None:
    """Frame after frame by PnP from the first anchors (cam_from_world by name), as On-the-fly NVS goes on.

    A frame that cannot be registered is left out, and the chain goes on from those before it.
    """
    matched = read_matched(work)
    grown = Chain(matched, cameras.undistorted(matched.camera))
    for name in matched.names:
        found = anchors.get(name.removeprefix(GROUND)) or (grown.register(name) if grown.poses else None)
        if found is not None:
            grown.add(name, found)
    write_poses(out / "sparse", [(name, matched.camera, to_rigid3d(pose)) for name, pose in grown.poses.items()])


def first_anchors(anchors: Mapping[str, Pose], names: tuple[str, ...], count: int = WINDOW) -> dict[str, Pose]:
    """The anchors of the first frames that have them."""
    held = [name for name in names if name in anchors][:count]
    return {name: anchors[name] for name in held}
