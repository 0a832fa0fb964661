"""The table of `benchmarks/city.py`: what was found, and what it cost, by the area searched and by house designs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

from skyanchor.town import CITY

Row: TypeAlias = dict[str, Any]
PLAN = ("streets", "seed", "designs", "depth", "spacing", "altitude", "pixels", "looked")
"""What rows of one prepared city have in common."""
COLUMNS = (
    "area searched", "house designs", "depth", "walks", "groups", "accepted", "wrong", "found by the search",
    "seconds a group, median, largest", "wall seconds a group", "largest worker, MB", "views", "index, MB",
)  # fmt: skip
BY_METRES = "Rows of an earlier version: groups are wrong by their metres alone there."


@dataclass(frozen=True, order=True)
class Kind:
    """Searches that are one line of the table, in its order."""

    km2: float
    """0 for a circle round the right place."""
    area: str
    """For people."""
    designs: int
    depth: str
    looked: tuple[str, ...]
    """Options of the described views that are not the defaults."""


def read(paths: list[Path]) -> list[Row]:
    """All rows of some files."""
    return [json.loads(line) for path in paths for line in path.read_text().splitlines() if line.strip()]


def table(rows: list[Row]) -> str:
    """Markdown: a line per area searched and number of house designs, over cities and walks.

    A search that was done twice counts as it came out last, and one that failed only where it never came out.
    """
    asked = [row for row in rows if row["what"] in ("searched", "failed")]
    latest: dict[str, Row] = {}
    for row in sorted(asked, key=lambda row: row["what"] == "searched"):
        latest[json.dumps([_plan(row), row["walk"], kind_of(row).area])] = row
    prepared = {_plan(row): row for row in rows if row["what"] == "prepared"}
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    for kind in sorted({kind_of(row) for row in latest.values()}):
        own = [row for row in latest.values() if kind_of(row) == kind]
        lines.append("| " + " | ".join(_line(kind, own, prepared)) + " |")
    old = any("sigmas" not in row for row in latest.values() if row["what"] == "searched")
    return "\n".join(lines) + "\n" + (f"\n{BY_METRES}\n" if old else "")


def kind_of(row: Row) -> Kind:
    """The line of the table that a search belongs to."""
    columns, streets = row["streets"], CITY.streets
    whole = columns[0] * streets.column_spacing * columns[1] * streets.row_spacing / 1e6
    if row["area"] == "near":
        radius = row.get("near_m")
        km2, area = 0.0, "near" if radius is None else f"near, {radius:g} m"
    elif row["area"] == "whole":
        km2, area = round(whole, 2), f"whole, {whole:.2g} km²"
    else:
        km2, area = float(row["area"]), f"{float(row['area']):g} km²"
    return Kind(km2, area, row["designs"], row["depth"], tuple(row["looked"]))


def _plan(row: Row) -> str:
    return json.dumps([row.get(name) for name in PLAN])


def _line(kind: Kind, own: list[Row], prepared: dict[str, Row]) -> list[str]:
    done = [row for row in own if row["what"] == "searched"]
    groups, failed = sum(row["groups"] for row in done), len(own) - len(done)
    scored, seconds = [row for row in done if "found" in row], [s for row in done for s in row["group_s"]]
    recalled = f"{sum(len(row['found']) for row in scored)}/{sum(row['groups'] for row in scored)}"
    indices = [prepared[plan] for plan in dict.fromkeys(map(_plan, own)) if plan in prepared]
    return [
        kind.area,
        str(kind.designs),
        " ".join([kind.depth, *(f"`{option}`" for option in kind.looked)]),
        f"{len(own)}" + (f" ({failed} failed)" if failed else ""),
        str(groups),
        f"{sum(row['accepted'] for row in done)}/{groups}",
        str(sum(row["wrong"] for row in done)),
        recalled if scored else "-",
        f"{median(seconds):.1f}, {max(seconds):.1f}" if seconds else "-",
        f"{sum(row['wall_s'] for row in done) / groups:.1f}" if groups else "-",
        _most(done, "worker_mb"),
        _most(indices, "views"),
        _most(indices, "places_mb"),
    ]


def _most(rows: list[Row], name: str) -> str:
    """The largest of a figure over some rows."""
    return f"{max(row[name] for row in rows):.0f}" if rows else "-"
