"""Stages through the run folder on a street of paper: right poses, same bytes from either engine and after a kill."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import paper_street
import pycolmap
import pytest
from child_process import importing_what_pytest_does
from given_run import given_anchors

from skyanchor import pipeline
from skyanchor.anchors.priors import LON_LAT, Area
from skyanchor.errors import InputError
from skyanchor.evaluation.metrics import evaluate_run, write_metrics
from skyanchor.events import ANCHORS, SCAFFOLD, TRAJECTORY
from skyanchor.matching import Sift
from skyanchor.pipeline import PipelineConfig
from skyanchor.reading import read_work
from skyanchor.report.folder import write_report
from skyanchor.run import records
from skyanchor.run.executor import Executor, InProcess, Processes
from skyanchor.run.folder import Finished, RunFolder
from skyanchor.run.inputs import Inputs
from skyanchor.run.recipe import Recipe
from skyanchor.run.results import open_run
from skyanchor.sequence import SequenceConfig
from skyanchor.stages import anchors, trajectory
from skyanchor.stages import cuts as walk_cuts
from skyanchor.storage import codec, files
from skyanchor.trajectory import TrajectoryConfig
from skyanchor.trajectory.config import AdjustConfig
from skyanchor.types import Anchors

FRAMES = 16
CONFIG = PipelineConfig(
    sequence=SequenceConfig(camera="PINHOLE,230,230,160,90"),
    trajectory=TrajectoryConfig(
        matcher=Sift(keypoints=600),
        adjust=AdjustConfig(bootstrap_iterations=50, online_iterations=30, final_iterations=50, final_rounds=1),
    ),
)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("paper")
    paper_street.write_scene(root, FRAMES)
    return root


def recover(scene: Path, root: Path, executor: Executor) -> None:
    """Anchors from the truth, then the trajectory stage."""
    inputs = Inputs(scene / "aerial", scene / "ground")
    with RunFolder(root) as run:
        files.save(root / ".state/inputs.json", inputs)
        work = read_work(run, inputs, CONFIG, executor)
        trajectory.run(work, CONFIG.trajectory, given_anchors(work, paper_street.walk(FRAMES)))


def test_what_is_read_is_looked_at_before_anything_else(scene: Path, tmp_path: Path) -> None:
    """The flight given for the walk, and an area far from the model, end it where the photos were read."""
    far = Area((((900.0, 900.0), (910.0, 900.0), (910.0, 910.0)),))
    elsewhere = replace(CONFIG, anchors=replace(CONFIG.anchors, prior=replace(CONFIG.anchors.prior, near=(far,))))
    walks = (
        (scene / "aerial/images", CONFIG, "photos of the aerial model"),
        (scene / "ground", elsewhere, "far|model"),
    )
    for walk, config, words in walks:
        with RunFolder(tmp_path / walk.name) as run, pytest.raises(InputError, match=words):
            read_work(run, Inputs(scene / "aerial", walk), config, InProcess())


def _results(root: Path) -> dict[str, bytes]:
    found = [path for path in root.rglob("*") if path.is_file() and ".state" not in path.parts]
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in found
        if path.name not in ("timings.json", "memory.json", "trajectory_seconds.json")
    }


def test_cuts_are_looked_for_once(scene: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs, looks = Inputs(scene / "aerial", scene / "ground"), []

    def found(*_: object) -> tuple[int, ...]:
        looks.append(1)
        return (9,)

    def cuts(config: PipelineConfig) -> tuple[int, ...]:
        with RunFolder(tmp_path) as run:
            return read_work(run, inputs, config, InProcess()).sequence.cuts

    def with_segments(**changes: object) -> PipelineConfig:
        segments = replace(CONFIG.sequence.segments, **changes)
        return replace(CONFIG, sequence=replace(CONFIG.sequence, segments=segments))

    assert cuts(CONFIG) == ()  # the street of paper goes on
    monkeypatch.setattr(walk_cuts.segments, "find_cuts", found)
    assert cuts(CONFIG) == () and not looks
    assert cuts(with_segments(begin=("7",))) == (7, 9) and len(looks) == 1
    assert cuts(with_segments(begin=("7",))) == (7, 9) and len(looks) == 1
    assert cuts(with_segments(begin=("7",), find=False)) == (7,)


@pytest.fixture(scope="module")
def recovered(scene: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("run")
    recover(scene, root, InProcess())
    return root


def test_the_trajectory_is_right_and_readable(scene: Path, recovered: Path) -> None:
    metrics = evaluate_run(open_run(recovered), scene / "ground/truth")
    assert metrics.anchors.registered == 12 and metrics.trajectory.registered == FRAMES
    assert metrics.trajectory.ate_m is not None and 1e-6 < metrics.trajectory.ate_m < 0.05
    assert metrics.trajectory.rpe_r_deg is not None and metrics.trajectory.rpe_r_deg < 0.5
    model = pycolmap.Reconstruction(str(recovered / "3-trajectory/model"))
    assert model.num_images() == FRAMES and model.num_points3D() > 100
    model.update_point_3d_errors()
    assert model.compute_mean_reprojection_error() < 1.5
    assert not (recovered / "3-trajectory/progress").exists()


def test_the_stored_trajectory_comes_back_whole(scene: Path, recovered: Path) -> None:
    run = open_run(recovered)
    whole = run.trajectory
    assert run.names == tuple(f"g{k:03}.png" for k in range(FRAMES)) and len(whole.points) > 100
    assert whole.tracks.point.max() == len(whole.points) - 1
    record, points = records.split(run.names, run.trajectory_record.georef, whole)
    assert codec.dumps(record) == codec.dumps(run.trajectory_record)
    assert codec.pack(points) == (recovered / TRAJECTORY / records.POINTS_FILE).read_bytes()


def test_workers_after_a_kill_give_the_same_bytes(scene: Path, recovered: Path, tmp_path: Path) -> None:
    script = (
        "from pathlib import Path\nfrom test_pipeline import Processes, recover\n"
        f"recover(Path({str(scene)!r}), Path({str(tmp_path)!r}), Processes(workers=2, threads=1))"
    )
    process = subprocess.Popen([sys.executable, "-c", script], env=importing_what_pytest_does())
    while process.poll() is None and not list(tmp_path.glob("3-trajectory/progress/sub*")):
        time.sleep(0.02)
    process.kill()
    process.wait()
    assert not (tmp_path / "3-trajectory/recipe.json").exists()
    recover(scene, tmp_path, Processes(workers=2, threads=1))
    assert _results(tmp_path) == _results(recovered)


def test_an_area_elsewhere_is_told_before_any_work(scene: Path, tmp_path: Path) -> None:
    inputs = Inputs(scene / "aerial", scene / "ground")
    on_earth = Area((((8.0, 47.0), (8.001, 47.0), (8.001, 47.001)),), LON_LAT)
    far = Area((((900.0, 0.0), (950.0, 0.0), (950.0, 50.0)),))
    wrong = {"does not say where on Earth": on_earth, "holds nothing of the aerial model": far}
    with RunFolder(tmp_path) as run:
        for told, area in wrong.items():
            prior = replace(CONFIG.anchors.prior, near=(area,))
            config = replace(CONFIG, anchors=replace(CONFIG.anchors, prior=prior))
            with pytest.raises(InputError, match=told):
                pipeline.run(run, inputs, config, InProcess(), ANCHORS)
    assert not (tmp_path / SCAFFOLD).exists()


def test_the_recipe_names_the_georeference_where_priors_rest_on_it(
    scene: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(anchors, "_localised", lambda stage, work, above, config: Anchors((), work.sequence.camera))
    monkeypatch.setattr(anchors, "places_part", lambda site, surface, camera, config: surface)
    area = Area((((-5.0, -5.0), (40.0, -5.0), (40.0, 20.0), (-5.0, 20.0)),))
    recipes = []
    for k, (near, gps) in enumerate((((), ()), ((area,), ()), ((), ((47.0, 8.0, 0.0),) * FRAMES))):
        with RunFolder(tmp_path / str(k)) as run:
            work = read_work(run, Inputs(scene / "aerial", scene / "ground"), CONFIG, InProcess())
            work = replace(work, sequence=replace(work.sequence, gps=gps))
            config = replace(CONFIG.anchors, prior=replace(CONFIG.anchors.prior, near=near))
            surface = Finished(tmp_path, Recipe("1-scaffold/surface", {}, {}, (), {}))
            recipes.append(anchors.run(work, config, surface).recipe.settings)
    assert ["georef" in settings for settings in recipes] == [False, True, True]
    assert recipes[1]["anchors"]["prior"]["near"][0]["rings"] == [
        [[-5.0, -5.0], [40.0, -5.0], [40.0, 20.0], [-5.0, 20.0]]
    ]


def test_the_report_is_one_page(scene: Path, recovered: Path, tmp_path: Path) -> None:
    root = tmp_path / "walk"
    shutil.copytree(recovered, root)
    run = open_run(root)
    write_metrics(run, evaluate_run(run, scene / "ground/truth"))
    page = write_report(run, scene / "ground/truth").read_text()
    assert "2 of 2 anchor groups were placed" in page and "g015.png" in page and "ATE [m]" in page
