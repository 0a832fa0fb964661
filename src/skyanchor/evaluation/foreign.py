"""What another program made, scored as the paper scores it: laid on the aerial cameras, and as it came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path, PurePosixPath

import numpy as np

from skyanchor.errors import InputError
from skyanchor.evaluation.poses import NOTHING, pose_metrics
from skyanchor.evaluation.truth import read_poses, read_truth
from skyanchor.evaluation.tum import read_tum
from skyanchor.geometry import rigid, similarity
from skyanchor.photos import natural_key
from skyanchor.run.metrics import PoseMetrics
from skyanchor.run.prepared import MODEL, find_prepared
from skyanchor.types import Pose, Similarity

LEAST_AERIAL = 4
"""Aerial cameras that a similarity needs, the paper's number."""


class Outcome(Enum):
    """What became of the walk."""

    OK = "ok"
    TOO_FEW = "registered too few"
    CANNOT_ALIGN = "cannot align"
    MOVED_AERIAL = "moved the aerial model"


@dataclass(frozen=True)
class ForeignConfig:
    """When a model counts as failed, and how its images are called."""

    least_share: float = 0.5
    """Share of the true frames that must have a pose."""
    moved_m: float = 0.1
    """Most that aerial cameras may be off their reference places after the similarity, root mean square, metres."""
    aerial_prefix: str = ""
    """What the model puts before the names of aerial photos, e.g. aerial/."""
    ground_prefix: str = ""
    """What it puts before the names of street photos, e.g. ground/."""
    fps: float | None = None
    """Frames per second of a TUM trajectory whose first column holds seconds."""
    only: tuple[str, ...] = ()
    """Street frames that are asked for; all without it."""


@dataclass(frozen=True)
class ModelScore:
    """One model against the aerial model and the truth."""

    path: str
    outcome: Outcome
    aerial: int
    """Aerial photos that the model and the aerial model share."""
    aerial_total: int
    """Photos of the aerial model."""
    moved_m: float | None
    """Root mean square of the aerial cameras from their reference places after the similarity, metres."""
    off_m: float | None
    """The same without it: near zero where the aerial model was kept as it is."""
    scale: float | None
    """Of the similarity: metres per unit of the model."""
    as_it_came: PoseMetrics
    """Nothing is aligned."""
    on_aerial: PoseMetrics
    """After the similarity that lays the aerial cameras on their reference places, as in the paper."""
    on_truth: PoseMetrics
    """After the similarity that fits the walk to its own truth: flatters, for programs that see the walk alone."""


@dataclass(frozen=True)
class ForeignScore:
    """The models of one folder."""

    best: ModelScore
    """The one with the most street frames among those that can be aligned, else among all."""
    models: tuple[ModelScore, ...]
    """In the order of their folders."""


def score_foreign(model: Path, scaffold: Path, truth: Path, config: ForeignConfig) -> ForeignScore:
    """The figures of a COLMAP model, a folder of them (0/, 1/, ...) or a trajectory in TUM format."""
    reference, true = aerial_poses(scaffold), read_truth(truth, np.zeros(3))
    if not true:
        raise InputError(truth, "holds no image with a pose", "Give the model of the street sequence.")
    held = read_models(model, sorted(true, key=natural_key), config.fps)
    alone = model.is_file()  # a trajectory is the walk's, whatever aerial photos are called
    scores = tuple(score(str(path), poses, reference, true, config, alone) for path, poses in held)
    return ForeignScore(max(scores, key=_rank), scores)


def _rank(score: ModelScore) -> tuple[bool, int, int]:
    return score.moved_m is not None, score.as_it_came.registered, score.aerial


def aerial_poses(scaffold: Path) -> dict[str, Pose]:
    """cam_from_world of the aerial photos by name, in the coordinates of the user's files."""
    prepared = find_prepared(scaffold)
    return read_truth(scaffold if prepared is None else prepared.root / MODEL, np.zeros(3))


def read_models(
    path: Path, sequence: Sequence[str], fps: float | None = None
) -> tuple[tuple[Path, dict[str, Pose]], ...]:
    """(where, cam_from_world by name) of every model at a path; a TUM file tells the frames of `sequence`."""
    if path.is_file():
        return ((path, read_tum(path, sequence, fps)),)
    numbered = sorted((f for f in _subfolders(path) if f.name.isdecimal()), key=lambda f: int(f.name))
    held = [(folder, read_poses(folder)) for folder in numbered]
    found = tuple((folder, poses) for folder, poses in held if poses is not None)
    return found or ((path, read_truth(path, np.zeros(3))),)


def _subfolders(path: Path) -> list[Path]:
    places = [place for place in (path, path / "sparse") if place.is_dir()]
    return [folder for place in places for folder in place.iterdir() if folder.is_dir()]


# --- one model ----------------------------------------------------------------------------------------------------


