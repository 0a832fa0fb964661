"""The training step that every stage shares, and the loop around it.

Sets of Gaussians are separate: each has its own learning rates and moments, or is frozen. They are concatenated only
for rendering. All state is in `TrainState`; every random choice follows from the seed and the iteration, so a training
that was killed and resumed from a checkpoint goes on as if nothing had happened.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from skyanchor.bounds import Count, CountOrNone, NotNegative, Pixels, Range, Rising, Seed, Share
from skyanchor.events import Listener, Note, Progress, silent
from skyanchor.gaussians import exposure
from skyanchor.gaussians.checkpoint import Behind, read_checkpoint, write_checkpoint
from skyanchor.gaussians.densify import AnyGrowth, SplitGrowth, grown, no_statistics, observe
from skyanchor.gaussians.exposure import ExposureConfig
from skyanchor.gaussians.parameters import (
    Rates,
    adam_step,
    drawn,
    means_rate,
    parameter_set,
    splats_of,
)
from skyanchor.gaussians.splats import Splats
from skyanchor.gaussians.train_state import TrainState
from skyanchor.gaussians.views import (
    Target,
    TrainingPhotos,
    TrainingScene,
    exposure_count,
    matrix,
    photo_stream,
    placed,
)
from skyanchor.photos import PhotoCache
from skyanchor.types import QUIET

if TYPE_CHECKING:
    from torch import Generator, Tensor

    from skyanchor.gaussians.devices import Engine
    from skyanchor.gaussians.rasteriser import Rendered


@dataclass(frozen=True)
class TrainConfig:
    """One training, whatever the stage."""

    iterations: CountOrNone = 30_000
    """Steps, one photo each."""
    width: Pixels = 1600
    """Photos are trained at most this wide, pixels."""
    coarse_until: Annotated[tuple[Share, ...], Rising()] = ()
    """Fractions of the iterations at which the resolution doubles: (0.1, 0.3) is a quarter, then half, then full."""
    rates: tuple[Rates | None, ...] = (Rates(),)
    """Per set of Gaussians; None = frozen. Frozen sets come last."""
    growth: AnyGrowth | None = field(default_factory=SplitGrowth)
    """How the first set grows; None = never."""
    warmup: CountOrNone = 0
    """Iterations over which the learning rates rise from zero: Adam's first steps would shake a trained set."""
    sh_degree: Annotated[int, Range(0, 3)] = 3
    """Highest band that is learnt."""
    sh_every: CountOrNone = 1_000
    """A band is added every so many iterations; 0 = all from the start."""
    ssim_weight: Share = 0.2
    """Loss = (1 - w) L1 + w (1 - SSIM)."""
    opacity_weight: NotNegative = 0.0
    """Weight of the mean opacity of the growing set; 0.01 with McmcGrowth."""
    scale_weight: NotNegative = 0.0
    """Weight of the mean scale of the growing set as a fraction of the extent; 0.01 with McmcGrowth."""
    exposure: ExposureConfig = field(default_factory=ExposureConfig)
    """For views that have an exposure of their own."""
    seen_alone: bool = field(default=False, metadata=QUIET)
    """Whether a step moves only the Gaussians that its photo shows; the moments of the others rest too."""
    seed: Seed = 0
    cache_bytes: Annotated[int, Range(0, 2**50)] = 1 << 30
    """Photos held in memory, and on a GPU as many beside the Gaussians."""
    checkpoint_every: Count = 1_000
    """Iterations between two checkpoints, where a path is given."""
    report_every: Count = 50
    """Iterations between two progress events."""


@dataclass(frozen=True, eq=False)
class StepFigures:
    """What one step saw; tensors, so that no one waits for the device unasked."""

    loss: Tensor
    squared_error: Tensor | None
    """Mean over the used pixels, after exposure; None where nobody asked."""


def start(sets: Sequence[Splats], scene: TrainingScene, config: TrainConfig, device: str) -> TrainState:
    """The state before the first step; set k is trained with config.rates[k], or frozen where that is None."""
    frozen = [rates is None for rates in config.rates]
    if len(frozen) != len(sets) or frozen != sorted(frozen):
        raise ValueError(f"{len(sets)} sets need {len(sets)} rates, frozen ones last; got {config.rates}")
    parameters = tuple(parameter_set(one, device, frozen=still) for one, still in zip(sets, frozen, strict=True))
    exposures = exposure.identities(exposure_count(scene.pools), device)
    return TrainState(0, parameters, exposures, no_statistics(len(parameters[0]), device))


