"""The map as an SVG that needs no script: raster, aerial cameras, prior, truth, walk, anchor groups, legend.

Lengths in the drawing are thousandths of the width of its first view. Marks keep their size on screen: their group is
scaled by the CSS variable --u, which the stylesheet sets by the width of the window and the script by the zoom.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from skyanchor.report.content import ChangeMark, GroupRow, HiddenMark, MapContent, MapFrame, Report
from skyanchor.report.markup import Markup, element, joined
from skyanchor.report.words import SUPPORT, label, length, number, plain, span
from skyanchor.sfm.uncertainty import RADIUS_95

Box: TypeAlias = tuple[float, float, float, float]
"""x_min, y_min, x_max, y_max, metres."""

WIDTH = 1000.0
"""Of the first view."""
FLATTEST = 0.7
"""Height over width of the first view, unless the walk needs more."""
STOPS = ((0.15, "#1e8e3e"), (0.4, "#7cb342"), (0.8, "#f9a825"), (math.inf, "#d93025"))
"""Radius that holds for 95 %, at most, metres, and the colour of the walk."""
CHANGE_COLOURS = {"appeared": "#00838f", "vanished": "#6a1b9a", "altered": "#ef6c00"}
HIDDEN = "#455a64"
ACCEPTED, LEFT_OUT, REFUSED, AERIAL, TRUTH, PRIOR = "#1e8e3e", "#b35c00", "#d93025", "#1565c0", "#8e24aa", "#00696d"


@dataclass(frozen=True)
class Frame:
    """From metres to the drawing."""

    box: Box
    """What is seen first."""

    @property
    def scale(self) -> float:
        """Units per metre."""
        return WIDTH / (self.box[2] - self.box[0])

    @property
    def height(self) -> float:
        """Of the first view."""
        return (self.box[3] - self.box[1]) * self.scale

    def __call__(self, x: float, y: float) -> tuple[float, float]:
        """Right and down."""
        return round((x - self.box[0]) * self.scale, 2), round((self.box[3] - y) * self.scale, 2)

    def viewed(self, box: Box) -> str:
        """The viewBox that shows a box."""
        left, top = self(box[0], box[3])
        return f"{left} {top} {(box[2] - box[0]) * self.scale:.2f} {(box[3] - box[1]) * self.scale:.2f}"


def first_frame(content: MapContent) -> Frame:
    """The walk where it is a small part of the model, else the whole model."""
    return Frame(walk_box(content) or _widened(content.extent))


def _widened(box: Box) -> Box:
    """The box with room at its sides where it is higher than wide."""
    x0, y0, x1, y1 = box
    room = max(0.0, (y1 - y0) / FLATTEST - (x1 - x0)) / 2
    return x0 - room, y0, x1 + room, y1


def walk_box(content: MapContent) -> Box | None:
    """The box around walk and truth with room to see where it lies; None when that is most of the model."""
    places = [(f.x, f.y) for f in content.frames if math.isfinite(f.x)] + list(content.truth)
    if not places:
        return None
    xs, ys = zip(*places, strict=True)
    x0, y0, x1, y1 = content.extent
    half = 0.62 * max(max(xs) - min(xs), max(ys) - min(ys), 30.0) + 5.0
    shape = min(FLATTEST, (y1 - y0) / (x1 - x0))
    tall = max(half * shape, (max(ys) - min(ys)) / 2 + 5.0)
    cx, cy = (min(xs) + max(xs)) / 2, (min(ys) + max(ys)) / 2
    return None if 2 * half > 0.75 * (x1 - x0) else (cx - half, cy - tall, cx + half, cy + tall)


def map_figure(report: Report) -> Markup:
    """The map with its north arrow, scale bar and legend."""
    content, frame = report.map, first_frame(report.map)
    layers = _layers(report, frame)
    picture = element(
        "svg", _raster(content, frame), *(layer.drawn for layer in layers),
        viewBox=frame.viewed(frame.box), role="group", aria_label="Map of the scene from above", id="map-picture",
        data_whole=frame.viewed(content.extent), data_walk=frame.viewed(frame.box),
    )  # fmt: skip
    shape = f"aspect-ratio:{frame.box[2] - frame.box[0]:.3f}/{frame.box[3] - frame.box[1]:.3f}"
    holder = element("div", picture, _north(content), _scale_bar(frame), class_="map", id="map-view", style=shape)
    keys = [layer.key for layer in layers] + _colours(any(math.isfinite(f.x) for f in content.frames))
    if not math.isfinite(content.place.north_deg):
        keys.append(element("span", f"arrow: {_ALONG_Y}"))
    return joined(holder, element("div", keys, class_="legend", id="map-legend"))


@dataclass(frozen=True)
class Layer:
    """A part of the map and its key."""

    drawn: Markup
    key: Markup


def _layer(name: str, key: Markup, *shapes: object) -> Layer:
    sample = element("svg", key, viewBox="-16 -9 32 18", class_="key", aria_hidden="true")
    label = element("label", sample, element("span", name), data_for=name)
    return Layer(element("g", *shapes, data_layer=name), label)


def _layers(report: Report, frame: Frame) -> list[Layer]:
    content = report.map
    found = [_layer("aerial photos", _triangle(), *(_camera(frame, c.name, c.x, c.y) for c in content.cameras))]
    if content.prior:
        found.append(_layer("where the walk was said to be", _prior_key(), *(_area(frame, a) for a in content.prior)))
    if content.truth:
        line = {"fill": "none", "stroke": TRUTH, "stroke_width": 11, "class_": "line", "stroke_opacity": 0.75}
        points = " ".join("{},{}".format(*frame(x, y)) for x, y in content.truth)
        key = element("path", d="M-15 0H15", **line)
        found.append(_layer("true positions (wide band)", key, element("polyline", points=points, **line)))
    word = "anchors" if report.reached == "anchors" else "the walk"
    found.append(_layer(word, _walk_key(), *_walk(content, frame)))
    for kind, colour, some in _by_verdict(report.groups):
        name = f"anchor groups, {kind}"
        found.append(_layer(name, _ring(colour, kind == "refused", "1"), *(_group(frame, g, colour) for g in some)))
    for how, colour in CHANGE_COLOURS.items():
        marks = [_change(frame, one, colour) for one in report.changes if one.how == how]
        found += [_layer(f"changes, {how}", _square(colour, "1"), *marks)] if marks else []
    if report.hidden:
        gone = [_hidden(frame, one) for one in report.hidden]
        found.append(_layer("vanished and hidden in the splats", _square(HIDDEN, "1"), *gone))
    return found


def _by_verdict(groups: Sequence[GroupRow]) -> list[tuple[str, str, list[GroupRow]]]:
    kinds = (("placed", ACCEPTED), ("left out", LEFT_OUT), ("refused", REFUSED))
    there = [g for g in groups if math.isfinite(g.x)]
    found = [(kind, colour, [g for g in there if outcome_of(g) == kind]) for kind, colour in kinds]
    return [one for one in found if one[2]]


def outcome_of(group: GroupRow) -> str:
    """placed, left out or refused."""
    return "left out" if group.left_out else "placed" if group.accepted else "refused"


# --- marks --------------------------------------------------------------------------------------------------------


def _mark(frame: Frame, x: float, y: float, told: str, *shapes: object, **attributes: object) -> Markup:
    right, down = frame(x, y)
    sized = element("g", *shapes, class_="sized")
    return element("g", element("title", told), sized, transform=f"translate({right} {down})", **attributes)


def _triangle() -> Markup:
    return element("path", d="M0 -5L5 4H-5z", fill=AERIAL, stroke="#fff")


def _camera(frame: Frame, name: str, x: float, y: float) -> Markup:
    return _mark(frame, x, y, f"aerial photo {name}", _triangle())


def _prior_key() -> Markup:
    return element("path", d="M-14 -7H14V7H-14z", **_DASHED)


_DASHED = {"fill": PRIOR, "fill_opacity": 0.12, "stroke": PRIOR, "stroke_width": 2.5, "stroke_dasharray": "7 5"}


def _area(frame: Frame, rings: Sequence[Sequence[tuple[float, float]]]) -> Markup:
    paths = ["M" + "L".join("{} {}".format(*frame(x, y)) for x, y in ring) + "z" for ring in rings]
    title = element("title", "The walk was said to be in here")
    return element("path", title, d="".join(paths), fill_rule="evenodd", class_="line", **_DASHED)


def colour_of(sigma_m: float) -> str:
    """Of a photo on the map."""
    return "#666" if math.isnan(sigma_m) else next(c for limit, c in STOPS if sigma_m * RADIUS_95 <= limit)


def _walk_key() -> Markup:
    colour = STOPS[0][1]
    line = element("path", d="M-15 0H15", stroke=colour, stroke_width=4)
    return joined(line, element("circle", r=3.5, fill=colour, stroke="#fff", stroke_width=0.7))


def _walk(content: MapContent, frame: Frame) -> list[Markup]:
    posed, cuts = [f for f in content.frames if math.isfinite(f.x)], content.cuts
    lines = [_step(frame, a, b) for a, b in pairwise(posed) if b.index == a.index + 1 and b.index not in cuts]
    dots = []
    for f in posed:
        dot = element("circle", r=3.5, fill=colour_of(f.sigma_m), stroke="#fff", stroke_width=0.7)
        dots.append(_mark(frame, f.x, f.y, frame_text(f), dot))
    return lines + dots


def _step(frame: Frame, a: MapFrame, b: MapFrame) -> Markup:
    (x1, y1), (x2, y2) = frame(a.x, a.y), frame(b.x, b.y)
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=colour_of(a.sigma_m), stroke_width=4, class_="line")


def frame_text(frame: MapFrame) -> str:
    """What a photo's mark tells."""
    sure = f"95 % within {length(RADIUS_95 * frame.sigma_m)} (standard deviation {length(frame.sigma_m)} per axis)"
    return f"photo {frame.index} {frame.name}\nlocated as {SUPPORT[frame.support]}, {sure}"


