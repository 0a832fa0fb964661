"""The page's sections of text and tables, as HTML that needs no script: each gives its part of the report, or None.

Those of pictures are in `picture_sections`; what vanished, what changed and the mesh have files of their own, `*_part`.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence

from skyanchor.report.content import AIR_TABLE, STREET_TABLE, Download, GroupRow, RecipeRow, Report, SubmapRow
from skyanchor.report.map_drawing import group_text, map_figure, outcome_of, why
from skyanchor.report.markup import Markup, element, joined
from skyanchor.report.words import (
    GLOSSARY,
    SHORTENED,
    TABLES,
    UNITS,
    counted,
    duration,
    label,
    length,
    number,
    plain,
    ranges,
    span,
    stage_name,
    work_of,
)
from skyanchor.run.runtime import StageTime, StepTime
from skyanchor.sfm.uncertainty import RADIUS_95, position_sigma_m, radius_95_m

MOST_TILES = 6
"""In a row."""
TAGS = {"placed": "ok", "left out": "part", "refused": "no"}


def section(name: str, title: str, note: object, *parts: object) -> Markup:
    """A section with a heading, a note where there is one, and its parts."""
    told = element("p", note, class_="note") if note else None
    return element("section", element("h2", title), told, *parts, id=name)


# --- head ---------------------------------------------------------------------------------------------------------


def verdict(report: Report) -> Markup:
    """The sentence, and what a person should know besides."""
    sentence = element("p", report.verdict, class_=f"verdict {report.status}", id="verdict")
    warned = [element("li", text) for text in report.warnings]
    return joined(sentence, element("ul", warned, class_="warnings") if warned else None)


def headline(report: Report) -> Markup:
    """The few figures that matter."""
    placed = sum(group.accepted for group in report.groups)
    posed = [frame for frame in report.map.frames if math.isfinite(frame.x)]
    of_anchors = report.reached == "anchors"
    asked = sum(g.last_frame - g.first_frame + 1 for g in report.groups) if of_anchors else len(report.map.frames)
    rows = [
        ("anchor photos located" if of_anchors else "photos located", f"{len(posed)} of {asked}"),
        ("anchor groups placed", f"{placed} of {len(report.groups)}"),
    ]
    sigmas = [frame.sigma_m for frame in posed if math.isfinite(frame.sigma_m)]
    if sigmas:
        rows.append(("95 % of positions within", length(radius_95_m(sigmas))))
        rows.append(("standard deviation per axis", length(position_sigma_m(sigmas))))
    ate = report.figures.get("anchors" if of_anchors else "trajectory", {}).get("ate_m")
    if ate is not None:
        rows.append(("measured error against truth (ATE)", length(ate)))
    for table, name in ((STREET_TABLE, "street photos"), (AIR_TABLE, "aerial photos")):
        if table in report.figures:
            before, after = (report.figures[table][f"psnr {when}"] for when in ("before", "after"))
            rows.append((f"likeness to {name} held out", f"{before:.1f} → {after:.1f}\u00a0dB"))
    if report.seconds:
        rows.append(("time in all", duration(sum(report.seconds.values()))))
    return tiles(rows)


def tiles(rows: Sequence[tuple[str, str]]) -> Markup:
    """Figures with their names, side by side; rows of equal length where the page is wide."""
    columns = math.ceil(len(rows) / math.ceil(len(rows) / MOST_TILES)) if rows else 1
    held = [element("div", element("dt", name), element("dd", value)) for name, value in rows]
    return element("dl", held, class_="tiles", style=f"--columns:{columns}")


def about(report: Report) -> Markup:
    """What, when, from what, where and by which command."""
    made, system = report.made, report.map.place.system
    done = {"anchors": "anchor groups located", "trajectory": "every photo located", "scene": "the 3D scene updated"}
    rows: list[tuple[str, object]] = [
        ("what", f"A walk of {counted(report.frames, 'street photo')} in an aerial model of "
                 f"{counted(len(report.map.cameras), 'photo')}; done: {done[report.reached]}"),
    ]  # fmt: skip
    rows += [("when", made.when)] if made.when else []
    rows += [(row.what, _input(row.where, row.count, row.digest)) for row in made.inputs]
    rows.append(("coordinates", system or "the aerial model's own, metres; nothing says where on Earth it lies"))
    rows += [("command", element("code", command)) for command in made.commands]
    return element("dl", [(element("dt", name), element("dd", value)) for name, value in rows], class_="about")


def _input(where: str, count: int, digest: str) -> Markup:
    counts = f", {counted(count, 'photo')}" if count else ""
    told = joined(", digest ", element("code", digest[:12])) if digest else None
    return joined(element("code", where), counts, told)


# --- map ----------------------------------------------------------------------------------------------------------


def map_section(report: Report) -> Markup:
    """The map, what can be taken from it, and what is not on it."""
    note = (
        "The aerial model from above with what was located in it. Point at a mark, or tap it, to see its figures; "
        "refused anchor groups carry the reason."
    )
    links = element("p", "Take it along: ", [_download(one) for one in report.downloads], class_="chips take")
    parts = (map_figure(report), links if report.downloads else None, _placeless(report.groups), _missing(report))
    return section("map", "Map", note, *parts)


def _download(one: Download) -> Markup:
    uri = f"data:{one.kind};base64,{base64.b64encode(one.text.encode()).decode()}"
    return joined(element("a", one.what, href=uri, download=one.name), " ")


def _placeless(groups: Sequence[GroupRow]) -> Markup | None:
    chips = [
        element("span", f"group {g.index}: {plain(g.reason)}", class_="tag no", title=group_text(g), tabindex=0,
                data_group=g.index)
        for g in groups if math.isnan(g.x)
    ]  # fmt: skip
    return (
        element("p", "Refused and not on the map, for they have no place: ", chips, class_="chips") if chips else None
    )


def _missing(report: Report) -> Markup | None:
    reasons: dict[str, list[int]] = {}
    for frame in report.map.frames:
        if math.isnan(frame.x):
            reasons.setdefault(frame.reason or "no reason recorded", []).append(frame.index)
    rows = [element("li", f"{counted(len(some), 'photo')} ({ranges(some)}): {why}") for why, some in reasons.items()]
    return element("div", element("h3", "Photos that were not located"), element("ul", rows)) if rows else None


# --- tables -------------------------------------------------------------------------------------------------------


def table(columns: Sequence[object], rows: Sequence[Sequence[object]]) -> Markup:
    """Numbers to the right, everything else to the left; wide tables scroll on their own."""
    numeric = [all(isinstance(row[k], int | float) for row in rows) for k in range(len(columns))]
    head = [element("th", name, class_="n" if right else None) for name, right in zip(columns, numeric, strict=True)]
    body = [element("tr", [_cell(value) for value in row]) for row in rows]
    inside = element("table", element("thead", element("tr", head)), element("tbody", body))
    return element("div", inside, class_="scroll", tabindex=0)


def _cell(value: object) -> Markup:
    if isinstance(value, int | float):
        return element("td", number(value), class_="n")
    return element("td", value)


def tag(group: GroupRow) -> Markup:
    """The group's outcome as a coloured word."""
    return element("span", outcome_of(group), class_=f"tag {TAGS[outcome_of(group)]}")


