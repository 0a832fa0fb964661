"""What is the user's stays the user's: nothing of it is changed, replaced or removed, whatever a run is told to do."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import skyanchor
from skyanchor.cli.main import main
from skyanchor.errors import InputError, RecipeError, SkyAnchorError
from skyanchor.run.folder import RunFolder, Stage
from skyanchor.run.layout import OF_A_RUN, Layout, claim, refuse_among
from skyanchor.run.locks import lock_to_write
from skyanchor.run.prepared import OF_A_SCAFFOLD
from skyanchor.run.recipe import Recipe
from skyanchor.storage import files

EVERY_NAME = [(layout, name) for layout in (OF_A_RUN, OF_A_SCAFFOLD) for name in (*layout.stages, *layout.besides)]


def _below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _finished(run: RunFolder, name: str, value: int, upstream: tuple[Stage, ...] = ()) -> Stage:
    stage = run.stage(name, name, {"value": value}, {}, upstream)
    if not stage.done:
        stage.save("result.json", value)
        stage.finish()
    return stage


# --- folders of others --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("layout", "name"), EVERY_NAME)
@pytest.mark.parametrize("shape", ["file", "folder", "link"])
def test_a_folder_with_something_that_would_be_lost_is_refused(
    tmp_path: Path, layout: Layout, name: str, shape: str
) -> None:
    root = tmp_path / "run"
    root.mkdir()
    if shape == "file":
        (root / name).write_text("mine")
    elif shape == "folder":
        (root / name).mkdir()
        (root / name / "thesis.txt").write_text("mine")
    else:
        (tmp_path / "far").mkdir()
        (root / name).symlink_to(tmp_path / "far")
    before = _below(tmp_path)
    with pytest.raises(SkyAnchorError, match=f"{name}"):
        claim(root, layout)
    assert _below(tmp_path) == before and len(list(root.iterdir())) == 1


def test_a_folder_with_other_things_is_taken(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with RunFolder(tmp_path) as run:
        _finished(run, "2-anchors", 1)
    assert (tmp_path / "thesis.txt").read_text() == "mine"


@pytest.mark.parametrize("state", ["empty", "killed", "without its state"])
def test_our_own_folder_is_known_again(tmp_path: Path, state: str) -> None:
    claim(tmp_path)
    if state != "empty":
        with RunFolder(tmp_path) as run:
            run.stage("2-anchors", "", {}, {})
        (tmp_path / "log.txt").write_text("ours")
    if state == "without its state":
        files.remove(tmp_path / ".state")
    claim(tmp_path)
    assert (tmp_path / "2-anchors").is_dir() is (state != "empty")


@pytest.mark.parametrize("empty", ["1-scaffold", "1-scaffold/.state", "2-anchors", ".state", "frames/images"])
def test_empty_folders_that_a_kill_may_leave_are_no_hindrance(tmp_path: Path, empty: str) -> None:
    (tmp_path / empty).mkdir(parents=True)
    with RunFolder(tmp_path) as run:
        assert _finished(run, "2-anchors", 1).done


# --- what a run removes -------------------------------------------------------------------------------------------


def _other_recipe(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "run") as run, pytest.raises(RecipeError):
        run.stage("2-anchors", "", {"value": 2}, {})


def _in_use(tmp_path: Path) -> None:
    held = lock_to_write(tmp_path / "run/.state/lock")
    with pytest.raises(SkyAnchorError, match="in use"):
        RunFolder(tmp_path / "run").__enter__()
    held.close()


@pytest.mark.parametrize("refuse", [_other_recipe, _in_use])
def test_a_run_that_is_refused_sweeps_nothing(tmp_path: Path, refuse: Callable[[Path], None]) -> None:
    with RunFolder(tmp_path / "run") as run:
        run.stage("2-anchors", "", {"value": 1}, {})
    for name in (".state/.digests.json.12.skyanchor.tmp", "2-anchors/.a.12.skyanchor.tmp", ".x.12.skyanchor.tmp"):
        (tmp_path / "run" / name).write_text("half")
    before = _below(tmp_path)
    refuse(tmp_path)
    assert {**_below(tmp_path), "run/.state/lock": b""} == {**before, "run/.state/lock": b""}


def test_redo_removes_stages_alone_and_those_where_they_belong(tmp_path: Path) -> None:
    root, far = tmp_path / "run", tmp_path / "far"
    with RunFolder(root) as run:
        _finished(run, "3-trajectory", 1, (_finished(run, "2-anchors", 1),))
    mine = [root / "backup/3-trajectory", root / "3-trajectory-best", far / "3-trajectory", tmp_path / "victim"]
    for copy in mine:
        files.make_folder(copy)
        files.copy(root / "3-trajectory/recipe.json", copy / "recipe.json")
    (root / "linked").symlink_to(far)
    held = files.load(root / "3-trajectory/recipe.json", Recipe)
    above = Recipe("2-anchors", {}, {}, (), {})
    files.save(root / "odd/recipe.json", Recipe("../victim", {}, {}, (above,), held.versions))
    files.write_text(root / "cooking/recipe.json", '{"flour": "500 g"}')
    with RunFolder(root, redo=True) as run:
        _finished(run, "2-anchors", 2)
    assert not (root / "3-trajectory").exists()
    assert all((copy / "recipe.json").is_file() for copy in (*mine, root / "odd", root / "cooking"))


def test_redo_does_not_take_files_with_it_that_the_user_put_into_a_stage(tmp_path: Path) -> None:
    with RunFolder(tmp_path) as run:
        _finished(run, "3-trajectory", 1, (_finished(run, "2-anchors", 1),))
    (tmp_path / "3-trajectory/deep").mkdir()
    (tmp_path / "3-trajectory/deep/notes.txt").write_text("mine")
    before = _below(tmp_path)
    with RunFolder(tmp_path, redo=True) as run, pytest.raises(SkyAnchorError, match=r"notes\.txt .* would be lost"):
        _finished(run, "2-anchors", 2)
    after = _below(tmp_path)
    assert {name: after[name] for name in before if ".state" not in name} == {
        name: data for name, data in before.items() if ".state" not in name
    }


def test_a_stage_of_another_name_or_another_program_is_not_replaced(tmp_path: Path) -> None:
    with RunFolder(tmp_path) as run:
        _finished(run, "2-anchors", 1)
    os.rename(tmp_path / "2-anchors", tmp_path / "3-trajectory")  # noqa: PTH104
    with RunFolder(tmp_path, redo=True) as run, pytest.raises(SkyAnchorError, match="not made by skyanchor"):
        run.stage("3-trajectory", "", {}, {})
    files.write_text(tmp_path / "4-scene/recipe.json", '{"flour": "500 g"}')
    with pytest.raises(InputError, match="Move its folder away"):
        RunFolder(tmp_path, redo=True).__enter__()
    assert (tmp_path / "3-trajectory/result.json").is_file() and (tmp_path / "4-scene/recipe.json").is_file()


@pytest.mark.parametrize("where", ["walk", "walk/images", "walk/../walk"])
def test_a_run_takes_no_folder_of_its_street_photos(where: str, tmp_path: Path) -> None:
    photos = tmp_path / "walk/images"
    photos.mkdir(parents=True)
    (photos / "a.jpg").write_bytes(b"photo")
    words = ["update", "--scaffold", str(tmp_path), "--ground", str(tmp_path / "walk"), "--out", str(tmp_path / where)]
    words += ["--workers", "1"]
    assert main(words) == 2
    with pytest.raises(SkyAnchorError, match="holds the street photos"):
        skyanchor.recover(tmp_path, tmp_path / "walk", tmp_path / where)
    assert [path.name for path in tmp_path.rglob("*")] == ["walk", "images", "a.jpg"]
    refuse_among(tmp_path / "walk/run", tmp_path / "walk")
