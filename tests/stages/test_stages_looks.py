"""What frames of a long walk say of many places is left on the disk until a group asks for it."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count, islice
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from skyanchor.anchors.walk_votes import Looks
from skyanchor.run.executor import InProcess
from skyanchor.stages.anchors import LOOKS_PER_JOB, JobRunner
from skyanchor.storage import files
from skyanchor.types import Floats32

VIEWS = 50


def _runner(tmp_path: Path, frames: tuple[int, ...], alike: Floats32, asked: list[list[int]]) -> JobRunner:
    """A runner whose jobs say of the frames what `alike` (F, V) does, and which are asked."""

    def produce(_: str, work: dict, __: object) -> list[Path]:
        for name, job in work.items():
            asked.append(list(job.arguments["frames"]))
            row = alike[[frames.index(frame) for frame in asked[-1]]]
            files.save(files.make_folder((tmp_path / name).parent) / Path(name).name, Looks(row))
        return [tmp_path / name for name in work]

    stage = SimpleNamespace(produce=produce, path=lambda name: tmp_path / name)
    work = SimpleNamespace(executor=InProcess(), sequence=SimpleNamespace(frames=range(frames[-1] + 1)))
    return JobRunner(stage, work)  # type: ignore[arg-type]


@contextmanager
def _few_open_files(more: int) -> Iterator[None]:
    """A block in which the process may have so many files open besides those that it has."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = {int(path.name) for path in Path("/dev/fd").iterdir()}
    free = (number for number in count() if number not in taken)
    resource.setrlimit(resource.RLIMIT_NOFILE, (next(islice(free, more, None)), limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_looks_are_read_where_they_lie(tmp_path: Path) -> None:
    """Frames of one group are in memory at a time, not all that vote, as for 2 000 frames among 50 000 views 133 MB."""
    frames = tuple(range(0, 90, 3))
    alike = np.random.default_rng(0).random((len(frames), VIEWS)).astype(np.float32)
    asked: list[list[int]] = []
    said = _runner(tmp_path, frames, alike, asked).looks(frames)
    assert [len(some) for some in asked] == [LOOKS_PER_JOB, len(frames) - LOOKS_PER_JOB]
    assert np.array_equal(said(frames), alike)
    for some in ((0,), (57, 60, 63), (87, 3, 60)):  # of one file, of two, in any order
        assert np.array_equal(said(some), alike[[frames.index(frame) for frame in some]])
    assert said(frames).dtype == np.float32


def test_a_long_walk_holds_no_more_files_open_than_a_group_asks_for(tmp_path: Path) -> None:
    """As many frames as a day's walk has vote in more files than a process may have open."""
    frames = tuple(range(60 * LOOKS_PER_JOB))
    alike = np.random.default_rng(0).random((len(frames), 3)).astype(np.float32)
    runner, kept = _runner(tmp_path, frames, alike, []), []
    with _few_open_files(20):
        said = runner.looks(frames)
        for first in range(0, len(frames), 50):
            kept.append(said(frames[first : first + 50]))  # what groups were told may stay
    assert np.array_equal(np.concatenate(kept), alike)