def score(
    path: str,
    poses: Mapping[str, Pose],
    reference: Mapping[str, Pose],
    true: Mapping[str, Pose],
    config: ForeignConfig,
    walk_alone: bool = False,
) -> ModelScore:
    """The figures of one model, cam_from_world by name in its own frame."""
    above = {} if walk_alone else _named(path, poses, tuple(reference), config.aerial_prefix)
    below = _named(path, poses, tuple(true), config.ground_prefix)
    _refuse_both(path, above, below)
    aerial = {name: poses[held] for name, held in above.items()}
    walk = {name: poses[held] for name, held in below.items() if not config.only or name in config.only}
    world_from_model = aerial_similarity(aerial, reference)
    moved = None if world_from_model is None else _off(aerial, reference, world_from_model)
    off = _off(aerial, reference, similarity.identity())
    order = sorted(true, key=natural_key)
    asked = config.only or order
    came = pose_metrics(walk, true, order, asked)
    figures = came if world_from_model is None else pose_metrics(_laid(walk, world_from_model), true, order, asked)
    return ModelScore(
        path,
        _outcome(came, moved, config),
        len(aerial),
        len(reference),
        moved,
        off,
        None if world_from_model is None else world_from_model.scale,
        came,
        figures if world_from_model is not None else replace(figures, ate_m=None, rpe_t_m=None),
        _on_truth(walk, true, order, asked),
    )


def aerial_similarity(aerial: Mapping[str, Pose], reference: Mapping[str, Pose]) -> Similarity | None:
    """world_from_model by the aerial cameras; None for fewer than four, or where all stand in one place."""
    names = sorted(aerial)
    if len(names) < LEAST_AERIAL:
        return None
    model, world = [aerial[name] for name in names], [reference[name] for name in names]
    if min(map(_spread, (model, world))) == 0.0:
        return None
    found = similarity.align_cameras(model, world)
    return found if np.isfinite(found.scale) and found.scale > 0.0 else None


def _spread(cams_from_world: list[Pose]) -> float:
    return float(np.ptp(rigid.centres_in_world(cams_from_world), axis=0).max())


def _off(aerial: Mapping[str, Pose], reference: Mapping[str, Pose], world_from_model: Similarity) -> float | None:
    """Root mean square of the aerial cameras from their reference places, metres."""
    if not aerial:
        return None
    names = sorted(aerial)
    ends = [rigid.centres_in_world([held[name] for name in names]) for held in (aerial, reference)]
    return float(np.sqrt((similarity.residuals(world_from_model, *ends) ** 2).mean()))


def _laid(walk: Mapping[str, Pose], world_from_model: Similarity) -> dict[str, Pose]:
    return {name: similarity.transform_camera(world_from_model, pose) for name, pose in walk.items()}


def _on_truth(
    walk: Mapping[str, Pose], true: Mapping[str, Pose], order: Sequence[str], asked: Sequence[str]
) -> PoseMetrics:
    names = sorted(walk)
    ends = [[held[name] for name in names] for held in (walk, true)]
    if len(names) < 2 or min(map(_spread, ends)) == 0.0:
        return replace(NOTHING, registered=len(names), total=len(asked))
    return pose_metrics(_laid(walk, similarity.align_cameras(ends[0], ends[1])), true, order, asked)


def _outcome(walk: PoseMetrics, moved: float | None, config: ForeignConfig) -> Outcome:
    if walk.registered == 0 or walk.registered < config.least_share * walk.total:
        return Outcome.TOO_FEW
    if moved is None:
        return Outcome.CANNOT_ALIGN
    return Outcome.MOVED_AERIAL if moved > config.moved_m else Outcome.OK


PREFIXES = "Say what stands before the names of each kind with --aerial-prefix and --ground-prefix"


def _named(path: str, poses: Mapping[str, Pose], names: Sequence[str], prefix: str) -> dict[str, str]:
    """The model's names by ours: NAME or PREFIX + NAME, else the one whose path ends in the same file name."""
    exact = {name: prefix + name for name in names if prefix + name in poses}
    if exact or prefix:
        return exact
    by_file: dict[str, list[str]] = {}
    for name in poses:
        by_file.setdefault(PurePosixPath(name).name, []).append(name)
    found = {name: by_file.get(PurePosixPath(name).name, []) for name in names}
    twice = next((held for held in found.values() if len(held) > 1), None)
    if twice is not None:
        raise InputError(path, f"has two images of one file name, {twice[0]} and {twice[1]}", f"{PREFIXES}.")
    return {name: held[0] for name, held in found.items() if held}


def _refuse_both(path: str, aerial: Mapping[str, str], walk: Mapping[str, str]) -> None:
    """InputError where an image of the model may be an aerial as well as a street photo."""
    both = min({*aerial.values()} & {*walk.values()}, default=None)
    if both is not None:
        advice = f"{PREFIXES}, and one that no name has for a kind that is not in it."
        raise InputError(path, f"has an image {both} that may be an aerial or a street photo by its name", advice)
