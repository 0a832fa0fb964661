"""The report and the viewer on a run folder as it grows: begun, anchors, trajectory, update, and refused."""

from __future__ import annotations

import base64
import html
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import report_run
from PIL import Image
from report_run import paper_street

from skyanchor.anchors.priors import Near
from skyanchor.anchors.walk import GroupVerdict
from skyanchor.cli.main import main
from skyanchor.errors import InputError
from skyanchor.events import ANCHORS, SCAFFOLD, Note, StageFinished
from skyanchor.geometry import rigid
from skyanchor.pipeline import CPU, SETTINGS_FILE
from skyanchor.report.advice import Known
from skyanchor.report.build import build_report
from skyanchor.report.content import Report
from skyanchor.report.folder import report_inputs, write_plots, write_report
from skyanchor.report.live_folder import live_scene, state_of, status_of
from skyanchor.report.live_scene import layers
from skyanchor.report.map_ahead import MapAhead
from skyanchor.report.outcome import known
from skyanchor.report.page import render_page
from skyanchor.report.shown_paths import shown_settings
from skyanchor.report.top_points import from_above
from skyanchor.run.inputs import remember_command
from skyanchor.run.layout import STATE
from skyanchor.run.memory import MEMORY
from skyanchor.run.results import Run, open_run
from skyanchor.sequence import SequenceConfig, load_sequence
from skyanchor.storage import files


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("paper")
    paper_street.write_scene(root, report_run.FRAMES)
    return root


@pytest.fixture
def run(scene: Path, tmp_path: Path) -> Path:
    report_run.begin(scene, tmp_path / "walk")
    return tmp_path / "walk"


def content(run: Path) -> Report:
    """What the page of the run shows, and that it is on the page."""
    report = build_report(report_inputs(open_run(run), None))
    page = render_page(report)
    assert len(page) < 10 << 20 and html.escape(report.verdict) in page
    return report


def test_up_and_ground_are_those_of_the_run(run: Path) -> None:
    scaffold = open_run(run).scaffold
    np.testing.assert_allclose(scaffold.up, report_run.UP)
    assert scaffold.ground.offset == 0.5
    np.testing.assert_allclose(scaffold.ground.normal, report_run.UP)


