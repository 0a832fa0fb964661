"""A tiny scene of known splats: a wall that the aerial model lacks, walked past in the street."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import cv2
import numpy as np
from street_days import box_hit, plane_hit

from skyanchor.gaussians.devices import Engine, load_engine
from skyanchor.gaussians.parameters import Rates
from skyanchor.gaussians.seeding import splats_from_points
from skyanchor.gaussians.splats import Splats, concat, to_tensors
from skyanchor.gaussians.split import split
from skyanchor.gaussians.training import TrainConfig
from skyanchor.gaussians.views import matrix
from skyanchor.geometry import cameras, rigid
from skyanchor.geometry.depth import pixel_centres
from skyanchor.scene.config import UpdateConfig
from skyanchor.scene.inputs import UpdateInputs
from skyanchor.types import Cloud, DepthMap, Pose, View

UP = np.array([0.0, 0.0, 1.0])
CAMERA = cameras.pinhole(64, 48, 60.0)
GAIN = 0.8
"""Brightness of the street photos relative to the aerial ones."""


def patch_of(low: list[float], high: list[float], count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    points = rng.uniform(low, high, (count, 3))
    stripes = (np.floor(points * 1.5).sum(axis=1) % 2)[:, None]
    colors = np.where(stripes > 0, [[210, 170, 60]], [[60, 90, 160]])
    return points, colors.astype(np.uint8)


@dataclass(frozen=True)
class World:
    whole: Splats
    aerial: Splats
    wall: tuple[np.ndarray, np.ndarray]
    aerial_views: tuple[View, ...]
    ground_views: tuple[View, ...]
    engine: Engine


def make_world(folder: Path) -> World:
    """Ground plane and wall; the aerial photos and model show the ground alone from straight above."""
    engine = load_engine("cpu")
    floor = splats_from_points(*patch_of([-6, -6, 0], [6, 6, 0.05], 1500, 1), sh_degree=0, opacity=0.95)
    wall_points = patch_of([-4, 4, 0], [4, 4.1, 3], 700, 2)
    whole = concat([floor, splats_from_points(*wall_points, sh_degree=0, opacity=0.95)])
    places = [(x, y) for x in (-1.0, 0.0, 1.0) for y in (-3.0, -1.0, 1.0)]
    north = np.array([0.0, 1.0, 0.0])
    above = [rigid.look_at(np.array([x, y, 9.0]), np.array([x, y, 0.0]), north) for x, y in places]
    street = [rigid.look_at(np.array([x, -2.0, 1.5]), np.array([x, 4.0, 1.4]), UP) for x in np.linspace(-2, 2, 12)]

    def draw(name: str, poses: list[Pose], gain: float) -> tuple[View, ...]:
        return tuple(
            photograph(folder / f"{name}{k}.png", whole, pose, engine, gain, k) for k, pose in enumerate(poses)
        )

    return World(whole, floor, wall_points, draw("a", above, 1.0), draw("g", street, GAIN), engine)


def photograph(path: Path, splats: Splats, pose: Pose, engine: Engine, gain: float, index: int) -> View:
    rgb = engine.rasteriser.render(to_tensors(splats), CAMERA, matrix(pose, "cpu")).rgb.clamp(0, 1).numpy()
    noise = np.random.default_rng(index).normal(0, 6, rgb.shape)
    cv2.imwrite(str(path), np.clip(255 * gain * rgb + noise, 0, 255)[..., ::-1].astype(np.uint8))
    return View(path.name, path, CAMERA, pose, image_id=index)


def inputs_of(world: World) -> UpdateInputs:
    """The ground cloud has the wall and the floor before it, in the darker colours of the street photos."""
    floor, floor_colors = patch_of([-4, 0, 0], [4, 4, 0.05], 700, 5)
    points, colors = np.concatenate([world.wall[0], floor]), np.concatenate([world.wall[1], floor_colors])
    colors = (GAIN * colors).astype(np.uint8)
    rng = np.random.default_rng(3)
    noisy = (points + rng.normal(0, 0.03, points.shape)).astype(np.float32)
    normals = np.repeat(np.array([[0, -1, 0], [0, 0, 1]], np.float32), [len(world.wall[0]), len(floor)], axis=0)
    cloud = Cloud(noisy, normals, colors, np.full(len(points), 0.2, np.float32))
    return UpdateInputs(
        world.aerial, split(world.aerial_views, 4), split(world.ground_views, 4), cloud, points, colors, (), UP, 6.0
    )


def quick(**changes: object) -> UpdateConfig:
    base = UpdateConfig(
        insertion=TrainConfig(iterations=80, width=64, rates=(Rates(), None), growth=None, sh_degree=0, sh_every=0),
        joint=TrainConfig(
            iterations=20, width=64, rates=(Rates().scaled(0.3), Rates().scaled(0.003), None), growth=None, warmup=10,
            sh_degree=0, sh_every=0,
        ),
        score_every=20, sky_radius=0.0,
    )  # fmt: skip
    return replace(base, **changes)  # type: ignore[arg-type]


def exact_depth(view: View, world: World) -> DepthMap:
    pose = matrix(view.cam_from_world, "cpu")
    depth = world.engine.rasteriser.render(to_tensors(world.whole), CAMERA, pose).depth.numpy()
    ones = np.ones_like(depth)
    return DepthMap(view.name, CAMERA, view.cam_from_world, depth, ones, ones < 0, np.zeros((48, 64, 3), np.float32))


BOX = (np.array([-0.6, 1.0, 0.0]), np.array([0.6, 2.0, 1.3]))
"""Low and high corner of a thing that stands in the street on some days."""


def box_splats(count: int = 2000) -> Splats:
    """Its front, sides and top, what a walk sees of it, in red and green."""
    low, high = BOX
    rng = np.random.default_rng(7)
    points = rng.uniform(low, high, (count, 3))
    face = np.arange(count) % 4
    points[face == 0, 1], points[face == 1, 2] = low[1], high[2]
    points[face == 2, 0], points[face == 3, 0] = low[0], high[0]
    stripes = (np.floor(points * 3.0).sum(axis=1) % 2)[:, None]
    colors = np.where(stripes > 0, [[220, 40, 40]], [[40, 200, 60]]).astype(np.uint8)
    return splats_from_points(points, colors, sh_degree=0, opacity=0.95)


def photographed(folder: Path, views: tuple[View, ...], splats: Splats, world: World) -> tuple[View, ...]:
    """The street photos from the same places on a day when the scene was like this."""
    return tuple(
        photograph(folder / view.name, splats, view.cam_from_world, world.engine, GAIN, view.image_id) for view in views
    )


def traced_depth(view: View, boxed: bool) -> DepthMap:
    """Exact depth and normals of floor, wall and, on some days, the box."""
    eye, shape = rigid.centre_in_world(view.cam_from_world), (CAMERA.height, CAMERA.width)
    rows, columns = (axis.ravel() for axis in np.mgrid[: shape[0], : shape[1]])
    rays = cameras.unproject(CAMERA, pixel_centres(rows, columns)) @ view.cam_from_world.rotation
    hits = [plane_hit(eye, rays, 1, 4.0), plane_hit(eye, rays, 2, 0.0)] + boxed * [box_hit(eye, rays, *BOX)]
    first = np.argmin([depth for depth, _ in hits], axis=0)
    depth, normal = (np.stack([hit[k] for hit in hits])[first, np.arange(len(rays))] for k in (0, 1))
    sure, none = np.full(shape, 0.9, np.float32), np.zeros(shape, np.bool_)
    parts = depth.reshape(shape).astype(np.float32), sure, none, normal.reshape(*shape, 3).astype(np.float32)
    return DepthMap(view.name, CAMERA, view.cam_from_world, *parts)
