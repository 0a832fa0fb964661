"""Places on the map with a picture of before and one of after, as the page shows them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from skyanchor.photos import read_pixels
from skyanchor.report import drawings
from skyanchor.report.markup import Markup, element
from skyanchor.run.results import Run
from skyanchor.scaffold.georeference import moved_by
from skyanchor.types import Floats


def on_the_map(run: Run, centres: Sequence[tuple[float, float, float]]) -> list[Floats]:
    """(2,) each, where places in the user's own coordinates lie on the report's map, metres."""
    axes, moved = drawings.horizontal_axes(run.scaffold.up), moved_by(run.scaffold.georef)
    return [axes @ (np.array(centre) - moved) for centre in centres]


def size_text(size: Iterable[float]) -> str:
    """Extents in metres, the longest first."""
    return " x ".join(f"{side:.1f}" for side in sorted(size, reverse=True)) + " m"


def picture(path: Path) -> str:
    """The picture as a data URI; empty where there is none."""
    return drawings.data_uri(read_pixels(path)) if path.is_file() else ""


def pair(pictures: list[Markup], text: str, name: str) -> Markup:
    """Two pictures side by side and what they show."""
    return element(
        "figure", element("div", pictures, class_="four"), element("figcaption", text), class_="change", id=name
    )


def section(title: str, note: str, pairs: list[Markup], name: str) -> Markup:
    """A section of the page with such pairs."""
    return element(
        "section", element("h2", title), element("p", note, class_="note"),
        element("div", pairs, class_="grid") if pairs else None, id=name,
    )  # fmt: skip
