"""The one-file HTML report: assets and content put together; opens offline by double click, with scripts or without."""

from __future__ import annotations

import json
import math
import re
from dataclasses import asdict
from importlib.resources import files

from skyanchor.report import picture_sections, sections
from skyanchor.report.change_part import changes_section
from skyanchor.report.content import Report
from skyanchor.report.hidden_part import hidden_section
from skyanchor.report.map_drawing import first_frame
from skyanchor.report.markup import Markup, element, joined
from skyanchor.report.mesh_part import mesh_section

_TITLE = re.compile(r'<section id="([^"]+)"><h2>(.*?)</h2>')


def render_page(report: Report) -> str:
    """The whole page as one string."""
    main = body(report)
    with_scene = report.scene is not None
    fields: dict[str, str] = {
        "TITLE": joined(report.title),
        "STYLE": _asset("page.css"),
        "HEAD": joined(sections.verdict(report), sections.headline(report), sections.about(report)),
        "CONTENTS": joined([element("a", Markup(title), href=f"#{name}") for name, title in _TITLE.findall(main)]),
        "MAIN": main,
        "DATA": _embedded_json(script_data(report)),
        "SPLATS3D": _asset("vendor/splats3d.min.js") if with_scene else "",
        "SCRIPT": _asset("page.js"),
        "VIEWER": _asset("viewer.js") if with_scene else "",
    }
    return re.sub("@@([A-Z0-9]+)@@", lambda mark: fields[mark[1]], _asset("page.html"))


def body(report: Report) -> Markup:
    """Everything below the head."""
    settings = sections.settings_section(report)
    return joined(
        sections.map_section(report),
        changes_section(report),
        picture_sections.scene_section(report),
        hidden_section(report),
        mesh_section(report),
        picture_sections.comparison_sections(report),
        sections.groups_section(report),
        picture_sections.matches_section(report),
        sections.submaps_section(report),
        sections.figures_section(report),
        picture_sections.curves_section(report),
        sections.times_section(report),
        sections.glossary_section(joined(sections.about(report), settings)),
        settings,
    )


def script_data(report: Report) -> dict[str, object]:
    """What the scripts need besides the page itself."""
    frame = first_frame(report.map)
    place = report.map.place
    scene = None if report.scene is None else {**asdict(report.scene), "picture": None}
    drawing = {"left": frame.box[0], "top": frame.box[3], "scale": frame.scale}
    return {"map": {**drawing, "offset": place.offset, "system": place.system, "earth": place.earth}, "scene": scene}


def _asset(name: str) -> str:
    return (files("skyanchor.report") / "assets" / name).read_text(encoding="utf-8")


def _embedded_json(value: object) -> str:
    """JSON that is safe inside a script element: no tag or comment can begin or end in it; no NaN."""
    return json.dumps(_finite(value), ensure_ascii=False).replace("<", "\\u003c")


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
