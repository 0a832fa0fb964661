"""The update on a tiny scene of known splats: a wall that the aerial model lacks is added from the street."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from update_world import CAMERA, GAIN, World, exact_depth, inputs_of, photograph, quick

from skyanchor.changes import Region
from skyanchor.events import SCENE, Event, Note, Progress
from skyanchor.gaussians.densify import SplitGrowth
from skyanchor.gaussians.exposure import Exposures
from skyanchor.gaussians.parameters import Rates
from skyanchor.gaussians.ply import read_bytes, write_ply
from skyanchor.gaussians.seeding import splats_from_points
from skyanchor.gaussians.splats import Splats, concat, select, to_tensors
from skyanchor.gaussians.split import MOST_VALIDATION, split
from skyanchor.gaussians.training import TrainConfig
from skyanchor.gaussians.views import TrainingScene
from skyanchor.geometry import rigid
from skyanchor.photos import PhotoCache
from skyanchor.scene import patch as patches
from skyanchor.scene import update
from skyanchor.scene.colours import Pairs, shared_exposure
from skyanchor.scene.config import PAPER, UpdateConfig, trained_from_scratch, without_insertion
from skyanchor.scene.floaters import FloaterConfig
from skyanchor.scene.hiding import hidden_floaters, most_within, seen_by, shown_weights, spread
from skyanchor.scene.schedule import CurvePoint, Phase, is_flat, run_phase
from skyanchor.scene.scoring import Judge, Quality
from skyanchor.scene.seeds import ground_seeds
from skyanchor.scene.update import SceneUpdate, update_scene
from skyanchor.types import View


@pytest.fixture(scope="module")
def updated(world: World) -> SceneUpdate:
    return update_scene(inputs_of(world), quick(), world.engine)


@pytest.fixture(scope="module")
def inserted(world: World) -> SceneUpdate:
    return update_scene(inputs_of(world), quick(joint=None), world.engine)


def test_street_comes_in_and_the_air_stays(world: World, updated: SceneUpdate) -> None:
    inputs, result = inputs_of(world), updated
    assert result.after.ground_psnr > result.before.ground_psnr + 4.0
    assert result.after.aerial_psnr > result.before.aerial_psnr - 0.1
    assert not result.rolled_back
    untouched = ~(result.change.moved | result.change.hidden)
    assert result.change.aerial.means[untouched].tobytes() == inputs.aerial.means[untouched].tobytes()
    assert (result.change.ground.owner == 1).all()
    phases = [point.phase for point in result.curves]
    assert phases == ["insertion"] * 4 + ["joint"]


def test_ablations_get_as_many_iterations_in_all(world: World) -> None:
    scratch, straight = trained_from_scratch(quick()), without_insertion(quick())
    assert scratch.insertion.iterations == 100 and scratch.from_scratch
    assert straight.joint is not None and straight.joint.iterations == 100
    result = update_scene(inputs_of(world), straight, world.engine)
    assert {point.phase for point in result.curves} == {"joint"}
    assert result.after.ground_psnr > result.before.ground_psnr + 2.0


def test_from_scratch_starts_with_the_flight_too(world: World) -> None:
    inputs, scratch = inputs_of(world), replace(quick(), from_scratch=True, sky_radius=0.0)
    depth = tuple(exact_depth(view, world) for view in inputs.aerial_views.training)
    alone, both = (ground_seeds(inputs, np.eye(3, 4), depth, replace(scratch, from_scratch=f)) for f in (False, True))
    flight = both.means[len(alone) :] if len(both) > len(alone) else both.means[:0]
    assert len(flight) > 500 and np.abs(flight[:, 2]).max() < 3.2, "floor and wall, as the air shows them"
    assert flight[:, 0].min() < -4.5, "beyond what the street sees"


@pytest.mark.parametrize(("insertion", "joint", "bands"), [(0, 0, 1), (0, 1, 4), (2, 1, 9)])
def test_first_gaussians_hold_the_bands_that_they_learn(world: World, insertion: int, joint: int, bands: int) -> None:
    config = quick()
    assert config.joint is not None
    config = replace(
        config,
        insertion=replace(config.insertion, sh_degree=insertion),
        joint=replace(config.joint, sh_degree=joint),
    )
    assert ground_seeds(inputs_of(world), np.eye(3, 4), (), config).sh.shape[1] == bands


def test_exposures_learn_the_darker_street_photos(updated: SceneUpdate) -> None:
    """The model keeps the aerial colours; the street's come from the exposures."""
    result = updated
    gains = result.exposures[:, [0, 1, 2], [0, 1, 2]].mean()
    assert abs(gains - GAIN) < 0.06
    assert result.after.ground_psnr > result.after.ground_psnr_raw


