"""The paper's tables of a scene with every program that was tried: failures as failures, successes as successes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from skyanchor.evaluation.ablate import Measured
from skyanchor.evaluation.foreign import ForeignConfig, ModelScore, Outcome
from skyanchor.run.metrics import PoseMetrics

POSES = ("ATE m", "RPE-t m", "RPE-r deg", "registered")
COST = ("seconds", "CPU s", "GB")


@dataclass(frozen=True)
class Cost:
    """What a program spent."""

    seconds: float
    cpu_s: float
    """Of all its processes."""
    peak_bytes: int
    """Most memory at a time."""


@dataclass(frozen=True)
class PeerRow:
    """One program on one scene."""

    name: str
    verdict: str
    """ok, or what went wrong."""
    anchors: PoseMetrics | None
    """Over the frames of the anchor groups."""
    trajectory: PoseMetrics | None
    """Over all frames."""
    cost: Cost | None = None
    models: int = 1
    """Models that do not join."""
    ours: bool = False


def peer_row(name: str, anchors: ModelScore, walk: ModelScore, models: int, cost: Cost | None) -> PeerRow:
    """The row of a scored model: on the aerial cameras where it can be, else RPE-r and the count alone."""
    return PeerRow(name, walk.outcome.value, anchors.on_aerial, walk.on_aerial, cost, models)


def own_row(anchors: PoseMetrics, walk: PoseMetrics, cost: Cost | None) -> PeerRow:
    """The row of ours, without any alignment: judged by the frames with a pose, as the others are."""
    few = walk.registered == 0 or walk.registered < ForeignConfig().least_share * walk.total
    verdict = Outcome.TOO_FEW if few else Outcome.OK
    return PeerRow("SkyAnchor, no alignment", verdict.value, anchors, walk, cost, ours=True)


def failed_row(name: str, why: str, cost: Cost | None = None) -> PeerRow:
    """The row of a program that gave nothing."""
    return PeerRow(name, why, None, None, cost)


class Judged(Protocol):
    """A row that came out ok or did not."""

    @property
    def verdict(self) -> str:
        """Ok, or what went wrong."""
        ...

    @property
    def ours(self) -> bool:
        """Whether it is SkyAnchor's."""
        ...


R = TypeVar("R", bound=Judged)
TABLES: dict[str, Callable[[PeerRow], PoseMetrics | None]] = {
    "Anchors": lambda row: row.anchors,
    "Trajectory": lambda row: row.trajectory,
}


# --- tables -------------------------------------------------------------------------------------------------------


def pose_tables(rows: Sequence[PeerRow]) -> Iterator[str]:
    """Markdown of anchors and trajectories, each with the ratio of ours to the best rival."""
    head = ("program", "verdict", *POSES, *COST)
    for title, poses in TABLES.items():
        yield f"### {title}\n"
        yield from _table(head, [*(_cells(row, poses(row)) for row in rows), _ratios(rows, poses)])
        yield ""


def _cells(row: PeerRow, poses: PoseMetrics | None) -> tuple[str, ...]:
    verdict = row.verdict + (f" ({row.models} models)" if row.models > 1 else "")
    if poses is None:
        return (row.name, verdict, *["-"] * len(POSES), *_cost(row.cost))
    errors = (poses.ate_m, poses.rpe_t_m, poses.rpe_r_deg)
    figures = (*(_figure(error, 3) for error in errors), f"{poses.registered}/{poses.total}")
    return (row.name, verdict, *figures, *_cost(row.cost))


def _cost(cost: Cost | None) -> tuple[str, ...]:
    if cost is None:
        return ("-",) * len(COST)
    return (f"{cost.seconds:.0f}", f"{cost.cpu_s:.0f}", f"{cost.peak_bytes / 1e9:.1f}")


def _ratios(rows: Sequence[PeerRow], poses: Callable[[PeerRow], PoseMetrics | None]) -> tuple[str, ...]:
    """Ours over the best of the others that came out ok, column by column; below 1 is better."""
    columns: tuple[Callable[[PeerRow], float | None], ...] = (
        *(lambda row, k=k: _error(poses(row), k) for k in range(3)),  # type: ignore[misc]
        lambda row: _share(poses(row)),
        lambda row: row.cost.seconds if row.cost else None,
        lambda row: row.cost.cpu_s if row.cost else None,
        lambda row: row.cost.peak_bytes if row.cost else None,
    )
    best = [ratio(rows, column, most=k == 3) for k, column in enumerate(columns)]
    return ("ours / best rival", "", *("-" if value is None else f"{value:.2f}" for value in best))


