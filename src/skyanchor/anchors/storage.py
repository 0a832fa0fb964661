"""The prepared scaffold on disk: the fused surface and the described places, plain .npz without pickle."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from skyanchor.anchors.bridges import Node
from skyanchor.anchors.places import PlaceIndex, PlaceView
from skyanchor.anchors.surface import Surface, indexed
from skyanchor.matching import Features
from skyanchor.matching.retrieval import Vocabulary
from skyanchor.types import Floats, Pose


def _write(path: Path, **arrays: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    with part.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)
    part.replace(path)


def save_surface(path: Path, surface: Surface, voxel: float) -> None:
    """Write the discs; `voxel` is their spacing, metres."""
    sizes = np.array([voxel, surface.gsd, surface.cell])
    _write(path, points=surface.points, normals=surface.normals, sizes=sizes, up=surface.up)


def load_surface(path: Path) -> Surface:
    """The surface written by `save_surface`."""
    with np.load(path, allow_pickle=False) as held:
        voxel, gsd, cell = (float(v) for v in held["sizes"])
        up: Floats = held["up"]
        return indexed(held["points"], held["normals"], voxel, gsd, up, cell)


def save_places(path: Path, index: PlaceIndex) -> None:
    """Write every described view, descriptors in half precision."""
    features = [view.features for view in index.views]
    sizes = np.array([[f.width, f.height, f.sigma_px] for f in features]).reshape(-1, 3)
    poses = [view.node.cam_from_world for view in index.views]
    _write(
        path,
        counts=np.array([len(f) for f in features], dtype=np.int64),
        sizes=sizes,
        eyes=index.eyes,
        headings=np.array([view.node.heading for view in index.views]),
        rotations=np.array([pose.rotation for pose in poses]).reshape(-1, 3, 3),
        translations=np.array([pose.translation for pose in poses]).reshape(-1, 3),
        xy=_joined([f.xy.astype(np.float32) for f in features], (0, 2)),
        descriptors=_joined([f.descriptors.astype(np.float16) for f in features], (0, 64)),
        scores=_joined([f.scores for f in features], (0,)),
        scales=_joined([f.scales for f in features], (0,)),
        points=_joined([view.points for view in index.views], (0, 3)),
        source=_joined([view.source for view in index.views], (0,)),
        centres=index.vocabulary.centres,
        globals=index.globals_,
    )


def _joined(parts: list[np.ndarray], empty: tuple[int, ...]) -> np.ndarray:
    return np.concatenate(parts) if parts else np.empty(empty, np.float32)


def load_places(path: Path) -> PlaceIndex:
    """The index written by `save_places`."""
    with np.load(path, allow_pickle=False) as held:
        data = {name: held[name] for name in held.files}
    ends = np.cumsum(data["counts"])
    views: list[PlaceView] = []
    for i, (end, count) in enumerate(zip(ends, data["counts"], strict=True)):
        part = slice(int(end - count), int(end))
        width, height, sigma = data["sizes"][i]
        features = Features(
            data["xy"][part].astype(np.float64),
            data["descriptors"][part].astype(np.float32),
            data["scores"][part],
            data["scales"][part],
            int(width),
            int(height),
            float(sigma),
        )
        pose = Pose(data["rotations"][i], data["translations"][i])
        node = Node(data["eyes"][i], float(data["headings"][i]), pose)
        views.append(PlaceView(node, features, data["points"][part], data["source"][part].astype(np.int64)))
    return PlaceIndex(tuple(views), data["eyes"], Vocabulary(data["centres"]), data["globals"])
