"""Whether the photos are those that the model's points were seen in: what two photos show around a point they share."""

from __future__ import annotations

import cv2
import numpy as np

from skyanchor.errors import InputError
from skyanchor.geometry import cameras
from skyanchor.photos import decoded
from skyanchor.types import Bools, Bytes, Floats, Floats32, Ints, Scaffold, View

PAIRS = 6
"""Pairs of photos that are compared, spread over the flight."""
MOST_PIXELS = 120e6
"""In all their photos: of larger ones fewer pairs are compared, two at least."""
POINTS = 60
"""Of a pair, at most."""
FEWEST = 15
"""Points of a pair that tell anything."""
WIDTH = 600
"""Photos are read at about this width, pixels: no less, and less than twice as much where they are larger."""
REACH = 7
"""Of a patch to either side, pixels of the photo as it is read."""
ALIKE = 0.6
"""Correlation from which on patches show the same."""
PLAIN = 2.0
"""Standard deviation of grey values up to which a patch shows nothing."""
REDUCED = {
    8: cv2.IMREAD_REDUCED_GRAYSCALE_8,
    4: cv2.IMREAD_REDUCED_GRAYSCALE_4,
    2: cv2.IMREAD_REDUCED_GRAYSCALE_2,
    1: cv2.IMREAD_GRAYSCALE,
}


def patches_alike(scaffold: Scaffold) -> float:
    """Median over a few pairs of photos of the share of the points they share around which they show the same.

    Nine in ten where the photos are the model's, hardly any where they are others; nan where it cannot be told.
    """
    shares = []
    for first, second in pairs(scaffold):
        found = correlations(scaffold, first, second)
        if len(found) >= FEWEST:
            shares.append(float(np.mean(found >= ALIKE)))
    return float(np.median(shares)) if shares else float("nan")


def pairs(scaffold: Scaffold) -> list[tuple[int, int]]:
    """Photos spread over the flight, each with the one that shares most points with it."""
    if scaffold.whole or not len(scaffold.tracks.point):
        return []
    tracks, found = scaffold.tracks, []
    pixels = max(view.camera.width * view.camera.height for view in scaffold.views)
    most = int(np.clip(MOST_PIXELS / (2 * pixels), 2, PAIRS))
    spread = np.unique(np.linspace(0, len(scaffold.views) - 1, most + 2)[1:-1].round().astype(np.int64))
    for first in spread.tolist():
        seen = np.zeros(len(scaffold.points), np.bool_)
        seen[tracks.point[tracks.image == first]] = True
        shared = np.bincount(tracks.image[seen[tracks.point]], minlength=len(scaffold.views))
        shared[first] = 0
        if shared.max() >= FEWEST:
            found.append((first, int(np.argmax(shared))))
    return found


def correlations(scaffold: Scaffold, first: int, second: int) -> Floats32:
    """(N,), correlation of what two photos show around points that both see; empty where a photo cannot be read."""
    tracks, views = scaffold.tracks, (scaffold.views[first], scaffold.views[second])
    rows = [np.flatnonzero(tracks.image == k) for k in (first, second)]
    shared, *places = np.intersect1d(tracks.point[rows[0]], tracks.point[rows[1]], return_indices=True)
    some = np.unique(np.linspace(0, len(shared) - 1, min(len(shared), POINTS)).round().astype(np.int64))
    read = [_read(view) for view in views]
    if read[0] is None or read[1] is None:
        return np.zeros(0, np.float32)
    (one, by), (other, other_by) = read[0], read[1]
    xy = [tracks.xy[own[place[some]]] for own, place in zip(rows, places, strict=True)]
    turned = _second_from_first(views, scaffold.points[shared[some]]) * (by / other_by)
    own = _patches(one, xy[0] / by, np.broadcast_to(np.eye(2), turned.shape))
    met: Bools = np.asarray(np.isfinite(turned).all(axis=(1, 2)))
    theirs = _patches(other, xy[1] / other_by, np.where(met[:, None, None], turned, 0.0))
    told: Bools = np.all([met, own.std(axis=1) > PLAIN, theirs.std(axis=1) > PLAIN], axis=0)
    return _correlation(own[told], theirs[told])


def _read(view: View) -> tuple[Bytes, int] | None:
    """A photo in grey, and how many times smaller it is than its camera; None where it cannot be read."""
    by = next((by for by in REDUCED if view.camera.width // by >= WIDTH), 1)
    try:
        data = np.fromfile(view.path, dtype=np.uint8)
        image = decoded(view.path, data, REDUCED[by] | cv2.IMREAD_IGNORE_ORIENTATION) if len(data) else None
    except (OSError, InputError):
        return None
    return None if image is None else (image, by)


def _second_from_first(views: tuple[View, View], points: Floats) -> Floats:
    """(N, 2, 2), how a step in pixels of the first photo at a point leads on in the second.

    What is around a point is taken for a plane that faces the first photo.
    """
    first, second = views
    step = first.cam_from_world(points)[:, 2:] / cameras.focal_px(first.camera) * REACH
    met = cameras.project(second.camera, second.cam_from_world(points))
    ends = (points + step * axis for axis in first.cam_from_world.rotation[:2])
    steps = [cameras.project(second.camera, second.cam_from_world(end)) - met for end in ends]
    return np.stack(steps, axis=2) / REACH


def _patches(image: Bytes, xy: Floats, turned: Floats) -> Floats32:
    """(N, P), what an image shows around places, pixel by pixel of a square that is turned and stretched."""
    along = np.arange(-REACH, REACH + 1)
    square: Ints = np.stack(np.meshgrid(along, along), axis=-1).reshape(-1, 2)
    at = (xy[:, None] - 0.5 + np.einsum("nij,pj->npi", turned, square)).astype(np.float32)
    found = cv2.remap(image, at[..., 0], at[..., 1], cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(found, dtype=np.float32)


def _correlation(first: Floats32, second: Floats32) -> Floats32:
    """(N,), of rows that are not plain: Σ (a - ā)(b - b̄) / (P σ_a σ_b)."""
    one, other = (rows - rows.mean(axis=1, keepdims=True) for rows in (first, second))
    return np.asarray((one * other).mean(axis=1) / (first.std(axis=1) * second.std(axis=1)), dtype=np.float32)
