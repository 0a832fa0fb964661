"""What the update hid because it vanished, as the page shows it: marks on the map, and the scene before and after."""

from __future__ import annotations

from skyanchor.events import SCENE
from skyanchor.report.before_after import on_the_map, pair, picture, section, size_text
from skyanchor.report.content import HiddenMark, Report
from skyanchor.report.map_drawing import hidden_text
from skyanchor.report.markup import Markup, element
from skyanchor.report.words import counted
from skyanchor.run.records import AFTER_FOLDER, BEFORE_FOLDER, VANISHED_FOLDER, VanishedRow
from skyanchor.run.results import Run
from skyanchor.types import Floats


def hidden_marks(run: Run) -> tuple[HiddenMark, ...]:
    """The places where the update hid what vanished; none before the scene is updated."""
    if not run.has(SCENE):
        return ()
    rows = run.scene.vanished
    places = on_the_map(run, [row.centre for row in rows])
    return tuple(_mark(run, row, xy) for row, xy in zip(rows, places, strict=True))


def _mark(run: Run, row: VanishedRow, xy: Floats) -> HiddenMark:
    folder = run.stage(SCENE).folder / VANISHED_FOLDER
    before, after = (picture(folder / day / f"{row.number}.jpg") for day in (BEFORE_FOLDER, AFTER_FOLDER))
    return HiddenMark(row.number, float(xy[0]), float(xy[1]), size_text(row.size), row.hidden, before, after)


def hidden_section(report: Report) -> Markup | None:
    """How much was hidden where, with pictures of the scene before and after; nothing where nothing was."""
    if not report.hidden:
        return None
    count = sum(mark.gaussians for mark in report.hidden)
    note = (
        f"In {counted(len(report.hidden), 'place')} the walk looks through what the flight or an earlier walk "
        f"measured. {counted(count, 'Gaussian')} there are hidden, and come back when the patch is taken off."
    )
    shown = [_figure(mark) for mark in report.hidden if mark.before and mark.after]
    return section("What the update hid", note, shown, "hidden")


def _figure(mark: HiddenMark) -> Markup:
    pictures = [
        element("figure", element("img", src=uri, alt=f"hidden {mark.number}, the scene {when}"),
                element("figcaption", f"the scene {when}"))
        for when, uri in (("before", mark.before), ("after", mark.after))
    ]  # fmt: skip
    return pair(pictures, hidden_text(mark), f"hidden-{mark.number}")
