"""What the update hid because it vanished, on the page: marks, counts, the scene before and after."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import report_run
from PIL import Image
from report_run import paper_street

from skyanchor.report import drawings
from skyanchor.report.build import build_report
from skyanchor.report.folder import report_inputs
from skyanchor.report.page import render_page
from skyanchor.report.scene_folder import held_back, phase_curves, scene_figures
from skyanchor.run.records import SCENE_FILE, VanishedRow
from skyanchor.run.results import open_run
from skyanchor.scene.schedule import CurvePoint
from skyanchor.storage import files


@pytest.fixture
def root(tmp_path: Path) -> Path:
    paper_street.write_scene(tmp_path / "paper", report_run.FRAMES)
    root = tmp_path / "walk"
    report_run.begin(tmp_path / "paper", root)
    report_run.add_anchors(tmp_path / "paper", root, (True, True))
    report_run.add_trajectory(root)
    report_run.add_scene(root)
    return root


def test_what_was_hidden_is_on_the_map_and_in_pictures(root: Path) -> None:
    assert "What the update hid" not in render_page(build_report(report_inputs(open_run(root), None)))
    rows = (
        VanishedRow(1, (3.0, 2.0, 0.5), (1.0, 4.0, 1.5), None, 640),
        VanishedRow(2, (9.0, 2.0, 0.5), (0.5, 0.5, 1.0), None, 60),
    )
    record = replace(open_run(root).scene, hidden=700, hidden_vanished=700, vanished=rows)
    files.save(root / "4-scene" / SCENE_FILE, record)
    for day in ("before", "after"):
        path = root / f"4-scene/vanished/{day}/1.jpg"
        path.parent.mkdir(parents=True)
        Image.fromarray(np.full((40, 60, 3), 90, np.uint8)).save(path)
    report = build_report(report_inputs(open_run(root), None))
    page = render_page(report)
    axes = drawings.horizontal_axes(report_run.UP)
    np.testing.assert_allclose([report.hidden[0].x, report.hidden[0].y], axes @ (3.0, 2.0, 0.5))
    assert "<h2>What the update hid</h2>" in page and "In 2 places the walk looks through" in page
    assert "700 Gaussians there are hidden" in page
    assert "hidden 1: 640 Gaussians of what vanished, 4.0 x 1.5 x 1.0 m" in page
    assert 'data-layer="vanished and hidden in the splats"' in page
    shown = page[page.index('id="hidden"') : page.index("</section>", page.index('id="hidden"'))]
    assert shown.count("<img") == 2, "the second has no pictures"


def test_what_was_left_out_for_the_guarded_views_is_said(root: Path) -> None:
    record = replace(open_run(root).scene, rolled_back=False)
    assert held_back(record) == () and scene_figures(record)["splats"]["left out"] == 0
    assert held_back(replace(record, left_out=3, added=9))[0].startswith("3 of 12 new Gaussians were left out")
    assert held_back(replace(record, left_out=3, added=0))[0].startswith("All new Gaussians were left out")


def test_the_phases_of_an_update_follow_each_other_on_the_chart(root: Path) -> None:
    record = open_run(root).scene
    done = [("insertion", 40), ("insertion", 80), ("joint", 100), ("joint", 420), ("amends", 100), ("amends", 105)]
    points = tuple(CurvePoint(phase, iteration, record.start) for phase, iteration in done)
    curve = phase_curves(replace(record, curves=points))[0]
    assert curve.x == (0.0, 40.0, 80.0, 180.0, 500.0, 600.0, 605.0)
