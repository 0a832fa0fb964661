"""What came, went or got another look between two days in the town: the truth that found changes are measured by."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from skyanchor.town import solids
from skyanchor.town.solids import Solid, Thing
from skyanchor.types import Floats

if TYPE_CHECKING:
    from skyanchor.town.town import Epoch

APPEARED, VANISHED, ALTERED = "appeared", "vanished", "altered"
SAME_PLACE = 0.5
"""Share of the smaller of two boxes that the other must hold for the one to have taken the other's place."""


@dataclass(frozen=True)
class Turnover:
    """One thing that is another way than before."""

    name: str
    how: str
    """appeared, vanished or altered."""
    low: tuple[float, float, float]
    """Corner of the box around what is another way, metres ..."""
    high: tuple[float, float, float]
    """... and the corner across."""

    @property
    def size(self) -> tuple[float, float, float]:
        """Of the box, metres."""
        x, y, z = (b - a for a, b in zip(self.low, self.high, strict=True))
        return x, y, z


@dataclass(frozen=True)
class TrueChanges:
    """changes.json: what is another way on the day of a walk."""

    since_flight: tuple[Turnover, ...]
    since_first_walk: tuple[Turnover, ...]
    """Nothing for the first."""


def turnovers(things: Iterable[Thing], before: Epoch, after: Epoch) -> tuple[Turnover, ...]:
    """What is another way at the epoch `after` than it was at the epoch `before`.

    A thing in the place of one that is gone is one that altered.
    """
    found = []
    for thing in things:
        gone = [one for one in thing.solids if one.epochs & before and not one.epochs & after]
        new = [one for one in thing.solids if one.epochs & after and not one.epochs & before]
        found += [_turnover(thing, VANISHED, gone)] if gone else []
        found += [_turnover(thing, APPEARED, new)] if new else []
    return tuple(_replaced(found))


def _turnover(thing: Thing, how: str, some: list[Solid]) -> Turnover:
    corners = np.array([solids.bounds(one) for one in some])
    low, high = corners[:, 0].min(axis=0), corners[:, 1].max(axis=0)
    return Turnover(thing.name, ALTERED if thing.covers else how, _corner(low), _corner(high))


def _corner(point: Floats) -> tuple[float, float, float]:
    x, y, z = point.tolist()
    return x, y, z


def _replaced(found: list[Turnover]) -> list[Turnover]:
    """The changes, with one for both where something stands in the place of what is gone."""
    news = [one for one in found if one.how == APPEARED]
    kept = [one for one in found if one.how == ALTERED]
    for gone in (one for one in found if one.how == VANISHED):
        other = next((new for new in news if _shared(gone, new) >= SAME_PLACE), None)
        if other is None:
            kept.append(gone)
            continue
        news.remove(other)
        low, high = np.minimum(gone.low, other.low), np.maximum(gone.high, other.high)
        kept.append(replace(gone, how=ALTERED, low=_corner(low), high=_corner(high)))
    return [*kept, *news]


def _shared(a: Turnover, b: Turnover) -> float:
    """Volume of what two boxes share over that of the smaller."""
    if a.high[0] <= b.low[0] or b.high[0] <= a.low[0] or a.high[1] <= b.low[1] or b.high[1] <= a.low[1]:
        return 0.0  # as most of a city's do
    common = np.minimum(a.high, b.high) - np.maximum(a.low, b.low)
    return float(np.prod(np.maximum(common, 0.0)) / max(min(_volume(a), _volume(b)), 1e-9))


def _volume(one: Turnover) -> float:
    sides: Floats = np.array(one.size)
    return float(np.prod(sides))
