"""Stage 3: ground Gaussians go in with the aerial set frozen, then both are refined, and the aerial view is guarded."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from skyanchor.bounds import Count, CountOrNone, FewOrNone, NotNegative, NotNegativeOrAny
from skyanchor.changes import ChangeConfig, Region
from skyanchor.events import SCENE, Listener, Note, silent
from skyanchor.gaussians.densify import SplitGrowth
from skyanchor.gaussians.exposure import ExposureConfig
from skyanchor.gaussians.parameters import QUICK, Rates, drawn, splats_of
from skyanchor.gaussians.seeding import splats_from_cloud, splats_from_points
from skyanchor.gaussians.splats import Splats, concat, owned, rows_of, select, to_tensors, with_sh_degree
from skyanchor.gaussians.split import Split
from skyanchor.gaussians.training import TrainConfig, finished, give_back
from skyanchor.gaussians.views import TrainingScene, TrainingView, aerial_pool, matrix, targets
from skyanchor.geometry import rigid
from skyanchor.photos import PhotoCache
from skyanchor.scaffold.seeding import dense_cloud, thinned
from skyanchor.scene.colours import finer_from_above, in_model_colours, paired_colours, shared_exposure
from skyanchor.scene.earlier import EarlierViews, found_exposures, galleries, guard_pool, held_already, with_earlier
from skyanchor.scene.floaters import FloaterConfig, floaters, free_space_opinions
from skyanchor.scene.patch import Change
from skyanchor.scene.rendered import guard_pictures, rendered_depth
from skyanchor.scene.schedule import CurvePoint, KeptIn, Phase, constant_exposures, run_phase
from skyanchor.scene.scoring import Judge, Quality, losses
from skyanchor.scene.sky import sky_shell
from skyanchor.scene.views import street_pool
from skyanchor.step_clock import StepClock
from skyanchor.stereo.storage import DepthFolder
from skyanchor.types import QUIET, Bools, Cloud, DepthMap, Floats, Ints, View

if TYPE_CHECKING:
    from skyanchor.gaussians.devices import Engine
    from skyanchor.gaussians.training import TrainState

AerialDepth: TypeAlias = tuple[DepthMap, ...] | DepthFolder
"""In memory, or read when asked for."""
JURY = 16
"""Aerial views, at most, that say what can be hidden."""
LEAST_SHOWN = 1.0
"""Pixels: what street views show less of is not theirs to refine."""
VALIDATION: Literal["validation"] = "validation"
TEST: Literal["test"] = "test"
BEYOND_FLIGHT = 4.0
"""The sky is at least this many times as far from the walk as the farthest aerial camera."""


@dataclass(frozen=True)
class UpdateConfig:
    """The update's schedule and its switches; the defaults are as long as the paper's, see `CPU` and `CUDA`."""

    insertion: TrainConfig = field(
        default_factory=lambda: TrainConfig(
            iterations=30_000,
            rates=(Rates(), None),
            growth=SplitGrowth(start=500, stop=12_000, reset_every=0),
            sh_degree=1,
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
            sh_degree=1,
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
    """What counts as vanished since the flight: its Gaussians are hidden with the floaters; None = not looked for."""
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
    """PSNR of the aerial validation views, and of those of each earlier walk, that the joint refinement may cost before
    it is rolled back, dB."""
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
    refined="all", floaters=None, vanished=None, in_the_air=None, finer_views=0, guard=False, guard_weight=1.0,
    guard_pictures=0, exposures=False, sky_radius=0.0, most_aerial_loss_db=math.inf, patience=0,
)  # fmt: skip
"""The paper's 30K + 40K iterations and its objective: 3DGS as published, nothing hidden, guarded, ended or undone."""


def preset(device: str) -> UpdateConfig:
    """The settings for a device, `cpu` or `cuda`."""
    return CPU if device == "cpu" else CUDA


def trained_from_scratch(config: UpdateConfig, more: int = 0) -> UpdateConfig:
    """The ablation without an aerial set: one training on all views, with the iterations of both phases and `more`."""
    joint = config.joint.iterations if config.joint else 0
    return replace(with_iterations(config, config.insertion.iterations + joint + more, joint), from_scratch=True)


