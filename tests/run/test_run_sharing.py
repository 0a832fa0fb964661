"""Variants of a run share what they agree on, and count only the seconds of their own work."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyanchor.events import Listener
from skyanchor.run.executor import InProcess
from skyanchor.run.folder import RunFolder
from skyanchor.run.job import Job
from skyanchor.run.layout import SHARED, STATE, claim
from skyanchor.run.timing import timings
from skyanchor.storage import files
from skyanchor.storage.codec import Json


def write_job(out: str, text: str, listen: Listener) -> Json:
    with Path(out).with_suffix(".calls").open("a") as calls:
        calls.write("x")
    files.save(Path(out), [text])
    return None


def make(root: Path, settings: int, basis: object) -> tuple[list[str], list[str]]:
    """(what `cached` made now, what `produce` made now) in a run folder with other settings."""
    made: list[str] = []

    def value() -> list[str]:
        made.append("cached")
        return ["held"]

    with RunFolder(root) as run:
        stage = run.stage("1-things", "things", {"n": settings}, {})
        assert stage.cached("progress/one.json", list[str], value, basis) == ["held"]
        jobs = {f"progress/{k}.json": Job.of(write_job, text=str(k)) for k in range(2)}
        paths = stage.produce("two", jobs, InProcess(), basis)
        assert [files.load(path, list[str]) for path in paths] == [["0"], ["1"]]
        ran = sorted(path.stem for path in stage.path("progress").glob("*.calls"))
        stage.finish()
    return made, ran


def share(root: Path, folder: Path) -> None:
    claim(root)
    (root / STATE / SHARED).symlink_to(folder, target_is_directory=True)


def test_variants_that_agree_share(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    for name in "abcd":
        share(tmp_path / name, folder)
    assert make(tmp_path / "a", 1, "depth 5") == (["cached"], ["0", "1"])
    assert make(tmp_path / "b", 2, "depth 5") == ([], [])
    assert make(tmp_path / "c", 2, "depth 6") == (["cached"], ["0", "1"])
    assert make(tmp_path / "d", 2, None) == (["cached"], ["0", "1"])


def test_runs_without_a_shared_folder_keep_to_themselves(tmp_path: Path) -> None:
    assert make(tmp_path / "a", 1, "depth 5") == make(tmp_path / "b", 1, "depth 5") == (["cached"], ["0", "1"])
    assert not list(tmp_path.rglob(SHARED)) and "1-things" in timings(tmp_path / "a")


def test_a_disk_without_links_gets_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError("no links here")

    monkeypatch.setattr(files.os, "link", refuse)
    (tmp_path / "a").write_text("held")
    files.link(tmp_path / "a", tmp_path / "below/b")
    assert (tmp_path / "below/b").read_text() == "held" and list((tmp_path / "below").iterdir()) == [
        tmp_path / "below/b"
    ]
