"""The whole job through the command, from photos to updated splats, on a street of paper."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import paper_street
import pytest
from update_world import quick

import skyanchor
from skyanchor import pipeline
from skyanchor.cli.main import main
from skyanchor.gaussians.ply import read_bytes, read_ply
from skyanchor.pipeline import CPU, PipelineConfig, read_settings
from skyanchor.run.layout import OF_A_RUN
from skyanchor.run.prepared import OF_A_SCAFFOLD
from skyanchor.run.results import open_run
from skyanchor.scaffold import training
from skyanchor.scene.patch import load_patch, remove_patch

FRAMES = 14


def small() -> PipelineConfig:
    """The CPU's settings at the size of the scene."""
    aerial = training.with_iterations(training.CPU, 60)
    aerial = replace(aerial, train=replace(aerial.train, width=96), seeds=replace(aerial.seeds, count=4000))
    update = quick(joint=None)
    scene = replace(
        CPU.scene, aerial=aerial, update=replace(update, insertion=replace(update.insertion, iterations=60))
    )
    scene = replace(scene, points=replace(scene.points, stereo=replace(scene.points.stereo, width=96)))
    geometry = replace(CPU.geometry, stereo=replace(CPU.geometry.stereo, width=240))
    nodes = replace(CPU.anchors.places.nodes, spacing=12.0)
    places = replace(CPU.anchors.places, nodes=nodes)
    return replace(CPU, scene=scene, geometry=geometry, anchors=replace(CPU.anchors, places=places))


def test_update_goes_to_its_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The flight's photos come from three cameras of different sizes and shapes."""
    monkeypatch.setitem(pipeline.PRESETS, "cpu", small())
    paper_street.write_scene(tmp_path / "scene", FRAMES, paper_street.MIXED)
    scene, root = tmp_path / "scene", tmp_path / "run"
    words = ["--scaffold", str(scene / "aerial"), "--ground", str(scene / "ground"), "--out", str(root)]
    words += ["--camera", "PINHOLE,230,230,160,90", "--preset", "cpu", "--workers", "1"]
    assert main(["update", *words]) == 0
    assert "2 of 2 anchor groups were placed" in capsys.readouterr().out
    assert main(["evaluate", str(root), "--truth", str(scene / "ground/truth")]) == 0
    metrics = json.loads((root / "metrics.json").read_text())
    assert metrics["anchors"]["registered"] == 12 and 0.0 < metrics["anchors"]["ate_m"] < 0.15
    assert metrics["trajectory"]["registered"] == FRAMES and 0.0 < metrics["trajectory"]["ate_m"] < 0.15
    run = open_run(root)
    assert run.scene.after.ground_psnr > run.scene.before.ground_psnr + 0.5
    assert len(run.splats()) == run.scene.aerial + run.scene.added - run.scene.hidden
    patch, trained = load_patch(root / "4-scene/patch.npz"), root / "1-scaffold/splats/splats.ply"
    remove_patch(read_bytes(root / "4-scene/updated.ply"), patch, tmp_path / "back.ply")
    assert (tmp_path / "back.ply").read_bytes() == trained.read_bytes() and len(read_ply(trained)) == run.scene.aerial
    assert "2 of 2 anchor groups" in (root / "report.html").read_text()
    for folder, layout in ((root, OF_A_RUN), (root / "1-scaffold", OF_A_SCAFFOLD)):
        known = {*layout.stages, *layout.besides, "places"}
        assert {path.name for path in folder.iterdir()} <= known, "what a run writes is refused where it is another's"
    finished = {path: path.stat().st_mtime_ns for path in root.glob("*/recipe.json")}
    assert len(finished) == 3
    settings = read_settings(root)
    assert settings is not None
    skyanchor.update(scene / "aerial", scene / "ground", root, settings, workers=1)
    assert {path: path.stat().st_mtime_ns for path in root.glob("*/recipe.json")} == finished
