"""The page's sections of pictures, as HTML that needs no script: the scene, held-out views, matches, curves."""

from __future__ import annotations

from skyanchor.report.charts import chart_legend, line_chart
from skyanchor.report.content import Comparison, GroupRow, MatchLine, MatchPicture, Report
from skyanchor.report.map_drawing import why
from skyanchor.report.markup import Markup, element, joined
from skyanchor.report.sections import section, tag
from skyanchor.report.words import number, span

SIDES = (
    ("photo", "the photo"),
    ("before", "drawn before the update"),
    ("after", "drawn after the update"),
    ("error", "error after the update"),
)
"""The pictures of a held-out view."""

GAP = 8
"""Between the two photos of a match picture."""


def scene_section(report: Report) -> Markup | None:
    """A picture of the scene; the script puts the scene itself in its place."""
    if report.scene is None:
        return None
    shown = sum(report.scene.counts) - report.scene.counts[1]
    thinned = f"{shown:,} of {report.scene.total:,} splats, the ones that matter most: a page has to stay small."
    note = thinned if shown < report.scene.total else f"All {shown:,} splats of the scene."
    still = element(
        "img", src=report.scene.picture, alt="The scene after the update, from the air", class_="still"
    ) if report.scene.picture else None  # fmt: skip
    return section("scene3d", "The scene in 3D", note, element("div", still, id="scene-holder", class_="holder"))


def comparison_sections(report: Report) -> list[Markup]:
    """Held-out views from the street and from the air: photo, before, after, error."""
    found = []
    for kind, title in (("ground", "From the street"), ("aerial", "From the air")):
        views = [_comparison(view) for view in report.comparisons if view.kind == kind]
        note = (
            "Held-out photos, which took no part in the work, beside what is drawn at their place before and after the "
            "update. In the error picture dark is equal and bright is 64 grey levels off or more."
        )
        if views:
            found.append(section(kind, title, note, element("div", views, class_="grid")))
    return found


def _comparison(view: Comparison) -> Markup:
    pictures = [
        element("figure", element("img", src=getattr(view, side), alt=f"{view.name}: {what}", data_side=side),
                element("figcaption", what))
        for side, what in SIDES
    ]  # fmt: skip
    scores = f"{view.name}: PSNR {number(view.psnr_before, 2)} → {number(view.psnr_after, 2)}\u00a0dB"
    return element(
        "figure", element("div", pictures, class_="four"), element("figcaption", scores), class_="comparison"
    )


def matches_section(report: Report) -> Markup | None:
    """What tied the groups to the aerial photos."""
    if not report.matches:
        return None
    note = (
        "What tied each anchor group to the aerial photos: a street photo above, the part of an aerial photo that "
        "shows the same place below. Some of the matches as they were found; green ones agree with the position, red "
        "dashed ones were thrown out. Point at a line to see how far off it is."
    )
    return section("matches", "What matched", note, [_group_matches(report, group) for group in report.groups])


def _group_matches(report: Report, group: GroupRow) -> Markup | None:
    pictures = [_match_figure(picture) for picture in report.matches if picture.group == group.index]
    if not pictures:
        return None
    title = element("h3", f"Group {group.index}, photos {span(group.first_frame, group.last_frame)} ", tag(group))
    told = element("p", why(group), class_="note") if why(group) else None
    return joined(title, told, element("div", pictures, class_="grid"))


def _match_figure(picture: MatchPicture) -> Markup:
    (w, h), (aw, ah) = picture.street_size, picture.aerial_size
    good = sum(line.agrees for line in picture.lines)
    caption = f"street {picture.frame}, aerial {picture.aerial_name}: {good} of {len(picture.lines)} shown agree"
    lines = [_match(line, h + GAP) for line in sorted(picture.lines, key=lambda line: line.agrees)]
    drawn = element(
        "svg",
        element("image", href=picture.street, width=w, height=h),
        element("image", href=picture.aerial, y=h + GAP, width=aw, height=ah),
        lines, viewBox=f"0 0 {max(w, aw)} {h + GAP + ah}", role="img", aria_label=caption, class_="matches",
    )  # fmt: skip
    return element("figure", drawn, element("figcaption", caption))


def _match(line: MatchLine, top: int) -> Markup:
    ends = {"x1": f"{line.street_x:g}", "y1": f"{line.street_y:g}"}
    ends |= {"x2": f"{line.aerial_x:g}", "y2": f"{top + line.aerial_y:g}"}
    word = "agrees" if line.agrees else "thrown out"
    shapes = [
        element("title", f"{word}, {number(line.residual_px, 1)} px off in the street photo"),
        element("line", **ends, class_="touch"),
        element("line", **ends),
        element("circle", cx=ends["x1"], cy=ends["y1"], r=3.5),
        element("circle", cx=ends["x2"], cy=ends["y2"], r=3.5),
    ]
    return element("g", shapes, class_="good" if line.agrees else "bad")


def curves_section(report: Report) -> Markup | None:
    """How the renders got better."""
    if not report.curves:
        return None
    note = (
        "Likeness (PSNR) of the drawn scene to photos that were kept for this: they decide when the training stops, "
        "and take no other part in it."
    )
    drawn = line_chart(report.curves, "iteration", "PSNR [dB]", "PSNR of validation photos over the iterations")
    return section("curves", "While training", note, element("div", drawn, class_="card"), chart_legend(report.curves))