def test_before_the_anchors_there_is_nothing_to_report(run: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no anchors yet"):
        write_report(open_run(run))
    with pytest.raises(InputError, match="is no run folder"):
        open_run(tmp_path)


def test_the_map_is_drawn_ahead_as_the_report_would(scene: Path, run: Path, tmp_path: Path) -> None:
    report_run.add_anchors(scene, run, (True, False))
    drawing = MapAhead(run)
    for event in (Note(ANCHORS, "two groups"), StageFinished(SCAFFOLD, 1.0)):
        drawing(event)
        assert drawing.map() is None
    drawing(StageFinished(ANCHORS, 1.0))
    above = drawing.map()
    assert above is not None and above == from_above(open_run(run))
    page = write_report(open_run(run)).read_text()
    assert write_report(open_run(run), above=above).read_text() == page
    assert write_report(open_run(run), above=replace(above, extent=(0.0, 0.0, 9.0, 9.0))).read_text() != page
    nowhere = MapAhead(tmp_path / "nowhere")
    nowhere(StageFinished(ANCHORS, 1.0))
    assert nowhere.map() is None


def test_after_the_anchors(scene: Path, run: Path) -> None:
    report_run.add_anchors(scene, run, (True, False))
    held = content(run)
    assert held.reached == "anchors" and held.status == "partial" and held.scene is None
    assert held.verdict == (
        "1 of 2 anchor groups were placed in the aerial model, 6 photos in all; 95 % of the positions are expected "
        "within 2.8 cm (standard deviation 1.0 cm per axis, the shift that all photos share included)."
    )
    assert [(one.group, one.accepted, one.frame) for one in held.matches] == [
        (0, True, "g002.png"), (1, False, "g008.png"),
    ]  # fmt: skip
    assert [line.agrees for line in held.matches[1].lines] == [False] + [True] * 8
    refused = held.groups[1]
    assert "--within" in refused.remedy and "--near" in refused.remedy and np.isnan(refused.x)
    assert main(["report", str(run)]) == 0 and html.escape(held.verdict) in (run / "report.html").read_text()
    assert (run / "plots/trajectory.png").is_file() and not (run / "plots/curves.png").exists()


def test_a_refused_run_has_a_report(scene: Path, run: Path) -> None:
    report_run.add_anchors(scene, run, (False, False))
    held = content(run)
    assert held.status == "refused" and "a second place fits nearly as well. Try --near" in held.verdict
    assert len(held.matches) == 2 and held.map.frames == () and len(held.map.cameras) == 21
    assert held.downloads == ()


def test_after_the_trajectory(scene: Path, run: Path) -> None:
    report_run.add_anchors(scene, run, (True, True))
    report_run.add_trajectory(run)
    held = content(run)
    assert held.reached == "trajectory" and held.status == "partial"
    assert "1 of them left out" in held.verdict and held.verdict.startswith("All 12 photos located; 95 %")
    assert [bool(one.left_out) for one in held.groups] == [False, True]
    assert held.warnings == ("Group 1 lies 9 m from the walk.",)
    figures = held.submaps[0].figures
    assert figures["closure_m"] == 0.21 and figures["over_m"] == 4.8 and figures["tracks"] == 900.0


def test_after_the_update(scene: Path, run: Path) -> None:
    report_run.add_anchors(scene, run, (True, True))
    report_run.add_trajectory(run)
    report_run.add_scene(run)
    held = content(run)
    assert held.reached == "scene" and "from 12.0 to 21.0 dB" in held.verdict
    assert held.scene is not None and len(held.scene.path) == report_run.FRAMES
    assert held.scene.counts == (37, 3, 11) and held.scene.total == 48  # two moved and one hidden, nine new
    assert len(base64.b64decode(held.scene.splats)) == 32 * (37 + 3 + 11)
    assert held.scene.picture.startswith("data:image/jpeg")
    assert {one.kind for one in held.comparisons} == {"aerial", "ground"}
    assert all(one.psnr_after > 30 > 10 > one.psnr_before for one in held.comparisons)
    assert any("undone" in text for text in held.warnings)
    assert [one.x for one in held.curves] == [(0, 100, 150)] * 2
    write_plots(run / "plots", held)
    curves = np.asarray(Image.open(run / "plots/curves.png"))
    assert curves.std() > 1 and curves.shape[1] > 600


def test_after_an_update_onto_an_earlier_walk(scene: Path, run: Path) -> None:
    report_run.add_anchors(scene, run, (True, True))
    report_run.add_trajectory(run)
    report_run.add_scene(run, later=True)
    held, shown = content(run), live_scene(open_run(run))
    assert held.figures["render of the earlier walk june"] == {
        "psnr before": 22.0, "psnr after": 22.5, "ssim before": 0.7, "ssim after": 0.8,
    }  # fmt: skip
    assert [one.label for one in held.curves] == ["street photos", "aerial photos", "earlier walk june"]
    assert held.curves[2].y == (22.0, 22.5, 22.5)
    assert shown.before is not None and shown.after is not None and shown.sequences == ("monday", "friday")
    assert len(shown.before) == 49 and len(shown.after) == 58 and shown.before.owner.max() == 1
    assert any("or of an earlier walk" in text for text in held.warnings)


def test_the_page_names_no_folder_of_this_machine(scene: Path, run: Path) -> None:
    report_run.add_anchors(scene, run, (True, True))
    remember_command(run, f"skyanchor anchors --scaffold={scene}/flight --ground '{run.parent}/a walk' --camera f=9")
    report = content(run)
    page, made = render_page(report), report.made
    assert str(scene.parent) not in page and str(run.parent) not in page
    assert made.commands == (f"skyanchor anchors --scaffold=…/{scene.name}/flight --ground a walk --camera f=9",)
    wheres = [row.where for row in made.inputs]
    assert wheres == [f"…/{scene.name}/aerial", "…/aerial/images", f"…/{scene.name}/ground"]
    settings = {"weights": f"{run.parent}/w.pt", "list": [3, "/a/b/c", "/c"], "name": "of/no/root"}
    assert shown_settings(settings, run) == {"weights": "w.pt", "list": [3, "…/b/c", "c"], "name": "of/no/root"}


def test_the_page_tells_how_the_run_was_made(scene: Path, run: Path) -> None:
    report_run.add_anchors(scene, run, (True, True))
    remember_command(run, "skyanchor anchors --out walk")
    remember_command(run, "skyanchor trajectory --out walk")
    remember_command(run, "skyanchor anchors --out walk")
    (run / "log.txt").write_text(
        "2026-01-01T00:00:00Z  2-anchors: done in 3.0 s\n2026-01-01T00:01:00Z  x: done in 1.0 s\n"
    )
    (run / MEMORY).write_text('{"2-anchors": {"bytes": 5000000, "gpu_bytes": 0}}')
    held = content(run)
    made = held.made
    assert held.memory == {ANCHORS: (5_000_000, 0)}
    assert made.commands == ("skyanchor anchors --out walk", "skyanchor trajectory --out walk")
    assert made.when == "2026-01-01 00:00 UTC" and [row.stage for row in made.recipes] == [ANCHORS]
    assert [(row.what, row.count) for row in made.inputs] == [
        ("aerial model", 0), ("aerial photos", 21), ("street photos", 12),
    ]  # fmt: skip
    near = replace(CPU.anchors, prior=replace(CPU.anchors.prior, near=(Near(3.0, 4.0, 9.0),)))
    files.save(run / STATE / SETTINGS_FILE, replace(CPU, anchors=near))
    assert len(content(run).map.prior) == 1


def test_photos_that_moved_away_cost_their_pictures_only(scene: Path, run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(scene, copy)
    report_run.begin(copy, run)
    report_run.add_anchors(scene, run, (True, True))
    for photo in (copy / "ground/images").glob("g00[0-4]*"):
        photo.unlink()
    assert [one.group for one in content(run).matches] == [1]


def test_frames_of_a_video_lie_in_the_run_folder(run: Path) -> None:
    assert open_run(run).photos["g003.png"].parent.name == "images"
    (run / "frames/images").mkdir(parents=True)
    Image.new("RGB", (8, 6)).save(run / "frames/images/f0.jpg")
    assert list(open_run(run).photos) == ["f0.jpg"]


def test_the_viewer_sees_a_run_grow(scene: Path, run: Path) -> None:
    seen = live_scene(open_run(run))
    assert len(seen.aerial) == 21 and seen.ground == () and seen.before is None and seen.points is not None
    first = state_of(run)
    _one_group_done(scene, run)
    assert state_of(run) != first
    assert [view.image_id for view in live_scene(open_run(run)).ground] == [0, 1, 2, 3, 4, 5]
    shutil.rmtree(run / ANCHORS)
    report_run.add_anchors(scene, run, (True, True))
    assert len(live_scene(open_run(run)).ground) == 12
    report_run.add_trajectory(run)
    report_run.add_scene(run)
    last = live_scene(open_run(run))
    assert last.sequences == ("monday",) and all(view.path.is_file() for view in last.ground)
    sizes = {layer.name: len(layer.splats) for layer in layers(last)}
    assert sizes["aerial"] == 37 and sizes["ground 1"] == 9 and sizes["hidden, in red"] == 1
    assert sizes["refined by the patch"] == sizes["before the patch"] == 2
    (run / "log.txt").write_text("2026-01-01T00:00:00Z  4-scene: done in 3.0 s\n")
    assert "4-scene: done in 3.0 s" in status_of(run)


def _one_group_done(scene: Path, run: Path) -> None:
    """The anchor stage at work, one of two groups with a verdict."""
    other = run.parent / "other"
    report_run.begin(scene, other)
    report_run.add_anchors(scene, other, (True, False))
    group = open_run(other).anchors.groups[0]
    progress = run / ANCHORS / "progress"
    sequence = load_sequence(scene / "ground", SequenceConfig(camera="PINHOLE,230,230,160,90"))
    files.save(run / ".state/sequence.json", sequence)
    files.save(progress / "group-0-abc.npz", GroupVerdict(group, 1.0, {"places": 2.5}))
    back = rigid.centres_in_world([pose.cam_from_world for pose in group.poses])
    assert np.ptp(back[:, 0]) > 1.0


def test_settings_of_another_version_do_not_keep_a_report_from_people(tmp_path: Path) -> None:
    files.write_bytes(tmp_path / STATE / SETTINGS_FILE, b'{"no": "such field"}')
    assert known(Run(tmp_path)) == Known() == known(Run(tmp_path / "elsewhere"))
    files.save(tmp_path / STATE / SETTINGS_FILE, replace(CPU, sequence=replace(CPU.sequence, camera="f=900")))
    assert known(Run(tmp_path)) == Known(camera=True)