def step(
    state: TrainState, target: Target, extent: float, config: TrainConfig, engine: Engine, *, told: bool = True
) -> tuple[TrainState, StepFigures]:
    """The state after one photo, and what it said; with `told` also how far off it was."""
    degree = active_degree(state.iteration, config)
    rendered = engine.rasteriser.render(
        drawn(state.sets, degree),
        target.camera,
        matrix(target.cam_from_world, engine.device),
        frozen=sum(len(one) for one in state.sets if one.frozen),
        with_depth=engine.term is not None,
    )
    colour_map = None
    if target.exposure is not None:
        colour_map = state.exposures.maps[target.exposure].clone().requires_grad_(True)
    target = replace(target, placed=placed(target, engine.device))
    loss = objective(state, rendered, target, colour_map, extent, config)
    if engine.term is not None:
        loss = loss + engine.term(target.camera, rendered, state.iteration / max(config.iterations, 1))
    loss.backward()  # type: ignore[no-untyped-call]
    if config.growth is not None:
        observe(state.statistics, rendered, target.camera.width, target.camera.height, target.weight)
    shown = rendered.visible if config.seen_alone else None
    figures = StepFigures(loss.detach(), squared_error(rendered, target, colour_map) if told else None)
    return _updated(state, target, colour_map, shown, extent, config), figures


def objective(
    state: TrainState,
    rendered: Rendered,
    target: Target,
    colour_map: Tensor | None,
    extent: float,
    config: TrainConfig,
) -> Tensor:
    """The loss of one rendered view."""
    from skyanchor.gaussians.losses import photometric_loss

    photo, use = _photo(target, rendered)
    rgb = rendered.rgb if colour_map is None else exposure.exposed(rendered.rgb, colour_map)
    loss = target.weight * photometric_loss(rgb, photo, use, config.ssim_weight)
    if colour_map is not None and config.exposure.pull > 0:
        loss = loss + config.exposure.pull * exposure.identity_penalty(colour_map)
    growing = state.sets[0].values
    if config.opacity_weight > 0:
        loss = loss + config.opacity_weight * growing.logit_opacities.sigmoid().mean()
    if config.scale_weight > 0:
        loss = loss + config.scale_weight / extent * growing.log_scales.exp().mean()
    return loss


def squared_error(rendered: Rendered, target: Target, colour_map: Tensor | None) -> Tensor:
    """Mean squared error of one rendered view over the used pixels, without gradient."""
    import torch

    with torch.no_grad():
        photo, use = _photo(target, rendered)
        rgb = rendered.rgb if colour_map is None else exposure.exposed(rendered.rgb, colour_map)
        squared = (rgb.clamp(0.0, 1.0) - photo).square().mean(dim=2)
        return squared.mean() if use is None else (squared * use).sum() / use.sum().clamp(min=1)


def _photo(target: Target, rendered: Rendered) -> tuple[Tensor, Tensor | None]:
    """The photo of a target in 0..1, and where it counts, beside what was rendered."""
    there = placed(target, str(rendered.rgb.device))
    return there.pixels.float() / 255.0, there.use


def _updated(
    state: TrainState,
    target: Target,
    colour_map: Tensor | None,
    shown: Tensor | None,
    extent: float,
    config: TrainConfig,
) -> TrainState:
    """After the backward pass: parameters moved, exposure moved, the first set grown."""
    count = state.iteration + 1
    progress = min(count / max(config.iterations, 1), 1.0)
    eased = min(1.0, count / config.warmup) if config.warmup else 1.0
    begin = 0
    for one, rates in zip(state.sets, config.rates, strict=True):
        if rates is not None:
            part = None if shown is None else shown[begin : begin + len(one)]
            adam_step(one, rates.scaled(eased), step=count, progress=progress, extent=extent, shown=part)
        begin += len(one)
    if colour_map is not None and target.exposure is not None and colour_map.grad is not None:
        rate = config.exposure.rate * 0.1**progress
        exposure.update(state.exposures, target.exposure, colour_map.grad, rate)
    first, statistics = state.sets[0], state.statistics
    rates = config.rates[0]
    if config.growth is not None and rates is not None:
        first, statistics = grown(
            first,
            statistics,
            config.growth,
            iteration=count,
            extent=extent,
            noise=means_rate(rates, progress, extent) / extent**2,
            generator=_generator(config.seed, count, str(first.values.means.device)),
        )
        if len(first) != len(state.sets[0]):
            give_back(str(first.values.means.device))
    return TrainState(count, (first, *state.sets[1:]), state.exposures, statistics)


def give_back(device: str) -> None:
    """Let go of GPU memory that torch keeps for tensors of sizes that will not come again."""
    import torch

    if device.startswith("cuda"):
        torch.cuda.empty_cache()


