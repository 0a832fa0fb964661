"""Where a Gaussian model lies that is not in the aerial model's frame: first guesses of the similarity between them.

A trainer's own files are asked first. Else the coloured sparse points are laid onto the coloured Gaussians: many starts
(every turn about the vertical, both ways up, several sizes), a few rounds of trimmed closest points each, best first.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from skyanchor.errors import InputError
from skyanchor.gaussians.harmonics import SH_C0
from skyanchor.gaussians.splats import Splats
from skyanchor.geometry import planes, rigid, similarity
from skyanchor.scaffold import georeference
from skyanchor.storage import foreign
from skyanchor.types import Floats, Ints, Scaffold, Similarity, View

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RegistrationConfig:
    """How hard the similarity is looked for."""

    turns: int = 24
    """Starting angles about the vertical."""
    sizes: tuple[float, ...] = (0.5, 0.7, 1.0, 1.4, 2.0)
    """Starting scales as multiples of the ratio of the two clouds' spreads."""
    scene_points: int = 500
    """Sparse points used for the starts; three times as many for the best of them."""
    gaussians: int = 12_000
    """Gaussians used, evenly over space."""
    colour: float = 0.3
    """Weight of a full change of colour against the spread of the cloud."""
    kept: float = 0.7
    """Share of the closest pairs that a round trusts."""
    survivors: int = 10
    """Starts that are finished after the first rounds."""
    guesses: int = 4
    """Candidates handed on, best first."""
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Guess:
    """A candidate similarity."""

    splats_from_model: Similarity
    source: str
    """Where it comes from: a file's name, or `points`."""
    cost: float
    """Trimmed mean distance of sparse points to Gaussians, fraction of the cloud's spread; 0 for a file's."""


# --- a trainer's own files --------------------------------------------------------------------------------------


def guesses_from_files(splats_path: Path, scaffold: Scaffold) -> list[Guess]:
    """Similarities that files beside the .ply (or up to two folders above) speak of; they are still to be checked."""
    offset = Similarity(1.0, np.eye(3), georeference.moved_by(scaffold.georef))
    found: list[Guess] = []
    for folder in (splats_path.parent, splats_path.parent.parent, splats_path.parent.parent.parent):
        for name, read in (("dataparser_transforms.json", _from_dataparser), ("cameras.json", _from_cameras)):
            if not (folder / name).is_file():
                continue
            try:
                content = foreign.read_json(folder / name, "It plays no part.")
                transforms = read(content, scaffold)
            except (InputError, ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
                log.warning("%s: not understood (%s)", folder / name, error)
                continue
            found += [Guess(one @ offset, name, 0.0) for one in transforms]
    return found


def _from_dataparser(content: Any, scaffold: Scaffold) -> list[Similarity]:
    """Nerfstudio's x_splats = scale (T x_model), with and without its swap of the COLMAP axes before."""
    matrix, scale = np.asarray(content["transform"], np.float64), float(content["scale"])
    if matrix.shape[0] < 3 or matrix.shape[1] != 4:
        raise ValueError("transform is not 3 x 4")
    if not (np.isfinite(matrix).all() and np.isfinite(scale) and scale > 0.0):
        raise ValueError("transform and scale are no numbers that can be used")
    plain = Similarity(scale, matrix[:3, :3], scale * matrix[:3, 3])
    swap = Similarity(1.0, np.array([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]]), np.zeros(3))
    return [plain, plain @ swap]


def _from_cameras(content: Any, scaffold: Scaffold) -> list[Similarity]:
    """The similarity between the camera centres of a trainer's cameras.json and ours, by image name."""
    centres = {_stem(str(one["img_name"])): np.asarray(one["position"], np.float64) for one in content}
    both = [(view, centres[_stem(view.name)]) for view in scaffold.views if _stem(view.name) in centres]
    if len(both) < 4:
        raise ValueError(f"only {len(both)} cameras have the name of one of ours")
    ours = np.array([_original_centre(view, scaffold) for view, _ in both])
    theirs = np.array([centre for _, centre in both])
    spread = float(np.linalg.norm(theirs - np.median(theirs, axis=0), axis=1).max())
    fitted = similarity.umeyama_robust(ours, theirs, 0.02 * spread)
    return [] if fitted is None else [fitted.b_from_a]


def _original_centre(view: View, scaffold: Scaffold) -> Floats:
    return rigid.centre_in_world(view.cam_from_world) + georeference.moved_by(scaffold.georef)


def _stem(name: str) -> str:
    return Path(name).stem


# --- points onto Gaussians --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Coloured:
    """Points in units of their own spread about their own centre, with weighted colours: x = centre + spread * u."""

    features: Floats
    """(N, 6): u and colour times its weight."""
    centre: Floats
    """(3,), in the frame of the points."""
    spread: float
    """Median distance from the centre, in the unit of the points."""
    up: Floats
    """(3,), normal of the flattest direction."""


