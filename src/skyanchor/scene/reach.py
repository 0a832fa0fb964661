"""The part of an aerial model that a walk is about: photos that see it, and Gaussians that any view of it may show.

In a city most photos of the flight do not see the walk. They would guard nothing, and validation views among them would
find every update harmless; and most Gaussians are in no picture that the update draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numba as nb
import numpy as np

from skyanchor.compiled import njit
from skyanchor.gaussians.splats import Splats, concat, select
from skyanchor.gaussians.split import Split, split
from skyanchor.geometry import cameras, rigid
from skyanchor.geometry.depth import inside
from skyanchor.scene.patch import Change
from skyanchor.types import Bools, Camera, Floats, Floats32, Ints, View

SIGMAS = 4.0
"""Standard deviations to which a Gaussian may be drawn."""


@dataclass(frozen=True, eq=False)
class Reach:
    """What of the aerial model an update works on."""

    views: Split
    """Aerial photos that see the walk."""
    rows: Ints
    """(M,), Gaussians that a view of the update may show, ascending."""


def reach_of(aerial: Splats, flight: tuple[View, ...], street: Sequence[View], points: Floats) -> Reach:
    """The reach of a walk whose views see `points` (N, 3); all of the model where every aerial photo sees some."""
    seen = np.array([sees(view, points) for view in flight], np.bool_)
    views = split(flight, among=seen)
    taking_part = (*views.training, *views.validation, *views.test)
    if len(taking_part) == len(flight):
        return Reach(views, np.arange(len(aerial)))
    return Reach(views, np.flatnonzero(may_show(aerial, (*taking_part, *street))))


def whole_reach(aerial: Splats, flight: tuple[View, ...]) -> Reach:
    """All of the model."""
    return Reach(split(flight), np.arange(len(aerial)))


def sees(view: View, points: Floats) -> bool:
    """Whether any of the points (N, 3) lies in the view's picture."""
    in_cam = view.cam_from_world(points)
    ahead = in_cam[in_cam[:, 2] > 0]
    return bool(inside(view.camera, cameras.project(view.camera, ahead)).any())


def may_show(splats: Splats, views: Sequence[View]) -> Bools:
    """(N,), Gaussians that reach into the cone of any of the views."""
    return touching(splats.means, drawn_radii(splats), views)


def drawn_radii(splats: Splats) -> Floats32:
    """(N,), how far from its middle each Gaussian may be drawn, metres."""
    return (SIGMAS * np.exp(splats.log_scales.max(axis=1))).astype(np.float32)


def touching(centres: Floats32, radii: Floats32, views: Sequence[View]) -> Bools:
    """(N,), balls that reach into the cone of any of the views."""
    eyes = rigid.centres_in_world([view.cam_from_world for view in views])
    axes = np.stack([view.cam_from_world.rotation[2] for view in views])
    half = np.array([half_angle(view.camera) for view in views])
    return np.asarray(_in_cones(centres, radii, eyes, axes, np.cos(half), np.sin(half)))


def half_angle(camera: Camera) -> float:
    """Between the optical axis and the farthest ray of the picture's border, radians."""
    along = np.linspace(0.0, 1.0, 9)
    border = [np.stack([along, np.full(9, edge)], axis=1) for edge in (0.0, 1.0)]
    border += [one[:, ::-1] for one in border]
    rays = cameras.unproject(camera, np.concatenate(border) * np.array([camera.width, camera.height]))
    return float(np.arctan2(np.linalg.norm(rays[:, :2], axis=1), rays[:, 2]).max())


@njit(cache=True, parallel=True)
def _in_cones(means: Floats32, radii: Floats32, centres: Floats, axes: Floats, cosines: Floats, sines: Floats) -> Bools:
    """(N,), balls that touch any cone: with a = d . axis and p = |d - a axis|, p cos h - a sin h <= radius."""
    found = np.zeros(len(means), np.bool_)
    for i in nb.prange(len(means)):
        for j in range(len(centres)):
            x, y, z = means[i, 0] - centres[j, 0], means[i, 1] - centres[j, 1], means[i, 2] - centres[j, 2]
            along = x * axes[j, 0] + y * axes[j, 1] + z * axes[j, 2]
            aside = np.sqrt(max(0.0, x * x + y * y + z * z - along * along))
            if aside * cosines[j] - along * sines[j] <= radii[i]:
                found[i] = True
                break
    return found


def change_of_all(change: Change, aerial: Splats, reach: Reach) -> Change:
    """A change of the Gaussians in reach as one of all; the others keep what they have."""
    if len(reach.rows) == len(aerial):
        return change
    moved, hidden = np.zeros((2, len(aerial)), np.bool_)
    moved[reach.rows], hidden[reach.rows] = change.moved, change.hidden
    place = np.arange(len(aerial))
    place[reach.rows] = len(aerial) + np.arange(len(reach.rows))
    return replace(change, aerial=select(concat([aerial, change.aerial]), place), moved=moved, hidden=hidden)
