"""The first Gaussians of the street, in the colours of the aerial model."""

from __future__ import annotations

import numpy as np

from skyanchor.gaussians.seeding import splats_from_cloud, splats_from_points
from skyanchor.gaussians.splats import Splats, concat, owned, with_sh_degree
from skyanchor.geometry import rigid
from skyanchor.scaffold.seeding import dense_cloud, thinned
from skyanchor.scene.colours import finer_from_above, in_model_colours
from skyanchor.scene.config import UpdateConfig, learnt_degree
from skyanchor.scene.earlier import held_already
from skyanchor.scene.floaters import floaters, free_space_opinions
from skyanchor.scene.inputs import AerialDepth, UpdateInputs
from skyanchor.scene.since import REACH
from skyanchor.scene.sky import sky_shell
from skyanchor.types import Bools, Cloud, Floats

BEYOND_FLIGHT = 4.0
"""The sky is at least this many times as far from the walk as the farthest aerial camera."""


def ground_seeds(inputs: UpdateInputs, colour_map: Floats, depth: AerialDepth, config: UpdateConfig) -> Splats:
    """The ground Gaussians before training, in the model's colours, sky included; `depth` is of the aerial views.

    From scratch they hold the surface that the aerial photos show as well.
    """
    if config.seeds == "dense" and len(inputs.cloud.points):
        street = splats_from_cloud(_new_points(inputs, colour_map, depth, config))
    elif config.seeds == "random":
        points, colors = _random_points(inputs, config.insertion.seed)
        street = splats_from_points(points, colors)
    else:
        street = splats_from_points(inputs.track_points, inputs.track_colors)
    if config.from_scratch:
        flight = dense_cloud(depth, inputs.aerial_views.training)
        street = concat([street, splats_from_cloud(thinned(flight, config.most_seeds))])
    if config.sky_radius > 0 and inputs.depth:
        shell = sky_shell(inputs.ground_views.training, inputs.depth, inputs.up, sky_radius(inputs, config))
        street = concat([street, shell])
    return owned(with_sh_degree(street, learnt_degree(config)), inputs.owner)


def sky_radius(inputs: UpdateInputs, config: UpdateConfig) -> float:
    """Metres from the walk to the sky: no aerial camera may look down through it."""
    walk = rigid.centres_in_world([view.cam_from_world for view in inputs.ground_views.training])
    above = [view.cam_from_world for view in inputs.aerial_views.training]
    flight = inputs.flight if len(inputs.flight) else rigid.centres_in_world(above)
    farthest = np.linalg.norm(flight - walk.mean(axis=0), axis=1).max() if len(flight) else 0.0
    return max(config.sky_radius * inputs.extent, BEYOND_FLIGHT * float(farthest))


def _new_points(inputs: UpdateInputs, colour_map: Floats, depth: AerialDepth, config: UpdateConfig) -> Cloud:
    """The part of the dense ground cloud that the scene does not hold yet, in the model's colours.

    Left out is what aerial views look through, what they show better, and what Gaussians of earlier walks show already:
    the refinement gives these today's look. What appeared since an earlier walk stays though aerial views look through
    it, for they are older still.
    """
    cloud = inputs.cloud
    kept = np.ones(len(cloud.points), np.bool_)
    if config.in_the_air is not None and inputs.aerial_depth:
        seen_through = free_space_opinions(cloud.points, inputs.aerial_depth, config.in_the_air)
        kept &= ~floaters(seen_through, config.in_the_air) | _appeared(inputs)
    if config.finer_views and not config.from_scratch:
        width = config.insertion.width
        kept &= ~finer_from_above(cloud, inputs.aerial_views.training, depth, width, config.finer_views)
    colors = in_model_colours(cloud.colors[kept], colour_map)
    fewer = thinned(Cloud(cloud.points[kept], cloud.normals[kept], colors, cloud.spacing[kept]), config.most_seeds)
    if not inputs.earlier:
        return fewer
    new = ~held_already(fewer, inputs.aerial)
    return Cloud(fewer.points[new], fewer.normals[new], fewer.colors[new], fewer.spacing[new])


def _appeared(inputs: UpdateInputs) -> Bools:
    """(N,), points of the cloud that belong to what an earlier walk did not find there: the flight cannot know it."""
    if inputs.appeared is None:
        return np.zeros(len(inputs.cloud.points), np.bool_)
    return inputs.appeared.holds(inputs.cloud.points, REACH)


def _random_points(inputs: UpdateInputs, seed: int) -> tuple[Floats, np.ndarray]:
    """As many points as the tracks have, anywhere in their bounding box."""
    rng = np.random.default_rng(seed)
    low, high = inputs.track_points.min(axis=0), inputs.track_points.max(axis=0)
    count = len(inputs.track_points)
    return rng.uniform(low, high, (count, 3)), rng.integers(0, 255, (count, 3), dtype=np.uint8)
