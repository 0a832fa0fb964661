"""The whole job through the command, from photos to updated splats, on a street of paper."""

from __future__ import annotations

import json
from pathlib import Path

import paper_street
import pytest

from skyanchor.cli.main import main
from skyanchor.gaussians.ply import read_ply
from skyanchor.run.results import open_run
from skyanchor.update.patch import load_patch, remove_patch

FRAMES = 14


def test_update_goes_to_its_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paper_street.write_scene(tmp_path / "scene", FRAMES)
    scene, root = tmp_path / "scene", tmp_path / "run"
    words = ["--scaffold", str(scene / "aerial"), "--ground", str(scene / "ground"), "--out", str(root)]
    quick = [
        "--camera", "PINHOLE,230,230,160,90", "--preset", "cpu", "--workers", "1",
        "--geometry.stereo.width", "240", "--anchors.places.nodes.spacing", "12",
        "--scene.points.stereo.width", "160",
    ]  # fmt: skip
    assert main(["update", *words, *quick]) == 0
    assert "2 of 2 anchor groups were placed" in capsys.readouterr().out
    assert main(["evaluate", str(root), "--truth", str(scene / "ground/truth")]) == 0
    metrics = json.loads((root / "metrics.json").read_text())
    assert metrics["anchors"]["registered"] == 12 and 0.0 < metrics["anchors"]["ate_m"] < 0.1
    assert metrics["trajectory"]["registered"] == FRAMES and 0.0 < metrics["trajectory"]["ate_m"] < 0.1
    run = open_run(root)
    assert run.scene.after.ground_psnr > run.scene.before.ground_psnr + 3.0
    assert run.scene.after.aerial_psnr > run.scene.before.aerial_psnr - 0.3
    assert len(run.splats()) == run.scene.aerial + run.scene.added - run.scene.hidden
    remove_patch(root / "4-scene/updated.ply", load_patch(root / "4-scene/patch.npz"), tmp_path / "back.ply")
    trained = root / "1-scaffold/splats/splats.ply"
    assert (tmp_path / "back.ply").read_bytes() == trained.read_bytes() and len(read_ply(trained)) == run.scene.aerial
    assert "2 of 2 anchor groups" in (root / "report.html").read_text()
    finished = {path: path.stat().st_mtime_ns for path in root.glob("*/recipe.json")}
    assert len(finished) == 3
    assert main(["update", *words, *quick]) == 0
    assert {path: path.stat().st_mtime_ns for path in root.glob("*/recipe.json")} == finished
