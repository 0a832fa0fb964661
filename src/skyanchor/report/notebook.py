"""A run in a notebook: the verdict, the map and the anchor groups, as the report draws them, in one cell."""

from __future__ import annotations

from importlib.resources import files

from skyanchor.report import sections
from skyanchor.report.build import build_report
from skyanchor.report.folder import outline
from skyanchor.report.map_drawing import map_figure
from skyanchor.report.markup import Markup, element
from skyanchor.run.results import Run


def run_html(run: Run) -> str:
    """HTML that needs no script and changes nothing outside its own block."""
    report = build_report(outline(run))
    style = Markup(files("skyanchor.report").joinpath("assets", "notebook.css").read_text(encoding="utf-8"))
    parts = (sections.verdict(report), map_figure(report), sections.groups_table(report.groups))
    return element("div", element("style", style), *parts, class_="skyanchor-run")
