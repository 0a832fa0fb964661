"""The settings of the scene update: its schedule, its switches, and the presets."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Literal

from skyanchor.bounds import Count, CountOrNone, FewOrNone, NotNegative, NotNegativeOrAny, Share
from skyanchor.changes import ChangeConfig
from skyanchor.gaussians.densify import SplitGrowth
from skyanchor.gaussians.exposure import ExposureConfig
from skyanchor.gaussians.parameters import QUICK, Rates
from skyanchor.gaussians.training import TrainConfig
from skyanchor.scene.floaters import FloaterConfig
from skyanchor.types import QUIET


@dataclass(frozen=True)
class UpdateConfig:
    """The update's schedule and its switches; the defaults are as long as the paper's, see `CPU` and `CUDA`."""

    insertion: TrainConfig = field(
        default_factory=lambda: TrainConfig(
            iterations=30_000,
            rates=(Rates(), None),
            growth=SplitGrowth(start=500, stop=12_000, reset_every=0),
            sh_degree=3,
            sh_every=500,
            checkpoint_every=5_000,
        )
    )
    """Frozen insertion; rates are (ground, aerial)."""
    joint: TrainConfig | None = field(
        default_factory=lambda: TrainConfig(
            iterations=40_000,
            rates=(Rates(), Rates(), None),
            growth=None,
            sh_degree=3,
            sh_every=0,
            warmup=500,
            checkpoint_every=5_000,
        )
    )
    """Joint refinement; rates are (ground, aerial that is free to move, the rest). None = leave it out."""
    refined: Literal["seen", "all"] = "seen"
    """Which aerial Gaussians are free in the joint refinement: those that ground views show, or all as in the paper."""
    floaters: FloaterConfig | None = field(default_factory=FloaterConfig)
    """Aerial Gaussians that ground views look through are hidden; None = hide nothing."""
    vanished: ChangeConfig | None = field(default_factory=ChangeConfig, metadata=QUIET)
    """What counts as vanished since earlier walks: its Gaussians are hidden with the floaters, and photos of those days
    are masked where they show it; None = not looked for."""
    in_the_air: FloaterConfig | None = field(default_factory=lambda: FloaterConfig(margin=0.4, relative_margin=0.01))
    """Ground points that aerial views look through are left out; None = keep all."""
    seeds: Literal["dense", "tracks", "random"] = "dense"
    """Where ground Gaussians start: the dense ground cloud, the tracks of the adjustment alone, or anywhere in view."""
    most_seeds: Count = 2_000_000
    """The dense ground cloud is thinned to about so many points."""
    frozen: bool = True
    """False: the aerial Gaussians move during the insertion too (ablation)."""
    from_scratch: bool = False
    """True: no aerial set; everything is trained anew from points on all views (ablation)."""
    in_reach: bool = True
    """Only aerial photos that see the walk guard and judge, and only Gaussians that a view may show are drawn; False:
    all of the flight takes part, as in the paper."""
    finer_views: FewOrNone = 3
    """Ground points that this many aerial photos show with smaller pixels are left out; 0 = keep all."""
    guard: bool = True
    """Aerial training views in a 1:1 mix; False is the paper's ground-only insertion."""
    guard_weight: NotNegative = 16.0
    """Weight of an aerial view's loss in that mix: its errors are small, and it must not lose what it has."""
    earlier_weight: NotNegative = field(default=4.0, metadata=QUIET)
    """The same of a photo of an earlier walk."""
    guard_pictures: CountOrNone = 64
    """Pictures of the aerial model from between the photos that guard the insertion like photos; 0 = none."""
    exposures: bool = True
    """An affine exposure per ground view."""
    sky_radius: NotNegative = 8.0
    """Radius of the sky shell, multiples of the scene extent, but beyond all that aerial views see; 0 = none."""
    most_aerial_loss_db: NotNegativeOrAny = 0.1
    """PSNR of the aerial validation views, and of those of each earlier walk, that the update may cost, dB: beyond it
    the joint refinement is rolled back, then new Gaussians are left out, in the last resort all of them."""
    amends: Share = field(default=0.25, metadata=QUIET)
    """Where the refinement costs them more, it goes on for this share of its iterations with guarded views in front,
    before anything is rolled back or left out. 0 = it does not."""
    score_every: Count = 1_000
    """Iterations between two scores of the validation views."""
    patience: CountOrNone = 4
    """Scores without a gain of `least_gain_db` after which a phase ends early; 0 = never."""
    least_gain_db: NotNegative = 0.03
    """dB."""


