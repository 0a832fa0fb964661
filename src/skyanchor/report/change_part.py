"""What changed, as the page shows it: marks on the map, and a section with pictures of before and after."""

from __future__ import annotations

from pathlib import Path

from skyanchor.events import CHANGES
from skyanchor.report.before_after import on_the_map, pair, picture, section, size_text
from skyanchor.report.content import ChangeMark, Report
from skyanchor.report.map_drawing import CHANGE_COLOURS, change_text
from skyanchor.report.markup import Markup, element
from skyanchor.report.words import counted
from skyanchor.run.records import AFTER_FOLDER, BEFORE_FOLDER, ChangeRow
from skyanchor.run.results import Run
from skyanchor.types import Floats

MOST_PICTURES = 24
"""Changes with pictures in the page; the others are on the map."""


def change_marks(run: Run) -> tuple[ChangeMark, ...]:
    """The changes of a run; none where nobody looked for them."""
    if not run.has(CHANGES):
        return ()
    rows = run.changes.changes
    places = on_the_map(run, [row.centre for row in rows])
    return tuple(_mark(run, row, xy) for row, xy in zip(rows, places, strict=True))


def _mark(run: Run, row: ChangeRow, xy: Floats) -> ChangeMark:
    folder = run.stage(CHANGES).folder
    before, after = ("", "")
    if row.number <= MOST_PICTURES:
        before, after = (picture(folder / day / f"{row.number}.jpg") for day in (BEFORE_FOLDER, AFTER_FOLDER))
    names, size = (row.photo_before, row.photo_after), size_text(row.size)
    return ChangeMark(row.number, row.how.value, float(xy[0]), float(xy[1]), size, row.confidence, before, after, names)


def changed_since(run: Run) -> str | None:
    """What the changes are since, for people; None where nobody looked for any."""
    if not run.has(CHANGES):
        return None
    return ", ".join(Path(path).name for path in run.changes.since)


def changes_section(report: Report) -> Markup | None:
    """The changes with pictures of before and after; nothing where nobody looked for them."""
    if report.changed_since is None:
        return None
    counts = [f"{sum(one.how == how for one in report.changes)} {how}" for how in CHANGE_COLOURS]
    found = f"{counted(len(report.changes), 'change')}: {', '.join(counts)}." if report.changes else "Nothing changed."
    note = (
        f"Since {report.changed_since}. {found} Places where views of one day see a surface and views of the other "
        "look through it, or where photos of both do not look alike on one surface; light and what moves do not count."
    )
    shown = [_figure(mark) for mark in report.changes if mark.before or mark.after]
    return section("What changed", note, shown, "changes")


def _figure(mark: ChangeMark) -> Markup:
    sides = (("before", mark.before, mark.photos[0]), ("after", mark.after, mark.photos[1]))
    pictures = [
        element("figure", element("img", src=uri, alt=f"change {mark.number} {day}, photo {name}") if uri else None,
                element("figcaption", f"{day}: {name}" if uri else f"{day}: no photo shows it"))
        for day, uri, name in sides
    ]  # fmt: skip
    return pair(pictures, change_text(mark), f"change-{mark.number}")
