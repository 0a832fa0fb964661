"""Before the submaps, all workers find the keypoints of their frames."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import cv2
import numpy as np
import pytest

from skyanchor.events import silent
from skyanchor.matching import Sift, XFeat
from skyanchor.run.executor import InProcess
from skyanchor.run.job import Job
from skyanchor.sequence import load_sequence
from skyanchor.stages import trajectory as stage
from skyanchor.storage import files
from skyanchor.trajectory import PhotoFeatures, TrajectoryConfig
from skyanchor.trajectory.assembly import KnownMap, Resected
from skyanchor.trajectory.jobs import FramePose
from skyanchor.types import Pose, Reason, Refusal

FRAMES = 6


class Listed(InProcess):
    """Works here, and keeps the jobs."""

    def __init__(self) -> None:
        object.__setattr__(self, "jobs", [])

    def run(self, jobs: Sequence[Job], *_: object) -> list[object]:
        self.jobs.extend(jobs)
        return super().run(jobs)


@pytest.fixture
def work(tmp_path: Path) -> SimpleNamespace:
    rng = np.random.default_rng(0)
    (tmp_path / "images").mkdir()
    for k in range(FRAMES):
        noise = cv2.GaussianBlur(rng.integers(0, 256, (60, 80, 3), dtype=np.uint8), (0, 0), 2.0)
        cv2.imwrite(str(tmp_path / "images" / f"{k}.png"), noise)
    sequence = load_sequence(tmp_path / "images")
    files.save(tmp_path / "sequence.json", sequence)
    return SimpleNamespace(
        sequence=sequence, sequence_file=tmp_path / "sequence.json", features=tmp_path / "features", executor=Listed()
    )


def planned(matcher: Sift | XFeat) -> tuple[SimpleNamespace, ...]:
    """Two submaps that share a frame."""
    config = TrajectoryConfig(matcher=matcher)
    return tuple(SimpleNamespace(submap=SimpleNamespace(frames=f), config=config) for f in ((0, 1, 2, 3), (3, 4, 5)))


def test_the_submaps_find_their_keypoints_ready(
    work: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage, "_submap_file", lambda job: f"submap-{job.submap.frames[0]}.npz")
    folder = SimpleNamespace(path=lambda name: tmp_path / name)
    matcher = Sift(keypoints=50)
    stage._describe(folder, work, planned(matcher))
    described = [frame for job in work.executor.jobs for frame in job.arguments["frames"]]
    assert described == list(range(FRAMES)) and not any(job.gpu for job in work.executor.jobs)
    kept = {path: path.stat().st_mtime_ns for path in work.features.iterdir()}
    source = PhotoFeatures(work.sequence, matcher, work.features)
    assert all(len(source.features(frame).xy) for frame in range(FRAMES))
    assert len(kept) == FRAMES and kept == {path: path.stat().st_mtime_ns for path in work.features.iterdir()}
    (tmp_path / "submap-0.npz").write_bytes(b"")
    work.executor.jobs.clear()
    stage._describe(folder, work, planned(matcher))
    assert [frame for job in work.executor.jobs for frame in job.arguments["frames"]] == [3, 4, 5]


def test_keypoints_of_a_network_are_left_to_the_submaps(
    work: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage, "_submap_file", lambda job: "none.npz")
    stage._describe(SimpleNamespace(path=lambda name: tmp_path / name), work, planned(XFeat()))
    assert work.executor.jobs == []


def test_frames_between_keyframes_are_shared_out(
    work: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    none = Refusal(Reason.NO_OVERLAP, "nothing")
    monkeypatch.setattr(stage, "resect", lambda known, source, frames, of: tuple(Resected(k, none) for k in frames))
    folder = SimpleNamespace(path=lambda name: tmp_path / name, listen=silent)
    camera, still = work.sequence.camera, Pose(np.eye(3), np.zeros(3))
    known = KnownMap(camera, (FramePose(0, still),), (np.zeros((3, 3)),), TrajectoryConfig())
    found = stage._between(folder, work, known, (5, 1, 2, 3, 4))
    assert [one.frame for one in found] == [5, 1, 2, 3, 4] and all(one.found == none for one in found)
    shares = [len(job.arguments["frames"]) for job in work.executor.jobs]
    assert max(shares) == stage.TOGETHER and len(shares) == 2 and not any(job.gpu for job in work.executor.jobs)
