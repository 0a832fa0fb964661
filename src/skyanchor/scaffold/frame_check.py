"""Does a Gaussian model live in the aerial model's frame? Judged by its pictures, and repaired where it does not.

Trainers normalise: they centre, turn and scale the world, and their .ply no longer fits the poses it came from. Some
aerial photos are compared with what the splats show at their poses, and with what they show at other photos' poses. If
that fails, candidates for the similarity (from files, from points) are refined on the photos by Gauss-Newton until
the pictures fall onto each other. A camera is moved instead of the splats: the image is the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from skyanchor.events import Listener, Note, silent
from skyanchor.gaussians.ply import write_ply
from skyanchor.gaussians.splat_file import SplatFile
from skyanchor.gaussians.splats import Splats, to_tensors, transformed
from skyanchor.gaussians.split import split
from skyanchor.gaussians.views import Target, TrainingView, load_target, matrix
from skyanchor.geometry import rigid, robust, similarity
from skyanchor.photos import PhotoCache
from skyanchor.scaffold import frame_registration, georeference
from skyanchor.scaffold.frame_registration import RegistrationConfig
from skyanchor.scaffold.training import scene_extent
from skyanchor.types import Floats, Reason, Refusal, Scaffold, Similarity, View

if TYPE_CHECKING:
    from skyanchor.gaussians.devices import Engine
    from skyanchor.gaussians.rasteriser import SplatTensors

STAGE = "frame check"


@dataclass(frozen=True)
class FrameConfig:
    """What counts as the same frame, and how the other one is found."""

    views: int = 6
    """Aerial photos compared."""
    width: int = 192
    """Photos are compared at this width, pixels."""
    least_correlation: float = 0.5
    """Median correlation of picture and photo below which the model does not fit."""
    least_margin: float = 0.15
    """How much better a photo must fit its own pose than another photo's."""
    largest_misfit: float = 0.004
    """Largest remaining displacement of the scene, fraction of the distance to it."""
    levels: tuple[int, ...] = (64, 128, 320)
    """Widths of the refinement, pixels, one after the other."""
    rounds: int = 6
    """Gauss-Newton steps per level, at most."""
    registration: RegistrationConfig = field(default_factory=RegistrationConfig)
    """How first guesses are found."""


@dataclass(frozen=True, eq=False)
class FrameVerdict:
    """Whether splats show the aerial photos at their poses."""

    fits: bool
    correlation: float
    """Median over the views of the correlation of picture and photo, -1..1."""
    elsewhere: float
    """The same with the photos of other views."""
    psnr: float
    """Mean dB over the views."""
    misfit_m: float
    """Displacement of the scene that would improve the pictures, metres; nan where nothing fits."""

    def __str__(self) -> str:
        """One line for people."""
        figures = f"correlation {self.correlation:.2f} (other views {self.elsewhere:.2f}), {self.psnr:.1f} dB"
        shift = "" if np.isnan(self.misfit_m) else f", off by {self.misfit_m:.3f} m"
        return f"the splats {'fit' if self.fits else 'do not fit'} the aerial photos: {figures}{shift}"


@dataclass(frozen=True, eq=False)
class FrameFix:
    """The similarity that brings splats into the model's frame."""

    model_from_splats: Similarity
    source: str
    """Where the first guess came from: a file's name, `points`, or `nearly` when the frames were almost one."""
    before: FrameVerdict
    after: FrameVerdict

    def __str__(self) -> str:
        """One line for people: by how much the splats are off."""
        move = self.model_from_splats
        angle = np.degrees(rigid.angle_between(move.rotation, np.eye(3)))
        shift = np.linalg.norm(move.translation)
        return f"scale {move.scale:.5f}, turn {angle:.2f} deg, shift {shift:.2f} m (from {self.source}); {self.after}"


def given_splats(scaffold: Scaffold) -> SplatFile | None:
    """The Gaussians that came with the model, in the frame of the model's own files; None without any."""
    path = scaffold.splats_path
    return None if path is None else SplatFile(path, georeference.moved_by(scaffold.georef))


def load_aerial_splats(scaffold: Scaffold) -> Splats | None:
    """The Gaussians that came with the model, in its local frame if they are in its frame at all; None without any."""
    given = given_splats(scaffold)
    if given is None:
        return None
    splats = given.read()
    middle = np.median(splats.means.astype(np.float64), axis=0)
    elsewhere = np.linalg.norm(middle) >= np.linalg.norm(middle + given.moved)
    return SplatFile(given.path).read() if given.moved.any() and elsewhere else splats