def without_insertion(config: UpdateConfig) -> UpdateConfig:
    """The ablation without the first phase: new Gaussians go straight into the refinement, iterations as before."""
    if config.joint is None:
        raise ValueError("neither insertion nor refinement would be left")
    whole = config.insertion.iterations + config.joint.iterations
    longer = with_iterations(config, config.insertion.iterations, whole)
    untrained = replace(config.insertion, iterations=0)
    return replace(longer, insertion=untrained, most_aerial_loss_db=math.inf)  # nothing to roll back to


@dataclass(frozen=True, eq=False)
class UpdateInputs:
    """What the update works on, all in the local frame."""

    aerial: Splats
    aerial_views: Split
    ground_views: Split
    cloud: Cloud
    """Dense ground points; empty when there are none."""
    track_points: Floats
    """(M, 3), points of the trajectory's adjustment."""
    track_colors: np.ndarray
    """(M, 3), RGB."""
    depth: tuple[DepthMap, ...]
    """Depth of ground training views, for free space and sky."""
    up: Floats
    extent: float
    """Typical distance from camera to surface in the ground views, metres."""
    aerial_depth: AerialDepth = ()
    """Depth of aerial views: what they look through cannot hold a ground Gaussian."""
    owner: int = 1
    """Owner of the new Gaussians: the number of this ground sequence."""
    earlier: tuple[EarlierViews, ...] = ()
    """Photos of walks that the set holds already, in order: they guard it as the aerial ones do."""
    vanished: Region | None = None
    """Where surfaces of the flight are free on the day of the walk."""


@dataclass(frozen=True, eq=False)
class SceneUpdate:
    """Stage 3's result."""

    change: Change
    """In the local frame."""
    before: Quality
    """Of the test views, which nothing was chosen by."""
    after: Quality
    """Of the test views."""
    start: Quality
    """Of the validation views, before the update."""
    curves: tuple[CurvePoint, ...]
    """Of the validation views, during it."""
    rolled_back: bool
    """Whether the joint refinement was undone for the sake of the aerial view."""
    exposures: Floats
    """(V, 3, 4), of the ground training views; identity where exposures are off."""


def update_scene(
    inputs: UpdateInputs,
    config: UpdateConfig,
    engine: Engine,
    listen: Listener = silent,
    checkpoints: Path | None = None,
    clock: StepClock | None = None,
) -> SceneUpdate:
    """The street added to the aerial splats: hide floaters, insert, refine, keep what the guard allows.

    `clock` is told where the time goes.
    """
    from skyanchor.gaussians.checkpoint import Behind

    clock = clock or StepClock()
    above, street, photos = inputs.aerial_views, inputs.ground_views, PhotoCache(1 << 28)
    scale = (street.training, config.insertion.width, engine, photos)
    found = found_exposures(inputs.earlier, inputs.aerial, config.insertion.width, engine, photos)
    deciding, judging = (
        galleries(inputs.earlier, found, part, len(street.training), engine.device) for part in (VALIDATION, TEST)
    )
    judge = Judge(above.validation, street.validation, *scale, {}, deciding, clock)
    examiner = Judge(above.test, street.test, *scale, None, judging, clock)
    start = judge.quality(to_tensors(inputs.aerial, engine.device), None)
    with clock.step("free space"):
        jury = Judge(spread(above.training + above.validation, JURY), (), *scale, {}, deciding, clock)
        hidden = hidden_floaters(inputs, config.floaters, jury, listen)
    visible = np.flatnonzero(~hidden)
    aerial = select(inputs.aerial, np.empty(0, np.int64) if config.from_scratch else visible)
    with Behind() as behind:
        kept_in = None if checkpoints is None else KeptIn(checkpoints, behind)
        inserted = _insert(inputs, aerial, config, judge, listen, kept_in)
        refined = None
        if config.joint is not None and not config.from_scratch:
            refined = _refine(inputs, inserted, config, judge, start, listen, kept_in)
        final = inserted if refined is None else refined
        before = examiner.quality(to_tensors(inputs.aerial, engine.device), None)
        after = _quality(final.state, examiner, config)
    return SceneUpdate(
        _change(inputs, final, visible, hidden, config), before, after,
        start, inserted.curve + (refined.curve if refined else ()),
        config.joint is not None and refined is None and not config.from_scratch,
        final.state.exposures.maps[: len(street.training)].detach().cpu().numpy().astype(np.float64),
    )  # fmt: skip


