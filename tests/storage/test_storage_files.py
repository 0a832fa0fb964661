"""Atomic writes: whole or absent, whatever happens in between."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from skyanchor.storage import files


def test_a_write_that_fails_leaves_what_was_there_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "held.bin"
    files.write_bytes(path, b"old")

    def broken(draft: Path) -> None:
        draft.write_bytes(b"half of the n")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        files.write_through(path, broken)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_is_replaced_as_a_whole(tmp_path: Path) -> None:
    folder = tmp_path / "held"
    for names in (("a", "b"), ("b", "c")):

        def write(draft: Path, names: tuple[str, ...] = names) -> None:
            draft.mkdir()
            for name in names:
                (draft / name).write_text(name)

        files.write_through(folder, write)
    assert sorted(path.name for path in folder.iterdir()) == ["b", "c"]
    assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.parametrize("compressed", [False, True])
def test_arrays_come_back_and_objects_are_refused(tmp_path: Path, compressed: bool) -> None:
    path = tmp_path / "deep" / "held.npz"
    arrays = {"xy": np.arange(6.0).reshape(3, 2), "name": np.array("a photo")}
    files.write_arrays(path, arrays, compressed)
    with np.load(path, allow_pickle=False) as held:
        assert np.array_equal(held["xy"], arrays["xy"]) and str(held["name"]) == "a photo"
    with pytest.raises(ValueError, match="pickle"):
        files.write_arrays(path, {"bad": np.array([{}], dtype=object)}, compressed)
    assert [one.name for one in path.parent.iterdir()] == ["held.npz"]


def test_a_copy_replaces_and_a_link_does_not(tmp_path: Path) -> None:
    new, old = tmp_path / "new", tmp_path / "old"
    new.write_text("new")
    old.write_text("old")
    files.link(new, old)
    assert old.read_text() == "old"
    files.copy(new, old)
    assert old.read_text() == "new" and not old.samefile(new)
