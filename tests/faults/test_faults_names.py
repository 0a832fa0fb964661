"""Names that are read from files: none leads out of its folder, none takes the place of another."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import example, given, settings

import skyanchor
from skyanchor.errors import InputError
from skyanchor.stereo import depth_files, depth_path
from skyanchor.storage import files
from skyanchor.storage.names import beneath, leads_outside

PARTS = st.sampled_from(["a", "b.jpg", "b.png", "b", "..", ".", "", "progress", "recipe.json", "%progress", "C:", "~"])
NAMES = st.lists(PARTS, min_size=1, max_size=4).map("/".join) | st.text(max_size=12)
SOURCES = Path(skyanchor.__file__).parent


@settings(max_examples=300, deadline=None)
@given(NAMES)
@example("/etc/passwd")
@example("a/../../b")
@example("..\\b")
@example("\\\\server\\share")
@example("a\0b")
def test_no_name_leads_out(name: str) -> None:
    folder = Path("/run/depth")
    try:
        path = beneath(folder, name)
    except InputError:
        return
    assert Path(os.path.normpath(path)).is_relative_to(folder) and os.path.normpath(path) != str(folder)


@pytest.mark.parametrize("name", ["", ".", "..", "a/../b", "/a", "C:a", "\\a", "a\\..\\b", "a\0b"])
def test_names_that_no_disk_has_below_a_folder_are_refused(name: str) -> None:
    assert leads_outside(name)
    with pytest.raises(InputError, match="would lead out of it"):
        beneath(Path("/run"), name)


@settings(max_examples=300, deadline=None)
@given(st.lists(NAMES, min_size=1, max_size=6, unique=True))
@example(["a.jpg", "a.png", "a.jpg.jpg", "a"])
def test_every_photo_has_a_depth_file_of_its_own(names: list[str]) -> None:
    try:
        found = depth_files(names)
    except InputError:
        return
    assert len(set(found)) == len(names)
    for file in found:
        first = Path(file).parts[0]
        assert first not in ("progress", "recipe.json", "georef.json") and not leads_outside(file)


def test_depth_is_found_where_it_was_written(tmp_path: Path) -> None:
    names = ["a.jpg", "a.png", "b.jpg", "progress/a.jpg", "%progress/a.jpg", "recipe.json/x.jpg", "c/a.jpg"]
    for name, file in zip(names, depth_files(names), strict=True):
        files.write_text(tmp_path / file, name)
    assert [depth_path(tmp_path, name).read_text() for name in names] == names


def test_one_photo_under_two_names_is_refused() -> None:
    with pytest.raises(InputError, match=r"a/b\.jpg: is named twice"):
        depth_files(["a/b.jpg", "a//b.jpg"])


# --- one place that writes ----------------------------------------------------------------------------------------

WRITES = {
    "write_text",
    "write_bytes",
    "mkdir",
    "unlink",
    "rmtree",
    "rmdir",
    "symlink_to",
    "imwrite",
    "savefig",
    "touch",
}
WRITES |= {"rename", "copyfile", "copytree", "copy2", "makedirs", "tofile", "write_binary", "savez", "savez_compressed"}
ALLOWED = {
    "storage/files.py": "the one writer",
    "run/layout.py": "the lock that makes a folder ours, through the writer's eyes",
    "run/cluster.py": "files by which machines that share a disk speak",
    "evaluation/peers.py": "folders that other programs are run in",
    "report/plots.py": "into memory",
    "sequence/monocular.py": "into memory",
    "town/": "a scene is one draft, whole or absent",
}


OPENED = {
    "storage/": "the one writer, and what it has waiting on the disk",
    "run/locks.py": "locks, which hold nothing",
    "gaussians/ply.py": "a draft",
    "scene/tiles.py": "a draft",
    "scene/tile_places.py": "a draft",
    "backends/weights.py": "a draft",
    "bridges/strips.py": "what waits on the disk",
}
MODE = re.compile(r"(?=.*[wax+])[rwaxbt+]{1,3}")


def _opened(tree: ast.Module) -> list[int]:
    """Lines of the calls that open a file to write to it."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) == "open":
            given = [part for argument in (*node.args, *node.keywords) for part in ast.walk(argument)]
            words = [part.value for part in given if isinstance(part, ast.Constant) and isinstance(part.value, str)]
            found += [node.lineno] * any(MODE.fullmatch(word) for word in words)
    return found


def _calls(tree: ast.Module) -> list[tuple[int, str]]:
    """Line and name of every call that writes or removes, except those of `files`."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in WRITES:
            owner = node.func.value
            if not (isinstance(owner, ast.Name) and owner.id == "files"):
                found.append((node.lineno, node.func.attr))
    return found


def test_files_are_written_and_removed_in_one_place() -> None:
    names = [path.relative_to(SOURCES).as_posix() for path in SOURCES.rglob("*.py")]
    found = {name: _calls(ast.parse((SOURCES / name).read_text())) for name in names}
    assert found["storage/files.py"], "nothing is looked for"
    assert {name: calls for name, calls in found.items() if calls and not name.startswith(tuple(ALLOWED))} == {}


def test_files_are_opened_to_be_written_where_that_is_known() -> None:
    names = [path.relative_to(SOURCES).as_posix() for path in SOURCES.rglob("*.py")]
    found = {name: _opened(ast.parse((SOURCES / name).read_text())) for name in names}
    assert {name: lines for name, lines in found.items() if lines and not name.startswith(tuple(OPENED))} == {}
    assert all(any(found[name] for name in names if name.startswith(known)) for known in OPENED)
    assert _opened(ast.parse("open(p, mode='r+b'); p.open('a'); p.open('rb'); p.open(encoding='utf-8')")) == [1, 1]
