"""The whole way of a walk with a cut, through the command: both stretches are placed, and nothing crosses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import paper_street
import pycolmap
import pytest
from test_pipeline_whole import small

from skyanchor import pipeline
from skyanchor.cli.main import main
from skyanchor.geometry import rigid
from skyanchor.run import records
from skyanchor.run.results import open_run
from skyanchor.storage import files
from skyanchor.trajectory import TrajectoryReport
from skyanchor.types import Pose

STRETCH = 20


def there_and_back() -> list[Pose]:
    """Along the left wall, then from twice as far back along the right one: no photo goes on from the first half."""
    back = []
    for k in range(STRETCH):
        eye = np.array([15.0 - 0.4 * k, 0.3 * np.sin(k / 4.0), 1.6 + 0.03 * np.cos(k)])
        back.append(rigid.look_at(eye, eye + np.array([-1.0, -0.55 - 0.1 * np.sin(k / 5.0), 0.02]), paper_street.UP))
    return [*paper_street.walk(STRETCH), *back]


@pytest.mark.slow
def test_a_walk_with_a_cut_goes_to_its_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(pipeline.PRESETS, "cpu", small())
    scene, root = tmp_path / "scene", tmp_path / "run"
    paper_street.write_scene_of(scene, there_and_back())
    words = ["--scaffold", str(scene / "aerial"), "--ground", str(scene / "ground"), "--out", str(root)]
    words += ["--camera", "PINHOLE,230,230,160,90", "--preset", "cpu", "--workers", "1"]
    assert main(["trajectory", *words]) == 0
    assert "4 of 4 anchor groups were placed" in capsys.readouterr().out
    run = open_run(root)
    assert run.anchors_record.cuts == (STRETCH,), "found by the photos"
    for group in run.anchors.groups:
        assert len({frame < STRETCH for frame in group.group.frames}) == 1
        assert {pose.frame for pose in group.poses} == set(group.group.frames), "neither shifted nor enlarged"
    assert main(["evaluate", str(root), "--truth", str(scene / "ground/truth")]) == 0
    metrics = json.loads((root / "metrics.json").read_text())
    assert metrics["anchors"]["registered"] == 24 and 0.0 < metrics["anchors"]["ate_m"] < 0.15
    assert metrics["trajectory"]["registered"] == 2 * STRETCH and 0.0 < metrics["trajectory"]["ate_m"] < 0.15
    _nothing_crosses(root)


def _nothing_crosses(root: Path) -> None:
    """No submap, no closure and no track holds frames of both stretches."""
    report = files.load(root / "3-trajectory" / records.REPORT_FILE, TrajectoryReport)
    assert [(one.first, one.last) for one in report.submaps] == [(0, STRETCH - 1), (STRETCH, 2 * STRETCH - 1)]
    ends = [{frame < STRETCH for frame in (*one.from_frames, *one.frames)} for one in report.closures]
    assert len(ends) == 2 and all(len(sides) == 1 for sides in ends) and not report.rejected
    model = pycolmap.Reconstruction(str(root / "3-trajectory" / records.MODEL_FOLDER))
    first = {number for number, image in model.images.items() if int(image.name[1:4]) < STRETCH}
    assert len(first) == STRETCH and model.num_points3D() > 500
    for point in model.points3D.values():
        assert len({element.image_id in first for element in point.track.elements}) == 1
