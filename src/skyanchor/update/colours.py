"""How the street photos' colours relate to the aerial model's, and which ground points the model already explains."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from skyanchor.gaussians.harmonics import SH_C0
from skyanchor.gaussians.splats import Splats
from skyanchor.types import Bools, Bytes, Cloud, Floats, Ints

FEWEST_PAIRS = 200
"""Below this no exposure is estimated."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """Ground points that lie on an opaque aerial Gaussian."""

    rows: Ints
    """(P,), rows of the cloud."""
    photo: Floats
    """(P, 3), colour in the ground photos, 0..1."""
    model: Floats
    """(P, 3), colour of the Gaussian, 0..1."""
    size: Floats
    """(P,), standard deviation of the Gaussian, metres."""


def paired_colours(cloud: Cloud, aerial: Splats) -> Pairs:
    """Each ground point with the nearest opaque aerial Gaussian, where the point lies within that Gaussian."""
    opaque = np.flatnonzero(aerial.logit_opacities > 0.0)
    if not len(opaque) or not len(cloud.points):
        nothing = np.zeros((0, 3))
        return Pairs(np.zeros(0, np.int64), nothing, nothing, np.zeros(0))
    distance, nearest = cKDTree(aerial.means[opaque]).query(cloud.points, workers=1)
    size = np.exp(np.sort(aerial.log_scales[opaque[nearest]], axis=1)[:, 1].astype(np.float64))
    rows = np.flatnonzero(distance < 1.5 * size)
    chosen = opaque[nearest[rows]]
    model = np.clip(0.5 + SH_C0 * aerial.sh[chosen, 0].astype(np.float64), 0.0, 1.0)
    return Pairs(rows, cloud.colors[rows] / 255.0, model, size[rows])


def shared_exposure(pairs: Pairs) -> Floats:
    """(3, 4) [A | b] with photo = A model + b, A diagonal; identity when too few pairs speak.

    Per channel a line through the medians of ten classes of model brightness: changes in the street since the flight
    and mixed pixels are outliers that medians ignore.
    """
    colour_map = np.eye(3, 4)
    if len(pairs.rows) < FEWEST_PAIRS:
        return colour_map
    for channel in range(3):
        x, y = _class_medians(pairs.model[:, channel], pairs.photo[:, channel])
        if np.ptp(x) > 0.1:
            gain = float(np.clip(np.polyfit(x, y, 1)[0], 0.4, 2.5))
            colour_map[channel, channel], colour_map[channel, 3] = gain, np.median(y - gain * x)
    return colour_map


def _class_medians(x: Floats, y: Floats, classes: int = 10) -> tuple[Floats, Floats]:
    edges = np.quantile(x, np.linspace(0.0, 1.0, classes + 1))
    place = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, classes - 1)
    filled = [k for k in range(classes) if (place == k).sum() >= 10]
    medians = [(np.median(x[place == k]), np.median(y[place == k])) for k in filled]
    first, second = np.array(medians).T if medians else (np.zeros(0), np.zeros(0))
    return first, second


def in_model_colours(colors: Bytes, colour_map: Floats) -> Bytes:
    """Photo colours (N, 3) as the model would have them: A⁻¹ (photo - b)."""
    model = (colors / 255.0 - colour_map[:, 3]) / np.diag(colour_map[:, :3])
    return np.round(255.0 * np.clip(model, 0.0, 1.0)).astype(np.uint8)


def explained(cloud: Cloud, pairs: Pairs, colour_map: Floats, largest_difference: float = 0.08) -> Bools:
    """(N,), points where the aerial model is as fine as the ground cloud and has the same colour already."""
    difference = np.abs(pairs.model @ colour_map[:, :3].T + colour_map[:, 3] - pairs.photo).max(axis=1)
    same = (difference < largest_difference) & (pairs.size < 2.0 * cloud.spacing[pairs.rows])
    result = np.zeros(len(cloud.points), np.bool_)
    result[pairs.rows[same]] = True
    return result
