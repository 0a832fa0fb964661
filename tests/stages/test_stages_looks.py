"""What frames of a long walk say of many places is left on the disk until a group asks for it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np

from skyanchor.anchors.walk_votes import Looks
from skyanchor.run.executor import InProcess
from skyanchor.stages.anchors import LOOKS_PER_JOB, JobRunner
from skyanchor.storage import files

VIEWS = 50


def test_looks_are_read_where_they_lie(tmp_path: Path) -> None:
    """Frames of one group are in memory at a time, not all that vote, as for 2 000 frames among 50 000 views 133 MB."""
    frames = tuple(range(0, 90, 3))
    alike = np.random.default_rng(0).random((len(frames), VIEWS)).astype(np.float32)
    said: list[list[int]] = []

    def produce(_: str, work: dict, __: object) -> list[Path]:
        for name, job in work.items():
            said.append(list(job.arguments["frames"]))
            row = alike[[frames.index(frame) for frame in said[-1]]]
            files.save(files.make_folder((tmp_path / name).parent) / Path(name).name, Looks(row))
        return [tmp_path / name for name in work]

    stage = SimpleNamespace(produce=produce, path=lambda name: tmp_path / name)
    work = SimpleNamespace(executor=InProcess(), sequence=SimpleNamespace(frames=range(90)))
    held = JobRunner(stage, work).looks(frames)  # type: ignore[arg-type]
    assert [len(some) for some in said] == [LOOKS_PER_JOB, len(frames) - LOOKS_PER_JOB]
    assert np.array_equal(np.concatenate([part.likeness for part in held]), alike)
    assert all(not part.likeness.flags.writeable for part in held), "mapped, and nothing of them read yet"
