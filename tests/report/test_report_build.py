"""From stage results to content: verdicts, refused groups, thinning."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np

from skyanchor.events import SCAFFOLD
from skyanchor.gaussians.seeding import splats_from_points
from skyanchor.gaussians.splats import select
from skyanchor.geometry import cameras, rigid
from skyanchor.report import advice, outcome
from skyanchor.report.advice import explained
from skyanchor.report.build import ReportInputs, build_report, thinned, verdict
from skyanchor.report.content import AIR_TABLE, STREET_TABLE
from skyanchor.report.page import render_page
from skyanchor.report.top_points import drawn
from skyanchor.report.words import work_of
from skyanchor.run import prepared as parts
from skyanchor.run.layout import OF_A_RUN
from skyanchor.run.prepared import OF_A_SCAFFOLD
from skyanchor.types import (
    AnchorGroup,
    AnchorPose,
    Anchors,
    Georeference,
    GroupFigures,
    LocalisedGroup,
    Overlap,
    Plane,
    Pose,
    PosedFrame,
    Reason,
    Refusal,
    Scaffold,
    Support,
    Tracks,
    View,
)

ROOT = Path(__file__).parents[2]
UP = np.array([0.0, 0.0, 1.0])
CAMERA = cameras.pinhole(64, 48, 60.0)


def standing_at(x: float, y: float) -> Pose:
    return rigid.look_at(np.array([x, y, 1.7]), np.array([x, y + 5.0, 1.7]), UP)


def inputs(accepted: bool) -> ReportInputs:
    rng = np.random.default_rng(0)
    above = rigid.look_at(np.array([3.0, 4.0, 40.0]), np.array([3.0, 4.0, 0.0]), np.array([0.0, 1.0, 0.0]))
    tracks = Tracks(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 2)))
    scaffold = Scaffold(
        Path("aerial"), (View("a.jpg", Path("a.jpg"), CAMERA, above),), np.zeros((0, 3)), np.zeros((0, 3), np.uint8),
        np.zeros(0, np.int64), tracks, UP, Plane(UP, 0.0), Georeference(np.zeros(3)),
    )  # fmt: skip
    groups = (AnchorGroup(0, (0, 1), (0,)), AnchorGroup(1, (2, 3), (0,)))
    covariance = np.diag([1e-6] * 3 + [1e-4, 4e-4, 1e-4])
    poses = tuple(AnchorPose(k, standing_at(float(k), 2.0), covariance) for k in (0, 1))
    refusal = Refusal(Reason.AMBIGUOUS_PLACE, "two places fit equally well", {"apart_m": 40.0})
    first = LocalisedGroup(
        groups[0], poses if accepted else (), None if accepted else refusal, GroupFigures(support=700)
    )
    second = LocalisedGroup(groups[1], (), refusal, attempts=(refusal,))
    points = np.c_[rng.uniform(-10, 10, (500, 2)), np.zeros(500)]
    return ReportInputs(
        "walk",
        scaffold,
        ("f0", "f1", "f2", "f3"),
        drawn(points, np.full((500, 3), 99, np.uint8), scaffold.up),
        Anchors((first, second), CAMERA),
    )


def test_nothing_placed_is_said_and_shown() -> None:
    report = build_report(inputs(accepted=False))
    assert report.status == "refused"
    assert "None of the 2 anchor groups" in report.verdict and "a second place fits" in report.verdict
    assert all(np.isnan(row.x) for row in report.groups)
    assert "two places fit equally well" in render_page(report)


def test_what_is_known_is_not_advised() -> None:
    told, unsaid = advice.Known(place=True, camera=True), advice.Known()
    for reason in Reason:
        fresh, fitting = explained(reason, unsaid), explained(reason, told)
        assert fresh.meaning == fitting.meaning and fitting.remedy and "{" not in fresh.remedy + fitting.remedy
        assert not re.search(r"--(near|within|camera)\b", fitting.remedy), reason
    assert "--near" in explained(Reason.NO_PLACE).remedy and "--camera" in explained(Reason.SHAPE_BENT).remedy


def test_refused_stretches_are_named_with_cause_and_remedy() -> None:
    groups = inputs(accepted=True).anchors.groups
    (line,) = outcome.refused(groups, ("f0", "f1", "f2", "f3"), advice.Known())
    assert line.startswith("Photos 2 to 3 (f2 to f3) were refused: a second place fits nearly as well (two places")
    named = replace(groups[1], refusal=Refusal(Reason.NO_PLACE, ""))
    (line,) = outcome.refused((groups[0], named), ("f0", "f1", "f2", "f3"), advice.Known(place=True))
    assert "no place of the aerial model looks like these frames. Try a larger radius or area, or none: was" in line


def test_the_most_frequent_cause_is_named_when_nothing_is_placed() -> None:
    _, group = inputs(accepted=True).anchors.groups
    reasons = (Reason.NO_PLACE, Reason.SHAPE_BENT, Reason.NO_PLACE)
    groups = [replace(group, refusal=Refusal(reason, "")) for reason in reasons]
    text = outcome.none_placed(groups, advice.Known())
    assert text.startswith("None of the 3 anchor groups could be placed in the aerial model")
    assert (
        "The most likely cause: no place of the aerial model looks like these frames (so with 2 of them). Try --near"
        in text
    )
    assert "--near" not in outcome.none_placed(groups, advice.Known(place=True))
    assert outcome.none_placed(groups[:1], advice.Known()).startswith("The only anchor group could not be placed")
    bent = outcome.none_placed(groups[1:2], advice.Known())
    assert text.count(advice.FLOWN) == 1 and bent.endswith(f". And {advice.FLOWN}")
    said = outcome.none_placed(groups[1:2], advice.Known(place=True))
    assert advice.FLOWN not in said and said.endswith(f". And {advice.WHERE_SAID}")
    assert outcome.none_placed(groups, advice.Known(place=True)).count(advice.WHERE_SAID) == 1


def test_anchors_alone_are_on_the_map_with_their_sigma() -> None:
    report = build_report(inputs(accepted=True))
    assert report.status == "partial"
    assert [(f.x, f.y, f.support) for f in report.map.frames] == [(0.0, 2.0, "anchored"), (1.0, 2.0, "anchored")]
    np.testing.assert_allclose(report.map.frames[0].sigma_m, 0.02)
    assert (report.map.cameras[0].x, report.map.cameras[0].y) == (3.0, 4.0)


def test_a_refused_group_stands_where_the_trajectory_puts_its_frames() -> None:
    frames = tuple(PosedFrame(k, Support.KEYFRAME, standing_at(2.0 * k, 1.0), 50, 0.1) for k in range(3))
    lost = PosedFrame(3, Support.MISSING, None, 0, float("nan"), Refusal(Reason.NO_OVERLAP, "nothing in common"))
    report = build_report(replace(inputs(accepted=True), frames=(*frames, lost)))
    assert (report.groups[1].x, report.groups[1].y) == (4.0, 1.0)
    assert report.groups[1].attempts == ("ambiguous place: two places fit equally well",)
    assert report.verdict.startswith("3 of 4 photos located; 95 % of the positions are expected within 28 cm (standard")
    assert "deviation 10 cm per axis, the shift that all photos share included" in report.verdict
    assert np.isnan(report.map.frames[3].x) and report.map.frames[3].reason == "nothing in common"


def test_the_verdict_tells_of_the_renders() -> None:
    frames = tuple(PosedFrame(k, Support.KEYFRAME, standing_at(2.0 * k, 1.0), 50, 0.1) for k in range(4))
    tables = {
        STREET_TABLE: {"psnr before": 12.04, "psnr after": 21.96},
        AIR_TABLE: {"psnr before": 27.0, "psnr after": 26.95},
    }
    text, _ = verdict(replace(inputs(accepted=True), frames=frames, figures=tables))
    assert "went from 12.0 to 22.0 dB on the street and went from 27.0 to 26.9 dB from the air" in text
    tables[AIR_TABLE]["psnr after"] = 26.99
    text, _ = verdict(replace(inputs(accepted=True), frames=frames, figures=tables))
    assert "on the street and stayed at 27.0 dB from the air" in text
    assert "dB" not in verdict(replace(inputs(accepted=True), frames=frames))[0]


def test_a_worse_view_from_above_is_not_called_good() -> None:
    whole = inputs(accepted=True)
    frames = tuple(PosedFrame(k, Support.KEYFRAME, standing_at(2.0 * k, 1.0), 50, 0.004) for k in range(4))
    placed = replace(whole, frames=frames, anchors=Anchors(whole.anchors.groups[:1], CAMERA))
    tables = {name: {"psnr before": 27.0, "psnr after": 26.9} for name in (STREET_TABLE, AIR_TABLE)}
    good = build_report(replace(placed, figures=tables))
    assert good.status == "good" and good.warnings == () and "within 1.1 cm" in good.verdict
    tables[AIR_TABLE]["psnr after"] = 25.6
    worse = build_report(replace(placed, figures=tables))
    assert worse.status == "partial" and "1.4 dB" in worse.warnings[0]


def test_every_reason_is_explained_in_page_and_docs() -> None:
    assert [reason for reason in Reason if not (explained(reason).meaning and explained(reason).remedy)] == []
    manual = (ROOT / "docs/stages.md").read_text()
    rows = "".join(line.split("|")[1] for line in manual.splitlines() if line.startswith("| `"))
    assert [reason for reason in Reason if f"`{reason}`" not in rows] == []
    assert set(re.findall(r"`([a-z-]+)`", rows)) == set(Reason)


def test_every_stage_and_every_part_of_a_scaffold_says_what_it_does() -> None:
    scaffold = [f"{SCAFFOLD}/{part}" for part in (*OF_A_SCAFFOLD.stages, parts.PLACES)]
    for stage in (*scaffold, *(name for name in OF_A_RUN.stages if name != SCAFFOLD)):
        assert work_of(stage), stage


def test_only_what_was_measured_is_printed() -> None:
    rows = build_report(inputs(accepted=True)).groups
    assert rows[0].figures == {"support": 700, "aerial_views": 0} and rows[1].figures == {"apart_m": 40.0}


def test_what_earlier_walks_say_is_printed_beside_it() -> None:
    given = inputs(accepted=True)
    overlap = Overlap(("june",), 6, 300, carried=False, metres=0.05, position_sigmas=1.25)
    first, second = given.anchors.groups
    anchors = replace(given.anchors, groups=(replace(first, overlap=overlap), second))
    report = build_report(replace(given, anchors=anchors))
    assert {"overlap_keyframes": 6, "overlap_metres": 0.05}.items() <= report.groups[0].figures.items()
    assert "overlap_turn_sigmas" not in report.groups[0].figures
    page = render_page(report)
    assert "position apart [stated sigmas]" in page and "photos of earlier walks" in page


def test_thinning_keeps_the_most_visible() -> None:
    rng = np.random.default_rng(1)
    splats = splats_from_points(rng.normal(size=(50, 3)), np.zeros((50, 3), np.uint8), sh_degree=0)
    splats.log_scales[:] = -4.0
    splats.log_scales[[7, 31]] = 0.0
    parts = (select(splats, slice(0, 10)), select(splats, slice(10, 20)), select(splats, slice(20, 50)))
    kept, counts = thinned(parts, 2)
    np.testing.assert_array_equal(kept.means, splats.means[[7, 31]])
    assert counts == (1, 0, 1)
    everything, counts = thinned(parts, 99)
    assert counts == (10, 10, 30) and len(everything) == 50