def groups_section(report: Report) -> Markup | None:
    """Three plain columns per group, and everything that was measured below."""
    if not report.groups:
        return None
    note = (
        "Short runs of photos that were looked for in the aerial photos. A refused group gets no position: the walk is "
        "then held by the other groups."
    )
    details = [_details(group) for group in report.groups if group.figures or group.attempts]
    return section("groups", "Anchor groups", note, groups_table(report.groups), details)


def groups_table(groups: Sequence[GroupRow]) -> Markup:
    """Which photos, the outcome, and how sure it is or why not."""
    rows = [(_whole(f"{g.index}: photos {span(g.first_frame, g.last_frame)}"), tag(g), _sure(g)) for g in groups]
    return table(["group", "outcome", "95 % within, or why not"], rows)


def _sure(group: GroupRow) -> Markup:
    told = [length(RADIUS_95 * group.sigma_m)] if math.isfinite(group.sigma_m) else []
    return element("div", "\n".join([*told, why(group)]).strip(), class_="why" if why(group) else None)


def _details(group: GroupRow) -> Markup:
    rows = [(label(key), float(value)) for key, value in group.figures.items()]
    tries = element("ul", [element("li", text) for text in group.attempts])
    parts = [
        table(["figure", "value"], rows) if rows else None,
        joined(element("p", "Tried before:"), tries) if group.attempts else None,
    ]
    return element("details", element("summary", f"group {group.index}: everything that was measured"), *parts)


def submaps_section(report: Report) -> Markup | None:
    """The stretches of the walk with their drift."""
    if not report.submaps:
        return None
    note = (
        "A long walk is mapped in stretches (submaps). Closure error: where a stretch arrived at its last anchors "
        "before it was held to them, that is its drift."
    )
    rows = [(f"{s.index}", _whole(f"photos {span(s.first_frame, s.last_frame)}"), _closure(s)) for s in report.submaps]
    details = [
        element("details", element("summary", f"stretch {s.index}: everything that was measured"),
                table(["figure", "value"], [(label(key), float(value)) for key, value in s.figures.items()]))
        for s in report.submaps if s.figures
    ]  # fmt: skip
    held = table(["stretch", "photos", "closure error"], rows)
    return section("submaps", "Stretches of the walk", note, held, details)