def guesses_from_points(splats: Splats, scaffold: Scaffold, config: RegistrationConfig | None = None) -> list[Guess]:
    """The best similarities that lay the sparse points onto the Gaussians; empty when there is too little to go by."""
    config = config or RegistrationConfig()
    if len(scaffold.points) < 50 or len(splats) < 50:
        return []
    gaussians = _coloured_splats(splats, config)
    model = _coloured(scaffold.points, scaffold.point_colors / 255.0, scaffold.up, config)
    tree = cKDTree(gaussians.features)
    few = _drawn(model.features, config.scene_points, config.seed)
    many = _drawn(model.features, 3 * config.scene_points, config.seed)
    started = [_closest_points(start, few, tree, config, rounds=6) for start in _starts(model, gaussians, config)]
    started.sort(key=lambda one: one[1])
    finished = [_closest_points(one, many, tree, config, rounds=40) for one, _ in started[: config.survivors]]
    finished.sort(key=lambda one: one[1])
    return [Guess(_lifted(one, model, gaussians), "points", cost) for one, cost in _different(finished, config)]


def _coloured_splats(splats: Splats, config: RegistrationConfig) -> Coloured:
    solid = splats.logit_opacities > 0.0
    if solid.sum() < 50:
        solid[:] = True
    colours = np.clip(0.5 + SH_C0 * splats.sh[solid, 0].astype(np.float64), 0.0, 1.0)
    points = splats.means[solid].astype(np.float64)
    rows = _even(points, config.gaussians)
    return _coloured(points[rows], colours[rows], None, config)


def _even(points: Floats, count: int) -> Ints:
    """Indices of about `count` points, evenly over space: one per voxel."""
    radius = float(np.median(np.linalg.norm(points - np.median(points, axis=0), axis=1)))
    cells = np.floor(points / max(radius / 60.0, 1e-12)).astype(np.int64)
    rows = np.unique(cells, axis=0, return_index=True)[1]
    return np.sort(np.random.default_rng(0).permutation(rows)[:count])


def _coloured(points: Floats, colours: Floats, up: Floats | None, config: RegistrationConfig) -> Coloured:
    centre = np.median(points, axis=0)
    distance = np.linalg.norm(points - centre, axis=1)
    spread = float(np.median(distance))
    near = points[distance < 3.0 * spread] - centre
    if up is None:
        up = np.linalg.svd(near, full_matrices=False)[2][2]
    features = np.concatenate([(points - centre) / spread, config.colour * colours], axis=1)
    return Coloured(features[distance < 8.0 * spread], centre, spread, up)


def _drawn(features: Floats, count: int, seed: int) -> Floats:
    return np.random.default_rng(seed).permutation(features)[:count]


def _starts(model: Coloured, gaussians: Coloured, config: RegistrationConfig) -> list[Similarity]:
    """Unit-free similarities that put up on the Gaussians' flattest direction, either way, at every turn and size."""
    ours, theirs = (np.stack([*planes.basis(one.up), one.up], axis=1) for one in (model, gaussians))
    starts = []
    for k, size, flip in product(range(config.turns), config.sizes, (1.0, -1.0)):
        angle = 2.0 * np.pi * k / config.turns
        turn = np.array([[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1.0]])
        starts.append(Similarity(size, theirs @ np.diag([1.0, flip, flip]) @ turn @ ours.T, np.zeros(3)))
    return starts


def _closest_points(
    start: Similarity, features: Floats, tree: cKDTree, config: RegistrationConfig, rounds: int
) -> tuple[Similarity, float]:
    """The similarity after some rounds of trimmed closest points, and its cost.

    The cost is the distance in units of the *model*: |s R x + t - y| / s, which shrinking cannot lower.
    """
    current, cost = start, np.inf
    for _ in range(rounds):
        moved = np.concatenate([current(features[:, :3]), features[:, 3:]], axis=1)
        distance, nearest = tree.query(moved)
        trusted = np.argsort(distance, kind="stable")[: int(config.kept * len(distance))]
        now = float(distance[trusted].mean()) / current.scale
        if now > 0.9999 * cost and rounds > 10:
            break
        cost = min(cost, now)
        current = similarity.umeyama(features[trusted, :3], tree.data[nearest[trusted], :3])
        if not 1e-3 < current.scale < 1e3:
            return start, np.inf
    return current, now


def _different(ranked: list[tuple[Similarity, float]], config: RegistrationConfig) -> list[tuple[Similarity, float]]:
    """The best few that are not the same answer twice."""
    chosen: list[tuple[Similarity, float]] = []
    for one, cost in ranked:
        near = (
            abs(np.log(one.scale / other.scale)) < 0.02
            and rigid.angle_between(one.rotation, other.rotation) < 0.03
            and np.linalg.norm(one.translation - other.translation) < 0.05
            for other, _ in chosen
        )
        if not any(near):
            chosen.append((one, cost))
    return chosen[: config.guesses]


def _lifted(unit_free: Similarity, model: Coloured, gaussians: Coloured) -> Similarity:
    """splats_from_model of a similarity between the two unit-free clouds."""
    to_unit = Similarity(1.0 / model.spread, np.eye(3), -model.centre / model.spread)
    from_unit = Similarity(gaussians.spread, np.eye(3), gaussians.centre)
    return from_unit @ (unit_free @ to_unit)
