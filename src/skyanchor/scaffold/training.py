"""An aerial Gaussian model from the aerial photos alone, scored on every 8th of them, which it never sees."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np

from skyanchor.bounds import Range
from skyanchor.events import SCAFFOLD, Listener, Note, silent
from skyanchor.gaussians.densify import SplitGrowth
from skyanchor.gaussians.parameters import QUICK
from skyanchor.gaussians.seeding import splats_from_cloud, splats_from_points
from skyanchor.gaussians.splats import Splats
from skyanchor.gaussians.split import TEST_EVERY, split
from skyanchor.gaussians.training import TrainConfig, fit
from skyanchor.gaussians.views import TrainingScene, aerial_pool
from skyanchor.geometry import rigid
from skyanchor.scaffold.blocks import BlockConfig
from skyanchor.scaffold.seeding import SeedConfig, interpolated_cloud, thinned
from skyanchor.types import Cloud, Scaffold, View

if TYPE_CHECKING:
    from skyanchor.gaussians.devices import Engine
    from skyanchor.gaussians.scoring import Scores


SETTLING = 0.3
"""Of a block's iterations and learning rates, for what follows beside its neighbours."""


@dataclass(frozen=True)
class AerialConfig:
    """Training of the aerial model."""

    train: TrainConfig = field(default_factory=TrainConfig)
    """The steps."""
    seeds: SeedConfig = field(default_factory=SeedConfig)
    """The first Gaussians."""
    blocks: BlockConfig = field(default_factory=BlockConfig)
    """Areas that are trained one by one, where the depth of the photos is known."""
    from_points: bool = False
    """Whether the first Gaussians are the model's sparse points, as 3DGS begins, whatever depth there is."""
    seed_opacity: Annotated[float, Range(0.001, 0.999)] = 0.5
    """Opacity of the first Gaussians, 0..1."""
    test_every: Annotated[int, Range(2, 1e9)] = TEST_EVERY
    """Every so many photos one is kept for the test; the validation photos of an update are not trained on either."""


CPU = AerialConfig(
    TrainConfig(
        iterations=700,
        width=480,
        coarse_until=(0.4,),
        rates=(QUICK,),
        growth=SplitGrowth(start=140, stop=490, every=60, reset_every=0, most=70_000),
        sh_degree=1,
        sh_every=175,
        checkpoint_every=250,
    ),
    SeedConfig(count=50_000),
)
"""Under a minute on two cores."""

LONG = AerialConfig(
    TrainConfig(coarse_until=(0.02,), checkpoint_every=5_000), SeedConfig(count=300_000, per_view=30_000)
)
"""30K iterations at full resolution from dense seeds."""
PAPER = AerialConfig(TrainConfig(checkpoint_every=5_000), from_points=True)
"""30K iterations of 3DGS as published, from the sparse points."""


@dataclass(frozen=True, eq=False)
class AerialModel:
    """A trained aerial model and how well it shows the photos it has not seen."""

    splats: Splats
    scores: Scores
    seconds: float
    """Of training, wall clock; only this run's part when it was resumed."""


def train_aerial(
    scaffold: Scaffold,
    engine: Engine,
    config: AerialConfig | None = None,
    *,
    cloud: Cloud | None = None,
    listen: Listener = silent,
    checkpoint: Path | None = None,
) -> AerialModel:
    """Gaussians trained on the aerial photos, from a dense cloud where there is one, else from the sparse points.

    `cloud` is `seeding.dense_cloud` of the training photos: those of the test must have no part in it.
    With `checkpoint` the training is kept there as it goes on and resumed from it; removing the file is the caller's.
    """
    from skyanchor.gaussians.scoring import score

    config = config or preset(engine.device)
    views = split(scaffold.views, config.test_every)
    count = len(views.training)
    listen(Note(SCAFFOLD, f"{count} photos, {config.train.iterations} iterations on {engine.device}"))
    begun = time.perf_counter()
    splats = fit_aerial(scaffold, views.training, engine, config, cloud, listen, checkpoint)
    scores = score(splats, views.test, engine, config.train.width)
    seconds = time.perf_counter() - begun
    return AerialModel(splats, scores, seconds)