def check_frame(splats: Splats, scaffold: Scaffold, engine: Engine, config: FrameConfig | None = None) -> FrameVerdict:
    """Whether the splats lie in the scaffold's local frame, by their pictures."""
    config = config or FrameConfig()
    stand = _Stand(to_tensors(splats, engine.device), scaffold, engine, _chosen(scaffold, config.views))
    return _verdict(stand, similarity.identity(), config)


def fix_frame(
    splats: Splats,
    scaffold: Scaffold,
    engine: Engine,
    config: FrameConfig | None = None,
    *,
    listen: Listener = silent,
) -> FrameFix | Refusal:
    """The similarity that makes the splats fit, proven by the pictures, or why there is none.

    Apply it with `gaussians.splats.transformed(splats, fix.model_from_splats)`.
    """
    config = config or FrameConfig()
    stand = _Stand(to_tensors(splats, engine.device), scaffold, engine, _chosen(scaffold, config.views))
    before = _verdict(stand, similarity.identity(), config)
    best = before
    for guess in _guesses(splats, scaffold, before, config):
        refined = _refined(stand, guess.splats_from_model, config)
        after = _verdict(stand, refined, config)
        listen(Note(STAGE, f"guess from {guess.source}: {after}"))
        if after.fits:
            return FrameFix(refined.inverse, guess.source, before, after)
        best = max(best, after, key=lambda one: one.correlation)
    return Refusal(
        Reason.NO_COMMON_FRAME,
        f"no similarity makes the splats fit the aerial photos; the best reached correlation {best.correlation:.2f}",
        {"correlation": best.correlation, "elsewhere": best.elsewhere, "psnr": best.psnr},
    )


def write_fixed(out: Path, splats: Splats, fix: FrameFix, scaffold: Scaffold) -> None:
    """Write the splats as a .ply in the coordinates of the model's own files."""
    fixed = SplatFile(out, georeference.moved_by(scaffold.georef))
    write_ply(out, fixed.in_file(transformed(splats, fix.model_from_splats)))


def _guesses(
    splats: Splats, scaffold: Scaffold, before: FrameVerdict, config: FrameConfig
) -> Iterator[frame_registration.Guess]:
    """First the cheap ones; the points are only laid onto the Gaussians when the others have failed."""
    if before.correlation > 0.3:
        yield frame_registration.Guess(similarity.identity(), "nearly", 0.0)
    if scaffold.splats_path is not None:
        yield from frame_registration.guesses_from_files(scaffold.splats_path, scaffold)
    yield from frame_registration.guesses_from_points(splats, scaffold, config.registration)


# --- pictures ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Stand:
    """Splats, and the photos they are compared with."""

    tensors: SplatTensors
    scaffold: Scaffold
    engine: Engine
    views: tuple[View, ...]

    def targets(self, width: int) -> list[Target]:
        """The photos at a width."""
        cache = PhotoCache(1 << 24)
        return [load_target(cache, TrainingView(view), width) for view in self.views]

    def picture(self, target: Target, splats_from_model: Similarity) -> Floats:
        """(H, W, 3), what the splats show at the target's pose when they lie so."""
        import torch

        moved = similarity.transform_camera(splats_from_model, target.cam_from_world)
        with torch.no_grad():
            pose = matrix(moved, self.engine.device)
            rgb = self.engine.rasteriser.render(self.tensors, target.camera, pose).rgb
        return np.asarray(rgb.clamp(0.0, 1.0).cpu().numpy(), np.float64)

    @property
    def centre(self) -> Floats:
        """(3,), the middle of what the aerial model sees, metres."""
        return np.median(self.scaffold.points, axis=0)


def _chosen(scaffold: Scaffold, count: int) -> tuple[View, ...]:
    """Views spread over the flight, none of the test; those that are not trained on where there are enough of them."""
    views = split(scaffold.views)
    pool = views.validation if len(views.validation) >= count else (views.training or scaffold.views)
    rows = np.unique(np.linspace(0, len(pool) - 1, min(count, len(pool))).round().astype(int))
    return tuple(pool[row] for row in rows)


def _verdict(stand: _Stand, splats_from_model: Similarity, config: FrameConfig) -> FrameVerdict:
    targets = stand.targets(config.width)
    pictures = [stand.picture(target, splats_from_model) for target in targets]
    own = float(np.median([_correlation(image, one) for image, one in zip(pictures, targets, strict=True)]))
    others = zip(pictures, targets[1:] + targets[:1], strict=True)
    elsewhere = float(np.median([_correlation(image, one) for image, one in others])) if len(targets) > 1 else 0.0
    psnr = float(np.mean([_psnr(image, one) for image, one in zip(pictures, targets, strict=True)]))
    alike = own >= config.least_correlation and own - elsewhere >= config.least_margin
    misfit = np.nan
    if alike:
        better = _gauss_newton(stand, splats_from_model, config.width, 3)
        misfit = _displacement(stand, splats_from_model, better)
    fits = alike and misfit <= config.largest_misfit * scene_extent(stand.scaffold)
    return FrameVerdict(fits, own, elsewhere, psnr, misfit)