QUICK_EXPOSURE = ExposureConfig(rate=1e-2)
"""For trainings that visit a photo ten times."""

CPU = UpdateConfig(
    insertion=TrainConfig(
        iterations=80, width=480, coarse_until=(0.4,), rates=(QUICK, None), exposure=QUICK_EXPOSURE,
        growth=SplitGrowth(start=16, stop=50, every=20, reset_every=0, most=80_000), sh_degree=1, sh_every=16,
        checkpoint_every=100,
    ),
    joint=TrainConfig(
        iterations=420, width=480, rates=(QUICK, QUICK, None), exposure=QUICK_EXPOSURE, growth=None, sh_degree=1,
        sh_every=0, warmup=50, checkpoint_every=200,
    ),
    most_seeds=60_000,
    guard_weight=12.0,
    score_every=100,
)  # fmt: skip
"""A minute on two cores: what is frozen cannot make way, so most of it is the refinement."""


def _at_least_one(iterations: int, factor: float) -> int:
    """Iterations times a factor; 0 stays 0."""
    return max(1, round(iterations * factor)) if iterations else 0


def with_iterations(config: UpdateConfig, insertion: int, joint: int) -> UpdateConfig:
    """The same update, longer or shorter: growth and bands keep their share of the insertion."""
    whole, growth = config.insertion, config.insertion.growth
    factor = insertion / whole.iterations
    if growth is not None:
        start = max(round(growth.start * factor), min(growth.start, insertion // 5))
        growth = replace(growth, start=start, stop=round(growth.stop * factor))
    shorter = replace(whole, iterations=insertion, growth=growth, sh_every=_at_least_one(whole.sh_every, factor))
    refinement = config.joint
    if refinement is not None:
        share = joint / refinement.iterations
        refinement = replace(refinement, iterations=joint, warmup=max(50, round(refinement.warmup * share)))
    return replace(config, insertion=shorter, joint=refinement)


CUDA = with_iterations(UpdateConfig(), 1_500, 12_500)
"""A fifth of the paper's 70K iterations, most of them in the refinement: what is frozen cannot make way."""

PAPER = UpdateConfig(
    insertion=TrainConfig(rates=(Rates(), None), checkpoint_every=5_000),
    joint=TrainConfig(
        iterations=40_000, rates=(Rates(), Rates(), None), growth=None, sh_every=0, checkpoint_every=5_000
    ),
    refined="all", in_reach=False, floaters=None, vanished=None, in_the_air=None, finer_views=0, guard=False,
    guard_weight=1.0, guard_pictures=0, exposures=False, sky_radius=0.0, most_aerial_loss_db=math.inf, patience=0,
)  # fmt: skip
"""The paper's 30K + 40K iterations and its objective: 3DGS as published, nothing hidden, guarded, ended or undone."""


def preset(device: str) -> UpdateConfig:
    """The settings for a device, `cpu` or `cuda`."""
    return CPU if device == "cpu" else CUDA


def trained_from_scratch(config: UpdateConfig, more: int = 0) -> UpdateConfig:
    """The ablation without an aerial set: one training on all views, with the iterations of both phases and `more`."""
    joint = config.joint.iterations if config.joint else 0
    longer = with_iterations(config, config.insertion.iterations + joint + more, joint)
    return replace(longer, from_scratch=True, in_reach=False)


def without_insertion(config: UpdateConfig) -> UpdateConfig:
    """The ablation without the first phase: new Gaussians go straight into the refinement, iterations as before."""
    if config.joint is None:
        raise ValueError("neither insertion nor refinement would be left")
    whole = config.insertion.iterations + config.joint.iterations
    longer = with_iterations(config, config.insertion.iterations, whole)
    untrained = replace(config.insertion, iterations=0)
    return replace(longer, insertion=untrained, most_aerial_loss_db=math.inf)  # nothing to roll back to


def without_refinement(config: UpdateConfig) -> UpdateConfig:
    """The ablation without the second phase, whatever the first one costs from the air."""
    return replace(config, joint=None, most_aerial_loss_db=math.inf)


def learnt_degree(config: UpdateConfig) -> int:
    """The highest SH band that the ground Gaussians learn; more would only fill the memory."""
    return max(config.insertion.sh_degree, config.joint.sh_degree if config.joint else 0)