def _generator(seed: int, iteration: int, device: str) -> Generator:
    """A source of random numbers that depends on the seed and the iteration alone."""
    import torch

    return torch.Generator(device=device).manual_seed(seed * 1_000_003 + iteration)


def active_degree(iteration: int, config: TrainConfig) -> int:
    """Highest SH band that is drawn at an iteration."""
    return config.sh_degree if config.sh_every == 0 else min(config.sh_degree, iteration // config.sh_every)


def active_width(iteration: int, config: TrainConfig) -> int:
    """Width of the photos at an iteration, pixels."""
    halvings = sum(iteration < fraction * config.iterations for fraction in config.coarse_until)
    return max(16, config.width >> halvings)


# --- the loop ---------------------------------------------------------------------------------------------------


def train(
    state: TrainState,
    scene: TrainingScene,
    config: TrainConfig,
    engine: Engine,
    *,
    until: int | None = None,
    listen: Listener = silent,
    stage: str = "train",
    what: str = "training",
    checkpoint: Path | None = None,
    fingerprint: str = "",
    photos: TrainingPhotos | None = None,
    behind: Behind | None = None,
) -> TrainState:
    """The state after iteration `until` (all of them when None); checkpoints on the way and at the very end.

    Progress is told as `what` of the `stage`; `photos` keeps photos on the device from one call to the next.
    Checkpoints may still be on their way to the disk at the end where `behind` writes them.
    """
    write = write_checkpoint if behind is None else behind.write_checkpoint
    last = config.iterations if until is None else min(until, config.iterations)
    photos = photos or TrainingPhotos(PhotoCache(config.cache_bytes), engine.device)
    with photo_stream(scene.pools, config.seed, photos) as stream:
        while state.iteration < last:
            done = state.iteration + 1
            told = done % config.report_every == 0 or done == last
            target = stream.target(state.iteration, active_width(state.iteration, config))
            state, figures = step(state, target, scene.extent, config, engine, told=told)
            if told:
                listen(Progress(stage, what, done, config.iterations, _shown(state, figures)))
            if checkpoint is not None and is_kept(done, config):
                write(checkpoint, state, fingerprint)
    return state


def is_kept(iteration: int, config: TrainConfig) -> bool:
    """Whether a checkpoint is due: every so often, and at the end."""
    return iteration % config.checkpoint_every == 0 or iteration == config.iterations


def _shown(state: TrainState, figures: StepFigures) -> dict[str, float]:
    import math

    assert figures.squared_error is not None
    error = max(float(figures.squared_error), 1e-12)
    return {"psnr": -10.0 * math.log10(error), "gaussians": float(len(state.sets[0]))}


def fit(
    sets: Sequence[Splats],
    scene: TrainingScene,
    config: TrainConfig,
    engine: Engine,
    *,
    listen: Listener = silent,
    stage: str = "train",
    checkpoint: Path | None = None,
) -> tuple[Splats, ...]:
    """The sets after training, from the checkpoint on where there is one of this same training."""
    fingerprint = training_fingerprint(sets, scene, config, engine.device)
    state = None
    if checkpoint is not None and checkpoint.is_file():
        state = read_checkpoint(checkpoint, fingerprint, engine.device)
        text = "has other inputs or settings: starting again" if state is None else f"from iteration {state.iteration}"
        listen(Note(stage, f"checkpoint {checkpoint.name}: {text}", warning=state is None))
    if state is None:
        state = start(sets, scene, config, engine.device)
    with Behind() as behind:
        state = train(
            state, scene, config, engine, listen=listen, stage=stage, checkpoint=checkpoint, fingerprint=fingerprint,
            behind=behind,
        )  # fmt: skip
    return tuple(splats_of(one) for one in state.sets)


def training_fingerprint(sets: Sequence[Splats], scene: TrainingScene, config: TrainConfig, device: str) -> str:
    """A digest of everything that decides the result, besides the pixels."""
    settings = replace(config, checkpoint_every=0, report_every=0, cache_bytes=0)
    digest = hashlib.sha256(f"{settings!r} {scene.extent!r} {device}".encode())
    for one in sets:
        for array in (one.means, one.quats, one.log_scales, one.logit_opacities, one.sh, one.owner):
            digest.update(array.tobytes())
    for pool in scene.pools:
        for item in pool:
            view = item.view
            digest.update(f"{view.path} {view.mask_path} {item.exposure} {view.camera!r}".encode())
            digest.update(f"{item.weight}".encode() + (b"" if item.pixels is None else item.pixels.tobytes()))
            digest.update(b"" if item.use is None else item.use.tobytes())
            digest.update(view.cam_from_world.rotation.tobytes() + view.cam_from_world.translation.tobytes())
    return digest.hexdigest()
