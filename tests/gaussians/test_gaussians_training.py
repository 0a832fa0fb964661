"""The shared training step: it learns, keeps frozen rows, resumes to the bit, ignores masks, finds exposures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from gaussians_small_scene import disturbed, engine, floor, photograph

from skyanchor.events import Event, Note, Progress
from skyanchor.gaussians import splats as splat_sets
from skyanchor.gaussians import training
from skyanchor.gaussians.densify import McmcGrowth, SplitGrowth
from skyanchor.gaussians.exposure import ExposureConfig
from skyanchor.gaussians.parameters import Rates, splats_of
from skyanchor.gaussians.scoring import score
from skyanchor.gaussians.splats import Splats
from skyanchor.gaussians.training import TrainConfig
from skyanchor.gaussians.views import TrainingScene, TrainingView, aerial_pool, view_at
from skyanchor.types import View

QUICK = TrainConfig(iterations=60, width=64, growth=None, sh_degree=1, sh_every=20, checkpoint_every=20, report_every=5)
GROWING = replace(QUICK, growth=SplitGrowth(start=10, stop=50, every=10, gradient=5e-5, reset_every=30))
NAMES = ("means", "quats", "log_scales", "logit_opacities", "sh", "owner")


def same(a: Splats, b: Splats) -> bool:
    return all(getattr(a, name).tobytes() == getattr(b, name).tobytes() for name in NAMES)


@pytest.fixture(scope="module")
def truth() -> Splats:
    return floor()


@pytest.fixture(scope="module")
def views(truth: Splats, tmp_path_factory: pytest.TempPathFactory) -> tuple[View, ...]:
    return photograph(truth, tmp_path_factory.mktemp("photos"))


@pytest.fixture(scope="module")
def scene(views: tuple[View, ...]) -> TrainingScene:
    return TrainingScene((aerial_pool(views[1:]),), 6.5)


def test_training_finds_the_scene(truth: Splats, views: tuple[View, ...], scene: TrainingScene) -> None:
    start = disturbed(truth)
    config = replace(QUICK, iterations=300, coarse_until=(0.1,))
    (after,) = training.fit((start,), scene, config, engine())
    before_db, after_db = (score(one, views[:1], engine(), 64).psnr for one in (start, after))
    assert before_db < 20
    assert after_db > before_db + 6
    assert score(truth, views[:1], engine(), 64).psnr > 50  # only rounding to bytes


class KilledError(Exception):
    """The process is gone."""


@pytest.mark.parametrize("growth", [GROWING.growth, McmcGrowth(start=10, stop=50, every=10, most=400)])
def test_killed_and_resumed_is_undisturbed(
    truth: Splats, views: tuple[View, ...], tmp_path: Path, growth: SplitGrowth | McmcGrowth
) -> None:
    street = tuple(TrainingView(view, exposure=k) for k, view in enumerate(views[4:]))
    scene = TrainingScene((aerial_pool(views[:4]), street), 6.5)
    config = replace(GROWING, growth=growth, rates=(Rates(), None), opacity_weight=0.01, scale_weight=0.01)
    sets = (disturbed(truth), splat_sets.select(truth, slice(0, 40)))
    undisturbed = training.fit(sets, scene, config, engine())

    def killing(event: Event) -> None:
        if isinstance(event, Progress) and event.done == 35:
            raise KilledError

    checkpoint = tmp_path / "training.npz"
    with pytest.raises(KilledError):
        training.fit(sets, scene, config, engine(), listen=killing, checkpoint=checkpoint)
    notes: list[Event] = []
    resumed = training.fit(sets, scene, config, engine(), listen=notes.append, checkpoint=checkpoint)
    assert any(isinstance(note, Note) and "from iteration 20" in note.text for note in notes)
    assert len(undisturbed[0]) > len(sets[0])
    assert all(same(a, b) for a, b in zip(undisturbed, resumed, strict=True))
    again = training.fit(sets, scene, config, engine(), checkpoint=checkpoint)  # finished: nothing left to do
    assert same(again[0], resumed[0])


def test_a_checkpoint_of_another_training_is_not_used(truth: Splats, scene: TrainingScene, tmp_path: Path) -> None:
    checkpoint = tmp_path / "training.npz"
    short = replace(QUICK, iterations=10)
    training.fit((truth,), scene, short, engine(), checkpoint=checkpoint)
    notes: list[Event] = []
    other = replace(short, seed=1)
    (after,) = training.fit((truth,), scene, other, engine(), listen=notes.append, checkpoint=checkpoint)
    assert any(isinstance(note, Note) and note.warning for note in notes)
    assert same(after, training.fit((truth,), scene, other, engine())[0])
    checkpoint.write_bytes(checkpoint.read_bytes()[:1000])
    assert same(after, training.fit((truth,), scene, other, engine(), checkpoint=checkpoint)[0])


def test_frozen_rows_stay_and_free_rows_move(truth: Splats, scene: TrainingScene) -> None:
    aerial = splat_sets.select(truth, slice(0, 150))
    ground = splat_sets.owned(disturbed(splat_sets.select(truth, slice(150, 300))), 1)
    inserted = training.fit((ground, aerial), scene, replace(GROWING, rates=(Rates(), None)), engine())
    assert same(inserted[1], aerial)
    assert not same(inserted[0], ground)
    assert set(inserted[0].owner) == {1}
    small = Rates().scaled(0.01)
    joint = training.fit(inserted, scene, replace(QUICK, rates=(Rates(), small)), engine())
    assert len(joint[0]) == len(inserted[0])
    moved = [float(np.abs(a.sh[:, 0] - b.sh[:, 0]).max()) for a, b in zip(joint, inserted, strict=True)]
    assert 0 < moved[1] < 0.03 * moved[0]
    with pytest.raises(ValueError, match="frozen ones last"):
        training.start((ground, aerial), scene, replace(QUICK, rates=(None, Rates())), "cpu")


def test_pools_are_sampled_in_turn_without_replacement(views: tuple[View, ...]) -> None:
    pools = (aerial_pool(views[:3]), aerial_pool(views[3:]))
    drawn = [view_at(pools, k, seed=5).view.name for k in range(30)]
    assert sorted(drawn[0:6:2]) == sorted(view.name for view in views[:3])
    assert sorted(drawn[1:11:2]) == sorted(view.name for view in views[3:])
    assert drawn == [view_at(pools, k, seed=5).view.name for k in range(30)]
    assert drawn != [view_at(pools, k, seed=6).view.name for k in range(30)]


def test_masked_pixels_teach_nothing(truth: Splats, views: tuple[View, ...], tmp_path: Path) -> None:
    mask = np.full((48, 64), 255, np.uint8)
    mask[10:30, 20:50] = 0
    cv2.imwrite(str(tmp_path / "mask.png"), mask)
    results = []
    for colour in (0, 255):
        pixels = cv2.imread(str(views[0].path))
        pixels[mask == 0] = colour
        path = tmp_path / f"{colour}.png"
        cv2.imwrite(str(path), pixels)
        view = replace(views[0], path=path, mask_path=tmp_path / "mask.png")
        scene = TrainingScene((aerial_pool((view,)),), 6.5)
        results.append(training.fit((disturbed(truth),), scene, replace(QUICK, iterations=5), engine())[0])
    assert same(*results)


def test_exposures_explain_brightness(truth: Splats, tmp_path: Path) -> None:
    gains = np.array([0.6, 0.7, 0.8, 0.9, 0.75, 0.65])
    views = photograph(truth, tmp_path, len(gains), gains)
    street = tuple(TrainingView(view, exposure=k) for k, view in enumerate(views))
    scene = TrainingScene((street,), 6.5)
    still = Rates(0, 1e-12, 0, 0, 0, 0, 0)
    config = replace(QUICK, iterations=600, rates=(still,), exposure=ExposureConfig(rate=0.02, pull=0.0))
    state = training.train(training.start((truth,), scene, config, "cpu"), scene, config, engine())
    learnt = state.exposures.maps[:, :, :3].diagonal(dim1=1, dim2=2).mean(dim=1).numpy()
    assert np.abs(learnt - gains).max() < 0.05
    assert same(splats_of(state.sets[0]), truth)


def test_a_weight_on_every_view_changes_neither_growth_nor_steps(truth: Splats, views: tuple[View, ...]) -> None:
    """Adam does not see the scale of a loss, and growth is asked for by the photo, not by its weight."""
    config = replace(GROWING, iterations=31)
    start = (disturbed(truth),)
    light, heavy = (
        training.fit(start, TrainingScene((aerial_pool(views, weight),), 6.5), config, engine())[0]
        for weight in (1.0, 16.0)
    )
    assert len(light) == len(heavy) > len(start[0])
    np.testing.assert_allclose(light.means, heavy.means, atol=2e-3)


def test_a_heavier_pool_wins_where_two_contradict(truth: Splats, views: tuple[View, ...]) -> None:
    """The same poses with bright and with dark photos: the splats go the heavier way."""
    pixels = [cv2.imread(str(view.path))[..., ::-1] for view in views[:3]]
    dark = tuple(
        TrainingView(view, weight=10.0, pixels=np.ascontiguousarray(shown // 2))
        for view, shown in zip(views, pixels, strict=False)
    )
    (after,) = training.fit((truth,), TrainingScene((aerial_pool(views[:3]), dark), 6.5), QUICK, engine())
    against_dark, against_bright = (score(after, [one], engine(), 64).psnr for one in (dark[0], views[0]))
    assert against_dark > against_bright + 1.5


def test_a_clone_stays_when_the_training_goes_on(truth: Splats, scene: TrainingScene) -> None:
    state = training.train(training.start((disturbed(truth),), scene, QUICK, "cpu"), scene, QUICK, engine(), until=5)
    kept = training.cloned(state)
    before = splats_of(kept.sets[0])
    training.train(state, scene, QUICK, engine(), until=15)
    assert same(splats_of(kept.sets[0]), before)
    again = training.train(kept, scene, QUICK, engine(), until=15)
    assert again.iteration == 15 and not same(splats_of(again.sets[0]), before)
