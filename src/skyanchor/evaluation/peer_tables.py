"""The paper's tables of a scene with every program that was tried: failures as failures, successes as successes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

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


def ratio(rows: Sequence[PeerRow], column: Callable[[PeerRow], float | None], most: bool = False) -> float | None:
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


def splat_table(rows: Sequence[Measured]) -> Iterator[str]:
    """Markdown of the update: every way to get Gaussians of flight and street that was measured on a run."""
    cells = []
    for row in rows:
        if row.problem:
            cells.append((row.label, row.problem, *["-"] * 6))
            continue
        views = [(m.ssim, m.psnr, m.lpips) if m else (None,) * 3 for m in (row.aerial, row.ground)]
        figures = [_figure(v, 2 if k == 1 else 3) for held in views for k, v in enumerate(held)]
        cells.append((row.label, *figures, _figure(row.seconds, 0)))
    yield "### Rendering of held-out views\n"
    kinds = [f"{kind} {figure}" for kind in ("air", "street") for figure in ("SSIM", "PSNR dB", "LPIPS")]
    yield from _table(("way", *kinds, "seconds"), cells)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def _figure(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
