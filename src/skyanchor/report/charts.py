"""Charts as SVG that need no script: axes with titles and units, a line per curve."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from skyanchor.report.content import Curve
from skyanchor.report.markup import Markup, element

WIDTH, HEIGHT = 640.0, 380.0
LEFT, RIGHT, TOP, BOTTOM = 96.0, 30.0, 20.0, 84.0
"""Room for ticks and titles in the letters of a phone."""
NICE = (1.0, 2.0, 5.0, 10.0)
"""Steps between ticks, times a power of ten."""


@dataclass(frozen=True)
class Axis:
    """A range of values along one axis, with ticks."""

    low: float
    high: float
    ticks: tuple[float, ...]

    def share(self, value: float) -> float:
        """0 at the low end, 1 at the high one."""
        return (value - self.low) / (self.high - self.low)


def axis(values: Sequence[float], most: int) -> Axis:
    """Ends at ticks on both sides of the values, at most about `most` of them."""
    low, high = min(values), max(values)
    raw = max(high - low, 1e-9) / most
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(nice * power for nice in NICE if nice * power >= raw * (1.0 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    last = max(last, first + 1)
    return Axis(first * step, last * step, tuple(k * step for k in range(first, last + 1)))


def line_chart(curves: Sequence[Curve], x_title: str, y_title: str, what: str) -> Markup:
    """The curves over common axes; gaps where a value is nan."""
    seen = [(x, y) for curve in curves for x, y in zip(curve.x, curve.y, strict=True) if math.isfinite(y)]
    across, up = axis([x for x, _ in seen], 5), axis([y for _, y in seen], 6)

    def at(x: float, y: float) -> tuple[float, float]:
        right = LEFT + across.share(x) * (WIDTH - LEFT - RIGHT)
        return round(right, 1), round(HEIGHT - BOTTOM - up.share(y) * (HEIGHT - TOP - BOTTOM), 1)

    shapes = [_rule(at(across.low, y), at(across.high, y)) for y in up.ticks]
    shapes += [element("text", f"{y:g}", x=LEFT - 10, y=at(0, y)[1] + 5, class_="tick end") for y in up.ticks]
    shapes += [
        element("text", f"{x:g}", x=at(x, 0)[0], y=HEIGHT - BOTTOM + 28, class_="tick middle") for x in across.ticks
    ]
    middle = TOP + (HEIGHT - TOP - BOTTOM) / 2
    shapes += [
        element("text", x_title, x=(LEFT + WIDTH - RIGHT) / 2, y=HEIGHT - 14, class_="middle"),
        element("text", y_title, transform=f"translate(24 {middle}) rotate(-90)", class_="middle"),
    ]
    for k, curve in enumerate(curves):
        points = [at(x, y) for x, y in zip(curve.x, curve.y, strict=True) if math.isfinite(y)]
        shapes.append(element("polyline", points=" ".join(f"{x},{y}" for x, y in points), class_=f"curve c{k % 4}"))
    return element("svg", shapes, viewBox=f"0 0 {WIDTH:g} {HEIGHT:g}", role="img", aria_label=what, class_="chart")


def _rule(a: tuple[float, float], b: tuple[float, float]) -> Markup:
    return element("line", x1=a[0], y1=a[1], x2=b[0], y2=b[1], class_="rule")


def chart_legend(curves: Sequence[Curve]) -> Markup:
    """The curves' names beside their colours."""
    keys = []
    for k, curve in enumerate(curves):
        line = element("path", d="M-15 0H15", class_=f"curve c{k % 4}")
        sample = element("svg", line, viewBox="-16 -9 32 18", class_="key", aria_hidden="true")
        keys.append(element("span", sample, curve.label))
    return element("div", keys, class_="legend")
