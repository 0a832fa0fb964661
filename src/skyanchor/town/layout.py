"""Streets, junctions and the edges of blocks that houses are built along."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skyanchor.town.presets import StreetPlan
from skyanchor.town.solids import Place
from skyanchor.types import Floats

OUTSKIRTS = 24.0
"""Metres that the outermost blocks reach beyond the outermost streets."""


@dataclass(frozen=True, eq=False)
class Layout:
    """The street plan in the plane: lines n·p = c."""

    columns: Floats
    """(C, 3): nx, ny, c of the north-south streets, west to east."""
    rows: Floats
    """(R, 3): nx, ny, c of the east-west streets, south to north."""
    surfaces: Floats
    """(C + R,): 0 asphalt, 1 setts."""
    plan: StreetPlan

    def height(self, x: float, y: float) -> float:
        """Road level at a point, metres."""
        return self.plan.slope[0] * x + self.plan.slope[1] * y


@dataclass(frozen=True, eq=False)
class Edge:
    """The line of house fronts along one side of a block, seen from the street: x to the right, y into the block."""

    place: Place
    length: float
    block: tuple[int, int]


def make_layout(plan: StreetPlan, rng: np.random.Generator) -> Layout:
    """Streets with small random bends of direction and spacing."""
    columns = _family(plan.columns, plan.column_spacing, plan.skew_deg, rng, np.array([[1.0, 0.0], [0.0, 1.0]]))
    rows = _family(plan.rows, plan.row_spacing, plan.skew_deg, rng, np.array([[0.0, 1.0], [-1.0, 0.0]]))
    surfaces = (rng.random(plan.columns + plan.rows) < 0.3).astype(np.float64)
    surfaces[[min(1, plan.columns - 1), plan.columns + min(1, plan.rows - 1)]] = 0.0  # main streets are asphalt
    return Layout(columns, rows, surfaces, plan)


def _family(count: int, spacing: float, skew_deg: float, rng: np.random.Generator, axes: Floats) -> Floats:
    """(count, 3) lines: normal = cos a axes[0] + sin a axes[1], through the point offset * axes[0]."""
    offsets = (np.arange(count) - (count - 1) / 2.0) * spacing + rng.uniform(-1.5, 1.5, count)
    angles = np.radians(rng.uniform(-skew_deg, skew_deg, count))
    normals = np.cos(angles)[:, None] * axes[0] + np.sin(angles)[:, None] * axes[1]
    return np.column_stack([normals, np.cos(angles) * offsets])


def street_table(layout: Layout) -> Floats:
    """(S, 6) rows as `Geometry.streets` wants them."""
    lines = np.vstack([layout.columns, layout.rows])
    family = np.repeat([0.0, 1.0], [len(layout.columns), len(layout.rows)])
    widths = np.full(len(lines), layout.plan.half_width)
    return np.column_stack([lines, widths, layout.surfaces, family])


def crossing(a: Floats, b: Floats) -> Floats:
    """(2,), where two lines n·p = c meet."""
    return np.linalg.solve(np.stack([a[:2], b[:2]]), np.array([a[2], b[2]]))


def way_point(layout: Layout, column: float, row: float) -> Floats:
    """(2,), the point at fractional street numbers; on a street where one number is whole."""
    i = int(np.clip(np.floor(column), 0, len(layout.columns) - 2))
    j = int(np.clip(np.floor(row), 0, len(layout.rows) - 2))
    s, t = column - i, row - j
    corner = [[crossing(layout.columns[i + a], layout.rows[j + b]) for b in (0, 1)] for a in (0, 1)]
    low, high = (corner[0][0] * (1 - s) + corner[1][0] * s, corner[0][1] * (1 - s) + corner[1][1] * s)
    return low * (1 - t) + high * t


def block_edges(layout: Layout) -> list[Edge]:
    """House lines of all blocks, those of the outskirts included."""
    columns, rows = _with_outskirts(layout.columns), _with_outskirts(layout.rows)
    inset = layout.plan.half_width + layout.plan.pavement
    edges: list[Edge] = []
    for i in range(len(columns) - 1):
        for j in range(len(rows) - 1):
            sides = (rows[j], columns[i + 1], rows[j + 1], columns[i])  # south, east, north, west
            shifts = (inset, -inset, -inset, inset)
            real = (j > 0, i + 2 < len(columns), j + 2 < len(rows), i > 0)
            lines = [line + np.array([0.0, 0.0, shift]) for line, shift in zip(sides, shifts, strict=True)]
            corners = [crossing(lines[k - 1], lines[k]) for k in range(4)]
            for k in range(4):
                if real[k]:
                    edges.append(_edge(layout, corners[k], corners[(k + 1) % 4], (i, j)))
    return edges


def _edge(layout: Layout, start: Floats, end: Floats, block: tuple[int, int]) -> Edge:
    along = end - start
    origin = np.array([*start, layout.height(*start) + layout.plan.kerb])
    return Edge(Place(origin, float(np.arctan2(along[1], along[0]))), float(np.linalg.norm(along)), block)


def _with_outskirts(lines: Floats) -> Floats:
    first, last = lines[0].copy(), lines[-1].copy()
    first[2] -= OUTSKIRTS
    last[2] += OUTSKIRTS
    return np.vstack([first, lines, last])