def fit_aerial(
    scaffold: Scaffold,
    views: tuple[View, ...],
    engine: Engine,
    config: AerialConfig,
    cloud: Cloud | None = None,
    listen: Listener = silent,
    checkpoint: Path | None = None,
) -> Splats:
    """Gaussians trained on the given views."""
    seeds = first_splats(scaffold, config, cloud)
    listen(Note(SCAFFOLD, f"{len(seeds)} first Gaussians"))
    scene = TrainingScene((aerial_pool(views),), scene_extent(scaffold))
    (splats,) = fit((seeds,), scene, config.train, engine, listen=listen, stage=SCAFFOLD, checkpoint=checkpoint)
    return splats


def settled_aerial(
    splats: Splats, beside: Splats, scaffold: Scaffold, views: tuple[View, ...], engine: Engine, config: AerialConfig
) -> Splats:
    """Trained Gaussians after some more steps beside others that stand still; none are added or taken away."""
    iterations, rates = max(1, round(SETTLING * config.train.iterations)), config.train.rates[0]
    still = (None if rates is None else rates.scaled(SETTLING), None)
    train = replace(config.train, rates=still, growth=None, coarse_until=(), sh_every=0)
    train = replace(train, iterations=iterations, warmup=iterations // 5)
    scene = TrainingScene((aerial_pool(views),), scene_extent(scaffold))
    return fit((splats, beside), scene, train, engine)[0]


def share_of(config: AerialConfig, photos: float, area: float) -> AerialConfig:
    """The training of a part: so much of the photos, each seen as often as in the whole, and of the Gaussians."""
    part = with_iterations(config, max(1, round(config.train.iterations * photos)))
    growth = part.train.growth
    if growth is not None:
        growth = replace(growth, most=max(1, round(growth.most * area)))
    seeds = replace(part.seeds, count=max(1, round(part.seeds.count * area)))
    return replace(part, train=replace(part.train, growth=growth), seeds=seeds)


def first_splats(scaffold: Scaffold, config: AerialConfig, cloud: Cloud | None = None) -> Splats:
    """The Gaussians before training: of the dense cloud, else between the sparse points, else at them."""
    degree = config.train.sh_degree
    if config.from_points:
        return splats_from_points(scaffold.points, scaffold.point_colors, sh_degree=degree)
    if cloud is None or not len(cloud.points):
        trained = {view.name for view in split(scaffold.views, config.test_every).training}
        seen = [k for k, view in enumerate(scaffold.views) if view.name in trained]
        cloud = interpolated_cloud(scaffold, seen, config.seeds)
    if not len(cloud.points):
        return splats_from_points(scaffold.points, scaffold.point_colors, sh_degree=degree)
    return splats_from_cloud(thinned(cloud, config.seeds.count), sh_degree=degree, opacity=config.seed_opacity)


def scene_extent(scaffold: Scaffold) -> float:
    """Median over the views of the median depth of what they see, metres: the unit of steps and sizes.

    Unlike the spread of the cameras it does not grow with the area, only with the flying height.
    """
    order = np.argsort(scaffold.tracks.image, kind="stable")
    groups = np.split(scaffold.tracks.point[order], np.cumsum(np.bincount(scaffold.tracks.image, minlength=1))[:-1])
    depths = [
        float(np.median(view.cam_from_world(scaffold.points[rows])[:, 2]))
        for view, rows in zip(scaffold.views, groups, strict=False)
        if len(rows)
    ]
    if not depths:  # a model without tracks: height above the ground
        centres = rigid.centres_in_world([view.cam_from_world for view in scaffold.views])
        depths = list(np.abs(centres @ scaffold.ground.normal - scaffold.ground.offset))
    return max(float(np.median(depths)), 1e-3)


def with_iterations(config: AerialConfig, iterations: int) -> AerialConfig:
    """The same training, longer or shorter: growth and bands keep their share of it."""
    train = config.train
    factor = iterations / train.iterations
    growth = train.growth
    if growth is not None:
        growth = replace(growth, start=round(growth.start * factor), stop=round(growth.stop * factor))
    every = max(1, round(train.sh_every * factor)) if train.sh_every else 0
    return replace(config, train=replace(train, iterations=iterations, growth=growth, sh_every=every))


CUDA = with_iterations(LONG, 7_000)
"""About a quarter of that: a minute or two on a large GPU."""


def preset(device: str) -> AerialConfig:
    """The settings for a device, `cpu` or `cuda`."""
    return CPU if device == "cpu" else CUDA