def _correlation(image: Floats, target: Target) -> float:
    """Correlation of the grey values of picture and photo, over the used pixels; 0 where either is flat."""
    if image.shape != target.pixels.shape:
        return 0.0
    use = np.ones(image.shape[:2], np.bool_) if target.use is None else target.use
    a, b = image.mean(axis=2)[use], target.pixels.mean(axis=2)[use]
    spread = float(a.std() * b.std())
    return float(((a - a.mean()) * (b - b.mean())).mean() / spread) if spread > 1e-9 else 0.0


def _psnr(image: Floats, target: Target) -> float:
    error = np.square(image - target.pixels / 255.0).mean(axis=2)
    mse = float(error.mean() if target.use is None else error[target.use].mean())
    return float(-10.0 * np.log10(max(mse, 1e-12)))


# --- refinement on the photos -----------------------------------------------------------------------------------


def _refined(stand: _Stand, start: Similarity, config: FrameConfig) -> Similarity:
    """The similarity that makes the pictures most like the photos, coarse to fine."""
    current = start
    for width in config.levels:
        current = _gauss_newton(stand, current, width, config.rounds)
    return current


def _gauss_newton(stand: _Stand, start: Similarity, width: int, rounds: int) -> Similarity:
    """Minimise Σ ρ(picture - photo) over the 7 numbers of the similarity; derivatives by central differences."""
    targets = stand.targets(width)
    extent = scene_extent(stand.scaffold)
    step = 0.5 / width  # half a pixel or so, whichever of the 7 numbers moves
    current, damping = start, 1e-3
    residual = _residuals(stand, targets, current)
    for _ in range(rounds):
        jacobian = np.stack([_derivative(stand, targets, current, k, step, extent) for k in range(7)], axis=1)
        scale = max(1.4826 * float(np.median(np.abs(residual))), 1e-3)
        weights = robust.huber_weights(residual, 2.0 * scale)
        normal = (jacobian * weights[:, None]).T @ jacobian
        gradient = (jacobian * weights[:, None]).T @ residual
        for _ in range(4):
            damped = normal + damping * np.diag(np.diag(normal) + 1e-12)
            change = -np.asarray(np.linalg.solve(damped, gradient), np.float64)
            tried = _moved(current, change, stand.centre, extent)
            error = _residuals(stand, targets, tried)
            if np.abs(error).mean() < np.abs(residual).mean():
                current, residual, damping = tried, error, max(0.2 * damping, 1e-7)
                break
            damping *= 8.0
        else:
            break
        if np.abs(change).max() < 0.02 / width:
            break
    return current


def _derivative(stand: _Stand, targets: list[Target], at: Similarity, k: int, step: float, extent: float) -> Floats:
    """d residuals / d number k, (M,)."""
    change = np.zeros(7)
    change[k] = step
    ahead = _residuals(stand, targets, _moved(at, change, stand.centre, extent))
    behind = _residuals(stand, targets, _moved(at, -change, stand.centre, extent))
    return (ahead - behind) / (2.0 * step)


def _residuals(stand: _Stand, targets: list[Target], splats_from_model: Similarity) -> Floats:
    """Picture minus photo at the used pixels of all views and channels, (M,)."""
    parts = []
    for target in targets:
        difference = stand.picture(target, splats_from_model) - target.pixels / 255.0
        parts.append(difference.ravel() if target.use is None else difference[target.use].ravel())
    return np.concatenate(parts)


def _moved(splats_from_model: Similarity, change: Floats, centre: Floats, extent: float) -> Similarity:
    """The similarity after a small one about `centre`: change = (turn rad, shift in extents, log scale)."""
    turn, scale = rigid.rotation_exp(change[:3]), float(np.exp(change[6]))
    shift = centre - scale * turn @ centre + extent * change[3:6]
    return splats_from_model @ Similarity(scale, turn, shift)


def _displacement(stand: _Stand, a: Similarity, b: Similarity) -> float:
    """Median distance between where two similarities put the scene's points, metres of the model."""
    points = stand.scaffold.points[:: max(1, len(stand.scaffold.points) // 2000)]
    there = a.inverse(b(points))
    return float(np.median(np.linalg.norm(there - points, axis=1)))
