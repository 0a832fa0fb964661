"""Skip, refuse, redo, resume: a run that was killed ends with the bytes of one that was not."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import killable
import numpy as np
import pytest
from killable import UNITS, State, first

from skyanchor.errors import InputError, RecipeError, SkyAnchorError, WriteError
from skyanchor.events import Event, Progress, StageFinished, StageSkipped, StageStarted
from skyanchor.run.executor import InProcess, Processes
from skyanchor.run.folder import RunFolder, Stage
from skyanchor.run.job import Job
from skyanchor.run.recipe import Recipe, in_short
from skyanchor.run.timing import timings
from skyanchor.storage import codec, files
from skyanchor.storage.digest_cache import DigestCache

SCRIPT = Path(killable.__file__)


@dataclass(frozen=True)
class Settings:
    keypoints: int = 6000
    names: tuple[str, ...] = ("a", "b")


def _contents(root: Path) -> dict[str, bytes]:
    """Every result file of a run; timings, log and state are not results."""
    found = [path for path in root.rglob("*") if path.is_file() and path.parent.name != ".state"]
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in found
        if path.name not in ("timings.json", "memory.json")
    }


def _start(root: Path, die_at: int, engine: str = "in-process") -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, str(SCRIPT), str(root), str(die_at), engine])


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    root = tmp_path_factory.mktemp("undisturbed")
    assert _start(root, 0).wait() == 0
    contents = _contents(root)
    assert "2-iterations/model/a.bin" in contents and not any("progress" in name for name in contents)
    return contents


def test_killed_before_any_rename_it_ends_with_the_same_bytes(tmp_path: Path, undisturbed: dict[str, bytes]) -> None:
    """Each attempt gets a little further than the one before and dies in the middle of a write."""
    died = 0
    for die_at in (1, 2, 3, 3, 4, 4, 4, 5, 5, 5, 5):
        process = _start(tmp_path, die_at)
        if process.wait() == 0:
            break
        assert process.returncode == -9
        died += 1
    assert died >= 6, "the run was to be killed more often"
    assert _start(tmp_path, 0).wait() == 0
    assert _contents(tmp_path) == undisturbed


def test_killed_by_the_clock_with_workers_it_ends_with_the_same_bytes(
    tmp_path: Path, undisturbed: dict[str, bytes]
) -> None:
    for seconds in (0.3, 0.9, 1.5):
        process = _start(tmp_path, 0, "processes")
        time.sleep(seconds)
        process.kill()
        process.wait()
    assert _start(tmp_path, 0, "processes").wait() == 0
    assert _contents(tmp_path) == undisturbed


def _finished(run: RunFolder, name: str, settings: object, upstream: tuple[Stage, ...] = ()) -> Stage:
    stage = run.stage(name, name, settings, {"photos": "abc"}, upstream)
    if not stage.done:
        stage.save("result.json", settings)
        stage.finish({"error_m": 0.5})
    return stage


def test_same_recipe_is_skipped_and_events_say_so(tmp_path: Path) -> None:
    heard: list[Event] = []
    for _ in range(2):
        with RunFolder(tmp_path, listen=heard.append) as run:
            _finished(run, "1-scaffold", Settings())
    assert isinstance(heard[0], StageStarted) and isinstance(heard[1], StageFinished)
    assert heard[1].figures == {"error_m": 0.5} and heard[2:] == [StageSkipped("1-scaffold")]
    assert set(timings(tmp_path)) == {"1-scaffold"} and timings(tmp_path)["1-scaffold"] > 0


def test_another_recipe_is_refused_by_name_or_redone(tmp_path: Path) -> None:
    with RunFolder(tmp_path) as run:
        _finished(run, "2-anchors", Settings(), (_finished(run, "1-scaffold", Settings()),))
    with RunFolder(tmp_path) as run:
        above = _finished(run, "1-scaffold", Settings())
        with pytest.raises(RecipeError, match=r"2-anchors was made differently: settings.keypoints was 6000, now 10\."):
            _finished(run, "2-anchors", Settings(keypoints=10), (above,))
    before = (tmp_path / "1-scaffold/recipe.json").stat().st_mtime_ns
    with RunFolder(tmp_path, redo=True) as run:
        stage = _finished(run, "2-anchors", Settings(keypoints=10), (_finished(run, "1-scaffold", Settings()),))
        assert stage.load("result.json", Settings) == Settings(keypoints=10)
    assert (tmp_path / "1-scaffold/recipe.json").stat().st_mtime_ns == before, "the same recipe is kept under redo"


def test_redo_takes_what_stands_on_the_stage_with_it(tmp_path: Path) -> None:
    with RunFolder(tmp_path) as run:
        _finished(run, "2-anchors", Settings(), (_finished(run, "1-scaffold", Settings()),))
        _finished(run, "9-other", Settings())
    with RunFolder(tmp_path, redo=True) as run:
        _finished(run, "1-scaffold", Settings(names=("c",)))
    assert not (tmp_path / "2-anchors").exists() and (tmp_path / "9-other/recipe.json").exists()


def test_a_changed_upstream_or_input_is_named(tmp_path: Path) -> None:
    with RunFolder(tmp_path) as run:
        _finished(run, "2-anchors", Settings(), (_finished(run, "1-scaffold", Settings()),))
        held = files.load(tmp_path / "2-anchors/recipe.json", Recipe)
        assert held.upstream[0].stage == "1-scaffold" and held.versions["skyanchor"]
        with pytest.raises(RecipeError, match=r"inputs\.photos was abc, now xyz"):
            run.stage("1-scaffold", "", Settings(), {"photos": "xyz"})


def test_an_unfinished_stage_keeps_its_units_and_refuses_another_recipe(tmp_path: Path) -> None:
    with RunFolder(tmp_path) as run:
        stage = run.stage("1-scaffold", "", Settings(), {})
        assert stage.cached("depth/a.json", Settings, lambda: Settings(1)) == Settings(1)
    with RunFolder(tmp_path) as run:
        stage = run.stage("1-scaffold", "", Settings(), {})
        assert not stage.done
        assert stage.cached("depth/a.json", Settings, lambda: Settings(2)) == Settings(1)
        with pytest.raises(RecipeError):
            run.stage("1-scaffold", "", Settings(7), {})


def test_produce_runs_only_what_is_missing(tmp_path: Path) -> None:
    heard: list[Event] = []
    with RunFolder(tmp_path, listen=heard.append) as run:
        stage = run.stage("1-units", "units", {"n": 1}, {"source": run.digest({"me": SCRIPT})})
        stage.save("units/2.npz", State(99, np.zeros(100)))
        first(run, InProcess(), {"n": 1})
        assert stage.load("units/2.npz", State).iteration == 99, "a unit that was there is not made again"
    steps = [event.done for event in heard if isinstance(event, Progress)]
    assert steps == [1, 2, 3, UNITS]


def test_two_processes_do_not_share_a_run_folder(tmp_path: Path) -> None:
    with RunFolder(tmp_path), pytest.raises(SkyAnchorError, match=f"in use by process {os.getpid()}"):
        RunFolder(tmp_path).__enter__()
    with RunFolder(tmp_path):
        pass


def test_a_foreign_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "1-scaffold").mkdir()
    (tmp_path / "1-scaffold/thesis.txt").write_text("mine")
    with pytest.raises(SkyAnchorError, match="not made by skyanchor"):
        RunFolder(tmp_path, redo=True).__enter__()
    assert (tmp_path / "1-scaffold/thesis.txt").read_text() == "mine"


def test_digests_follow_content_and_name_not_place(tmp_path: Path) -> None:
    cache = DigestCache(tmp_path / "cache.json")
    a, b = tmp_path / "a.jpg", tmp_path / "b.jpg"
    for path in (a, b):
        path.write_bytes(b"pixels")
        os.utime(path, (1e9, 1e9))
    one = cache.digest({"x": a})
    assert cache.digest({"x": b}) == one != cache.digest({"y": a})
    assert cache.digest({"x": a, "y": b}) == cache.digest({"y": b, "x": a})
    a.write_bytes(b"pixelz")
    os.utime(a, (1e9, 1e9))  # same size and mtime: the inode's change time still tells
    assert DigestCache(tmp_path / "cache.json").digest({"x": a}) != one
    with pytest.raises(InputError, match=r"c\.jpg: cannot be read"):
        cache.digest({"x": tmp_path / "c.jpg"})


def test_a_damaged_result_is_named(tmp_path: Path) -> None:
    with RunFolder(tmp_path) as run:
        stage = _finished(run, "1-scaffold", Settings())
        stage.path("result.json").write_text('{"keypoints": "many"}')
        with pytest.raises(InputError, match=r"result.json: does not hold a Settings"):
            stage.load("result.json", Settings)
        stage.path("result.json").unlink()
        with pytest.raises(InputError, match=r"result.json: is missing"):
            stage.load("result.json", Settings)


def test_a_failing_writer_leaves_nothing(tmp_path: Path) -> None:
    def fail(path: Path) -> None:
        path.write_text("half")
        raise OSError(errno.ENOSPC, "disk full")

    with pytest.raises(WriteError, match=r"model: cannot be written \(disk full\)\. Make room"):
        files.write_through(tmp_path / "model", fail)
    assert not (tmp_path / "model").exists()
    files.sweep(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert codec.to_json(Settings())


def test_what_others_were_writing_when_a_job_failed_is_gone(tmp_path: Path) -> None:
    """A worker in the middle of a file is ended with the run: nobody else would remove its half before the next."""
    jobs = {f"{name}.txt": Job(f"half_file:{name}", {}) for name in ("writing", "failing")}
    with pytest.raises(SkyAnchorError, match="half-way"), RunFolder(tmp_path / "run") as run:
        stage = run.stage("1-units", "units", {}, {})
        (stage.path("kept.txt")).write_text("whole")
        stage.produce("units", jobs, Processes(workers=2, threads=1))
    left = [path.name for path in stage.folder.iterdir()]
    assert "kept.txt" in left and not [name for name in left if name.endswith(files.TEMPORARY)]


def test_many_differences_are_counted() -> None:
    assert in_short(["a", "b"]) == "a; b"
    assert in_short([str(k) for k in range(100)]) == "0; 1; 2; 3; 4; 5; and 94 more"
