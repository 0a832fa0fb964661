"""The paper's ablation tables from measured variants: cells for any printer, and Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from skyanchor.evaluation.ablate import AblationRecord, Measured, full_method
from skyanchor.evaluation.ablations import AERIAL_ONLY, SWAPS, Table, all_variants
from skyanchor.evaluation.metrics import ImageMetrics
from skyanchor.evaluation.papers_settings import papers_settings
from skyanchor.evaluation.poses import PoseMetrics

TITLES: dict[Table, str] = {
    "anchors": "anchor localisation, RMSE without alignment",
    "trajectory": "trajectory recovery, RMSE without alignment",
    "update": "scene update, held-out views",
    "matchers": "cross-view matcher of the anchors",
    "descriptors": "global descriptor of the places",
}
POSES = ("ATE m", "RPE-t m", "RPE-r deg", "registered")
HEADERS: dict[Table, tuple[str, ...]] = {
    "anchors": ("variant", *POSES, "groups", "seconds"),
    "trajectory": ("variant", *POSES, "groups", "seconds"),
    "update": ("variant", "SSIM", "PSNR dB", "LPIPS", "aerial PSNR dB", "seconds"),
    "matchers": ("matcher", "groups", *POSES, "seconds"),
    "descriptors": ("descriptor", "groups", *POSES, "seconds"),
}
NOTE = "Seconds are those of the stage that varies; what variants share is counted in the full method alone."


@dataclass(frozen=True)
class TextTable:
    """A table in text."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def tables(record: AblationRecord) -> tuple[TextTable, ...]:
    """One per table that has rows, in the order of the stages, the full method last in each."""
    held = {table: [row for row in record.rows if row.table == table] for table in TITLES}
    return tuple(
        TextTable(TITLES[t], HEADERS[t], tuple(map(cells, _ordered(t, rows)))) for t, rows in held.items() if rows
    )


def _ordered(table: Table, rows: list[Measured]) -> list[Measured]:
    known = [] if table in SWAPS else [v.name for v in (*all_variants(table), *papers_settings(table))]
    order = {name: k for k, name in enumerate([AERIAL_ONLY.name, *known])} | {full_method(table).name: 1000}
    return sorted(rows, key=lambda row: order.get(row.name, 100))


def cells(row: Measured) -> tuple[str, ...]:
    """The row as text; a variant that could not be run says why in its second cell."""
    if row.problem:
        return (row.label, row.problem, *[""] * (len(HEADERS[row.table]) - 2))
    groups, seconds = f"{row.accepted}/{row.groups}", _figure(row.seconds, 0)
    if row.table == "update":
        return (row.label, *_images(row.ground), _figure(row.aerial.psnr if row.aerial else None, 2), seconds)
    if row.table in SWAPS:
        return (row.label, groups, *_poses(row.poses), seconds)
    return (row.label, *_poses(row.poses), groups, seconds)


def _poses(poses: PoseMetrics | None) -> tuple[str, ...]:
    if poses is None:
        return ("-",) * len(POSES)
    errors = (poses.ate_m, poses.rpe_t_m, poses.rpe_r_deg)
    return (*(_figure(error, 3) for error in errors), f"{poses.registered}/{poses.total}")


def _images(images: ImageMetrics | None) -> tuple[str, ...]:
    if images is None:
        return ("-",) * 3
    return _figure(images.ssim, 3), _figure(images.psnr, 2), _figure(images.lpips, 3)


def _figure(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


# --- Markdown -----------------------------------------------------------------------------------------------------


def markdown(record: AblationRecord) -> str:
    """All tables as one Markdown document."""
    return "\n".join(_lines(record)) + "\n"


def _lines(record: AblationRecord) -> Iterator[str]:
    yield f"# Ablations\n\nTruth: {record.truth}. {NOTE}"
    for table in tables(record):
        yield f"\n## {table.title[0].upper()}{table.title[1:]}\n"
        yield _line(table.header)
        yield _line(("---",) * len(table.header))
        yield from map(_line, table.rows)


def _line(row: tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |"