def ratio(rows: Sequence[R], column: Callable[[R], float | None], most: bool = False) -> float | None:
    """Ours over the smallest (or greatest) of the rivals, of those that came out ok; None where one is missing."""
    mine = next((column(row) for row in rows if row.ours and row.verdict == Outcome.OK.value), None)
    held = [column(row) for row in rows if not row.ours and row.verdict == Outcome.OK.value]
    known = [value for value in held if value is not None]
    best = (max if most else min)(known, default=None)
    return None if mine is None or not best else mine / best


def _error(poses: PoseMetrics | None, k: int) -> float | None:
    return None if poses is None else (poses.ate_m, poses.rpe_t_m, poses.rpe_r_deg)[k]


def _share(poses: PoseMetrics | None) -> float | None:
    return None if poses is None or not poses.total else poses.registered / poses.total


# --- Gaussians ----------------------------------------------------------------------------------------------------

SPLATS: dict[str, str] = {
    "aerial-only": "aerial only",
    "from-scratch": "from scratch",
    "joint-training": "joint training on all views (Horizon-GS's way)",
    "papers-schedule": "the paper's schedule",
    "full-update": "SkyAnchor",
}
"""Ways to get Gaussians of flight and street, by the names of the measured rows; the last is ours."""
IMAGES = ("SSIM", "PSNR dB", "LPIPS")


@dataclass(frozen=True)
class SplatRow:
    """One way to get Gaussians of flight and street."""

    name: str
    verdict: str
    """ok, or why there are no figures."""
    figures: tuple[float | None, ...]
    """SSIM, PSNR and LPIPS from the air, the same from the street; seconds; gigabytes of machine and GPU."""
    ours: bool = False


def splat_rows(rows: Sequence[Measured]) -> tuple[SplatRow, ...]:
    """Every way in order; one that was not measured says what measures it."""
    held = {row.name: row for row in rows if row.table == "update"}
    return tuple(_splat_row(name, label, held.get(name)) for name, label in SPLATS.items())


def _splat_row(name: str, label: str, row: Measured | None) -> SplatRow:
    nothing, ours = (None,) * (2 * len(IMAGES) + 3), name == tuple(SPLATS)[-1]
    if row is None:
        return SplatRow(label, f"not measured: `ablate --stages update --only {name}`", nothing, ours)
    seen = [figure for m in (row.aerial, row.ground) for figure in ((m.ssim, m.psnr, m.lpips) if m else (None,) * 3)]
    if row.problem or all(figure is None for figure in seen):
        return SplatRow(label, row.problem or "nothing came out", nothing, ours)
    memory = [size / 1e9 if size else None for size in (row.peak.bytes, row.peak.gpu_bytes)]
    return SplatRow(label, Outcome.OK.value, (*seen, row.seconds, *memory), ours)


def splat_table(rows: Sequence[Measured]) -> Iterator[str]:
    """Markdown of the update: every way to get Gaussians of flight and street, and ours over the best of the others."""
    kinds = [f"{kind} {figure}" for kind in ("air", "street") for figure in IMAGES]
    digits = (*(2 if "PSNR" in kind else 3 for kind in kinds), 0, 1, 1)
    ways = splat_rows(rows)
    cells = [(way.name, way.verdict, *map(_figure, way.figures, digits)) for way in ways]
    best = [ratio(ways, _column(k), most=k < len(kinds) and "LPIPS" not in kinds[k]) for k in range(len(digits))]
    yield "### Rendering of held-out views\n"
    last = ("ours / best rival", "", *(_figure(value, 2) for value in best))
    yield from _table(("way", "verdict", *kinds, "seconds", "GB", "GB on the GPU"), [*cells, last])


def _column(k: int) -> Callable[[SplatRow], float | None]:
    return lambda way: way.figures[k]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def _figure(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
