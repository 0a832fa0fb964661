"""Pictures of splats by the machine itself: from the air for paper, and at a camera beside its photo."""

from __future__ import annotations

import numpy as np

from skyanchor.gaussians.devices import load_engine
from skyanchor.gaussians.splats import Splats, to_tensors
from skyanchor.gaussians.views import matrix
from skyanchor.geometry import cameras, rigid
from skyanchor.types import Bytes, Camera, Floats, Pose, View

SKY = (207, 216, 227)
"""Behind everything, RGB."""
WIDTH, HEIGHT = 960, 540
FIELD_DEG = 60.0
"""Vertical, as that of the 3D scene in the page."""


def drawn(splats: Splats, camera: Camera, pose: Pose) -> Bytes:
    """(H, W, 3), the splats seen by a camera without distortion."""
    import torch

    engine = load_engine()
    sky = torch.tensor([value / 255.0 for value in SKY], device=engine.device)
    with torch.no_grad():
        tensors = to_tensors(splats, engine.device)
        seen = engine.rasteriser.render(tensors, camera, matrix(pose, engine.device), background=sky, with_depth=False)
    return np.asarray((255.0 * seen.rgb.clamp(0.0, 1.0)).round().byte().cpu().numpy())


def beside_photo(splats: Splats, view: View, width: int) -> Bytes:
    """The splats as a view's camera sees them, at most `width` pixels wide."""
    camera = cameras.undistorted(cameras.scaled(view.camera, min(width, view.camera.width)))
    return drawn(splats, camera, view.cam_from_world)


def from_the_air(splats: Splats, places: Floats, up: Floats) -> Bytes:
    """(HEIGHT, WIDTH, 3), the splats from above and aside, `places` (N, 3) in the middle."""
    eye, target = above(places, up)
    focal = 0.5 * HEIGHT / float(np.tan(np.radians(0.5 * FIELD_DEG)))
    return drawn(splats, cameras.pinhole(WIDTH, HEIGHT, focal), rigid.look_at(eye, target, up))


def above(places: Floats, up: Floats) -> tuple[Floats, Floats]:
    """Where to stand and where to look to see the places (N, 3) from above and aside."""
    low, high = places.min(axis=0), places.max(axis=0)
    centre, size = (low + high) / 2, max(20.0, float(np.linalg.norm(high - low)))
    side = np.array([0.0, -1.0, 0.0]) + up * up[1]
    side = side / np.linalg.norm(side) if np.linalg.norm(side) > 0.1 else np.array([1.0, 0.0, 0.0])
    return centre + 0.6 * size * (up + side), centre
