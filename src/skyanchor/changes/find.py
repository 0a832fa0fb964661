"""Where a later day contradicts earlier ones: surfaces against free space, cell by cell, borne out by photos."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial

import numpy as np

from skyanchor.changes.change import Change, ChangeKind, Region, inside_cells
from skyanchor.changes.config import ChangeConfig
from skyanchor.changes.evidence import Cells, Day, Votes, measured, nobody, surface_cells, trusted, votes
from skyanchor.changes.look import Looks, Seen, looks, seen
from skyanchor.changes.objects import gathered, together
from skyanchor.changes.rivals import Photos, looked_through, standing
from skyanchor.geometry import rigid
from skyanchor.geometry.depth import lift, pixel_centres
from skyanchor.types import Bools, Floats, Floats32, Ints


@dataclass(frozen=True, eq=False)
class Side:
    """Cells with a surface on one side of time, and what is said of them."""

    cells: Cells
    own: Votes
    """By the days of that side."""
    other: Votes
    """By the days of the other side."""
    shown: Opinions


@dataclass(frozen=True, eq=False)
class Opinions:
    """What the photos of one side say of cells, compared with photos of the other."""

    other: Ints
    """(N,), photos that show it otherwise ..."""
    alike: Ints
    """(N,), ... and alike."""
    sure: Ints
    """(N,), those of `other` that photos of their own day bear out."""


def find_changes(earlier: Sequence[Day], later: Day, config: ChangeConfig) -> tuple[Change, ...]:
    """What is another way on the later day, the largest first; earlier days are given from the newest to the oldest.

    An older day is heard only where no newer one knows enough.
    """
    then, now = [_seen(day, config) for day in earlier], [_seen(later, config)]
    old = side(earlier, [later], then, now, config)
    new = side([later], earlier, now, then, config)
    gone, come = partial(_proven, old, then, now, config), partial(_proven, new, now, then, config)
    vanished = _changes(ChangeKind.VANISHED, old, _contradicts(old, config), config, gone)
    appeared = _changes(ChangeKind.APPEARED, new, _contradicts(new, config), config, come)
    altered = _changes(ChangeKind.ALTERED, new, _altered(old, new, config), config, partial(_repainted, new, config))
    return tuple(together([*vanished, *appeared, *altered]))


def vanished_region(earlier: Sequence[Day], later: Day, config: ChangeConfig) -> Region:
    """Where surfaces of earlier days are free on the later one, as depth has it.

    Where the days have photos, they bear it out; they are asked only if there is something to bear out.
    """
    cells = joined([surface_cells(day, config) for day in earlier])
    silent = Opinions(*(np.zeros(len(cells), np.int64) for _ in range(3)))
    held = Side(cells, spoken(cells, earlier, config), spoken(cells, [later], config), silent)
    which = _contradicts(held, config)
    found: list[Change] = []
    if _pieces(held, which, config):
        then, now = [_seen(day, config) for day in earlier], [_seen(later, config)]
        held = replace(held, shown=_shown(cells, then, now, config))
        found = _changes(ChangeKind.VANISHED, held, which, config, partial(_proven, held, then, now, config))
    return Region(np.concatenate([np.zeros((0, 3), np.int64), *(one.cells for one in found)]), config.voxel_m)


def side(
    days: Sequence[Day], others: Sequence[Day], photos: Sequence[list[Seen]], theirs: Sequence[list[Seen]],
    config: ChangeConfig,
) -> Side:  # fmt: skip
    """The surfaces of some days, and what everybody says of them."""
    cells = joined([surface_cells(day, config) for day in days])
    shown = _shown(cells, photos, theirs, config)
    return Side(cells, spoken(cells, days, config), spoken(cells, others, config), shown)


def _shown(
    cells: Cells, photos: Sequence[list[Seen]], theirs: Sequence[list[Seen]], config: ChangeConfig
) -> Opinions:  # fmt: skip
    """What the photos of some days say of cells, compared with those of other days."""
    against = [one for some in theirs for one in some]
    return opinions(cells, [(one, looks(one, day, against, config.look)) for day in photos for one in day], config)


def _seen(day: Day, config: ChangeConfig) -> list[Seen]:
    """The photos of a day; none where looks are not compared."""
    if not day.photos:
        return []
    pairs = zip(day.maps, day.photos, strict=True)
    return [seen(held, trusted(held, day, config), measured(held, config), photo, config.look) for held, photo in pairs]


def joined(parts: Sequence[Cells]) -> Cells:
    """The cells of all parts, one row each: those of the first part that has it."""
    index = np.concatenate([part.index for part in parts])
    _, first = np.unique(index, axis=0, return_index=True)
    first.sort()
    return Cells(*(np.concatenate([getattr(part, f.name) for part in parts])[first] for f in fields(Cells)))


def spoken(cells: Cells, days: Sequence[Day], config: ChangeConfig) -> Votes:
    """What the newest day that knows enough of a cell says of it."""
    total = nobody(len(cells))
    for day in days:
        unknown = total.through + total.at < config.least_views
        more = votes(cells.points[unknown], day, config)
        for f in fields(Votes):
            getattr(total, f.name)[unknown] = getattr(more, f.name)
    return total


def _contradicts(held: Side, config: ChangeConfig) -> Bools:
    """(N,), cells with a surface on one side that the other side looks through."""
    return held.own.solid(config) & held.other.free(config)


def _altered(old: Side, new: Side, config: ChangeConfig) -> Bools:
    """(N,), cells of the later day that look another way, as photos of either side have it."""
    was = old.cells.index[_looks_another_way(old, config)]
    near = inside_cells(new.cells.points, was, config.voxel_m, config.reach_cells)
    return _looks_another_way(new, config) & near


def _looks_another_way(held: Side, config: ChangeConfig) -> Bools:
    """(N,), cells with a surface on both sides that enough photos show otherwise."""
    shown = held.shown
    enough = (shown.sure >= config.least_views) & (shown.sure >= config.least_share * (shown.sure + shown.alike))
    return held.own.solid(config) & held.other.solid(config) & enough


# --- what photos say ----------------------------------------------------------------------------------------------


def opinions(cells: Cells, compared: Sequence[tuple[Seen, Looks]], config: ChangeConfig) -> Opinions:
    """How many photos show each cell otherwise and alike."""
    order = np.lexsort(cells.index.T[::-1])
    other, alike, sure = (np.zeros(len(cells), np.int64) for _ in range(3))
    for one, held in compared:
        rows, columns = np.nonzero(one.known & np.isfinite(held.across))
        depth = one.held.depth[rows, columns].astype(np.float64)
        points = lift(one.held.camera, one.held.cam_from_world, pixel_centres(rows, columns), depth)
        at = _rows_of(np.floor(points / config.voxel_m).astype(np.int64), cells.index, order)
        across = _mean(at, held.across[rows, columns], len(cells))
        own = _mean(at, np.nan_to_num(held.own[rows, columns], nan=0.0), len(cells))
        faces = _mean(at, _cosines(one, points, rows, columns), len(cells)) >= config.look.least_cosine
        other += across <= config.look.disagree
        alike += across >= config.look.agree
        sure += (across <= config.look.disagree) & (own >= config.look.agree) & faces
    return Opinions(other, alike, sure)


def _cosines(one: Seen, points: Floats, rows: Ints, columns: Ints) -> Floats32:
    """(N,), how squarely a photo sees its surface at pixels whose points are (N, 3): 0 along it, 1 head-on."""
    rays = points - rigid.centre_in_world(one.held.cam_from_world)
    towards = -(rays * one.held.normal[rows, columns]).sum(axis=1) / np.maximum(np.linalg.norm(rays, axis=1), 1e-9)
    return towards.astype(np.float32)


def _mean(at: Ints, values: Floats32, count: int) -> Floats:
    """(count,), mean of the values whose row is known, by row; nan where there are none."""
    known = at >= 0
    told = np.bincount(at[known], minlength=count)
    sums = np.bincount(at[known], values[known], count)
    return np.where(told > 0, sums / np.maximum(told, 1), np.nan)


def _rows_of(index: Ints, cells: Ints, order: Ints) -> Ints:
    """(M,), the row of each index (M, 3) in the cells (N, 3), whose rows `order` sorts; -1 where it is none."""
    low = np.minimum(cells.min(axis=0), index.min(axis=0)) if len(index) else cells.min(axis=0)
    size = np.maximum(cells.max(axis=0), index.max(axis=0) if len(index) else cells.max(axis=0)) - low + 1
    wanted, held = (((part[:, 0] - low[0]) * size[1] + part[:, 1] - low[1]) * size[2] + part[:, 2] - low[2]
                    for part in (index, cells[order]))  # fmt: skip
    at = np.minimum(np.searchsorted(held, wanted), len(held) - 1)
    return np.where(held[at] == wanted, order[at], -1)


# --- changes ------------------------------------------------------------------------------------------------------


def _changes(
    kind: ChangeKind, held: Side, which: Bools, config: ChangeConfig, counts: Callable[[Ints], bool]
) -> list[Change]:
    """The pieces of the cells in question that are large enough and count."""
    return [_change(kind, held, piece, config) for piece in _pieces(held, which, config) if counts(piece)]


def _pieces(held: Side, which: Bools, config: ChangeConfig) -> list[Ints]:
    """Rows of the pieces of the cells in question that are large enough."""
    rows = np.flatnonzero(which)
    pieces = [rows[piece] for piece in gathered(held.cells.index[rows], config.reach_cells)]
    return [piece for piece in pieces if _large(held.cells.index[piece], config)]


def _large(index: Ints, config: ChangeConfig) -> bool:
    """Whether a piece is large enough to count."""
    sides = config.voxel_m * (np.ptp(index, axis=0) + 1)
    return len(index) >= config.least_cells and bool(sides.max() >= config.least_size_m)


def _proven(held: Side, days: Sequence[Photos], others: Sequence[Photos], config: ChangeConfig, rows: Ints) -> bool:
    """Whether a piece of one side is there by its own photos, and is not by those of the other side.

    Where the others cannot tell, as plain road looks the same wherever it is laid, the two sides are compared.
    """
    if not any(days) or not any(others):
        return len(rows) >= config.least_alone
    cells = held.cells.index[rows]
    if not standing(cells, days, others, config).sure(config):
        return False
    through = looked_through(cells, others, days, config)
    return through.sure(config) or (through.worse >= 1.0 and _looks_otherwise(held, rows, config))


def _looks_otherwise(held: Side, rows: Ints, config: ChangeConfig) -> bool:
    """Whether photos show a piece otherwise than those of the other side."""
    other = int((held.shown.other[rows] > held.shown.alike[rows]).sum())
    alike = int((held.shown.alike[rows] > held.shown.other[rows]).sum())
    return other >= config.least_other and other > alike


def _repainted(held: Side, config: ChangeConfig, rows: Ints) -> bool:
    """Whether a piece that photos alone tell of counts: no narrow strip, and shown otherwise."""
    sides = np.sort(config.voxel_m * (np.ptp(held.cells.index[rows], axis=0) + 1))
    broad = len(rows) >= config.least_altered and bool(sides[1] >= config.least_breadth_m)
    return broad and _looks_otherwise(held, rows, config)


def _change(kind: ChangeKind, held: Side, rows: Ints, config: ChangeConfig) -> Change:
    index = held.cells.index[rows]
    ours, theirs = (np.stack([votes.through[rows], votes.at[rows]]) for votes in (held.own, held.other))
    shares = [count.max(axis=0) / np.maximum(count.sum(axis=0), 1) for count in (ours, theirs)]
    views = [int(np.median(count.sum(axis=0))) for count in (ours, theirs)]
    before, after = views if kind == ChangeKind.VANISHED else views[::-1]
    low, high = config.voxel_m * index.min(axis=0), config.voxel_m * (index.max(axis=0) + 1.0)
    return Change(kind, index, low, high, before, after, float((shares[0] * shares[1]).mean()))
