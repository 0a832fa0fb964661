"""Photos and other inputs that change while a run goes on: named, and nothing that was made of two is finished."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import paper_street
import pytest
import report_run
from test_stages_earlier import located

from skyanchor.anchors.config import OdometryConfig
from skyanchor.errors import InputError
from skyanchor.events import ANCHORS, SCAFFOLD, TRAJECTORY
from skyanchor.run.executor import InProcess
from skyanchor.run.folder import RunFolder, Stage
from skyanchor.run.job import Job
from skyanchor.run.layout import OF_A_SCAFFOLD, SHARED, STATE
from skyanchor.run.records import SEQUENCE_FILE
from skyanchor.run.results import open_run
from skyanchor.scaffold import load_scaffold
from skyanchor.sequence import SequenceConfig, load_sequence
from skyanchor.stages import cuts, merge
from skyanchor.stages.digests import check_street_photos, ground_digests
from skyanchor.stages.earlier import earlier_digests, earlier_runs
from skyanchor.stages.work import Site
from skyanchor.storage import digest_cache, files
from skyanchor.trajectory.network import NetworkConfig

CHANGED = "was changed while the run went on"


def photo_at(path: Path, content: bytes = b"before") -> Path:
    """A photo that was taken long ago."""
    path.write_bytes(content)
    os.utime(path, (1e9, 1e9))
    return path


@pytest.mark.parametrize("change", ["replaced", "removed", "touched"])
def test_a_photo_that_changes_while_a_stage_is_made_is_named(tmp_path: Path, change: str) -> None:
    photo = photo_at(tmp_path / "a.jpg")
    with RunFolder(tmp_path / "run") as run:
        stage = run.stage("2-anchors", "", {}, {"photos": run.digest({"a.jpg": photo})})
        if change == "removed":
            photo.unlink()
        else:
            photo.write_bytes(b"before" if change == "touched" else b"behind")
        if change == "touched":
            stage.finish()
        else:
            with pytest.raises(InputError, match=rf"a\.jpg: ({CHANGED}.*the same command makes it|cannot be read)"):
                stage.finish()
    assert stage.done is (change == "touched")
    assert stage.folder.is_dir() is (change != "replaced"), "what was made of two photos is of no use"


@contextmanager
def _on_top(root: Path, photo: Path) -> Iterator[Stage]:
    """The stage of a run that stands on a surface, which stands on depth, which was made of a photo elsewhere."""
    with (
        RunFolder(root / "run") as run,
        RunFolder(root / "scaffold", part_of=SCAFFOLD, layout=OF_A_SCAFFOLD, known=run.known) as scaffold,
    ):
        depth = scaffold.stage("depth", "", {}, {"photos": scaffold.digest({photo.name: photo})})
        depth.finish()
        surface = scaffold.stage("surface", "", {}, {}, (depth,))
        surface.finish()
        yield run.stage("2-anchors", "", {}, {}, (surface,))


def test_a_photo_of_a_stage_below_that_changes_is_named(tmp_path: Path) -> None:
    photo = photo_at(tmp_path / "a.jpg")
    with _on_top(tmp_path, photo) as stage:
        stage.save("progress/half.json", 1)
        photo.write_bytes(b"behind")
        with pytest.raises(InputError, match=rf"a\.jpg: {CHANGED}\. Put it back, .* --redo"):
            stage.finish()
    assert not stage.folder.exists() and (tmp_path / "scaffold/surface/recipe.json").is_file()


def test_the_replaced_one_is_told_before_one_that_is_gone(tmp_path: Path) -> None:
    photos = {name: photo_at(tmp_path / name) for name in ("a.jpg", "b.jpg", "c.jpg")}
    with RunFolder(tmp_path / "run") as run:
        stage = run.stage("2-anchors", "", {}, {"photos": run.digest(photos)})
        photos["a.jpg"].unlink()
        photos["b.jpg"].write_bytes(b"behind")
        with pytest.raises(InputError, match=rf"b\.jpg: {CHANGED}"):
            stage.finish()
    assert not stage.folder.exists()


@pytest.mark.parametrize("change", ["replaced", "removed", "none"])
def test_a_stage_that_is_stopped_does_not_keep_what_it_made_of_two_photos(tmp_path: Path, change: str) -> None:
    photo = photo_at(tmp_path / "a.jpg")
    with pytest.raises(KeyboardInterrupt), RunFolder(tmp_path / "run") as run:
        earlier = run.stage("2-anchors", "", {}, {"photos": run.digest({"a.jpg": photo})})
        earlier.finish()
        stage = run.stage("3-trajectory", "", {}, {}, (earlier,))
        stage.save("progress/half.json", 1)
        if change == "removed":
            photo.unlink()
        elif change == "replaced":
            photo.write_bytes(b"behind")
        raise KeyboardInterrupt
    assert stage.folder.exists() is (change != "replaced")
    assert earlier.done, "what was finished before the change was made of one photo"


def test_what_grows_keeps_what_was_there_before(tmp_path: Path) -> None:
    photo = photo_at(tmp_path / "a.jpg")
    with _on_top(tmp_path, photo) as stage:
        stage.save("tiles/0_0.npz", np.ones(3))
        stage.grows = True

        class Tiling(InProcess):
            def run(self, jobs, listen, done=None):  # type: ignore[no-untyped-def]
                for job in jobs:
                    files.save(Path(str(job.arguments["out"])), np.zeros(3))
                photo.write_bytes(b"behind")
                return []

        work = {f"tiles/{name}.npz": Job("none", {}) for name in ("0_0", "0_1")}
        stage.produce("tiles", work, Tiling())
        with pytest.raises(InputError, match=CHANGED):
            stage.refuse_changed()
        assert [path.name for path in (stage.folder / "tiles").iterdir()] == ["0_0.npz"]
        assert stage.path("progress/recipe.json").is_file()


def test_what_variants_share_is_not_shared_when_it_was_made_of_two_photos(tmp_path: Path) -> None:
    photo = photo_at(tmp_path / "a.jpg")
    files.make_folder(tmp_path / "run" / STATE / SHARED)
    with RunFolder(tmp_path / "run") as run:
        stage = run.stage("2-anchors", "", {}, {"photos": run.digest({"a.jpg": photo})})
        stage.cached("progress/one.json", int, lambda: 1, basis={"setting": 1})
        assert any((tmp_path / "run" / STATE / SHARED).iterdir())
        photo.write_bytes(b"behind")
        with pytest.raises(InputError, match=CHANGED):
            stage.finish()
    assert not any((tmp_path / "run" / STATE / SHARED).iterdir())


def test_photos_that_lie_still_are_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    photos = {f"{k}.jpg": photo_at(tmp_path / f"{k}.jpg") for k in range(5)}
    ahead = photo_at(tmp_path / "ahead.jpg")
    os.utime(ahead, (time.time() + 1e8, time.time() + 1e8))
    read: list[Path] = []
    with RunFolder(tmp_path / "run") as run:
        stage = run.stage("2-anchors", "", {}, {"photos": run.digest({**photos, "ahead.jpg": ahead})})
        digest = digest_cache.file_digest

        def counted(path: Path) -> str:
            read.append(path)
            return digest(path)

        monkeypatch.setattr(digest_cache, "file_digest", counted)
        os.utime(photos["3.jpg"])
        stage.finish()
    assert read == [photos["3.jpg"]]


# --- what is known to real stages ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("street")
    paper_street.write_scene(root, report_run.FRAMES)
    return root


def test_a_photo_of_an_earlier_walk_is_told_by_all_stages_that_stand_on_it(scene: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(scene, tmp_path / "scene")
    earlier = located(copy, tmp_path / "earlier")
    with RunFolder(tmp_path / "run") as run:
        site = Site(load_scaffold(copy / "aerial"), open_run(earlier).prepared, InProcess(), known=run.known)
        found = earlier_runs(run, (earlier,), site)
        anchors = run.stage(ANCHORS, "", {}, earlier_digests(run, found))
        anchors.finish()
        stage = run.stage(TRAJECTORY, "", {}, {}, (anchors,))
        shutil.copy(copy / "ground/images/g004.png", copy / "ground/images/g003.png")
        with pytest.raises(InputError, match=rf"g003\.png: {CHANGED}"):
            stage.finish()


def test_cuts_that_were_found_in_two_photos_are_not_kept(
    scene: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    walk = shutil.copytree(scene / "ground", tmp_path / "walk")
    config = SequenceConfig(camera="f=230")

    def meanwhile(*_: object) -> tuple[int, ...]:
        shutil.copy(walk / "images/g004.png", walk / "images/g003.png")
        return (5,)

    monkeypatch.setattr(cuts, "_found", meanwhile)
    with RunFolder(tmp_path / "run") as run, pytest.raises(InputError, match=rf"g003\.png: {CHANGED}"):
        cuts.cut_where_photos_say(run, load_sequence(walk, config), config, OdometryConfig(), InProcess())
    assert not (tmp_path / "run" / STATE / cuts.CUTS_FILE).exists()


def street_run(scene: Path, root: Path) -> Path:
    """A run whose recipe names its street photos."""
    located(scene, root)
    held = open_run(root)
    shutil.rmtree(root / ANCHORS)
    shutil.rmtree(root / TRAJECTORY)
    with RunFolder(root) as run:
        anchors = run.stage(ANCHORS, "", {}, ground_digests(run, held.sequence))
        anchors.finish()
        run.stage(TRAJECTORY, "", {}, {}, (anchors,)).finish()
    report_run_files(scene, root)
    return root


def report_run_files(scene: Path, root: Path) -> None:
    """What the stages of a run made by hand hold, under recipes that are there already."""
    made = located(scene, root.with_name(f"{root.name}-files"))
    for stage in (ANCHORS, TRAJECTORY):
        shutil.copytree(made / stage, root / stage, dirs_exist_ok=True, ignore=shutil.ignore_patterns("recipe.json"))


def test_street_photos_are_those_of_the_poses_and_stay_so(scene: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(scene, tmp_path / "scene")
    held = open_run(street_run(copy, tmp_path / "run"))
    photo = copy / "ground/images/g003.png"
    with RunFolder(tmp_path / "run") as run:
        check_street_photos(run, held)
        stage = run.stage("5-mesh", "", {}, {}, (held.stage(TRAJECTORY),))
        before = photo.read_bytes()
        shutil.copy(copy / "ground/images/g004.png", photo)
        with pytest.raises(InputError, match=rf"g003\.png: {CHANGED}"):
            stage.finish()
        with pytest.raises(InputError, match="found its poses with other frames of the street"):
            check_street_photos(run, held)
        photo.write_bytes(before)
        check_street_photos(run, held)


def test_street_photos_that_were_moved_are_said_anew(scene: Path, tmp_path: Path) -> None:
    """Only where they are is another thing: the stages of the run are what they were."""
    copy = shutil.copytree(scene, tmp_path / "scene")
    root = street_run(copy, tmp_path / "run")
    moved = (copy / "ground").rename(tmp_path / "elsewhere")
    with RunFolder(root) as run:
        with pytest.raises(
            InputError, match=r"run: \d+ of its \d+ street photos are not there, .*g000\.png first\. Put"
        ):
            check_street_photos(run, open_run(root))
        files.save(root / STATE / SEQUENCE_FILE, load_sequence(moved))
        held = open_run(root)
        check_street_photos(run, held)
        above = held.stage(TRAJECTORY).recipe.upstream
        assert above[0].inputs == ground_digests(run, held.sequence)


def test_walks_are_not_adjusted_by_photos_that_changed(
    scene: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = shutil.copytree(scene, tmp_path / "scene")
    runs = tuple(street_run(copy, tmp_path / name) for name in ("june", "july"))

    def meanwhile(*_: object) -> None:
        shutil.copy(copy / "ground/images/g004.png", copy / "ground/images/g003.png")

    monkeypatch.setattr(merge, "adjust_network", meanwhile)
    for problem in (r"g003\.png: was changed while walks were adjusted", "found its poses with other frames"):
        with pytest.raises(InputError, match=problem):
            merge.merge(runs, tmp_path / "all", NetworkConfig())
        assert not (tmp_path / "all").exists()
