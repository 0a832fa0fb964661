"""A clock that is years off, or jumps: runs go on as they would, and nothing that changed is taken for what it was."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import killable
import numpy as np
import pytest
from killable import State

from skyanchor.anchors import place_index
from skyanchor.anchors.config import AnchorConfig
from skyanchor.anchors.place_index import PlaceIndex
from skyanchor.errors import RecipeError
from skyanchor.events import Listener, silent
from skyanchor.geometry import cameras
from skyanchor.photos import PhotoCache
from skyanchor.run.executor import InProcess
from skyanchor.run.folder import RunFolder
from skyanchor.run.job import Job
from skyanchor.run.pool import Done
from skyanchor.stages import anchors, job_files
from skyanchor.stages.places import PlaceFiles
from skyanchor.storage import codec, digest_cache, files

YEAR_S = 31_557_600.0
ERAS = (-56.8 * YEAR_S, -3600.0, 3600.0, 50 * YEAR_S)
"""How far a clock may be off: the first days of 1970 among it, seconds."""


class Interrupted(InProcess):
    """Runs so many jobs, then is stopped."""

    def __init__(self, most: int) -> None:
        object.__setattr__(self, "most", most)
        object.__setattr__(self, "done", [])

    def run(self, jobs: Sequence[Job], listen: Listener = silent, done: Done | None = None) -> list[codec.Json]:
        for index, job in enumerate(jobs):
            if len(self.done) == self.most:  # type: ignore[attr-defined]
                raise KeyboardInterrupt
            self.done.append(job)  # type: ignore[attr-defined]
            job.run(listen)
            if done is not None:
                done(index, None)
        return [None for _ in jobs]


def shifted(monkeypatch: pytest.MonkeyPatch, off_s: float) -> None:
    """The clock of this process, off by so much."""
    true = time.time
    monkeypatch.setattr(time, "time", lambda: true() + off_s)


def contents(root: Path) -> dict[str, bytes]:
    held = [path for path in sorted(root.rglob("*")) if path.is_file() and ".state" not in path.parts]
    return {str(path.relative_to(root)): path.read_bytes() for path in held if path.parent != root}


@pytest.mark.parametrize(("written", "now"), [*zip(ERAS, reversed(ERAS), strict=True), (ERAS[0], 0.0), (ERAS[-1], 0.0)])
def test_a_run_goes_on_whatever_year_its_files_are_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: float, now: float
) -> None:
    for root in ("whole", "run"):
        engine, again = Interrupted(2 if root == "run" else 99), Interrupted(99)
        try:
            with RunFolder(tmp_path / root) as run:
                killable.second(run, killable.first(run, engine, {"units": 4}))
        except KeyboardInterrupt:
            for path in (tmp_path / root).rglob("*"):
                os.utime(path, (max(0.0, time.time() + written),) * 2)
            shifted(monkeypatch, now)
            with RunFolder(tmp_path / root) as run:
                killable.second(run, killable.first(run, again, {"units": 4}))
            assert len(again.done) == 2  # type: ignore[attr-defined]
    assert contents(tmp_path / "run") == contents(tmp_path / "whole")


@pytest.mark.parametrize("off_s", [0.0, *ERAS])
def test_a_photo_that_keeps_its_size_and_its_time_is_another_one_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, off_s: float
) -> None:
    photo = tmp_path / "a.jpg"
    photo.write_bytes(b"before")
    os.utime(photo, (max(0.0, time.time() + off_s),) * 2)
    held = photo.stat()
    with RunFolder(tmp_path / "run") as run:
        run.stage("2-anchors", "", {}, {"photos": run.digest({"a": photo})}).finish()
    photo.write_bytes(b"behind")
    os.utime(photo, ns=(held.st_atime_ns, held.st_mtime_ns))
    shifted(monkeypatch, off_s)
    with RunFolder(tmp_path / "run") as run, pytest.raises(RecipeError, match=r"inputs\.photos was"):
        run.stage("2-anchors", "", {}, {"photos": run.digest({"a": photo})})


def test_a_photo_from_the_future_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    photo, read = tmp_path / "a.jpg", []
    photo.write_bytes(b"before")
    os.utime(photo, (time.time() + YEAR_S,) * 2)
    digest = digest_cache.file_digest
    monkeypatch.setattr(digest_cache, "file_digest", lambda path: read.append(path) or digest(path))
    for _ in range(2):
        digest_cache.DigestCache(tmp_path / "digests.json").digest({"a": photo})
    assert len(read) == 1


# --- what a process holds of files --------------------------------------------------------------------------------


def rewritten(path: Path, write: Callable[[], None]) -> None:
    """Replace a file by another of the same time, as a clock that was set back may."""
    before = path.stat()
    write()
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("held", ["scaffold", "sequence", "tile"])
def test_a_file_that_is_replaced_within_one_tick_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: str
) -> None:
    readers: dict[str, Callable[[Path], State]] = {
        "scaffold": lambda path: job_files.load_scaffold_file(str(path)),  # type: ignore[dict-item,return-value]
        "sequence": lambda path: job_files.load_sequence_file(str(path)),  # type: ignore[dict-item,return-value]
        "tile": lambda path: PlaceIndex((path,), None)._tile(0),  # type: ignore[dict-item,return-value]
    }
    for module, name in ((job_files, "Scaffold"), (job_files, "Sequence"), (place_index, "PlaceTile")):
        monkeypatch.setattr(module, name, State)
    path, read = tmp_path / "held.npz", readers[held]
    files.save(path, State(1, np.ones(3)))
    assert read(path).iteration == 1 and read(path) is read(path)
    rewritten(path, lambda: files.save(path, State(2, np.ones(3))))
    assert read(path).iteration == 2


def test_settings_of_groups_that_are_replaced_within_one_tick_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Python interface may make one stage twice in one process, with other settings in one folder."""
    for name in ("_prepared", "GroundFrames", "load_sequence_file", "load_earlier"):
        monkeypatch.setattr(anchors, name, lambda *_: None)
    monkeypatch.setattr(anchors, "LocalRunner", lambda prepared, frames, config, earlier: config)
    none, settings = tmp_path / "none", tmp_path / anchors.SETTINGS
    files.save(tmp_path / anchors.CONTEXT, anchors.Context(*[none] * 5, places=PlaceFiles(none, ())))
    files.save(settings, AnchorConfig())
    assert anchors._in_process(str(tmp_path)) == AnchorConfig()
    other = AnchorConfig(route="paper")
    rewritten(settings, lambda: files.save(settings, other))
    assert anchors._in_process(str(tmp_path)) == other


def test_a_photo_is_read_again_for_another_camera_mask_or_content(tmp_path: Path) -> None:
    import cv2

    photo, mask, cache = tmp_path / "a.png", tmp_path / "m.png", PhotoCache()
    cv2.imwrite(str(photo), np.full((60, 80, 3), 10, np.uint8))
    cv2.imwrite(str(mask), np.zeros((60, 80), np.uint8))
    camera = cameras.pinhole(80, 60, 70.0)
    first, own = cache.photo("a", photo, camera, 40)
    assert cache.photo("a", photo, camera, 40)[0] is first
    other = cache.photo("a", photo, cameras.pinhole(80, 60, 90.0), 40)[1]
    assert cameras.focal_px(other) != cameras.focal_px(own)
    assert first.mask is None and cache.photo("a", photo, camera, 40, mask)[0].mask is not None
    rewritten(photo, lambda: files.write_bytes(photo, cv2.imencode(".png", np.full((60, 80, 3), 20, np.uint8))[1]))
    assert cache.photo("a", photo, camera, 40)[0].pixels.max() == 20
