"""Polygons in the plane: inside and out, holes, distances and crossings of shapes that can be checked by hand."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from skyanchor.geometry import polygons

SQUARE = np.array([[0.0, 0.0], [10.0, 0.0], [10.0, 10.0], [0.0, 10.0]])
HOLE = np.array([[4.0, 4.0], [6.0, 4.0], [6.0, 6.0], [4.0, 6.0]])
POINTS = np.array([[5.0, 5.0], [1.0, 9.0], [-1.0, 5.0], [11.0, 5.0], [5.0, 11.0], [3.9, 5.0]])


def test_inside_leaves_holes_out() -> None:
    assert polygons.inside([SQUARE], POINTS).tolist() == [True, True, False, False, False, True]
    assert polygons.inside([SQUARE, HOLE], POINTS).tolist() == [False, True, False, False, False, True]
    assert polygons.inside([SQUARE[::-1]], POINTS).tolist() == [True, True, False, False, False, True]


def test_a_bay_is_outside() -> None:
    bay = np.array([[0, 0], [10, 0], [10, 10], [5, 2], [0, 10]], dtype=float)
    assert polygons.inside([bay], np.array([[5.0, 8.0], [5.0, 1.0], [1.0, 6.0]])).tolist() == [False, True, True]


def test_distance_to_the_edge_on_both_sides_and_at_corners() -> None:
    assert np.allclose(polygons.edge_distance([SQUARE, HOLE], POINTS), [1.0, 1.0, 1.0, 1.0, 1.0, 0.1])
    assert np.isclose(polygons.edge_distance([SQUARE], np.array([[13.0, 14.0]]))[0], 5.0)


def test_a_bow_tie_crosses_itself_and_a_square_does_not() -> None:
    assert polygons.first_crossing(SQUARE) is None
    assert polygons.first_crossing(SQUARE[[0, 2, 1, 3]]) == (0, 2)
    far = SQUARE + np.array([500_000.0, 5_400_000.0])
    assert polygons.first_crossing(far) is None and polygons.first_crossing(far[[0, 2, 1, 3]]) == (0, 2)


def test_area() -> None:
    assert polygons.area(SQUARE) == polygons.area(SQUARE[::-1] + 5e6) == 100.0
    assert polygons.area(np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]])) == 0.0


@given(st.integers(3, 12), st.integers(0, 1000))
def test_inside_a_star_is_nearer_than_its_edge(corners: int, seed: int) -> None:
    """A star-shaped ring in polar coordinates never crosses itself; inside is what its radius at that angle says."""
    rng = np.random.default_rng(seed)
    angles = np.linspace(0.0, 2.0 * np.pi, corners, endpoint=False)
    ring = rng.uniform(2.0, 5.0, corners)[:, None] * np.column_stack([np.cos(angles), np.sin(angles)])
    assert polygons.first_crossing(ring) is None
    points = rng.uniform(-6.0, 6.0, (50, 2))
    assert not polygons.inside([ring], points)[np.linalg.norm(points, axis=1) > 5.0].any()
    middle = ring * rng.uniform(0.05, 0.95, corners)[:, None]
    assert polygons.inside([ring], middle).all() and not polygons.inside([ring], ring * 1.05).any()
