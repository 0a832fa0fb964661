"""What the aerial model itself shows: depth at the aerial photos, and pictures between them that guard its look.

The photos guard the places they were taken from. Between them a new Gaussian may stand in front of the old ones unseen
by any photo, so the old model's own pictures from there take part as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from skyanchor.changes import Region
from skyanchor.gaussians.splats import Splats, to_tensors
from skyanchor.gaussians.views import TrainingView, matrix
from skyanchor.geometry import cameras, rigid
from skyanchor.scene.since import nearest_cell
from skyanchor.types import Camera, DepthMap, Floats, Pose, View

if TYPE_CHECKING:
    from skyanchor.gaussians.devices import Engine
    from skyanchor.gaussians.rasteriser import Rendered, SplatTensors

LEAST_ALPHA = 0.9
"""Where less of a pixel is covered the model has no surface."""


def rendered_depth(splats: Splats, views: Sequence[View], width: int, engine: Engine) -> tuple[DepthMap, ...]:
    """Expected depth of the splats at the views, at most `width` pixels wide, where they are opaque."""
    maps, tensors = [], to_tensors(splats, engine.device)
    for view in views:
        camera = _camera(view, width)
        drawn = _drawn(tensors, camera, view.cam_from_world, engine)
        solid = (drawn.alpha > LEAST_ALPHA).cpu().numpy()
        depth = np.where(solid, drawn.depth.cpu().numpy(), 0.0).astype(np.float32)
        nothing = np.zeros((*depth.shape, 3), np.float32)
        maps.append(
            DepthMap(view.name, camera, view.cam_from_world, depth, solid.astype(np.float32), depth < 0, nothing)
        )
    return tuple(maps)


def guard_pictures(
    splats: Splats, views: Sequence[View], count: int, width: int, engine: Engine, weight: float = 1.0, seed: int = 0,
    otherwise: Region | None = None,
) -> tuple[TrainingView, ...]:  # fmt: skip
    """`count` pictures of the splats from poses between those of the views, at most `width` pixels wide.

    Pixels in which the scene is `otherwise` today do not count.
    """
    if not count:
        return ()
    pictures, tensors = [], to_tensors(splats, engine.device)
    for k, (view, pose) in enumerate(poses_between(views, count, seed)):
        camera = _camera(view, width)
        rgb = _drawn(tensors, camera, pose, engine).rgb.clamp(0.0, 1.0)
        pixels = (255.0 * rgb).round().byte().cpu().numpy()
        use = None if otherwise is None else ~np.isfinite(nearest_cell(otherwise, camera, pose))
        between = View(f"guard {k}", Path(f"guard {k}"), camera, pose)
        pictures.append(TrainingView(between, weight=weight, pixels=pixels, use=use))
    return tuple(pictures)


def poses_between(views: Sequence[View], count: int, seed: int = 0) -> list[tuple[View, Pose]]:
    """`count` views in turn with a new pose each: part of the way to one of the four nearest other stations.

    The camera keeps its direction within a few degrees: the model is asked for nothing that the flight did not see.
    """
    rng = np.random.default_rng(seed)
    centres = rigid.centres_in_world([view.cam_from_world for view in views])
    rounds = -(-count // len(views)) if len(views) else 0
    order = np.concatenate([np.zeros(0, np.int64), *(rng.permutation(len(views)) for _ in range(rounds))])[:count]
    found = []
    for k in order:
        share, turn = rng.uniform(0.2, 0.8), rng.normal(0.0, np.deg2rad(3.0), 3)
        centre = centres[k] + share * (_near_station(centres, int(k), rng) - centres[k])
        rotation = rigid.rotation_exp(turn) @ views[k].cam_from_world.rotation
        found.append((views[k], rigid.from_centre(rotation, centre)))
    return found


def _near_station(centres: Floats, index: int, rng: np.random.Generator) -> Floats:
    """One of the four nearest places where another photo was taken; its own place when there is no other."""
    apart = np.linalg.norm(centres - centres[index], axis=1)
    others = np.flatnonzero(apart > 1e-3 * max(float(apart.max()), 1e-9))
    if not len(others):
        return centres[index]
    nearest = others[np.argsort(apart[others], kind="stable")[:4]]
    return np.asarray(centres[rng.choice(nearest)])


def _camera(view: View, width: int) -> Camera:
    return cameras.undistorted(cameras.scaled(view.camera, min(width, view.camera.width)))


def _drawn(tensors: SplatTensors, camera: Camera, pose: Pose, engine: Engine) -> Rendered:
    import torch

    with torch.no_grad():
        return engine.rasteriser.render(tensors, camera, matrix(pose, engine.device))
