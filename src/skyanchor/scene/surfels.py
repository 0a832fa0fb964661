"""The street as surfels, trained for its surface: flat Gaussians from the measured points, then their depth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from skyanchor.bounds import Positive, Share
from skyanchor.events import Listener
from skyanchor.gaussians.densify import SplitGrowth
from skyanchor.gaussians.devices import Engine
from skyanchor.gaussians.parameters import drawn, parameter_set
from skyanchor.gaussians.seeding import quaternions_with_z, splats_from_cloud
from skyanchor.gaussians.splats import Splats, concat, with_sh_degree
from skyanchor.gaussians.surfels import RenderedSurfels, SurfelTerms
from skyanchor.gaussians.training import TrainConfig, fit
from skyanchor.gaussians.views import TrainingScene, TrainingView, matrix
from skyanchor.geometry import cameras, rigid
from skyanchor.scene.sky import sky_shell
from skyanchor.types import Cloud, DepthMap, Floats, View

SKY_RADII = 40.0
"""Distance of the sky in typical depths."""


def _training() -> TrainConfig:
    """Without opacity resets and limits of size, which would take the sky away."""
    growth = SplitGrowth(every=200, stop=4_000, reset_every=0, too_large=np.inf)
    return TrainConfig(iterations=7_000, growth=growth, sh_degree=1, coarse_until=(0.1, 0.25))


@dataclass(frozen=True)
class SurfelConfig:
    """How the street's surfels are trained."""

    training: TrainConfig = field(default_factory=_training)
    terms: SurfelTerms = field(default_factory=SurfelTerms)
    opacity: Share = 0.5
    """Of a surfel before training."""
    least_alpha: Share = 0.5
    """Of a pixel that has a depth."""
    farthest_m: Positive = 60.0
    """Depth beyond which a pixel has none, metres."""


@dataclass(frozen=True, eq=False)
class StreetSurface:
    """What surfels start from."""

    views: tuple[View, ...]
    """Posed street photos; all take part."""
    cloud: Cloud
    """Measured points."""
    maps: tuple[DepthMap, ...]
    """Their depth maps, which say where the sky is."""
    up: Floats
    typical_m: float
    """Median distance to what the views see, metres."""


def trained_surfels(
    surface: StreetSurface, config: SurfelConfig, engine: Engine, listen: Listener, stage: str, checkpoint: Path | None
) -> Splats:
    """Surfels of the street with the sky behind it, after training."""
    pool = tuple(TrainingView(view, exposure=k) for k, view in enumerate(surface.views))
    scene = TrainingScene((pool,), surface.typical_m)
    judged = replace(engine, term=config.terms.term)
    (found,) = fit(
        [seeds_of(surface, config)], scene, config.training, judged, listen=listen, stage=stage, checkpoint=checkpoint
    )
    return found


def seeds_of(surface: StreetSurface, config: SurfelConfig) -> Splats:
    """Discs at the measured points, and far ones for the sky that face the walk."""
    degree = config.training.sh_degree
    street = splats_from_cloud(surface.cloud, sh_degree=degree, opacity=config.opacity)
    sky = sky_shell(surface.views, surface.maps, surface.up, SKY_RADII * surface.typical_m)
    centre = rigid.centres_in_world([view.cam_from_world for view in surface.views]).mean(axis=0)
    inwards = centre - sky.means
    facing = quaternions_with_z(inwards / np.linalg.norm(inwards, axis=1, keepdims=True))
    return concat([street, with_sh_degree(replace(sky, quats=facing.astype(np.float32)), degree)])


def surfel_depths(
    surfels: Splats, views: Sequence[View], width: int, config: SurfelConfig, engine: Engine
) -> list[DepthMap]:
    """Depth and normals of the surfels in each view, at most `width` pixels wide."""
    import torch

    held = [parameter_set(surfels, engine.device, frozen=True)]
    found = []
    with torch.no_grad():
        for view in views:
            camera = cameras.scaled(cameras.undistorted(view.camera), min(width, view.camera.width))
            rendered = engine.rasteriser.render(drawn(held), camera, matrix(view.cam_from_world, engine.device))
            assert isinstance(rendered, RenderedSurfels)
            found.append(depth_map_of(rendered, view, camera, config))
    return found


def depth_map_of(rendered: RenderedSurfels, view: View, camera: cameras.Camera, config: SurfelConfig) -> DepthMap:
    """What a rendered view says of depth; its confidence is how much the surfels of a pixel agree, |Σ w n|."""
    import torch

    depth, length = rendered.depth, rendered.normals.norm(dim=2)
    good = (rendered.alpha >= config.least_alpha) & (depth > 0) & (depth <= config.farthest_m) & (length > 0)
    normals = torch.nn.functional.normalize(rendered.normals, dim=2).cpu().numpy().astype(np.float64)
    kept = good.cpu().numpy()
    in_world = (normals @ view.cam_from_world.rotation) * kept[..., None]
    return DepthMap(
        view.name, camera, view.cam_from_world, (depth * good).cpu().numpy().astype(np.float32),
        (length * good).cpu().numpy().astype(np.float32), np.zeros(kept.shape, np.bool_), in_world.astype(np.float32),
    )  # fmt: skip
