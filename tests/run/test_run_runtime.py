"""Time and memory of a run, step by step."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import paper_street
import pytest
import report_run

from skyanchor.cli.main import main
from skyanchor.events import ANCHORS, SCENE, TRAJECTORY
from skyanchor.report.folder import write_report
from skyanchor.run import records
from skyanchor.run.memory import MEMORY, Peak
from skyanchor.run.records import AnchorSeconds, GroupSeconds, SceneSeconds, SubmapSeconds, TrajectorySeconds
from skyanchor.run.results import Run
from skyanchor.run.runtime import RUNTIME_FILE, Runtime, runtime
from skyanchor.run.timing import TIMINGS
from skyanchor.storage import codec, files


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose steps were not measured."""
    scene = tmp_path_factory.mktemp("street")
    paper_street.write_scene(scene, report_run.FRAMES)
    report_run.begin(scene, scene / "run")
    report_run.add_anchors(scene, scene / "run", (True, True))
    report_run.add_trajectory(scene / "run")
    return scene / "run"


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Run:
    """Two groups, the first looked at twice, and one submap."""
    root = tmp_path / "run"
    shutil.copytree(made, root)
    looks = (
        GroupSeconds(0, {"places": 1.0, "adjustment": 0.5}),
        GroupSeconds(1, {"places": 2.0, "adjustment": 0.5}),
        GroupSeconds(0, {"bridge views": 1.0}),
    )
    files.save(root / records.ANCHOR_SECONDS_FILE, AnchorSeconds(looks))
    phases = {"incremental registration": 4.0, "seeded bootstrap": 2.0, "anchor-constrained adjustment": 1.0}
    submap = SubmapSeconds(0, {"matching": 6.0, "solver": 1.0, "total": 7.0}, phases)
    whole = {"submaps": 7.1, "tracks": 1.0, "solver": 0.5, "anchors held": 0.5, "resection": 1.0, "total": 10.1}
    files.save(root / records.TRAJECTORY_SECONDS_FILE, TrajectorySeconds((submap,), whole))
    files.write_bytes(root / TIMINGS, codec.dumps({ANCHORS: 4.0, TRAJECTORY: 9.0}).encode())
    files.write_bytes(root / MEMORY, codec.dumps({TRAJECTORY: Peak(3 * 10**9, 10**9)}).encode())
    return Run(root)


def test_steps_are_summed_and_the_solver_has_its_share(run: Run) -> None:
    anchors, walk = runtime(run).stages
    assert [(s.name, s.seconds) for s in anchors.steps] == [("places", 3.0), ("adjustment", 1.0), ("bridge views", 1.0)]
    assert (anchors.work_s, anchors.wall_s, anchors.count, anchors.solver_share) == (5.0, 4.0, 2, None)
    assert anchors.steps[0].share == pytest.approx(0.6) and anchors.steps[0].each_s == pytest.approx(1.5)
    named = [("matching", 6.0), ("solver", 1.5), ("tracks", 1.0), ("resection", 1.0), ("anchors held", 0.5)]
    assert [(s.name, s.seconds) for s in walk.steps] == named
    assert walk.solver_share == pytest.approx(0.2) and walk.count == report_run.FRAMES
    assert runtime(run).memory[TRAJECTORY].gpu_bytes == 10**9


def test_the_walk_is_told_as_in_the_papers_table(run: Run) -> None:
    """Bootstrap, registration and adjustment of the submaps, then what is done with all of them."""
    walk = runtime(run).stages[1]
    assert [(phase.name, phase.seconds) for phase in walk.phases] == [
        ("seeded bootstrap", 2.0),
        ("incremental registration", 4.0),
        ("anchor-constrained adjustment", 1.0),
        ("all submaps together", 2.0),
        ("frames between keyframes", 1.0),
    ]
    assert sum(phase.share for phase in walk.phases) == pytest.approx(1.0)
    assert walk.phases[1].each_s == pytest.approx(4.0 / report_run.FRAMES)
    spent = Run(run.root).trajectory_seconds
    assert spent is not None
    files.save(run.root / records.TRAJECTORY_SECONDS_FILE, TrajectorySeconds((SubmapSeconds(0, {}),), spent.whole))
    assert runtime(Run(run.root)).stages[1].phases == (), "records of earlier versions do not say"


def test_the_steps_of_the_update_are_shown(run: Run) -> None:
    report_run.add_scene(run.root)
    spent = {"training": 6.0, "free space": 2.0, "total": 8.0}
    files.save(run.root / records.SCENE_SECONDS_FILE, SceneSeconds(spent))
    update = runtime(Run(run.root)).stages[-1]
    named = [(step.name, step.seconds) for step in update.steps]
    assert update.stage == SCENE and named == [("training", 6.0), ("free space", 2.0)]
    assert update.work_s == 8.0 and update.solver_share is None


def test_the_page_and_the_file_have_them(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    page = write_report(run).read_text()
    for said in (
        "2-anchors, step by step",
        "candidate retrieval",
        "20.0 % of it in the solver",
        "1.0 GB",
        "seeded bootstrap",
    ):
        assert said in page
    assert files.load(run.root / RUNTIME_FILE, Runtime) == runtime(run)
    assert main(["report", str(run.root), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["stages"][1]["solver_share"] == pytest.approx(0.2)


def test_a_run_without_measured_steps_has_none(run: Run) -> None:
    for name in (records.ANCHOR_SECONDS_FILE, records.TRAJECTORY_SECONDS_FILE):
        (run.root / name).unlink()
    assert runtime(run).stages == () and "step by step" not in write_report(run).read_text()
