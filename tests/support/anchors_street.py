"""A street of textured planes with known everything: aerial photos and depth, street frames, poses."""

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import cv2
import numpy as np

from skyanchor.anchors.config import AnchorConfig, ConfirmConfig
from skyanchor.anchors.frames import GroundFrames
from skyanchor.anchors.in_process import LocalRunner
from skyanchor.anchors.prepared_scaffold import PreparedScaffold
from skyanchor.anchors.walk import localise_walk
from skyanchor.bridges.views import BridgeConfig, NodeConfig
from skyanchor.events import Listener, silent
from skyanchor.geometry import cameras, rigid
from skyanchor.matching import XFeat, XFeatStar
from skyanchor.types import (
    AnchorGroup,
    Anchors,
    Bytes,
    Camera,
    DepthMap,
    Floats,
    Frame,
    Georeference,
    Plane,
    Pose,
    Scaffold,
    Sequence,
    Submap,
    Tracks,
    View,
)

UP = np.array([0.0, 0.0, 1.0])
AERIAL = cameras.pinhole(480, 360, 400.0)
GROUND = cameras.pinhole(400, 224, 290.0)


@dataclass(frozen=True, eq=False)
class Face:
    """A rectangle of one plane: x = corner + u first + v second, 0 <= u <= size[0], 0 <= v <= size[1]."""

    corner: Floats
    first: Floats
    second: Floats
    size: tuple[float, float]
    texture: Bytes
    """5 cm a texel."""

    @property
    def normal(self) -> Floats:
        return np.cross(self.first, self.second)


def small_config() -> AnchorConfig:
    """The defaults at the size of the test photos."""
    base = AnchorConfig()
    return replace(
        base,
        places=replace(
            base.places,
            nodes=NodeConfig(spacing=10.0),
            bridge=BridgeConfig(far=60.0, paint_width=480, front_width=240, sources=8),
            width=256,
            features=XFeat(keypoints=400, longest=256, threshold=0.01),
        ),
        refine=ConfirmConfig(width=400, matcher=XFeatStar(keypoints=2000, longest=400), frames=(2, 6)),
    )


def _texture(width: float, height: float, seed: int) -> Bytes:
    """Stains, rectangles and grain, so that every spot looks different."""
    rng = np.random.default_rng(seed)
    size = (int(height * 20) + 1, int(width * 20) + 1)
    image = np.full((*size, 3), 128.0, np.float32)
    for cells, strength in ((1.0, 35.0), (4.0, 25.0), (10.0, 14.0)):
        noise = rng.normal(0, strength, (int(height * cells) + 2, int(width * cells) + 2, 3)).astype(np.float32)
        image += cv2.resize(noise, (size[1], size[0]), interpolation=cv2.INTER_CUBIC)
    for _ in range(int(width * height * 0.5)):
        x, y = rng.integers(0, size[1]), rng.integers(0, size[0])
        w, h = rng.integers(6, 24, 2)
        cv2.rectangle(image, (int(x), int(y)), (int(x + w), int(y + h)), rng.uniform(20, 235, 3).tolist(), -1)
    return np.clip(image, 0, 255).astype(np.uint8)


@cache
def faces(seed: int = 0) -> tuple[Face, ...]:
    """The ground, two facades along the street and one across its end."""
    x, y, z = np.eye(3)
    shapes = [
        (np.array([-14.0, -14.0, 0.0]), x, y, (30.0, 62.0)),
        (np.array([-7.0, -10.0, 0.0]), y, z, (50.0, 7.0)),
        (np.array([7.0, 40.0, 0.0]), -y, z, (50.0, 6.0)),
        (np.array([7.0, 40.0, 0.0]), x, z, (-14.0, 8.0)),
    ]
    held = []
    for k, (corner, first, second, (u, v)) in enumerate(shapes):
        first = -first if u < 0 else first
        held.append(Face(corner, first, second, (abs(u), v), _texture(abs(u), v, 10 * seed + k)))
    return tuple(held)


def shoot(camera: Camera, cam_from_world: Pose, seed: int = 0) -> tuple[Bytes, Floats, Floats]:
    """(photo, depth (H, W), normal (H, W, 3) towards the camera); grey sky, depth 0."""
    columns, rows = np.meshgrid(np.arange(camera.width) + 0.5, np.arange(camera.height) + 0.5)
    rays = cameras.unproject(camera, np.stack([columns.ravel(), rows.ravel()], axis=1)) @ cam_from_world.rotation
    centre = rigid.centre_in_world(cam_from_world)
    depth = np.full(len(rays), np.inf)
    photo = np.full((len(rays), 3), 200, np.uint8)
    normal = np.zeros((len(rays), 3))
    for face in faces(seed):
        along = rays @ face.normal
        z = np.where(np.abs(along) > 1e-9, ((face.corner - centre) @ face.normal) / along, np.inf)
        hit = centre + rays * np.where(np.isfinite(z), z, 0.0)[:, None] - face.corner
        u, v = hit @ face.first, hit @ face.second
        good = (z > 0.1) & (z < depth) & (u >= 0) & (v >= 0) & (u < face.size[0]) & (v < face.size[1])
        depth[good] = z[good]
        us, vs = (np.clip(np.nan_to_num(w, posinf=0.0), 0, 1e3).reshape(camera.height, -1) * 20.0 - 0.5 for w in (u, v))
        colours = cv2.remap(face.texture, us.astype(np.float32), vs.astype(np.float32), cv2.INTER_LINEAR, borderMode=1)
        photo[good] = colours.reshape(-1, 3)[good]
        normal[good] = -np.sign(along[good])[:, None] * face.normal
    shape = (camera.height, camera.width)
    return photo.reshape(*shape, 3), np.where(np.isfinite(depth), depth, 0.0).reshape(shape), normal.reshape(*shape, 3)