def _closure(submap: SubmapRow) -> str:
    gap, way = submap.figures.get("closure_m"), submap.figures.get("over_m")
    if gap is None or way is None:
        return "held by anchors at one end only, so there is none"
    return f"{length(gap)} after {length(way)}"


def figures_section(report: Report) -> Markup | None:
    """Every other table of figures."""
    tables = [
        (
            element("h3", TABLES.get(title, plain(title).capitalize())),
            tiles([(label(name), number(value)) for name, value in figures.items()]),
        )
        for title, figures in report.figures.items()
        if figures
    ]
    return section("figures", "Figures", "", tables) if tables else None


def times_section(report: Report) -> Markup | None:
    """How long each stage worked, and the most memory it took at a time."""
    if not report.seconds:
        return None
    most = max(report.seconds.values())
    kinds = [k for k in (0, 1) if any(peak[k] for peak in report.memory.values())]
    rows = [
        (
            _whole(stage_name(stage)),
            work_of(stage),
            _whole(duration(seconds)),
            *(_gigabytes(report.memory.get(stage, (0, 0))[k]) for k in kinds),
            _bar(seconds / most if most else 0.0),
        )
        for stage, seconds in report.seconds.items()
    ]
    columns = ["stage", "what it does", "time", *(("most memory", "on the GPU")[k] for k in kinds), ""]
    steps = [element("details", element("summary", f"{one.stage}, step by step"), _steps(one)) for one in report.steps]
    return section("times", "Time and memory" if kinds else "Time", "", table(columns, rows), steps)


def _steps(stage: StageTime) -> Markup:
    """The work of a stage, all processes together."""
    rows = [
        (
            step.name,
            step.in_the_paper or "–",
            *map(_whole, _spent(step)),
            _bar(step.share / stage.steps[0].share if stage.steps[0].share else 0.0),
        )
        for step in stage.steps
    ]  # fmt: skip
    rest = f", {100 * stage.solver_share:.1f} % of it in the solver" if stage.solver_share is not None else ""
    unit = UNITS.get(stage.unit, stage.unit)
    told = f"{stage.work_s:.1f} s of work, all processes together, for {counted(stage.count, unit)}{rest}."
    columns = ["step", "in the paper", "work", "share", f"per {unit}", ""]
    parts = [element("p", told, class_="note"), table(columns, rows)]
    if stage.phases:
        phases = [(one.name, *map(_whole, _spent(one))) for one in stage.phases]
        parts.append(table(["the same by what the map is at", "work", "share", f"per {unit}"], phases))
    return joined(*parts)


def _spent(step: StepTime) -> tuple[str, str, str]:
    """Seconds, share and seconds for each of what they are divided by."""
    return f"{step.seconds:.1f} s", f"{100 * step.share:.0f} %", f"{step.each_s:.3f} s"


def _gigabytes(size: int) -> Markup:
    return _whole(f"{size / 1e9:.1f} GB" if size else "–")


def _whole(text: str) -> Markup:
    """Words that stay on one line."""
    return element("span", text, class_="whole")


def _bar(share: float) -> Markup:
    return element("div", element("div", class_="bar", style=f"width:{100 * share:.1f}%"), class_="bars")


# --- words and settings -------------------------------------------------------------------------------------------


def glossary_section(paths: str) -> Markup:
    """The page's words explained; what stands for folders only where a path begins with it."""
    words = [entry for entry in GLOSSARY if entry.word != SHORTENED or SHORTENED in paths]
    rows = [(element("dt", entry.word), element("dd", entry.meaning)) for entry in words]
    return section("glossary", "Words", "", element("dl", rows, class_="glossary"))


def settings_section(report: Report) -> Markup:
    """The recipes of all stages."""
    made = report.made
    note = (
        "Enough to make this run again: the commands above, the inputs by their digests, the settings of every stage."
    )
    versions: Mapping[str, str] = made.recipes[-1].versions if made.recipes else {}
    rows = [(name, version) for name, version in versions.items()]
    parts = [table(["package", "version"], rows) if rows else None, [_recipe(row) for row in made.recipes]]
    return section("settings", "Settings and versions", note, *parts)


def _recipe(row: RecipeRow) -> Markup:
    told = {"settings": row.settings, **({"inputs": row.inputs} if row.inputs else {}), "versions": row.versions}
    text = json.dumps(told, indent=1, ensure_ascii=False)
    return element("details", element("summary", f"{row.stage}: all settings"), element("pre", text, tabindex=0))