# --- floaters and seeds -------------------------------------------------------------------------------------------


def spread(views: tuple[View, ...], most: int) -> tuple[View, ...]:
    """At most so many of the views, evenly from first to last."""
    rows = np.unique(np.linspace(0, len(views) - 1, min(most, len(views))).round().astype(np.int64))
    return tuple(views[row] for row in rows)


def hidden_floaters(
    inputs: UpdateInputs, config: FloaterConfig | None, judge: Judge, listen: Listener = silent
) -> Bools:
    """(N,), aerial Gaussians in verified free space, as many as the judge's guarded views can do without.

    Those that aerial views show least go first. Training views may judge too: they are the first to miss what was
    fitted to them.
    """
    hidden = np.zeros(len(inputs.aerial), np.bool_)
    if config is None or not inputs.depth:
        return hidden
    gone = np.zeros(len(inputs.aerial), np.bool_)
    if inputs.vanished is not None:
        gone = inputs.vanished.holds(inputs.aerial.means, reach=1)
    found = np.flatnonzero(gone | floaters(free_space_opinions(inputs.aerial.means, inputs.depth, config), config))
    if not len(found):
        return hidden
    weight = shown_weights(inputs.aerial, inputs.aerial_views, judge)[found]
    order = found[np.argsort(weight, kind="stable")]
    tensors = to_tensors(inputs.aerial, judge.engine.device)
    whole = judge.guarded(tensors)

    def loss(count: int) -> float:
        kept = np.ones(len(inputs.aerial), np.bool_)
        kept[order[:count]] = False
        return max(losses(whole, judge.guarded(rows_of(tensors, kept))))

    count = most_within(len(order), loss, config.most_aerial_loss_db)
    hidden[order[:count]] = True
    listen(Note(SCENE, f"{count} of {len(order)} aerial Gaussians in verified free space hidden"))
    if gone.any():
        listen(Note(SCENE, f"of what vanished since the flight {(gone & hidden).sum()} of {gone.sum()} are hidden"))
    return hidden


def most_within(total: int, loss: Callable[[int], float], limit: float, halvings: int = 6) -> int:
    """The largest count that loses at most `limit`, to total / 2^halvings; `loss` grows with the count."""
    if loss(total) <= limit:
        return total
    low, high = 0, total
    for _ in range(halvings):
        middle = (low + high) // 2
        low, high = (middle, high) if loss(middle) <= limit else (low, middle)
    return low


