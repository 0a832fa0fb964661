"""The shared training step: it learns, keeps frozen rows, resumes to the bit, ignores masks, finds exposures."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from gaussians_small_scene import disturbed, engine, floor, photograph

from skyanchor.errors import WriteError
from skyanchor.events import Event, Note, Progress
from skyanchor.gaussians import exposure, train_state, training
from skyanchor.gaussians import splats as splat_sets
from skyanchor.gaussians import views as training_views
from skyanchor.gaussians.checkpoint import Behind, checkpoint_splats, read_checkpoint, write_checkpoint
from skyanchor.gaussians.densify import McmcGrowth, SplitGrowth
from skyanchor.gaussians.exposure import ExposureConfig
from skyanchor.gaussians.parameters import ParameterSet, Rates, adam_step, parameter_set, splats_of
from skyanchor.gaussians.scoring import score
from skyanchor.gaussians.splats import Splats
from skyanchor.gaussians.training import TrainConfig
from skyanchor.gaussians.views import Placed, Target, TrainingPhotos, TrainingScene, TrainingView, aerial_pool, view_at
from skyanchor.photos import PhotoCache
from skyanchor.storage import files
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


def test_a_kept_state_stays_when_the_training_goes_on(truth: Splats, scene: TrainingScene, tmp_path: Path) -> None:
    state = training.train(training.start((disturbed(truth),), scene, QUICK, "cpu"), scene, QUICK, engine(), until=5)
    kept = train_state.kept(state)
    before = splats_of(kept.sets[0])
    write_checkpoint(tmp_path / "kept.npz", kept, "this")
    later = training.train(state, scene, QUICK, engine(), until=15)
    assert same(splats_of(kept.sets[0]), before) and not same(splats_of(later.sets[0]), before)
    read = read_checkpoint(tmp_path / "kept.npz", "this", "cpu")
    assert read is not None and read.iteration == 5 and same(splats_of(read.sets[0]), before)


def test_a_checkpoint_written_behind_is_of_the_moment(
    truth: Splats, scene: TrainingScene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is so slow that the training has gone on before anything is written."""
    go, write = threading.Event(), files.write_arrays

    def slowly(path: Path, arrays: dict[str, np.ndarray]) -> None:
        assert go.wait(20.0)
        write(path, arrays)

    monkeypatch.setattr(files, "write_arrays", slowly)
    state = training.train(training.start((disturbed(truth),), scene, QUICK, "cpu"), scene, QUICK, engine(), until=3)
    before = splats_of(state.sets[0])
    with Behind() as behind:
        behind.write_checkpoint(tmp_path / "three.npz", state, "this")
        training.train(state, scene, QUICK, engine(), until=6)
        go.set()
    (held,) = checkpoint_splats(tmp_path / "three.npz")
    assert same(held, before)


