"""The whole job through the command, from photos to updated splats, on a street of paper."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import paper_street
import pytest
from update_world import quick

import skyanchor
from skyanchor import pipeline
from skyanchor.cli.main import main
from skyanchor.gaussians.parameters import QUICK
from skyanchor.gaussians.ply import read_bytes, read_ply
from skyanchor.pipeline import CPU, PipelineConfig, read_settings
from skyanchor.run.layout import OF_A_RUN
from skyanchor.run.prepared import OF_A_SCAFFOLD
from skyanchor.run.results import open_run
from skyanchor.scaffold import training
from skyanchor.scene.patch import load_patch, remove_patch
from skyanchor.scene.scoring import losses

FRAMES = 14
LATER = 20
"""Frames of walks that are compared with each other."""


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


def finer() -> PipelineConfig:
    """The same with street depth and pictures that are fine enough to tell what vanished, and a short refinement."""
    config = small()
    update = quick()
    assert update.joint is not None
    rates = ((QUICK, None), (QUICK, QUICK, None))
    phases = [
        replace(phase, iterations=80, width=160, rates=of_phase)
        for phase, of_phase in zip((update.insertion, update.joint), rates, strict=True)
    ]
    stereo = replace(config.scene.points.stereo, width=320)
    scene = replace(config.scene, points=replace(config.scene.points, stereo=stereo))
    return replace(config, scene=replace(scene, update=replace(update, insertion=phases[0], joint=phases[1])))


@pytest.mark.slow
def test_two_walks_by_the_command_and_both_patches_come_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A box stands beside the street in June and not in July: July hides it, and nothing else of what June saw."""
    monkeypatch.setitem(pipeline.PRESETS, "cpu", finer())
    paper_street.write_scene(tmp_path, FRAMES)
    days = {"june": (*paper_street.street(), *paper_street.box()), "july": paper_street.street()}
    for (day, faces), aside in zip(days.items(), (0.0, -0.25), strict=True):
        paper_street.write_walk(tmp_path / f"{day}-walk", LATER, faces, aside)
    monkeypatch.chdir(tmp_path)
    everyday = ["--preset", "cpu", "--workers", "1"]
    assert main(["prepare", "aerial", "--out", "scaffold", *everyday]) == 0
    camera = ["--camera", "PINHOLE,230,230,160,90", *everyday]
    for day, onto in (("june", []), ("july", ["--onto", "june"])):
        words = ["--scaffold", "scaffold", *onto, "--ground", f"{day}-walk", "--out", day]
        assert main(["update", *words, *camera]) == 0
    june, july = open_run(Path("june")).scene, open_run(Path("july")).scene
    assert june.vanished == () and june.hidden_vanished == 0, "nothing vanished since the flight"
    (box,) = july.vanished
    middle = (paper_street.BOX[0] + paper_street.BOX[1]) / 2.0
    assert np.abs(np.array(box.centre) - middle).max() < 0.6 and max(box.size) < 2.0
    assert 20 < july.hidden_vanished <= july.hidden
    assert june.after.ground_psnr > june.before.ground_psnr + 2.0
    assert july.after.ground_psnr > july.before.ground_psnr + 0.5
    assert july.end is not None and max(losses(july.start.guarded, july.end.guarded)) <= 0.1
    page = Path("july/report.html").read_text()
    assert "What the update hid" in page and "hidden 1:" in page
    top, made = "july/4-scene/updated.ply", "4-scene/patch.npz"
    assert main(["patch", "remove", top, f"july/{made}", "--out", "june-again.ply"]) == 0
    assert Path("june-again.ply").read_bytes() == Path("june/4-scene/updated.ply").read_bytes()
    assert main(["patch", "remove", "june-again.ply", f"june/{made}", "--out", "bare.ply"]) == 0
    assert Path("bare.ply").read_bytes() == Path("scaffold/splats/splats.ply").read_bytes()
