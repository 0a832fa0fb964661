"""A small scene with exact depth: textured ground, a box with a textured and a plain half of roof, five cameras."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import pytest

from skyanchor.geometry import cameras, rigid
from skyanchor.types import Camera, Floats, Tracks, View

WIDTH, HEIGHT, FOCAL = 200, 150, 170.0
ALTITUDE = 20.0
BOX_LOW, BOX_HIGH = np.array([-3.0, -2.0, 0.0]), np.array([3.0, 2.0, 3.0])
PLAIN_FROM_X = 0.0


@dataclass(frozen=True, eq=False)
class SmallScene:
    """Views with photos on disk, their exact depth, and where the plain half of the roof is seen."""

    views: tuple[View, ...]
    depths: tuple[Floats, ...]
    plain: tuple[np.ndarray, ...]
    points: Floats
    tracks: Tracks

    def points_of(self, index: int) -> Floats:
        """(H, W, 3), what every pixel of a view truly shows."""
        view = self.views[index]
        x, y = np.meshgrid(np.arange(view.camera.width) + 0.5, np.arange(view.camera.height) + 0.5)
        rays = cameras.unproject(view.camera, np.stack([x.ravel(), y.ravel()], 1))
        shape = (view.camera.height, view.camera.width, 3)
        return view.cam_from_world.inverse(rays * self.depths[index].reshape(-1, 1)).reshape(shape)


def texture() -> np.ndarray:
    noise = np.random.default_rng(5).uniform(0, 255, (512, 512)).astype(np.float32)
    smooth = sum(cv2.GaussianBlur(noise, (0, 0), s) * s for s in (1.5, 3.0))
    return np.asarray(128 + 45 * (smooth - smooth.mean()) / smooth.std())


def hit_box(centre: np.ndarray, rays: np.ndarray) -> np.ndarray:
    """Distance along each ray to the box by slabs, inf where missed."""
    with np.errstate(divide="ignore"):
        one, two = (BOX_LOW - centre) / rays, (BOX_HIGH - centre) / rays
    near, far = np.minimum(one, two).max(axis=-1), np.maximum(one, two).min(axis=-1)
    return np.where((near <= far) & (near > 0), near, np.inf)


def render(camera: Camera, pose, picture: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x, y = np.meshgrid(np.arange(camera.width) + 0.5, np.arange(camera.height) + 0.5)
    rays = cameras.unproject(camera, np.stack([x.ravel(), y.ravel()], 1)) @ pose.rotation
    centre = rigid.centre_in_world(pose)
    ground, box = -centre[2] / rays[:, 2], hit_box(centre, rays)
    depth = np.minimum(ground, box)
    point = centre + rays * depth[:, None]
    on_box = box < ground
    u = np.where(on_box, point[:, 0] + 0.7 * point[:, 2], point[:, 0]) * 16.0
    v = np.where(on_box, point[:, 1] + 0.7 * point[:, 2], point[:, 1]) * 16.0
    grey = cv2.remap(picture, (u % 511).astype(np.float32)[None], (v % 511).astype(np.float32)[None], cv2.INTER_LINEAR)[
        0
    ]
    plain = on_box & (point[:, 2] > 2.999) & (point[:, 0] > PLAIN_FROM_X)
    grey = np.where(plain, 215.0, grey)
    shape = (camera.height, camera.width)
    return np.clip(np.round(grey), 0, 255).astype(np.uint8).reshape(shape), depth.reshape(shape), plain.reshape(shape)


def sparse_points(views: tuple[View, ...], depths: tuple[Floats, ...]) -> tuple[Floats, Tracks]:
    """Every 400th pixel of the first view as a point, seen wherever it projects to the same depth."""
    rows, columns = (a.ravel() for a in np.mgrid[10:HEIGHT:13, 10:WIDTH:13])
    rays = cameras.unproject(views[0].camera, np.stack([columns + 0.5, rows + 0.5], 1))
    points = views[0].cam_from_world.inverse(rays * depths[0][rows, columns][:, None])
    seen = []
    for index, view in enumerate(views):
        local = view.cam_from_world(points)
        xy = cameras.project(view.camera, local)
        inside = ((xy >= 0) & (xy < [WIDTH, HEIGHT])).all(1)
        at = np.clip(xy, 0, [WIDTH - 1, HEIGHT - 1]).astype(int)
        inside &= np.abs(depths[index][at[:, 1], at[:, 0]] - local[:, 2]) < 0.2
        seen += [(p, index) for p in np.flatnonzero(inside)]
    rows = np.array(seen)
    return points, Tracks(rows[:, 0], rows[:, 1], np.zeros((len(rows), 2)))


@pytest.fixture(scope="session")
def small_scene(tmp_path_factory: pytest.TempPathFactory) -> SmallScene:
    folder: Path = tmp_path_factory.mktemp("small_scene")
    camera, picture = cameras.pinhole(WIDTH, HEIGHT, FOCAL), texture()
    eyes = [(0.0, 0.0), (5.0, 0.5), (-5.0, 0.3), (0.4, 5.0), (-0.5, -5.0)]
    views, depths, plain = [], [], []
    for index, (x, y) in enumerate(eyes):
        eye = np.array([x, y - 4.0, ALTITUDE])
        pose = rigid.look_at(eye, np.array([0.6 * x, 0.6 * y, 0.0]), np.array([0.0, 1.0, 0.0]))
        grey, depth, is_plain = render(camera, pose, picture)
        path = folder / f"{index}.png"
        cv2.imwrite(str(path), grey)
        views.append(View(path.name, path, camera, pose))
        depths.append(depth)
        plain.append(is_plain)
    points, tracks = sparse_points(tuple(views), tuple(depths))
    return SmallScene(tuple(views), tuple(depths), tuple(plain), points, tracks)
