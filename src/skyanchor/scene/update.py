"""Stage 4: ground Gaussians go in with the aerial set frozen, then both are refined, and the aerial view is guarded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from skyanchor.events import SCENE, Listener, Note, silent
from skyanchor.gaussians.parameters import Rates, drawn, parameter_set, splats_of
from skyanchor.gaussians.splats import Splats, concat, select, to_tensors
from skyanchor.gaussians.train_state import finished
from skyanchor.gaussians.training import TrainConfig, give_back
from skyanchor.gaussians.views import TrainingScene, TrainingView, aerial_pool
from skyanchor.photos import PhotoCache
from skyanchor.scene.colours import paired_colours, shared_exposure
from skyanchor.scene.config import UpdateConfig
from skyanchor.scene.earlier import found_exposures, galleries, guard_pool, with_earlier
from skyanchor.scene.hiding import hidden_floaters, most_within, seen_by, shown_weights, spread
from skyanchor.scene.inputs import UpdateInputs
from skyanchor.scene.patch import Change
from skyanchor.scene.rendered import guard_pictures, rendered_depth
from skyanchor.scene.schedule import CurvePoint, KeptIn, Phase, constant_exposures, run_phase
from skyanchor.scene.scoring import Judge, Quality, losses
from skyanchor.scene.seeds import ground_seeds
from skyanchor.scene.views import street_pool
from skyanchor.step_clock import StepClock
from skyanchor.types import Bools, Floats

if TYPE_CHECKING:
    from skyanchor.gaussians.devices import Engine
    from skyanchor.gaussians.train_state import TrainState

JURY = 16
"""Aerial views, at most, that say what can be hidden."""
AMENDS_WEIGHTS, AMENDS_RATES = (64.0, 16.0), 0.3
"""Where a loss is made good, what aerial views and those of earlier walks weigh at least, and learning rates over the
refinement's."""
AERIAL_RATES = 0.1
"""Learning rates of the aerial set over the usual ones, where it is not frozen during the insertion (ablation)."""
VALIDATION: Literal["validation"] = "validation"
TEST: Literal["test"] = "test"


@dataclass(frozen=True, eq=False)
class SceneUpdate:
    """What the scene update made."""

    change: Change
    """In the local frame."""
    before: Quality
    """Of the test views, which nothing was chosen by."""
    after: Quality
    """Of the test views."""
    start: Quality
    """Of the validation views, before the update."""
    end: Quality
    """Of the validation views, after it."""
    curves: tuple[CurvePoint, ...]
    """Of the validation views, during it."""
    rolled_back: bool
    """Whether the joint refinement was undone for the sake of the guarded views."""
    left_out: int
    """New Gaussians that were left out for their sake."""
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
    aerial = select(inputs.aerial, np.empty(0, np.int64) if config.from_scratch else np.flatnonzero(~hidden))
    with Behind() as behind:
        kept_in = None if checkpoints is None else KeptIn(checkpoints, behind)
        course = _Course(inputs, config, judge, start, listen, kept_in)
        inserted = _insert(course, aerial)
        ways = [inserted]
        if config.joint is not None and not config.from_scratch:
            refined = _refine(course, inserted)
            ways = [*_made_good(course, refined), refined, inserted]
        final = ways[0]
        if not config.from_scratch:
            final, hidden = _within_limit(course, ways, hidden)
        before = examiner.quality(to_tensors(inputs.aerial, engine.device), None)
        after = _quality(final.state, examiner, config)
    return SceneUpdate(
        _change(inputs, final, hidden, config), before, after,
        start, final.quality, inserted.curve + (final.curve if final.refined else ()),
        len(ways) > 1 and not final.refined,
        len(ways[0 if final.refined else -1].ground) - len(final.ground),
        final.state.exposures.maps[: len(street.training)].detach().cpu().numpy().astype(np.float64),
    )  # fmt: skip


# --- phases -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Course:
    """What all phases of one update share."""

    inputs: UpdateInputs
    config: UpdateConfig
    judge: Judge
    """By the validation views, which decide."""
    start: Quality
    """Of these views, before anything was done."""
    listen: Listener
    kept_in: KeptIn | None
    """Where trainings are kept meanwhile; None where they are not."""


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
    refined: bool = False
    """Whether it is that of the joint refinement."""


