"""Edges that lie where a view has them: not moved by light, told from other fronts and from a place beside."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from skyanchor.anchors import edges
from skyanchor.anchors.edges import REACH, directions, edges_of, in_place, likeness, with_edges
from skyanchor.bridges.views import Bridge
from skyanchor.geometry import cameras, rigid
from skyanchor.types import Bytes, Photo

UP = np.array([0.0, 0.0, 1.0])
POSE = rigid.look_at(np.array([0.0, 0.0, 1.7]), np.array([0.0, 9.0, 1.7]), UP)


def street(seed: int, width: int = 240, height: int = 136) -> Bytes:
    """Fronts with windows of many greys, (H, W, 3)."""
    rng = np.random.default_rng(seed)
    picture = np.full((height, width), 120, np.uint8)
    for _ in range(220):
        x, y, w, h = rng.integers((0, 0, 5, 5), (width, height, 22, 22))
        cv2.rectangle(picture, (int(x), int(y)), (int(x + w), int(y + h)), int(rng.integers(60, 200)), -1)
    return np.repeat(picture[..., None], 3, axis=2)


def lit_otherwise(picture: Bytes) -> Bytes:
    """The lower left half in deep shade, all of it darker towards the right and of less contrast."""
    rows, columns = np.indices(picture.shape[:2])
    shade = np.where(rows + 20 > columns * 0.6, 0.35, 1.0) * np.linspace(1.0, 0.5, picture.shape[1])
    return np.uint8(np.clip(shade[..., None] * (0.7 * picture + 30.0), 0, 255))


def shaded(picture: Bytes, seed: int) -> Bytes:
    """Under branches: what hides most edges of a small cell, and not those of its surroundings."""
    rng = np.random.default_rng(seed)
    shade = np.ones(picture.shape[:2], np.float32)
    for _ in range(24):
        a, b = rng.integers((0, 0), picture.shape[1::-1], (2, 2))
        cv2.line(shade, a.tolist(), b.tolist(), 0.35, int(rng.integers(2, 6)))
    return np.uint8(shade[..., None] * picture)


def share(photo: Bytes, view: Bytes) -> float:
    camera = cameras.pinhole(view.shape[1], view.shape[0], 170.0)
    blank, none = np.zeros(view.shape[:2], np.float32), np.zeros(view.shape[:2], np.int64)
    painted = np.ones(view.shape[:2], bool)
    bridge = Bridge(camera, POSE, Photo("view", view, painted), blank, np.zeros(view.shape, np.float32), none)
    cells, met = edges_of(bridge, photo, UP)
    assert 50 < cells <= 16 * 5, "above the horizon alone"
    return met / cells


def test_another_light_leaves_edges_where_they_are() -> None:
    view = street(1)
    assert share(view, view) == 1.0
    assert share(255 - view, view) == 1.0, "dark windows and lit ones"
    assert share(lit_otherwise(view), view) > 0.8
    assert share(cv2.resize(view, (640, 362), interpolation=cv2.INTER_CUBIC), view) > 0.9, "photos of any size"


def test_cells_are_looked_at_with_those_around_them(monkeypatch: pytest.MonkeyPatch) -> None:
    view = street(1)
    together, others = (np.mean([share(shaded(one, k), view) for k in range(5)]) for one in (view, street(2)))
    monkeypatch.setattr(edges, "beside", lambda rows, *_: np.eye(len(rows), dtype=bool))
    alone = np.mean([share(shaded(view, k), view) for k in range(5)])
    assert alone < 0.8 and together > alone + 0.15 and others < 0.3


def test_cells_touch_in_eight_directions() -> None:
    rows, columns = np.array([0, 0, 15, 15, 30, 0]), np.array([0, 15, 0, 15, 30, 30])
    assert edges.beside(rows, columns, (15, 15)).sum(axis=1).tolist() == [4, 5, 4, 6, 2, 3]


def test_other_fronts_and_a_place_beside_are_told() -> None:
    chance = 9.0 / 169.0
    assert np.mean([share(street(seed), street(1)) for seed in range(2, 8)]) < 4.0 * chance
    assert share(np.roll(street(1), 4, axis=1), street(1)) < 0.3


def test_cells_without_paint_or_edges_do_not_count() -> None:
    grey = street(1)[..., 0].astype(np.float32)
    painted = np.ones(grey.shape, bool)
    painted[:, :60] = False
    cells = with_edges(directions(grey) * painted, painted)
    assert not cells[:, :4].any() and cells[:, 4:].mean() > 0.9
    assert not with_edges(directions(np.full(grey.shape, 90.0, np.float32)), painted).any()


def test_a_shift_is_found_where_it_is() -> None:
    """The photo lies three pixels to the right of the view and two below it."""
    view = directions(street(1)[..., 0].astype(np.float32))
    photo = np.roll(view, (2, 3), axis=(1, 2))
    rows, columns = np.array([30, 45, 60]), np.array([30, 120, 180])
    alike = likeness(photo, view, rows, columns, (15, 15))
    best = [np.unravel_index(one.argmax(), one.shape) for one in alike]
    assert best == [(REACH + 2, REACH + 3)] * 3 and not in_place(alike).any()
    assert alike.max(axis=(1, 2)) == pytest.approx(1.0, abs=1e-4)