def test_frozen_rows_are_the_same_bits_without_joint_refinement(world: World, inserted: SceneUpdate) -> None:
    inputs, result = inputs_of(world), inserted
    for name in ("means", "quats", "log_scales", "logit_opacities", "sh"):
        assert getattr(result.change.aerial, name).tobytes() == getattr(inputs.aerial, name).tobytes()
    assert not result.change.moved.any()


def test_a_refinement_that_spoils_the_air_is_rolled_back(world: World) -> None:
    inputs, notes = inputs_of(world), []

    def listen(event: Event) -> None:
        notes.append(event)

    wild = replace(quick().joint, rates=(Rates(), Rates().scaled(60.0), None))  # type: ignore[type-var]
    result = update_scene(inputs, quick(joint=wild), world.engine, listen)
    assert result.rolled_back
    assert result.change.aerial.means.tobytes() == inputs.aerial.means.tobytes()
    assert any(isinstance(event, Note) and event.warning and "rolled back" in event.text for event in notes)


def test_a_refinement_beyond_the_limit_gives_up_gaussians_before_it_is_undone(world: World) -> None:
    """With hardly a guard it costs 0.3 dB from the air; what can be borne of it shows the street better than before."""
    inputs, few = inputs_of(world), quick(guard_weight=0.1, most_aerial_loss_db=0.2, amends=0.0)
    whole = update_scene(inputs, replace(few, most_aerial_loss_db=np.inf), world.engine)
    found, alone = (update_scene(inputs, config, world.engine) for config in (few, replace(few, joint=None)))
    assert whole.start.aerial_psnr - whole.end.aerial_psnr > 0.25
    assert found.start.aerial_psnr - found.end.aerial_psnr <= 0.2
    assert not found.rolled_back and 0 < found.left_out < 0.1 * len(found.change.ground)
    assert found.end.ground_psnr > alone.end.ground_psnr


