"""What the update hid because it vanished, as the page shows it: marks on the map, and the scene before and after."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from skyanchor.events import SCENE
from skyanchor.photos import read_pixels
from skyanchor.report import drawings
from skyanchor.report.content import HiddenMark, Report
from skyanchor.report.map_drawing import hidden_text
from skyanchor.report.markup import Markup, element
from skyanchor.report.words import counted
from skyanchor.run.records import AFTER_FOLDER, BEFORE_FOLDER, VANISHED_FOLDER, VanishedRow
from skyanchor.run.results import Run
from skyanchor.scaffold.georeference import moved_by
from skyanchor.types import Floats


def hidden_marks(run: Run) -> tuple[HiddenMark, ...]:
    """The places where the update hid what vanished; none before the scene is updated."""
    if not run.has(SCENE):
        return ()
    axes = drawings.horizontal_axes(run.scaffold.up)
    moved = moved_by(run.scaffold.georef)
    return tuple(_mark(run, row, axes @ (np.array(row.centre) - moved)) for row in run.scene.vanished)


def _mark(run: Run, row: VanishedRow, xy: Floats) -> HiddenMark:
    folder = run.stage(SCENE).folder / VANISHED_FOLDER
    before, after = (_picture(folder / day / f"{row.number}.jpg") for day in (BEFORE_FOLDER, AFTER_FOLDER))
    size = " x ".join(f"{side:.1f}" for side in sorted(row.size, reverse=True)) + " m"
    return HiddenMark(row.number, float(xy[0]), float(xy[1]), size, row.hidden, before, after)


def _picture(path: Path) -> str:
    return drawings.data_uri(read_pixels(path)) if path.is_file() else ""


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
    return element(
        "section", element("h2", "What the update hid"), element("p", note, class_="note"),
        element("div", shown, class_="grid") if shown else None, id="hidden",
    )  # fmt: skip


def _figure(mark: HiddenMark) -> Markup:
    pictures = [
        element("figure", element("img", src=uri, alt=f"hidden {mark.number}, the scene {when}"),
                element("figcaption", f"the scene {when}"))
        for when, uri in (("before", mark.before), ("after", mark.after))
    ]  # fmt: skip
    return element(
        "figure", element("div", pictures, class_="four"), element("figcaption", hidden_text(mark)), class_="change",
        id=f"hidden-{mark.number}",
    )  # fmt: skip
