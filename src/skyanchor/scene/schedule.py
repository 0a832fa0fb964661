"""A phase of the update: training in legs, validation scores between them, an early end when the curves are flat."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from skyanchor.events import SCENE, Listener, Note, Progress
from skyanchor.gaussians.exposure import Exposures
from skyanchor.gaussians.parameters import drawn
from skyanchor.gaussians.splats import Splats
from skyanchor.gaussians.train_state import TrainState, kept
from skyanchor.gaussians.training import TrainConfig, is_kept, start, train, training_fingerprint
from skyanchor.gaussians.views import TrainingPhotos, TrainingScene
from skyanchor.photos import PhotoCache
from skyanchor.scene.scoring import Judge, Quality
from skyanchor.storage import files
from skyanchor.types import Floats

if TYPE_CHECKING:
    from torch import Tensor

    from skyanchor.gaussians.checkpoint import Behind


@dataclass(frozen=True)
class Phase:
    """How a phase is run."""

    name: str
    training: TrainConfig
    score_every: int
    """Iterations."""
    patience: int
    """Scores without a gain before the phase ends; 0 = it does not."""
    least_gain_db: float
    least_aerial_db: float = 0.0
    """Aerial PSNR of the validation views below which the phase does not end if it was above it at an earlier score."""
    least_earlier_db: tuple[float, ...] = ()
    """The same of the validation views of each earlier walk."""


@dataclass(frozen=True)
class CurvePoint:
    """Scores of the validation views at one moment."""

    phase: str
    iteration: int
    quality: Quality


@dataclass(frozen=True)
class Curve:
    """The scores of a phase so far, as they are kept beside its checkpoint."""

    fingerprint: str
    points: tuple[CurvePoint, ...]


@dataclass(frozen=True, eq=False)
class KeptIn:
    """Where a phase keeps what it has so far."""

    folder: Path
    behind: Behind
    """Writes it."""


def run_phase(
    sets: Sequence[Splats],
    exposures: Exposures | None,
    scene: TrainingScene,
    phase: Phase,
    judge: Judge,
    listen: Listener,
    kept_in: KeptIn | None,
) -> tuple[TrainState, tuple[CurvePoint, ...]]:
    """The trained state and its curve; goes on from a checkpoint of this same phase where there is one."""
    device, clock = judge.engine.device, judge.clock
    with clock.step("training begins"):
        fingerprint = training_fingerprint(sets, scene, phase.training, device)
        checkpoint = None if kept_in is None else kept_in.folder / f"{phase.name}.npz"
        state, good_state = _held_states(checkpoint, fingerprint, device)
        if state is None:
            state = start(sets, scene, phase.training, device)
            if exposures is not None and len(exposures.maps) == len(state.exposures.maps):
                state = replace(state, exposures=_without_moments(exposures))
    photos = TrainingPhotos(PhotoCache(phase.training.cache_bytes), device)
    curve = _held_curve(checkpoint, fingerprint, state.iteration)
    while True:
        if _is_due(state.iteration, curve, phase):
            curve.append(_scored(state, phase, judge))
            good_state = kept(state) if _is_good(curve[-1], phase) else good_state
            if checkpoint is not None and kept_in is not None:
                with clock.step("checkpoints"):
                    so_far = Curve(fingerprint, tuple(curve))
                    kept_in.behind.do(_beside(checkpoint, state.iteration, good_state, so_far, phase))
            listen(_progress(curve[-1], phase))
        if state.iteration >= phase.training.iterations or is_flat(curve, phase):
            break
        until = state.iteration + phase.score_every - state.iteration % phase.score_every
        with clock.step("training"):
            state = train(
                state, scene, phase.training, judge.engine, until=until, listen=listen, stage=SCENE,
                what=f"{phase.name}, training", checkpoint=checkpoint, fingerprint=fingerprint, photos=photos,
                behind=None if kept_in is None else kept_in.behind,
            )  # fmt: skip
    if state.iteration < phase.training.iterations:
        listen(Note(SCENE, f"{phase.name} ended at iteration {state.iteration}: the validation curves are flat"))
    good = [k for k, point in enumerate(curve) if _is_good(point, phase)]
    if not good or good[-1] == len(curve) - 1:
        return state, tuple(curve)
    assert good_state is not None
    back = f"{phase.name}: back to iteration {good_state.iteration}, later a guarded view lost"
    listen(Note(SCENE, back, warning=True))
    return good_state, tuple(curve[: good[-1] + 1])


def _is_good(point: CurvePoint, phase: Phase) -> bool:
    least = (phase.least_aerial_db, *phase.least_earlier_db)
    held = all(psnr >= limit for psnr, limit in zip(point.quality.guarded, least, strict=False))
    return phase.least_aerial_db > 0 and held


def _is_due(iteration: int, curve: Sequence[CurvePoint], phase: Phase) -> bool:
    """Whether a score is missing here: also one that a run was killed before."""
    at_score = iteration % phase.score_every == 0 or iteration == phase.training.iterations
    return at_score and iteration > (curve[-1].iteration if curve else 0)


def _held_states(checkpoint: Path | None, fingerprint: str, device: str) -> tuple[TrainState | None, TrainState | None]:
    """Where an interrupted run of this same phase was, and the state that it would have come back to."""
    from skyanchor.gaussians.checkpoint import read_checkpoint

    if checkpoint is None or not checkpoint.is_file():
        return None, None
    state = read_checkpoint(checkpoint, fingerprint, device)
    return state, None if state is None else read_checkpoint(_kept_path(checkpoint), fingerprint, device)


def _beside(
    checkpoint: Path, iteration: int, good: TrainState | None, curve: Curve, phase: Phase
) -> Callable[[], None]:
    """Writes the curve, and with a checkpoint of this iteration the one to come back to."""
    from skyanchor.gaussians.checkpoint import write_checkpoint

    def write() -> None:
        if good is not None and is_kept(iteration, phase.training):
            if good.iteration == iteration:
                files.renamed_link(checkpoint, _kept_path(checkpoint))
            else:
                write_checkpoint(_kept_path(checkpoint), good, curve.fingerprint)
        files.save(_curve_path(checkpoint), curve)

    return write


def _kept_path(checkpoint: Path) -> Path:
    return checkpoint.with_suffix(".kept.npz")


def _curve_path(checkpoint: Path) -> Path:
    return checkpoint.with_suffix(".curve.json")


def _held_curve(checkpoint: Path | None, fingerprint: str, iteration: int) -> list[CurvePoint]:
    """The scores up to `iteration` that an interrupted run of this same phase left behind."""
    if checkpoint is None or not _curve_path(checkpoint).is_file():
        return []
    held = files.load(_curve_path(checkpoint), Curve)
    return [point for point in held.points if held.fingerprint == fingerprint and point.iteration <= iteration]


def is_flat(curve: Sequence[CurvePoint], phase: Phase) -> bool:
    """Whether neither curve gained `least_gain_db` over the last `patience` scores."""
    if phase.patience == 0 or len(curve) <= phase.patience:
        return False
    before, recent = curve[: -phase.patience], curve[-phase.patience :]

    def gain(name: str) -> float:
        best = [max(getattr(point.quality, name) for point in part) for part in (recent, before)]
        return float(best[0] - best[1])

    return max(gain("aerial_psnr"), gain("ground_psnr")) < phase.least_gain_db


def _scored(state: TrainState, phase: Phase, judge: Judge) -> CurvePoint:
    maps: Tensor | None = state.exposures.maps if len(state.exposures.maps) else None
    return CurvePoint(phase.name, state.iteration, judge.quality(drawn(state.sets), maps))


def _progress(point: CurvePoint, phase: Phase) -> Progress:
    figures = {"aerial_psnr": point.quality.aerial_psnr, "ground_psnr": point.quality.ground_psnr}
    return Progress(SCENE, f"{phase.name}, scored", point.iteration, phase.training.iterations, figures)


def constant_exposures(colour_map: Floats, count: int, device: str) -> Exposures:
    """`count` copies of one map (3, 4) as a start."""
    import torch

    maps = torch.tensor(colour_map, dtype=torch.float32, device=device).repeat(count, 1, 1)
    return Exposures(maps, torch.zeros_like(maps), torch.zeros_like(maps), torch.zeros(count, device=device))


def _without_moments(exposures: Exposures) -> Exposures:
    """The same maps with a fresh optimiser."""
    import torch

    maps = exposures.maps.detach().clone()
    return Exposures(maps, torch.zeros_like(maps), torch.zeros_like(maps), torch.zeros(len(maps), device=maps.device))