def test_what_a_refinement_costs_by_little_is_made_good(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """More iterations with the aerial views in front bring the air back within the limit, and nothing is left out."""
    given: dict[str, tuple[set[float], Phase]] = {}

    def noted(sets: Any, exposures: Any, scene: Any, phase: Any, *others: Any) -> Any:
        given[phase.name] = {one.weight for one in scene.pools[-1]}, phase
        return run_phase(sets, exposures, scene, phase, *others)

    monkeypatch.setattr(update, "run_phase", noted)
    inputs, free, told = inputs_of(world), quick(guard_weight=0.1, most_aerial_loss_db=np.inf), []
    whole = update_scene(inputs, free, world.engine)
    limit = whole.start.aerial_psnr - whole.end.aerial_psnr - 0.01
    assert limit > 0.2
    little = replace(free, most_aerial_loss_db=limit)
    lighter = update_scene(inputs, replace(little, amends=0.0), world.engine)
    assert lighter.left_out > 0
    found = update_scene(inputs, replace(little, amends=1.0), world.engine, told.append)
    assert not found.rolled_back and found.left_out == 0
    assert found.start.aerial_psnr - found.end.aerial_psnr <= limit and found.end.ground_psnr > lighter.end.ground_psnr
    assert [point.phase for point in found.curves] == [*["insertion"] * 4, "joint", "amends"]
    assert any("iterations more, with these views in front" in str(event) for event in told)
    (usual, joint), (in_front, amends) = given["joint"], given["amends"]
    assert (usual, in_front) == ({0.1}, {update.AMENDS_WEIGHTS[0]}) and update.AMENDS_WEIGHTS[0] > 16.0
    assert amends.training.rates == tuple(one and one.scaled(update.AMENDS_RATES) for one in joint.training.rates)
    assert amends.least_aerial_db == joint.least_aerial_db and amends.patience == 0


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_refinement_goes_back_to_where_the_air_was_still_good(world: World, tmp_path: Path, on_disk: bool) -> None:
    """Colour rates that rise until they spoil the aerial view: what was good before is kept."""
    notes: list[Event] = []
    rates = (Rates().scaled(0.3), replace(Rates().scaled(0.0), sh_dc=4.0), None)
    rising = replace(quick().joint, iterations=100, warmup=1000, rates=rates)  # type: ignore[type-var]
    result = update_scene(
        inputs_of(world), quick(joint=rising), world.engine, notes.append, tmp_path if on_disk else None
    )
    assert not result.rolled_back
    assert result.change.moved.any()
    assert result.after.aerial_psnr > result.before.aerial_psnr - 0.5, "the test views had no say"
    assert result.curves[-1].phase == "joint" and result.curves[-1].iteration in (20, 40, 60, 80)
    assert result.curves[-1].quality.aerial_psnr > result.start.aerial_psnr - 0.1
    assert any(isinstance(event, Note) and "back to iteration" in event.text for event in notes)
    assert {event.stage for event in notes} == {SCENE}
    if on_disk:
        assert_resumed_goes_back_as_well(world, quick(joint=rising), result, tmp_path / "killed")


def assert_resumed_goes_back_as_well(world: World, config: UpdateConfig, whole: SceneUpdate, folder: Path) -> None:
    def interrupt(event: Event) -> None:
        if isinstance(event, Progress) and event.step == "joint, scored" and event.done == 100:
            raise KilledError

    with pytest.raises(KilledError):
        update_scene(inputs_of(world), config, world.engine, interrupt, folder)
    resumed = update_scene(inputs_of(world), config, world.engine, checkpoints=folder)
    assert resumed.change.aerial.sh.tobytes() == whole.change.aerial.sh.tobytes()
    assert resumed.curves == whole.curves


class KilledError(Exception):
    pass


def test_killed_and_resumed_gives_the_same_splats(world: World, updated: SceneUpdate, tmp_path: Path) -> None:
    inputs, whole = inputs_of(world), updated
    seen = []

    def interrupt(event: Event) -> None:
        seen.append(event)
        if len(seen) == 6:
            raise KilledError

    with pytest.raises(KilledError):
        update_scene(inputs, quick(), world.engine, interrupt, checkpoints=tmp_path)
    resumed = update_scene(inputs, quick(), world.engine, checkpoints=tmp_path)
    assert resumed.change.ground.means.tobytes() == whole.change.ground.means.tobytes()
    assert resumed.change.aerial.sh.tobytes() == whole.change.aerial.sh.tobytes()
    assert resumed.curves == whole.curves


def test_floaters_in_the_street_are_hidden(world: World) -> None:
    """A red blob in mid air that no aerial photo shows, with measured depth behind it."""
    blob = splats_from_points(np.array([[0.0, 1.0, 1.5], [0.3, 1.0, 1.4]]), np.full((2, 3), 255, np.uint8), sh_degree=0)
    inputs = inputs_of(world)
    inputs = replace(inputs, aerial=concat([inputs.aerial, select(blob, np.array([0, 1]))]))
    maps = tuple(exact_depth(view, world) for view in inputs.ground_views.training)
    judge = Judge(inputs.aerial_views.validation, (), (), 64, world.engine, PhotoCache())
    hidden = hidden_floaters(replace(inputs, depth=maps), FloaterConfig(), judge)
    assert hidden[-2:].all()
    assert hidden[:-2].mean() < 0.02


def test_what_vanished_is_hidden_though_it_lies_close_to_a_surface(world: World) -> None:
    """A blob nearer to the measured surface than depth alone is trusted, in cells that are known to be free."""
    inputs = inputs_of(world)
    maps = tuple(exact_depth(view, world) for view in inputs.ground_views.training)
    place = np.array([[0.0, 1.0, 0.12]])
    blob = splats_from_points(place, np.full((1, 3), 255, np.uint8), sh_degree=0)
    blob = replace(blob, log_scales=np.full((1, 3), np.log(0.01), np.float32))
    inputs = replace(inputs, aerial=concat([inputs.aerial, blob]), depth=maps)
    judge = Judge(inputs.aerial_views.validation, (), (), 64, world.engine, PhotoCache())
    assert not hidden_floaters(inputs, FloaterConfig(), judge)[-1]
    gone = Region(np.floor(place / 0.1).astype(np.int64), 0.1)
    hidden = hidden_floaters(replace(inputs, vanished=gone), FloaterConfig(), judge)
    assert hidden[-1] and hidden[:-1].mean() < 0.02


def test_an_update_that_guarded_views_cannot_bear_is_refused(world: World, tmp_path: Path) -> None:
    """Half of the floor is taken for vanished though every aerial photo shows it: the scene stays as it was."""
    inputs = inputs_of(world)
    maps = tuple(exact_depth(view, world) for view in inputs.ground_views.training)
    wrong = Region(np.unique(np.floor(inputs.aerial.means[::2] / 0.1).astype(np.int64), axis=0), 0.1)
    rash = FloaterConfig(most_aerial_loss_db=np.inf)
    config = quick(joint=None, floaters=rash)
    config, told = replace(config, insertion=replace(config.insertion, iterations=2)), list[Event]()
    found = update_scene(replace(inputs, depth=maps, vanished=wrong), config, world.engine, told.append)
    assert any(isinstance(event, Note) and event.warning and "the scene stays" in event.text for event in told)
    assert not found.change.hidden.any() and not found.change.moved.any() and not len(found.change.ground)
    assert found.end == found.start and found.left_out > 100
    write_ply(tmp_path / "base.ply", inputs.aerial)
    base = read_bytes(tmp_path / "base.ply")
    assert patches.summary(patches.make_patch(base, "nothing", found.change, "{}")).added == 0


def test_of_the_floaters_those_least_seen_from_above_go(world: World) -> None:
    """A large one that the photos show would cost the aerial view; the small ones beside it still go."""
    inputs = inputs_of(world)
    maps = tuple(exact_depth(view, world) for view in inputs.ground_views.training)
    places = np.array([[0.0, 1.0, 1.5], [0.3, 1.0, 1.4], [0.1, 1.2, 1.4]])
    blobs = splats_from_points(places, np.full((3, 3), 255, np.uint8), sh_degree=0)
    scales = np.log(np.array([0.02, 0.02, 0.4], np.float32))[:, None].repeat(3, axis=1)
    inputs = replace(inputs, aerial=concat([inputs.aerial, replace(blobs, log_scales=scales)]), depth=maps)
    above = replace(
        inputs.aerial_views,
        validation=tuple(
            photograph(view.path.with_name(f"blob-{k}.png"), inputs.aerial, view.cam_from_world, world.engine, 1.0, k)
            for k, view in enumerate(inputs.aerial_views.validation)
        ),
    )
    judge = Judge(above.validation, (), (), 64, world.engine, PhotoCache())
    weights = shown_weights(inputs.aerial, inputs.aerial_views.training, judge)
    assert weights[-1] > 10 * weights[-3:-1].max()
    hidden = hidden_floaters(inputs, FloaterConfig(), judge)
    assert hidden[-3:].tolist() == [True, True, False]


def test_what_only_training_photos_show_is_not_hidden_either(world: World) -> None:
    """The validation views look elsewhere: alone they would let a large blob go that the other photos show."""
    inputs = inputs_of(world)
    maps = tuple(exact_depth(view, world) for view in inputs.ground_views.training)
    blob = splats_from_points(np.array([[0.0, 1.0, 1.5]]), np.full((1, 3), 255, np.uint8), sh_degree=0)
    blob = replace(blob, log_scales=np.full((1, 3), np.log(0.4), np.float32))
    inputs = replace(inputs, aerial=concat([inputs.aerial, blob]), depth=maps)
    shown = tuple(
        photograph(view.path.with_name(f"shown-{k}.png"), inputs.aerial, view.cam_from_world, world.engine, 1.0, k)
        for k, view in enumerate(inputs.aerial_views.training)
    )
    inputs = replace(inputs, aerial_views=replace(inputs.aerial_views, training=shown))
    alone = Judge(inputs.aerial_views.validation, (), (), 64, world.engine, PhotoCache())
    assert hidden_floaters(inputs, FloaterConfig(), alone)[-1]
    assert not update_scene(inputs, quick(joint=None), world.engine).change.hidden[-1]


def test_the_papers_update_moves_all_and_hides_nothing(world: World) -> None:
    """Its switches on a schedule of a few steps: no exposures, no sky, no guard, no early end, no way back."""
    short = {"iterations": 12, "width": 64, "seed": 0}
    config = replace(
        PAPER,
        insertion=replace(PAPER.insertion, **short),
        joint=replace(PAPER.joint, **short),
        score_every=4,
    )
    inputs = inputs_of(world)
    result = update_scene(inputs, config, world.engine)
    assert result.change.moved.all() and not result.change.hidden.any() and not result.rolled_back
    assert not np.array_equal(result.change.aerial.means, inputs.aerial.means)
    assert (result.exposures == np.eye(3, 4)).all()
    assert [point.iteration for point in result.curves] == [4, 8, 12] * 2


def test_no_addition_of_ours_takes_part_in_the_papers_update(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the two phases are given, by its settings and by ours: each of them has its effect."""
    given: list[tuple[Sequence[Splats], Exposures | None, TrainingScene, Phase]] = []

    def noted(sets: Any, exposures: Any, scene: Any, phase: Any, *others: Any) -> Any:
        given.append((sets, exposures, scene, phase))
        return run_phase(sets, exposures, scene, phase, *others)

    monkeypatch.setattr(update, "run_phase", noted)
    inputs = inputs_of(world)
    street = tuple(exact_depth(view, world) for view in inputs.ground_views.training)
    above = tuple(exact_depth(view, world) for view in inputs.aerial_views.training)
    inputs = replace(inputs, depth=street, aerial_depth=above)
    short = {"iterations": 2, "width": 64}
    for config in (PAPER, UpdateConfig()):
        assert config.joint is not None
        phases = {"insertion": replace(config.insertion, **short), "joint": replace(config.joint, **short)}
        update_scene(inputs, replace(config, **phases), world.engine)
    paper, ours = given[:2], given[2:]

    (seeds, _), exposures, scene, insertion = paper[0]
    assert len(seeds) == len(inputs.cloud.points), "no sky, and no point is left out"
    assert len(ours[0][0][0]) != len(inputs.cloud.points)
    assert exposures is not None and bool((exposures.maps == torch.eye(3, 4)).all())
    assert len(scene.pools) == 1 and len(ours[0][2].pools) == 2, "the insertion sees the street alone"
    growth = insertion.training.growth
    assert isinstance(growth, SplitGrowth) and growth.reset_every == 3_000 and seeds.sh.shape[1] == 16
    own = ours[0][3].training.growth
    assert isinstance(own, SplitGrowth) and own.reset_every == 0

    (_, free, still), _, scene, joint = paper[1]
    assert (len(free), len(still)) == (len(inputs.aerial), 0), "all aerial Gaussians are free"
    assert joint.training.growth is None and joint.training.rates[1] == Rates()
    for pools, weight in ((scene.pools, 1.0), (ours[1][2].pools, 16.0)):
        assert {one.weight for one in pools[1]} == {weight} and len(pools[1]) == len(above), "photos alone"
    for name, phase in (("paper", joint), ("ours", ours[1][3])):
        assert (phase.patience == 0) == (phase.least_aerial_db == -np.inf) == (name == "paper")


def test_what_stands_behind_a_wall_is_not_seen(world: World) -> None:
    inputs = inputs_of(world)
    rng = np.random.default_rng(4)
    behind = rng.uniform([-3, 7, 0.5], [3, 8, 2.5], (40, 3))
    before = rng.uniform([-1, 2, 0.5], [1, 3, 2.5], (40, 3))
    grey = np.full((80, 3), 128, np.uint8)
    both = splats_from_points(np.concatenate([behind, before]), grey, sh_degree=0)
    judge = Judge((), (), (), 64, world.engine, PhotoCache())
    seen = seen_by(concat([world.whole, both]), inputs.ground_views, judge)[-80:]
    assert seen[:40].mean() < 0.1 and seen[40:].mean() > 0.9


def test_a_few_views_are_spread_over_all() -> None:
    views = tuple(View(str(k), Path(str(k)), CAMERA, rigid.identity()) for k in range(100))
    assert [view.name for view in spread(views, 4)] == ["0", "33", "66", "99"]
    assert spread(views[:3], 4) == views[:3] and spread((), 4) == ()


def test_the_most_that_can_be_hidden_is_found_by_halving() -> None:
    asked: list[int] = []

    def loss(count: int) -> float:
        asked.append(count)
        return 0.0 if count <= 700 else 1.0

    assert 684 <= most_within(1000, loss, 0.05) <= 700
    assert len(asked) == 7
    assert most_within(1000, lambda count: 0.0, 0.05) == 1000
    assert most_within(1000, lambda count: 1.0, 0.05) == 0


def test_flat_curves_end_a_phase() -> None:
    phase = Phase("joint", TrainConfig(), 1, patience=2, least_gain_db=0.05)

    def curve(values: list[float]) -> list[CurvePoint]:
        return [CurvePoint("joint", k, Quality(20.0, 0.9, value, 0.9, value)) for k, value in enumerate(values)]

    assert not is_flat(curve([20, 21]), phase)
    assert not is_flat(curve([20, 21, 21.0, 21.1]), phase)
    assert is_flat(curve([20, 21, 21.0, 21.02]), phase)
    assert not is_flat(curve([20, 21, 21.0, 21.02]), replace(phase, patience=0))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 9, 17, 26, 100, 1000])
def test_views_are_split_in_three(count: int) -> None:
    views = tuple(View(str(k), Path(str(k)), CAMERA, rigid.identity()) for k in range(count))
    parts = split(views)
    training, validation, test = ({view.name for view in part} for part in vars(parts).values())
    assert test == {str(k) for k in range(0, count, 8)}
    assert training | validation | test == {view.name for view in views}
    assert not test & (training | validation)
    assert min(1, count - 1) <= len(validation) <= MOST_VALIDATION
    assert count < 26 or len(validation) >= 3, "one view alone shows a corner of the scene"
    if count >= 5:
        assert not training & validation and len(training) > len(validation)
    else:
        assert validation <= training, "too few views: one of the training views decides"
    places = sorted(int(name) for name in validation)
    assert count < 26 or max(np.diff([0, *places, count])) < 1.7 * count / len(places)


def test_test_views_decide_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is looked at and what is said, in order: a test photo is opened after the last word, once for each set."""
    inputs, seen = inputs_of(world), []
    maps = tuple(exact_depth(view, world) for view in inputs.ground_views.training)
    blob = splats_from_points(np.array([[0.0, 1.0, 1.5], [0.3, 1.0, 1.4]]), np.full((2, 3), 255, np.uint8), sh_degree=0)
    inputs = replace(inputs, aerial=concat([inputs.aerial, blob]), depth=maps)
    rising = replace(quick().joint, rates=(Rates(), Rates().scaled(60.0), None))  # type: ignore[type-var]
    look = PhotoCache.photo

    def recorded(cache: PhotoCache, name: str, *rest: object) -> object:
        seen.append(name)
        return look(cache, name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(PhotoCache, "photo", recorded)
    result = update_scene(inputs, quick(joint=rising), world.engine, seen.append)
    assert result.rolled_back and result.change.hidden.any(), "every decision was asked for"
    test = {view.name for part in (inputs.aerial_views, inputs.ground_views) for view in part.test}
    opened = [k for k, what in enumerate(seen) if isinstance(what, str) and what in test]
    assert {seen[k] for k in opened} == test
    assert opened == list(range(opened[0], len(seen))), "nothing is trained, scored or said after the first test photo"
    deciding = {view.name for part in (inputs.aerial_views, inputs.ground_views) for view in part.validation}
    assert deciding <= {what for what in seen[: opened[0]] if isinstance(what, str)}


def test_a_judge_opens_its_photos_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Aerial and street photos may have the same names."""
    inputs, opened = inputs_of(world), []
    look = PhotoCache.photo

    def recorded(cache: PhotoCache, name: str, path: Path, *rest: object) -> object:
        opened.append(path)
        return look(cache, name, path, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(PhotoCache, "photo", recorded)
    above, street = (
        tuple(replace(view, name=f"{k}.jpg") for k, view in enumerate(part.test))
        for part in (inputs.aerial_views, inputs.ground_views)
    )
    splats = to_tensors(inputs.aerial, "cpu")
    asked = [Judge(above, street, (), CAMERA.width, world.engine, PhotoCache(), sitters) for sitters in (None, {})]
    first, *again = [judge.quality(splats, None) for judge in (*asked, asked[1])]
    assert again == [first, first] and first.aerial_psnr != first.ground_psnr
    assert len(opened) == 2 * len({*opened}) == 2 * (len(above) + len(street))


def test_reported_figures_are_of_the_test_views(world: World, updated: SceneUpdate) -> None:
    inputs = inputs_of(world)
    street = inputs.ground_views
    examiner = Judge(inputs.aerial_views.test, street.test, street.training, 64, world.engine, PhotoCache())
    assert updated.before == examiner.quality(to_tensors(inputs.aerial), None)
    kept = concat([select(updated.change.aerial, ~updated.change.hidden), updated.change.ground])
    after = examiner.quality(to_tensors(kept), torch.tensor(updated.exposures, dtype=torch.float32))
    assert updated.after.ground_psnr == pytest.approx(after.ground_psnr, abs=1e-3)
    assert updated.start != updated.before and updated.curves[-1].quality != updated.after


def test_floor_that_the_aerial_model_explains_is_not_inserted_again(world: World, inserted: SceneUpdate) -> None:
    inputs, result = inputs_of(world), inserted
    on_floor = np.abs(result.change.ground.means[:, 2]) < 0.2
    assert len(result.change.ground) < len(inputs.cloud.points)
    assert on_floor.mean() < 0.35


def test_shared_exposure_ignores_what_changed_in_the_street() -> None:
    rng = np.random.default_rng(0)
    model = rng.uniform(0.1, 0.9, (3000, 3))
    photo = 0.7 * model + 0.05 + rng.normal(0, 0.02, model.shape)
    photo[:800] = rng.uniform(0, 1, (800, 3))
    found = shared_exposure(Pairs(photo, model))
    np.testing.assert_allclose(np.diag(found[:, :3]), 0.7, atol=0.06)
    np.testing.assert_allclose(found[:, 3], 0.05, atol=0.04)
    assert (shared_exposure(Pairs(photo[:10], model[:10])) == np.eye(3, 4)).all()