def shown_weights(splats: Splats, views: Split, judge: Judge) -> Floats:
    """(N,), how much the training views show of each Gaussian: Σ over pixels of its blending weight.

    A pixel is Σ w c, so its derivative by a Gaussian's colour is that weight. Pictures are half the judge's width.
    """
    tensors = to_tensors(splats, judge.engine.device)
    tensors.sh.requires_grad_(True)
    for target in targets(judge.photos, views.training, max(64, judge.width // 2)):
        pose = matrix(target.cam_from_world, judge.engine.device)
        judge.engine.rasteriser.render(tensors, target.camera, pose).rgb.sum().backward()
    assert tensors.sh.grad is not None
    return tensors.sh.grad[:, 0].sum(dim=-1).cpu().numpy().astype(np.float64)


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


def learnt_degree(config: UpdateConfig) -> int:
    """The highest SH band that the ground Gaussians learn; more would only fill the memory."""
    return max(config.insertion.sh_degree, config.joint.sh_degree if config.joint else 0)


def sky_radius(inputs: UpdateInputs, config: UpdateConfig) -> float:
    """Metres from the walk to the sky: no aerial camera may look down through it."""
    walk, flight = (
        rigid.centres_in_world([view.cam_from_world for view in part.training])
        for part in (inputs.ground_views, inputs.aerial_views)
    )
    farthest = np.linalg.norm(flight - walk.mean(axis=0), axis=1).max() if len(flight) else 0.0
    return max(config.sky_radius * inputs.extent, BEYOND_FLIGHT * float(farthest))


def _new_points(inputs: UpdateInputs, colour_map: Floats, depth: AerialDepth, config: UpdateConfig) -> Cloud:
    """The dense ground cloud in the model's colours, without what aerial views look through or show better.

    Nor does it hold what Gaussians of earlier walks show already: the refinement gives them today's look.
    """
    cloud = inputs.cloud
    kept = np.ones(len(cloud.points), np.bool_)
    if config.in_the_air is not None and inputs.aerial_depth:
        seen_through = free_space_opinions(cloud.points, inputs.aerial_depth, config.in_the_air)
        kept &= ~floaters(seen_through, config.in_the_air)
    if config.finer_views and not config.from_scratch:
        width = config.insertion.width
        kept &= ~finer_from_above(cloud, inputs.aerial_views.training, depth, width, config.finer_views)
    colors = in_model_colours(cloud.colors[kept], colour_map)
    fewer = thinned(Cloud(cloud.points[kept], cloud.normals[kept], colors, cloud.spacing[kept]), config.most_seeds)
    if not inputs.earlier:
        return fewer
    new = ~held_already(fewer, inputs.aerial)
    return Cloud(fewer.points[new], fewer.normals[new], fewer.colors[new], fewer.spacing[new])


def _random_points(inputs: UpdateInputs, seed: int) -> tuple[Floats, np.ndarray]:
    """As many points as the tracks have, anywhere in their bounding box."""
    rng = np.random.default_rng(seed)
    low, high = inputs.track_points.min(axis=0), inputs.track_points.max(axis=0)
    count = len(inputs.track_points)
    return rng.uniform(low, high, (count, 3)), rng.integers(0, 255, (count, 3), dtype=np.uint8)


# --- phases -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Fitted:
    """A phase's end: the sets and how good they are."""

    state: TrainState
    ground: Splats
    aerial: Splats
    """The visible aerial rows, in their order."""
    moved: Bools
    """Per visible aerial row, whether it was free to move."""
    quality: Quality
    """Of the validation views."""
    curve: tuple[CurvePoint, ...]


def _insert(
    inputs: UpdateInputs, aerial: Splats, config: UpdateConfig, judge: Judge, listen: Listener,
    kept_in: KeptIn | None,
) -> Fitted:  # fmt: skip
    guard = config.guard or config.from_scratch
    pictures = config.guard_pictures if config.guard and not config.from_scratch else 0
    with judge.clock.step("guard pictures"):
        pools = _pools(inputs, config, judge, guard=guard, pictures=pictures)
    free = not config.frozen
    training = config.insertion
    rates = (training.rates[0], Rates().scaled(0.1) if free else None)
    scene = TrainingScene(pools, inputs.extent)
    above = inputs.aerial_views.training
    with judge.clock.step("first Gaussians"):
        depth = inputs.aerial_depth or rendered_depth(inputs.aerial, above, training.width, judge.engine)
        colour_map = np.eye(3, 4)
        if config.exposures:
            colour_map = shared_exposure(paired_colours(inputs.cloud, above, depth, judge.photos))
        seeds = ground_seeds(inputs, colour_map, depth, config)
    exposures = constant_exposures(colour_map, len(inputs.ground_views.training), judge.engine.device)
    exposures = with_earlier(exposures, judge.earlier)
    if not len(seeds):
        training = replace(training, iterations=0)  # the scene holds all of it: the refinement alone is left
    phase = Phase("insertion", _with_rates(training, rates), config.score_every, config.patience, config.least_gain_db)
    listen(Note(SCENE, f"{len(seeds)} first ground Gaussians, street exposure {np.diag(colour_map).round(2)}"))
    state, curve = run_phase((seeds, aerial), exposures, scene, phase, judge, listen, kept_in)
    after = splats_of(state.sets[1])
    if not free:
        _assert_same_bits(after, aerial)
    moved, state = np.full(len(aerial), free), finished(state)
    give_back(judge.engine.device)
    return Fitted(state, splats_of(state.sets[0]), after, moved, _quality(state, judge, config), curve)


def _refine(
    inputs: UpdateInputs, inserted: Fitted, config: UpdateConfig, judge: Judge, start: Quality, listen: Listener,
    kept_in: KeptIn | None,
) -> Fitted | None:  # fmt: skip
    """Both sets after the joint refinement; None when it costs the aerial view too much."""
    assert config.joint is not None
    everything = np.ones(len(inserted.aerial), np.bool_)
    with judge.clock.step("seen from the street"):
        seen = everything if config.refined == "all" else seen_by(inserted.aerial, inputs.ground_views, judge)
    order = np.concatenate([np.flatnonzero(seen), np.flatnonzero(~seen)])
    near, far = select(inserted.aerial, seen), select(inserted.aerial, ~seen)
    pools = _pools(inputs, config, judge, guard=True, pictures=0)
    least, *of_walks = (psnr - config.most_aerial_loss_db for psnr in start.guarded)
    ending = (config.score_every, config.patience, config.least_gain_db)
    phase = Phase("joint", config.joint, *ending, least, tuple(of_walks))
    scene = TrainingScene(pools, inputs.extent)
    sets = (inserted.ground, near, far)
    state, curve = run_phase(sets, inserted.state.exposures, scene, phase, judge, listen, kept_in)
    quality = _quality(state, judge, config)
    spoilt = _spoilt(start, inserted.quality, quality, config.most_aerial_loss_db)
    if spoilt is not None:
        listen(Note(SCENE, f"joint refinement rolled back: it cost {spoilt}", warning=True))
        return None
    aerial = select(concat([splats_of(state.sets[1]), far]), np.argsort(order, kind="stable"))
    return Fitted(state, splats_of(state.sets[0]), aerial, inserted.moved | seen, quality, curve)


def _spoilt(start: Quality, inserted: Quality, refined: Quality, most_db: float) -> str | None:
    """What the refinement cost beyond the limit, where it was better before it; None where nothing is."""
    names = ("dB from the air", *(f"dB of the earlier walk {walk.name}" for walk in start.earlier))
    lost, since = losses(start.guarded, refined.guarded), losses(inserted.guarded, refined.guarded)
    for name, whole, of_refinement in zip(names, lost, since, strict=True):
        if whole > most_db and of_refinement > 0.0:
            return f"{whole:.2f} {name}"
    return None


def _pools(
    inputs: UpdateInputs, config: UpdateConfig, judge: Judge, *, guard: bool, pictures: int
) -> tuple[tuple[TrainingView, ...], ...]:
    """Street views, and as guard in a 1:1 mix the aerial photos, those of earlier walks, and pictures between them.

    The pictures serve while the aerial set is frozen; later it may become better than they are.
    """
    street = street_pool(inputs.ground_views.training, exposures=config.exposures)
    if not guard:
        return (street,)
    above = inputs.aerial_views.training
    photos = aerial_pool(above, config.guard_weight)
    first = len(inputs.ground_views.training)
    photos += guard_pool(inputs.earlier, first, config.earlier_weight, exposures=config.exposures)
    width, weight = config.insertion.width, config.guard_weight
    return (street, photos + guard_pictures(inputs.aerial, above, pictures, width, judge.engine, weight))


def seen_by(splats: Splats, views: Split, judge: Judge) -> Bools:
    """(N,), Gaussians that the ground training views show: with the weight of a pixel in all of them together.

    What stands behind a house is in the picture, but not seen: its gradients are next to nothing, and Adam would make
    whole steps of them.
    """
    return shown_weights(splats, views, judge) >= LEAST_SHOWN


def _quality(state: TrainState, judge: Judge, config: UpdateConfig) -> Quality:
    return judge.quality(drawn(state.sets), state.exposures.maps if config.exposures else None)


def _with_rates(config: TrainConfig, rates: tuple[Rates | None, ...]) -> TrainConfig:
    return replace(config, rates=rates)


def _assert_same_bits(after: Splats, before: Splats) -> None:
    for name in ("means", "quats", "log_scales", "logit_opacities", "sh"):
        assert getattr(after, name).tobytes() == getattr(before, name).tobytes(), f"frozen {name} changed"


def _change(inputs: UpdateInputs, final: Fitted, visible: Ints, hidden: Bools, config: UpdateConfig) -> Change:
    """The result as a change of the whole aerial set."""
    if config.from_scratch:
        nothing = np.zeros(len(inputs.aerial), np.bool_)
        return Change(inputs.aerial, nothing, ~nothing, final.ground)
    moved = np.zeros(len(inputs.aerial), np.bool_)
    moved[visible] = final.moved
    place = np.arange(len(inputs.aerial))
    place[visible] = len(inputs.aerial) + np.arange(len(visible))
    aerial = select(concat([inputs.aerial, final.aerial]), place)
    return Change(aerial, moved, hidden, final.ground)