def _ring(colour: str, hollow: bool, text: str) -> Markup:
    paint = {"fill": "#fff", "stroke": colour} if hollow else {"fill": colour, "stroke": "#fff"}
    disc = element("circle", r=8.5 if hollow else 9, stroke_width=3 if hollow else 1.5, **paint)
    number_of = element(
        "text", text, y=4, text_anchor="middle", font_size=11, font_weight=700, fill=colour if hollow else "#fff"
    )
    return joined(disc, number_of)


def _group(frame: Frame, group: GroupRow, colour: str) -> Markup:
    shapes = _ring(colour, outcome_of(group) == "refused", str(group.index))
    told = group_text(group)
    return _mark(frame, group.x, group.y, told, shapes, data_group=group.index, tabindex=0, role="img")


def _square(colour: str, text: str) -> Markup:
    letter = {"y": 4, "text_anchor": "middle", "font_size": 11, "font_weight": 700, "fill": "#fff"}
    side = element("rect", x=-9, y=-9, width=18, height=18, rx=3, fill=colour, stroke="#fff", stroke_width=1.5)
    return joined(side, element("text", text, **letter))


def _change(frame: Frame, mark: ChangeMark, colour: str) -> Markup:
    shapes = _square(colour, str(mark.number))
    return _mark(frame, mark.x, mark.y, change_text(mark), shapes, tabindex=0, role="img")


