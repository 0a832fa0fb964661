"""Bridge views: street-level images of the scaffold, painted from aerial photos, with known pose and depth.

A ground photo and an aerial photo of one wall hardly match; a ground photo and a bridge view of it do, and every bridge
pixel knows its 3D point and the aerial photo it was painted from.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated

import cv2
import numpy as np

from skyanchor.bounds import Coordinate, Few, FewOrNone, NotNegative, Pixels, Positive, Range
from skyanchor.bridges import painting_kernels as kernels
from skyanchor.bridges.ground import Ground
from skyanchor.bridges.street_directions import street_directions
from skyanchor.bridges.surface import Surface, intrinsics, render_depth, render_front
from skyanchor.geometry import cameras, rigid
from skyanchor.geometry import depth as depths
from skyanchor.photos import load_photo
from skyanchor.types import Bools, Bytes, Camera, Floats, Floats32, Ints, Photo, Pose, View

GLANCE = 4
"""A view is first looked at this many times smaller."""
HOLE_BLUR = 6.0
"""Standard deviation of the blur that fills holes, pixels."""
COARSER = 4
"""It is made on a picture this many times smaller."""
SKY = np.array([200.0, 205.0, 210.0], np.float32)
"""What is seen where nothing is near, RGB."""


@dataclass(frozen=True)
class BridgeConfig:
    """How bridge views are made."""

    near: Positive = 0.8
    """Surfaces nearer than this are not drawn, metres."""
    far: Positive = 120.0
    """Surfaces farther than this are not drawn, metres."""
    paint_width: Pixels = 1600
    """Aerial photos are used at most this wide, pixels."""
    front_width: Pixels = 640
    """Width of the depth of aerial views that visibility is tested on, pixels."""
    tolerance: NotNegative = 0.35
    """A point counts as seen by an aerial view up to this far behind its nearest surface, metres; two pixels of
    `front_width` on the surface where those are more."""
    sources: Few = 24
    """Aerial photos that one bridge is painted from, at most."""
    margin: FewOrNone = 4
    """Pixels next to holes that the mask leaves out."""


@dataclass(frozen=True, eq=False)
class Bridge:
    """A street-level view of the scaffold."""

    camera: Camera
    """PINHOLE."""
    cam_from_world: Pose
    photo: Photo
    """The painted view; the mask is True where it was painted, away from holes."""
    depth: Floats32
    """(H, W), metres; 0 = none."""
    normal: Floats32
    """(H, W, 3), camera axes."""
    source: Ints
    """(H, W), index of the aerial view each pixel was painted from; -1 = none."""


@dataclass(frozen=True, eq=False)
class Rig:
    """The cameras of an atlas, one row each."""

    photos: Floats
    """(V, 4), fx, fy, cx, cy of the photos as they are used."""
    sizes: Ints
    """(V, 2), their width and height, pixels."""
    fronts: Floats
    """(V, 4), fx, fy, cx, cy of the surfaces they see."""
    front_sizes: Ints
    """(V, 2), their width and height, pixels."""
    rotations: Floats
    """(V, 3, 3), of cam_from_world."""
    centres: Floats
    """(V, 3), world, metres."""


@dataclass
class AerialAtlas:
    """The scaffold's photos with the surface each of them sees, made when first asked for and kept while room lasts."""

    surface: Surface
    views: tuple[View, ...]
    config: BridgeConfig
    limit_bytes: int = 3 << 28
    """Of photos and surfaces, unless those of one bridge need more."""
    _photos: Bytes = field(init=False)
    _fronts: Floats32 = field(init=False)
    _slots: OrderedDict[int, int] = field(default_factory=OrderedDict)

    def __post_init__(self) -> None:
        """Make room for the photos; memory is taken as they come."""
        sizes = [(camera.height, camera.width) for camera in map(self.photo_camera, range(len(self.views)))]
        front_sizes = [(camera.height, camera.width) for camera in map(self.front_camera, range(len(self.views)))]
        size, front_size = np.max(sizes, axis=0), np.max(front_sizes, axis=0)
        each = int(np.prod(size)) * 3 + int(np.prod(front_size)) * 4
        room = min(len(self.views), max(self.config.sources + 8, self.limit_bytes // each))
        self._photos = np.zeros((room, *size, 3), np.uint8)
        self._fronts = np.zeros((room, *front_size), np.float32)

    @cached_property
    def rig(self) -> Rig:
        """All cameras."""
        held = [[camera(k) for k in range(len(self.views))] for camera in (self.photo_camera, self.front_camera)]
        photos, fronts = (np.stack([intrinsics(camera) for camera in own]) for own in held)
        sizes, front_sizes = (np.array([[camera.width, camera.height] for camera in own]) for own in held)
        poses = [view.cam_from_world for view in self.views]
        rotations = np.stack([pose.rotation for pose in poses])
        return Rig(photos, sizes, fronts, front_sizes, rotations, rigid.centres_in_world(poses))

    @cached_property
    def cones(self) -> tuple[Floats, Floats]:
        """((V, 3) unit, to the middle of each view, world; (V,) from there to its farthest corner, radians).

        The middle of a window is not where the optical axis meets it.
        """
        k, size = self.rig.fronts, self.rig.front_sizes.astype(np.float64)
        corners = np.stack([size * share for share in ((0.5, 0.5), (0, 0), (1, 0), (0, 1), (1, 1))], axis=1)
        flat = (corners - k[:, None, 2:]) / k[:, None, :2]
        rays = np.concatenate([flat, np.ones((*flat.shape[:2], 1))], axis=2)
        rays /= np.linalg.norm(rays, axis=2, keepdims=True)
        middle, others = rays[:, 0], rays[:, 1:]
        least = (others * middle[:, None]).sum(axis=2).min(axis=1, initial=1.0)
        return np.einsum("vij,vi->vj", self.rig.rotations, middle), np.arccos(np.clip(least, -1.0, 1.0))

    def photo_camera(self, index: int) -> Camera:
        """The PINHOLE camera of the photo as it is used."""
        camera = self.views[index].camera
        return cameras.undistorted(cameras.scaled(camera, min(self.config.paint_width, camera.width)))

    def front_camera(self, index: int) -> Camera:
        """The PINHOLE camera of `front`."""
        camera = cameras.undistorted(self.views[index].camera)
        return cameras.scaled(camera, min(self.config.front_width, camera.width))

    def photo(self, index: int) -> Photo:
        """The undistorted photo, to keep."""
        return Photo(self.views[index].name, self.pixels(index).copy())

    def pixels(self, index: int) -> Bytes:
        """(H, W, 3), the undistorted photo; the memory is used again for the photos asked for after it."""
        camera = self.photo_camera(index)
        return np.asarray(self._photos[self._slot(index), : camera.height, : camera.width])

    def front(self, index: int) -> Floats32:
        """(H, W), the nearest surface in a 3x3 window of the view, metres; 0 = none or masked."""
        camera = self.front_camera(index)
        return np.asarray(self._fronts[self._slot(index), : camera.height, : camera.width])

    def stacks(self, indices: Ints) -> tuple[Bytes, Floats32, Ints]:
        """(photos, fronts, slot of each index), as the kernels take them; at most as many indices as there is room."""
        slots = np.array([self._slot(int(j)) for j in indices], dtype=np.int64)
        return self._photos, self._fronts, slots

    def _slot(self, index: int) -> int:
        if index in self._slots:
            self._slots.move_to_end(index)
            return self._slots[index]
        full = len(self._slots) >= len(self._photos)
        slot = self._slots.popitem(last=False)[1] if full else len(self._slots)
        self._fill(index, slot)
        self._slots[index] = slot
        return slot

    def _fill(self, index: int, slot: int) -> None:
        view, camera = self.views[index], self.front_camera(index)
        photo, target = load_photo(view.name, view.path, view.camera, self.config.paint_width, view.mask_path)
        front = render_front(self.surface, camera, view.cam_from_world)
        if photo.mask is not None:
            size = (camera.width, camera.height)
            front = front * (cv2.resize(photo.mask.astype(np.uint8), size, interpolation=cv2.INTER_NEAREST) > 0)
        self._photos[slot] = 0
        self._fronts[slot] = 0.0
        self._photos[slot, : target.height, : target.width] = photo.pixels
        self._fronts[slot, : camera.height, : camera.width] = front


def _sources(atlas: AerialAtlas, points: Floats, normals: Floats, count: int) -> Ints:
    """The aerial views that see most of the points (N, 3) with normals (N, 3), weighted by pixels per area."""
    near, rig = _in_sight(atlas, points), atlas.rig
    seen = (rig.fronts[near], rig.front_sizes[near], rig.rotations[near], rig.centres[near])
    gains = kernels.pixels_per_area(points, normals, *seen)
    order = np.argsort(-gains, kind="stable")[:count]
    return near[order[gains[order] > 0]]


def _in_sight(atlas: AerialAtlas, points: Floats) -> Ints:
    """The aerial views whose cone touches a ball round the points (N, 3)."""
    if not len(points):
        return np.empty(0, np.int64)
    middle = points.mean(axis=0)
    radius = float(np.linalg.norm(points - middle, axis=1).max())
    towards, (axes, half_angles) = middle - atlas.rig.centres, atlas.cones
    distance = np.linalg.norm(towards, axis=1)
    aside = np.arccos(np.clip((towards * axes).sum(axis=1) / np.maximum(distance, 1e-9), -1.0, 1.0))
    slack = np.arcsin(np.clip(radius / np.maximum(distance, 1e-9), 0.0, 1.0))
    return np.flatnonzero((aside < half_angles + slack + 1e-6) | (distance <= radius))


def _sampled_points(camera: Camera, cam_from_world: Pose, depth: Floats32, normal: Floats32) -> tuple[Floats, Floats]:
    """(points, normals) in the world of a sparse grid of the view's pixels that show a front side."""
    rows, columns = np.mgrid[4 : camera.height : 12, 4 : camera.width : 12]
    rows, columns = rows.ravel(), columns.ravel()
    seen = depth[rows, columns] > 0
    rows, columns = rows[seen], columns[seen]
    points = depths.lift(camera, cam_from_world, depths.pixel_centres(rows, columns), depth[rows, columns])
    return points, normal[rows, columns].astype(np.float64) @ cam_from_world.rotation


def render_bridge(atlas: AerialAtlas, camera: Camera, cam_from_world: Pose, name: str = "bridge") -> Bridge:
    """The scaffold as a PINHOLE camera at the given pose would see it."""
    depth, normal, pixels, source = _painted(atlas, camera, cam_from_world)
    photo = Photo(name, _calm(pixels, source >= 0), _mask(source >= 0, atlas.config.margin))
    return Bridge(camera, cam_from_world, photo, depth, normal, source)


def painted_share(atlas: AerialAtlas, camera: Camera, cam_from_world: Pose) -> float:
    """About the share of such a view that its mask would leave, by a small picture of it."""
    small = cameras.scaled(camera, max(1, camera.width // GLANCE))
    source = _painted(atlas, small, cam_from_world, GLANCE)[3]
    return float(_mask(source >= 0, atlas.config.margin // GLANCE).mean())


def _painted(
    atlas: AerialAtlas, camera: Camera, cam_from_world: Pose, every: int = 1
) -> tuple[Floats32, Floats32, Bytes, Ints]:
    """(depth, normal, RGB, aerial view of each pixel) of a view, black and -1 where no aerial photo shows it.

    One of `every` so many discs of the surface is drawn.
    """
    config, rig = atlas.config, atlas.rig
    depth, normal = render_depth(atlas.surface, camera, cam_from_world, config.near, config.far, every)
    chosen = _sources(atlas, *_sampled_points(camera, cam_from_world, depth, normal), config.sources)
    if not len(chosen):
        return depth, normal, np.zeros((*depth.shape, 3), np.uint8), np.full(depth.shape, -1, np.int64)
    pixels, source = kernels.colour(
        depth,
        normal,
        intrinsics(camera),
        cam_from_world.rotation,
        cam_from_world.translation,
        *atlas.stacks(chosen),
        rig.photos[chosen],
        rig.sizes[chosen],
        rig.fronts[chosen],
        rig.rotations[chosen],
        rig.centres[chosen],
        config.tolerance,
    )
    return depth, normal, pixels, np.append(chosen, -1)[source]


def _mask(painted: Bools, margin: int) -> Bools:
    """Painted pixels that are not next to a hole larger than a few pixels."""
    closed = cv2.morphologyEx(painted.astype(np.uint8), cv2.MORPH_CLOSE, np.ones((5, 5), np.uint8))
    inner = cv2.erode(closed, np.ones((2 * margin + 1, 2 * margin + 1), np.uint8))
    return (inner > 0) & painted


def _calm(pixels: Bytes, painted: Bools) -> Bytes:
    """The view with holes filled by a blur of what surrounds them, so that they make no corners."""
    height, width = painted.shape
    size = (max(1, width // COARSER), max(1, height // COARSER))
    share = cv2.resize(painted.astype(np.float32), size, interpolation=cv2.INTER_AREA)
    known = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA).astype(np.float32)
    total = cv2.GaussianBlur(share, (0, 0), HOLE_BLUR / COARSER)
    spread = cv2.GaussianBlur(known, (0, 0), HOLE_BLUR / COARSER)
    filled = spread / np.maximum(total, 1e-3)[..., None]
    fade = np.clip(total * 4.0, 0.0, 1.0)[..., None]
    filled = np.clip(filled * fade + SKY * (1.0 - fade), 0, 255).astype(np.uint8)
    smooth = cv2.resize(filled, (width, height), interpolation=cv2.INTER_LINEAR)
    return np.asarray(cv2.copyTo(pixels, painted.astype(np.uint8), smooth))


def lift(bridge: Bridge, xy: Floats) -> tuple[Floats, Ints]:
    """((N, 3) world points under bridge pixels (N, 2), nan where there is no depth; (N,) their aerial view or -1)."""
    points = depths.lift(bridge.camera, bridge.cam_from_world, xy, depths.sampled(bridge.depth, xy))
    return points, depths.under(bridge.source, xy)


@dataclass(frozen=True)
class NodeConfig:
    """Where bridge views for place finding stand."""

    spacing: Annotated[float, Range(0.1, 1e6)] = 8.0
    """Distance between nodes, metres."""
    eye: Coordinate = 1.7
    """Height of the views above the ground, metres."""
    headings: Annotated[int, Range(1, 360)] = 6
    """Directions per node, evenly round it."""
    along_streets: bool = True
    """Whether the first of them looks along the street where there is one, or always along the map's first axis."""
    pitch_deg: Annotated[float, Range(-90.0, 90.0)] = 3.0
    """Elevation of the optical axis, degrees."""


@dataclass(frozen=True, eq=False)
class Node:
    """A place to stand and a direction to look."""

    eye: Floats
    """(3,), metres."""
    heading: float
    """Radians from the first horizontal axis, counter-clockwise seen from above."""
    cam_from_world: Pose


def looking(ground: Ground, eye: Floats, heading: float, pitch_deg: float) -> Node:
    """A level view from `eye`."""
    along = np.cos(heading) * ground.across[0] + np.sin(heading) * ground.across[1]
    target = eye + along + np.tan(np.radians(pitch_deg)) * ground.up
    return Node(eye, heading, rigid.look_at(eye, target, ground.up))


def free_places(ground: Ground, spacing: float, eye: float) -> Floats:
    """(N, 3), one point at eye height per grid square with free ground, over the free cell nearest its centre."""
    x, y = np.nonzero(ground.free)
    flat = ground.origin + (np.stack([x, y], axis=1) + 0.5) * ground.cell
    square = np.floor(flat / spacing).astype(np.int64)
    off = np.linalg.norm(flat - (square + 0.5) * spacing, axis=1)
    order = np.lexsort((off, square[:, 1], square[:, 0]))
    first = np.ones(len(order), bool)
    first[1:] = (np.diff(square[order], axis=0) != 0).any(axis=1)
    chosen = order[first]
    return flat[chosen] @ ground.across + (ground.height[x[chosen], y[chosen]] + eye)[:, None] * ground.up


def nodes(ground: Ground, config: NodeConfig) -> tuple[Node, ...]:
    """Every heading at every free place."""
    return nodes_at(free_places(ground, config.spacing, config.eye), ground, config)


def nodes_at(places: Floats, ground: Ground, config: NodeConfig) -> tuple[Node, ...]:
    """Every heading at the places (N, 3)."""
    turns = np.arange(config.headings) * 2.0 * np.pi / config.headings
    firsts = np.nan_to_num(street_directions(ground, places)) if config.along_streets else np.zeros(len(places))
    return tuple(
        looking(ground, eye, float(first + turn), config.pitch_deg)
        for eye, first in zip(places, firsts, strict=True)
        for turn in turns
    )
