"""A few hundred Gaussians on a bumpy floor and photos of them on disk: a scene that trains in seconds."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import torch

from skyanchor.gaussians.devices import Engine
from skyanchor.gaussians.rasteriser import CpuRasteriser
from skyanchor.gaussians.splats import Splats, to_tensors
from skyanchor.gaussians.views import matrix
from skyanchor.geometry import rigid
from skyanchor.geometry.cameras import pinhole
from skyanchor.types import View

CAMERA = pinhole(64, 48, 60.0)
UP = np.array([0.0, 0.0, 1.0])


def engine() -> Engine:
    """The CPU rasteriser."""
    return Engine(CpuRasteriser().load(), "cpu")


def floor(count: int = 300, seed: int = 0, degree: int = 1) -> Splats:
    """Coloured blobs on z = 0, 8 m by 8 m."""
    rng = np.random.default_rng(seed)
    means = rng.uniform((-4, -4, -0.2), (4, 4, 0.2), (count, 3))
    sh = np.zeros((count, (degree + 1) ** 2, 3))
    sh[:, 0] = rng.uniform(-1.5, 1.5, (count, 3))
    quats = rng.normal(size=(count, 4))
    arrays = (means, quats, rng.normal(-1.3, 0.2, (count, 3)), rng.uniform(0.5, 3.0, count), sh)
    return Splats(*(array.astype(np.float32) for array in arrays), owner=np.zeros(count, np.int32))


def poses(count: int) -> list:
    """Cameras on a circle 6 m above the floor, all looking at it."""
    angles = np.linspace(0, 2 * np.pi, count, endpoint=False)
    eyes = [np.array([3 * np.cos(a), 3 * np.sin(a), 6.0]) for a in angles]
    return [rigid.look_at(eye, 0.3 * eye * (1, 1, 0), UP) for eye in eyes]


def photograph(splats: Splats, folder: Path, count: int = 8, gains: np.ndarray | None = None) -> tuple[View, ...]:
    """Views of the splats with their photos written to the folder; `gains` (count,) brightens each photo."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors, raster = to_tensors(splats), CpuRasteriser().load()
    views = []
    for k, pose in enumerate(poses(count)):
        with torch.no_grad():
            rgb = raster.render(tensors, CAMERA, matrix(pose, "cpu")).rgb.numpy()
        shown = np.clip(rgb * (1.0 if gains is None else gains[k]), 0, 1)
        path = folder / f"{k:02d}.png"
        cv2.imwrite(str(path), np.round(shown * 255).astype(np.uint8)[..., ::-1])
        views.append(View(path.name, path, CAMERA, pose))
    return tuple(views)


def disturbed(splats: Splats, seed: int = 1) -> Splats:
    """The same blobs, grey and out of place."""
    rng = np.random.default_rng(seed)
    return Splats(
        splats.means + rng.normal(0, 0.1, splats.means.shape).astype(np.float32),
        splats.quats,
        splats.log_scales + np.float32(0.2),
        np.zeros_like(splats.logit_opacities),
        0.3 * splats.sh,
        splats.owner,
    )