def aerial_poses() -> tuple[Pose, ...]:
    poses = []
    for y in (0.0, 12.0, 24.0, 36.0):
        poses.append(rigid.look_at(np.array([0.3, y, 26.0]), np.array([0.3, y + 0.01, 0.0]), UP))
        poses.append(rigid.look_at(np.array([17.0, y - 4.0, 19.0]), np.array([-4.0, y + 2.0, 1.0]), UP))
        poses.append(rigid.look_at(np.array([-17.0, y - 4.0, 19.0]), np.array([4.0, y + 2.0, 1.0]), UP))
    for x in (-4.0, 4.0):
        poses.append(rigid.look_at(np.array([x, 12.0, 19.0]), np.array([0.0, 34.0, 2.0]), UP))
    return tuple(poses)


def street_poses(frames: int = 14) -> tuple[Pose, ...]:
    """A walk along the street, a hand-held camera at 1.7 m."""
    rng = np.random.default_rng(5)
    poses = []
    for k in range(frames):
        eye = np.array([-1.0 + 0.1 * k, 4.0 + 0.6 * k, 1.7]) + rng.normal(0, 0.03, 3)
        target = eye + np.array([0.25 - 0.03 * k, 1.0, 0.05]) + rng.normal(0, 0.02, 3)
        poses.append(rigid.look_at(eye, target, UP))
    return tuple(poses)


def write_photo(path: Path, pixels: Bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), pixels[..., ::-1])


def make_scaffold(folder: Path, noise: float = 0.02, seed: int = 0) -> tuple[Scaffold, tuple[DepthMap, ...]]:
    """The aerial side: photos on disk, exact poses, depth with noise."""
    rng = np.random.default_rng(1)
    views, maps = [], []
    for k, pose in enumerate(aerial_poses()):
        pixels, depth, normal = shoot(AERIAL, pose, seed)
        name = f"a{k:02d}.png"
        write_photo(folder / name, pixels)
        views.append(View(name, folder / name, AERIAL, pose, image_id=k + 1))
        rough = np.where(depth > 0, depth + cv2.GaussianBlur(rng.normal(0, 4 * noise, depth.shape), (0, 0), 1.5), 0.0)
        maps.append(
            DepthMap(
                name,
                AERIAL,
                pose,
                rough.astype(np.float32),
                (depth > 0).astype(np.float32),
                np.zeros(depth.shape, bool),
                normal.astype(np.float32),
            )
        )
    none = Tracks(np.empty(0, np.int64), np.empty(0, np.int64), np.empty((0, 2)))
    scaffold = Scaffold(
        folder,
        tuple(views),
        np.empty((0, 3)),
        np.empty((0, 3), np.uint8),
        np.empty(0, np.int64),
        none,
        UP,
        Plane(UP, 0.0),
        Georeference(np.zeros(3)),
    )
    return scaffold, tuple(maps)


def make_sequence(folder: Path, mirrored: bool = False, seed: int = 0) -> Sequence:
    """The street side: frames on disk with their own exposure and noise, one group of the first six."""
    rng = np.random.default_rng(2)
    frames = []
    poses = street_poses()
    for k, pose in enumerate(poses):
        pixels = shoot(GROUND, pose, seed)[0].astype(np.float32) * 0.85 + 20.0 + rng.normal(0, 3.0, (224, 400, 3))
        pixels = np.clip(pixels[:, ::-1] if mirrored else pixels, 0, 255).astype(np.uint8)
        path = folder / f"g{k:02d}.png"
        write_photo(path, pixels)
        frames.append(Frame(k, path.name, path))
    everything = tuple(range(len(poses)))
    submap = Submap(0, everything, everything[:6], everything[-6:])
    groups = (AnchorGroup(0, everything[:6], (0,)), AnchorGroup(1, everything[-6:], (0,)))
    return Sequence(folder, tuple(frames), GROUND, False, (submap,), groups)


def localised(
    prepared: PreparedScaffold, sequence: Sequence, config: AnchorConfig, listen: Listener = silent
) -> Anchors:
    """The verdicts on all groups of a walk, made in this process."""
    runner = LocalRunner(prepared, GroundFrames(sequence), config)
    return localise_walk(prepared, sequence, config, runner, listen)
