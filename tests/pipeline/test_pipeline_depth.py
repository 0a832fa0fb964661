"""Where depth is measured: in worker processes, or in threads of this process for a backend that takes turns."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from box_world import eyes

from skyanchor.geometry import cameras
from skyanchor.run.executor import Executor, InProcess, Processes, Threads
from skyanchor.run.job import Job
from skyanchor.stages.scaffold import _measured_depths
from skyanchor.stereo import NumbaStereo, StereoConfig, TritonStereo
from skyanchor.stereo.backends import AnyStereo
from skyanchor.types import View


class Asked:
    """A stage that only notes what runs its jobs."""

    def path(self, name: str) -> Path:
        return Path(name)

    def produce(self, step: str, jobs: Mapping[str, Job], executor: Executor) -> list[Path]:
        self.jobs, self.executor = jobs, executor
        return [Path(name) for name in jobs]


@pytest.mark.parametrize(
    ("backend", "given", "used"),
    [
        (NumbaStereo(), Processes(3), Processes(3)),
        (TritonStereo(), Processes(3), Threads(3)),
        (TritonStereo(), InProcess(), InProcess()),
    ],
)
def test_photos_that_take_turns_stay_in_this_process(backend: AnyStereo, given: Executor, used: Executor) -> None:
    camera = cameras.pinhole(96, 72, 80.0)
    views = tuple(View(f"{k}.png", camera, pose, Path(f"{k}.png")) for k, pose in enumerate(eyes(3)))
    stage = Asked()
    made = _measured_depths(stage, views, (np.array([1, 2]),) * 3, StereoConfig(backend=backend), given)  # type: ignore[arg-type]
    assert stage.executor == used
    assert [path.name for path in made] == ["0.npz", "1.npz", "2.npz"] and len(stage.jobs) == 3