def _insert(course: _Course, aerial: Splats) -> Fitted:
    """New Gaussians of the street, trained with the visible aerial ones, which are frozen but in the ablation."""
    inputs, config, judge = course.inputs, course.config, course.judge
    guard = config.guard or config.from_scratch
    pictures = config.guard_pictures if config.guard and not config.from_scratch else 0
    with judge.clock.step("guard pictures"):
        pools = _pools(course, guard=guard, pictures=pictures)
    free = not config.frozen
    training = config.insertion
    rates = (training.rates[0], Rates().scaled(AERIAL_RATES) if free else None)
    scene = TrainingScene(pools, inputs.extent)
    above = inputs.aerial_views.training
    with judge.clock.step("first Gaussians"):
        depth = inputs.aerial_depth or rendered_depth(inputs.aerial, above, training.width, judge.engine)
        colour_map = np.eye(3, 4)
        if config.exposures:
            colour_map = shared_exposure(paired_colours(inputs.cloud, above, depth, judge.photos))
        seeds = ground_seeds(replace(inputs, aerial=aerial), colour_map, depth, config)  # not held by what is hidden
    exposures = constant_exposures(colour_map, len(inputs.ground_views.training), judge.engine.device)
    exposures = with_earlier(exposures, judge.earlier)
    if not len(seeds):
        training = replace(training, iterations=0)  # the scene holds all of it: the refinement alone is left
    phase = Phase("insertion", _with_rates(training, rates), config.score_every, config.patience, config.least_gain_db)
    course.listen(Note(SCENE, f"{len(seeds)} first ground Gaussians, street exposure {np.diag(colour_map).round(2)}"))
    state, curve = run_phase((seeds, aerial), exposures, scene, phase, judge, course.listen, course.kept_in)
    after = splats_of(state.sets[1])
    if not free:
        _assert_same_bits(after, aerial)
    moved, state = np.full(len(aerial), free), finished(state)
    give_back(judge.engine.device)
    return Fitted(state, splats_of(state.sets[0]), after, moved, _quality(state, judge, config), curve)


def _refine(course: _Course, inserted: Fitted) -> Fitted:
    """Both sets after the joint refinement."""
    judge, views = course.judge, course.inputs.ground_views
    everything = np.ones(len(inserted.aerial), np.bool_)
    with judge.clock.step("seen from the street"):
        seen = everything if course.config.refined == "all" else seen_by(inserted.aerial, views, judge)
    return _jointly(course, "joint", inserted, seen)