def _hidden(frame: Frame, mark: HiddenMark) -> Markup:
    return _mark(frame, mark.x, mark.y, hidden_text(mark), _square(HIDDEN, str(mark.number)), tabindex=0, role="img")


def hidden_text(mark: HiddenMark) -> str:
    """What the update hid in a place, in words."""
    return f"hidden {mark.number}: {mark.gaussians} Gaussians of what vanished, {mark.size}"


def change_text(mark: ChangeMark) -> str:
    """A change in words."""
    return f"change {mark.number}: {mark.how}, {mark.size}, confidence {mark.confidence:.2f}"


def group_text(group: GroupRow) -> str:
    """What a group's mark tells."""
    title = f"anchor group {group.index}, photos {span(group.first_frame, group.last_frame)}: {outcome_of(group)}"
    sure = "" if math.isnan(group.sigma_m) else f"95 % within {length(RADIUS_95 * group.sigma_m)}"
    figures = "\n".join(f"{label(key)}: {number(value)}" for key, value in group.figures.items())
    return "\n".join(part for part in (title, sure, why(group), figures) if part)


def why(group: GroupRow) -> str:
    """Why a group was refused or left out, and what to try; empty when it was placed."""
    if group.accepted:
        return group.left_out
    remedy = f"\nTry: {group.remedy.rstrip('.')}." if group.remedy else ""
    meaning = f": {group.meaning}" if group.meaning else ""
    return f"{plain(group.reason).capitalize()}{meaning}. {group.detail}{remedy}"


# --- around the map -----------------------------------------------------------------------------------------------


def _raster(content: MapContent, frame: Frame) -> Markup | None:
    if not content.raster:
        return None
    x0, y0, x1, y1 = content.extent
    left, top = frame(x0, y1)
    size = {"width": round((x1 - x0) * frame.scale, 2), "height": round((y1 - y0) * frame.scale, 2)}
    return element("image", href=content.raster, x=left, y=top, preserveAspectRatio="none", **size)


_ALONG_Y = "the model's y axis, for nothing says where north is"


def _north(content: MapContent) -> Markup:
    """An arrow to the north, or along the model's y axis where nobody knows where north is."""
    known = math.isfinite(content.place.north_deg)
    told = "north" if known else _ALONG_Y
    turn = f"rotate({content.place.north_deg if known else 0.0:.2f})"
    arrow = element("path", d="M0 -17L7 11L0 6L-7 11z", fill="#111", stroke="#fff", stroke_width=2, transform=turn)
    letter = {"y": 27, "text_anchor": "middle", "font_size": 13, "font_weight": 700, "fill": "#111"}
    text = element("text", "N" if known else "y", stroke="#fff", stroke_width=3, paint_order="stroke", **letter)
    return element(
        "svg", element("title", told), arrow, text, viewBox="-22 -22 44 54", class_="north", role="img", aria_label=told
    )


def _scale_bar(frame: Frame) -> Markup:
    metres = next((m for m in (1000, 500, 200, 100, 50, 20, 10, 5, 2) if m * frame.scale < WIDTH / 4), 1)
    share = 100 * metres * frame.scale / WIDTH
    return element("div", f"{metres} m", class_="scale", id="map-scale", style=f"width:{share:.2f}%")


def _colours(walk: bool) -> list[Markup]:
    """The keys of the walk's colours."""
    keys = []
    for k, (limit, colour) in enumerate(STOPS if walk else ()):
        text = f"95 % within {length(limit)}" if math.isfinite(limit) else f"more than {length(STOPS[k - 1][0])}"
        dot = element("circle", r=5, fill=colour)
        sample = element("svg", dot, viewBox="-9 -9 18 18", class_="key dot", aria_hidden="true")
        keys.append(element("span", sample, text))
    return keys