def test_what_the_disk_refuses_behind_is_raised(truth: Splats, scene: TrainingScene, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    state = training.start((truth,), scene, QUICK, "cpu")
    with pytest.raises(WriteError), Behind() as behind:
        behind.write_checkpoint(tmp_path / "file/three.npz", state, "this")


def test_an_exposure_moves_by_adam_of_its_own_visits() -> None:
    """x -= rate m̂ / √v̂ with m̂ = m / (1 - 0.9^n), v̂ = v / (1 - 0.999^n), n the visits of that photo alone."""
    held, rng = exposure.identities(3, "cpu"), np.random.default_rng(0)
    expected, first, second = np.eye(3, 4), np.zeros((3, 4)), np.zeros((3, 4))
    for visit in range(1, 5):
        exposure.update(held, 0, torch.ones(3, 4), 0.1)
        gradient = rng.normal(size=(3, 4)).astype(np.float32)
        exposure.update(held, 1, torch.from_numpy(gradient), 0.01)
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient.astype(float) ** 2
        expected -= 0.01 * first / (1 - 0.9**visit) / np.sqrt(second / (1 - 0.999**visit))
    np.testing.assert_allclose(held.maps[1].numpy(), expected, rtol=1e-5, atol=1e-6)
    assert held.maps[2].equal(torch.eye(3, 4))


def test_a_gpu_keeps_the_photos_that_fit(views: tuple[View, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """The first photos stay, the others are sent again at every visit, and no other width is taken for theirs."""
    sent: list[int] = []

    def counted(target: Target, device: str) -> Placed:
        sent.append(target.camera.width)
        return Placed(torch.from_numpy(target.pixels), None)

    monkeypatch.setattr(training_views, "placed", counted)
    pool = aerial_pool(views[:3])
    one = training_views.load_target(PhotoCache(), pool[0], 64).pixels.nbytes
    photos = TrainingPhotos(PhotoCache(limit_bytes=2 * one + 1), "cuda")
    first = [photos.target(view, 64) for view in pool]
    again = [photos.target(view, 64) for view in pool]
    assert [a is b for a, b in zip(first, again, strict=True)] == [True, True, False]
    assert photos.target(pool[0], 32).camera.width == 32
    assert sent == [64, 64, 64, 64, 32]
    on_the_cpu = TrainingPhotos(PhotoCache(), "cpu")
    assert on_the_cpu.target(pool[0], 64) is not on_the_cpu.target(pool[0], 64)


# --- Gaussians that a photo shows, alone --------------------------------------------------------------------------


def moved(shown: np.ndarray | None, device: str = "cpu", steps: int = 3) -> ParameterSet:
    """A small set after some Adam steps along the same gradients."""
    rng = np.random.default_rng(0)
    held = parameter_set(floor(), device, frozen=False)
    mask = None if shown is None else torch.from_numpy(shown).to(device)
    for step in range(1, steps + 1):
        for value in held.values:
            value.grad = torch.from_numpy(rng.normal(size=tuple(value.shape)).astype(np.float32)).to(device)
        adam_step(held, Rates(), step=step, progress=0.1, extent=5.0, shown=mask)
    return held


def everything(held: ParameterSet) -> list[np.ndarray]:
    assert held.first is not None and held.second is not None
    return [leaf.detach().cpu().numpy() for part in (held.values, held.first, held.second) for leaf in part]


def test_a_step_of_all_that_is_shown_is_a_usual_step() -> None:
    for one, usual in zip(everything(moved(np.ones(len(floor()), bool))), everything(moved(None)), strict=True):
        np.testing.assert_allclose(one, usual, rtol=2e-5, atol=1e-7)


def test_what_is_not_shown_rests_with_its_moments() -> None:
    shown = np.arange(len(floor())) % 3 == 0
    before, usual = everything(parameter_set(floor(), "cpu", frozen=False)), everything(moved(None))
    for one, was, all_moved in zip(everything(moved(shown)), before, usual, strict=True):
        np.testing.assert_array_equal(one[~shown], was[~shown])
        np.testing.assert_allclose(one[shown], all_moved[shown], rtol=2e-5, atol=1e-7)


def test_a_training_of_what_photos_show_learns_and_leaves_the_rest(truth: Splats, scene: TrainingScene) -> None:
    """A Gaussian behind all cameras has gradients of the opacity's weight alone, and is not moved by them."""
    behind = splat_sets.select(truth, slice(0, 1))
    far = replace(behind, means=behind.means + np.array([0.0, 0.0, 500.0], np.float32))
    both = splat_sets.concat([disturbed(truth), far])
    config = replace(QUICK, seen_alone=True, opacity_weight=0.01)
    (after,) = training.fit((both,), scene, config, engine())
    (usual,) = training.fit((both,), scene, replace(config, seen_alone=False), engine())
    assert after.logit_opacities[-1] == far.logit_opacities[0] != usual.logit_opacities[-1]
    views = [one for pool in scene.pools for one in pool]
    before = score(both, views, engine(), 64).psnr
    assert score(after, views, engine(), 64).psnr > before + 0.5 * (score(usual, views, engine(), 64).psnr - before)


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_the_gpu_moves_what_is_shown_as_the_cpu_does() -> None:
    shown = np.arange(len(floor())) % 3 == 0
    for one, other in zip(everything(moved(shown, "cuda")), everything(moved(shown)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
