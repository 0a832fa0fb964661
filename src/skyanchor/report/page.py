"""The one-file HTML report: assets and content put together; opens offline by double click."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from importlib.resources import files

from skyanchor.report.content import Report


def render_page(report: Report) -> str:
    """The whole page as one string."""
    three = _asset("vendor/splats3d.min.js") if report.scene is not None else ""
    fields = {
        "@@TITLE@@": _escape(report.title),
        "@@STYLE@@": _asset("page.css"),
        "@@DATA@@": _embedded_json(asdict(report)),
        "@@SPLATS3D@@": three,
        "@@SCRIPT@@": _asset("page.js"),
        "@@VIEWER@@": _asset("viewer.js") if report.scene is not None else "",
    }
    page = _asset("page.html")
    for mark, text in fields.items():
        page = page.replace(mark, text)
    return page


def _asset(name: str) -> str:
    return (files("skyanchor.report") / "assets" / name).read_text(encoding="utf-8")


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _embedded_json(value: object) -> str:
    """JSON that is safe inside a script element: no closing tag, no NaN."""
    return json.dumps(_finite(value), ensure_ascii=False).replace("</", "<\\/")


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