def _made_good(course: _Course, refined: Fitted) -> tuple[Fitted, ...]:
    """The refinement gone on with for a while, guarded views in front, where it cost them too much; nothing elsewhere.

    A tenth of a decibel too much is soon made good, where leaving out what these views show costs the street far more.
    """
    config = course.config
    spoilt = _spoilt(course.start, refined.quality, config.most_aerial_loss_db)
    if spoilt is None or config.joint is None or not config.amends:
        return ()
    iterations = max(1, round(config.amends * config.joint.iterations))
    rates = tuple(None if one is None else one.scaled(AMENDS_RATES) for one in config.joint.rates)
    joint = replace(config.joint, iterations=iterations, rates=rates, warmup=min(config.joint.warmup, iterations // 4))
    flight, walks = map(max, AMENDS_WEIGHTS, (config.guard_weight, config.earlier_weight))
    stricter = replace(config, joint=joint, patience=0, guard_weight=flight, earlier_weight=walks)
    told = f"the joint refinement cost {spoilt}: {iterations} iterations more, with these views in front"
    course.listen(Note(SCENE, told))
    found = _jointly(replace(course, config=stricter), "amends", refined, refined.moved)
    return (replace(found, curve=refined.curve + found.curve),)


def _jointly(course: _Course, name: str, begun: Fitted, free: Bools) -> Fitted:
    """Both sets trained together from where a phase ended; of the aerial rows those that are `free` move."""
    config, judge = course.config, course.judge
    assert config.joint is not None
    order = np.concatenate([np.flatnonzero(free), np.flatnonzero(~free)])
    near, far = select(begun.aerial, free), select(begun.aerial, ~free)
    pools = _pools(course, guard=True, pictures=0)
    least, *of_walks = (psnr - config.most_aerial_loss_db for psnr in course.start.guarded)
    ending = (config.score_every, config.patience, config.least_gain_db)
    phase = Phase(name, config.joint, *ending, least, tuple(of_walks))
    scene = TrainingScene(pools, course.inputs.extent)
    sets = (begun.ground, near, far)
    state, curve = run_phase(sets, begun.state.exposures, scene, phase, judge, course.listen, course.kept_in)
    aerial = select(concat([splats_of(state.sets[1]), far]), np.argsort(order, kind="stable"))
    state, quality = finished(state), _quality(state, judge, config)
    give_back(judge.engine.device)
    return Fitted(state, splats_of(state.sets[0]), aerial, begun.moved | free, quality, curve, refined=True)


def _spoilt(start: Quality, now: Quality, most_db: float) -> str | None:
    """What was lost beyond the limit since before the update, the worst of it, for people; None where nothing is."""
    names = ("dB from the air", *(f"dB of the earlier walk {walk.name}" for walk in start.earlier))
    worst, name = max(zip(losses(start.guarded, now.guarded), names, strict=True), key=lambda one: one[0])
    return f"{worst:.2f} {name}" if worst > most_db else None


def _within_limit(course: _Course, ways: Sequence[Fitted], hidden: Bools) -> tuple[Fitted, Bools]:
    """The update as far as guarded views can bear it, and what it hides.

    `ways` are the refinement, made good first, where there is one, and the insertion that it began with. If the first
    costs too much, each is tried with fewer new Gaussians, and what shows the street best stays. If none can be borne,
    nothing is done.
    """
    spoilt = _spoilt(course.start, ways[0].quality, course.config.most_aerial_loss_db)
    if spoilt is None:
        return ways[0], hidden
    borne = [one for way in ways if (one := _lightened(course, way)) is not None]
    if not borne:
        told = f"the update cost {spoilt}, also without new Gaussians: the scene stays"
        course.listen(Note(SCENE, told, warning=True))
        none, nowhere = select(ways[-1].ground, np.empty(0, np.int64)), np.zeros_like(hidden)
        stays = _with_sets(course, ways[-1], course.inputs.aerial, nowhere, none)
        return replace(stays, quality=course.start), nowhere
    best = max(borne, key=lambda one: one.quality.ground_psnr)
    whole = len(ways[0 if best.refined else -1].ground)
    back = "" if best.refined or len(ways) == 1 else "the joint refinement is rolled back, and "
    told = f"{whole - len(best.ground)} of {whole} new Gaussians, those that guarded views show most, are left out"
    course.listen(Note(SCENE, f"the update cost {spoilt}: {back}{told}", warning=True))
    return best, hidden


def _lightened(course: _Course, way: Fitted) -> Fitted | None:
    """The same with as few new Gaussians left out as guarded views ask for, those that they show most.

    None where the rest costs them too much without any.
    """
    most_db = course.config.most_aerial_loss_db
    shown = _shown_to_guards(course, concat([way.aerial, way.ground]))[len(way.aerial) :]
    order = np.argsort(shown, kind="stable")

    def fewer(count: int) -> Fitted:
        return _with_sets(course, way, way.aerial, way.moved, select(way.ground, np.sort(order[:count])))

    def loss(count: int) -> float:
        return max(losses(course.start.guarded, fewer(count).quality.guarded))

    count = most_within(len(order), loss, most_db)
    return fewer(count) if count or loss(0) <= most_db else None


def _shown_to_guards(course: _Course, splats: Splats) -> Floats:
    """(N,), how much some photos of every day before the walk show of each Gaussian."""
    days = [course.inputs.aerial_views, *(walk.views for walk in course.inputs.earlier)]
    some = tuple(view for day in days for view in spread(day.training + day.validation, JURY))
    return shown_weights(splats, some, course.judge)


def _with_sets(course: _Course, way: Fitted, aerial: Splats, moved: Bools, ground: Splats) -> Fitted:
    """The same exposures with other sets."""
    sets = tuple(parameter_set(one, course.judge.engine.device, frozen=True) for one in (ground, aerial))
    state = replace(way.state, sets=sets)
    quality = _quality(state, course.judge, course.config)
    return Fitted(state, ground, aerial, moved, quality, way.curve, way.refined)


def _pools(course: _Course, *, guard: bool, pictures: int) -> tuple[tuple[TrainingView, ...], ...]:
    """Street views, and as guard in a 1:1 mix the aerial photos, those of earlier walks, and pictures between them.

    The pictures serve while the aerial set is frozen; later it may become better than they are.
    """
    inputs, config = course.inputs, course.config
    street = street_pool(inputs.ground_views.training, exposures=config.exposures)
    if not guard:
        return (street,)
    above = inputs.aerial_views.training
    photos = aerial_pool(above, config.guard_weight)
    first = len(inputs.ground_views.training)
    photos += guard_pool(inputs.earlier, first, config.earlier_weight, exposures=config.exposures)
    width, weight = config.insertion.width, config.guard_weight
    between = guard_pictures(
        inputs.aerial, above, pictures, width, course.judge.engine, weight, otherwise=inputs.otherwise
    )
    return (street, photos + between)


def _quality(state: TrainState, judge: Judge, config: UpdateConfig) -> Quality:
    """How good the sets of a training are by what a judge looks at."""
    return judge.quality(drawn(state.sets), state.exposures.maps if config.exposures else None)


def _with_rates(config: TrainConfig, rates: tuple[Rates | None, ...]) -> TrainConfig:
    return replace(config, rates=rates)


def _assert_same_bits(after: Splats, before: Splats) -> None:
    for name in ("means", "quats", "log_scales", "logit_opacities", "sh"):
        assert getattr(after, name).tobytes() == getattr(before, name).tobytes(), f"frozen {name} changed"


def _change(inputs: UpdateInputs, final: Fitted, hidden: Bools, config: UpdateConfig) -> Change:
    """The result as a change of the whole aerial set."""
    visible = np.flatnonzero(~hidden)
    if config.from_scratch:
        nothing = np.zeros(len(inputs.aerial), np.bool_)
        return Change(inputs.aerial, nothing, ~nothing, final.ground)
    moved = np.zeros(len(inputs.aerial), np.bool_)
    moved[visible] = final.moved
    place = np.arange(len(inputs.aerial))
    place[visible] = len(inputs.aerial) + np.arange(len(visible))
    aerial = select(concat([inputs.aerial, final.aerial]), place)
    return Change(aerial, moved, hidden, final.ground)
