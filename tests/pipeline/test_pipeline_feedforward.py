"""The trajectory stage from a feed-forward reconstruction: a network in passes, and a folder made elsewhere."""

from __future__ import annotations

from collections.abc import Sequence as Ordered
from pathlib import Path

import numpy as np
import paper_street
import pytest
from given_run import given_anchors

from skyanchor import pipeline
from skyanchor.anchors import AnchorConfig
from skyanchor.errors import BackendError, InputError, RecipeError
from skyanchor.evaluation.metrics import evaluate_run
from skyanchor.events import ANCHORS, TRAJECTORY
from skyanchor.feedforward import FreeFrame, FreeFrames, write_free_frames
from skyanchor.geometry import cameras, rigid, similarity
from skyanchor.pipeline import PipelineConfig
from skyanchor.reading import read_work
from skyanchor.run.executor import InProcess
from skyanchor.run.folder import RunFolder
from skyanchor.run.inputs import Inputs
from skyanchor.run.results import open_run
from skyanchor.sequence import SequenceConfig
from skyanchor.stages import trajectory
from skyanchor.storage import files
from skyanchor.trajectory import AnyLocal, FreeFolder, TrajectoryConfig, Vggt
from skyanchor.trajectory.feedforward_run import passes
from skyanchor.types import Floats, Photo, Pose, Similarity

FRAMES = 16
TRUE = paper_street.walk(FRAMES)
FACES = paper_street.street()


def depth_of(cam_from_world: Pose) -> Floats:
    """(H, W), of the street's faces."""
    camera = paper_street.WALKER
    x, y = np.meshgrid(np.arange(camera.width) + 0.5, np.arange(camera.height) + 0.5)
    rays = cameras.unproject(camera, np.stack([x.ravel(), y.ravel()], axis=1)) @ cam_from_world.rotation
    centre = rigid.centre_in_world(cam_from_world)
    nearest = np.full(len(rays), np.inf)
    for face in FACES:
        normal = np.cross(face.across, face.along)
        with np.errstate(divide="ignore", invalid="ignore"):
            depth = (face.origin - centre) @ normal / (rays @ normal)
        hit = centre + depth[:, None] * rays - face.origin
        size = np.array(face.texture.shape[1::-1]) / paper_street.PIXELS_PER_METRE
        uv = np.stack([hit @ face.across, hit @ face.along], axis=1)
        inside = np.all((uv > 0) & (uv < size), axis=1) & (depth > 0.05)
        nearest = np.where(inside, np.minimum(nearest, depth), nearest)
    return np.where(np.isfinite(nearest), nearest, 0.0).reshape(camera.height, camera.width)


def seen_freely(frames: Ordered[int]) -> FreeFrames:
    """The truth in another frame and scale, with steps that come out too long by up to a tenth."""
    free_from_world = Similarity(0.4, rigid.rotation_exp(np.array([0.3, -1.0, 2.0])), np.array([5.0, -2.0, 9.0]))
    found = []
    for frame in frames:
        grown = 1.0 + 0.1 * frame / FRAMES
        eye = rigid.centre_in_world(TRUE[frame])
        drifted = rigid.from_centre(TRUE[frame].rotation, np.array([eye[0] * (1 + 0.05 * frame / FRAMES), *eye[1:]]))
        depth = (0.4 * grown * depth_of(TRUE[frame])).astype(np.float32)
        pose = similarity.transform_camera(free_from_world, drifted)
        found.append(FreeFrame(frame, pose, depth, np.ones_like(depth)))
    return FreeFrames(tuple(found))


class StandIn:
    """Answers like the network, and remembers what it was shown."""

    def __init__(self) -> None:
        self.shown: list[tuple[int, ...]] = []

    def reconstruct(self, frames: Ordered[int], photos: Ordered[Photo]) -> FreeFrames:
        assert [photo.name for photo in photos] == [f"g{frame:03}.png" for frame in frames]
        self.shown.append(tuple(frames))
        return seen_freely(frames)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("paper")
    paper_street.write_scene(root, FRAMES)
    return root


def recover(scene: Path, root: Path, local: AnyLocal) -> None:
    config = PipelineConfig(
        sequence=SequenceConfig(camera="PINHOLE,230,230,160,90"), trajectory=TrajectoryConfig(local=local)
    )
    inputs = Inputs(scene / "aerial", scene / "ground")
    with RunFolder(root) as run:
        files.save(root / ".state/inputs.json", inputs)
        work = read_work(run, inputs, config, InProcess())
        trajectory.run(work, config.trajectory, given_anchors(work, TRUE))


def test_a_networks_passes_become_the_trajectory(scene: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network = StandIn()
    monkeypatch.setattr(Vggt, "load", lambda self, device, sequence=None: network)
    recover(scene, tmp_path, Vggt(most_frames=14))
    assert network.shown == [(*range(6), 6, 8, *range(10, 16)), (*range(6), 7, 9, *range(10, 16))]
    metrics = evaluate_run(open_run(tmp_path), scene / "ground/truth")
    assert metrics.trajectory.registered == FRAMES
    assert metrics.trajectory.ate_m is not None and 1e-6 < metrics.trajectory.ate_m < 0.05
    assert (tmp_path / "3-trajectory/model/points3D.bin").stat().st_size > 1000
    recover(scene, tmp_path, Vggt(most_frames=14))
    assert len(network.shown) == 2  # the stage was there


def test_a_folder_made_elsewhere_becomes_the_trajectory(scene: Path, tmp_path: Path) -> None:
    folder = tmp_path / "vggt-slam"
    write_free_frames(folder, seen_freely(range(FRAMES)))
    recover(scene, tmp_path / "run", FreeFolder(folder))
    metrics = evaluate_run(open_run(tmp_path / "run"), scene / "ground/truth")
    assert metrics.trajectory.registered == FRAMES
    assert metrics.trajectory.ate_m is not None and 1e-6 < metrics.trajectory.ate_m < 0.05
    np.save(folder / "depth/3.npy", np.ones((180, 320), np.float32))
    with pytest.raises(RecipeError, match=r"inputs\.free"):
        recover(scene, tmp_path / "run", FreeFolder(folder))


def test_passes_share_the_anchors() -> None:
    assert passes(tuple(range(10)), (0, 1, 8, 9), 20) == (tuple(range(10)),)
    found = passes(tuple(range(10)), (0, 1, 8, 9), 6)
    assert found == ((0, 1, 2, 5, 8, 9), (0, 1, 3, 6, 8, 9), (0, 1, 4, 7, 8, 9))
    assert passes((4, 5, 6), (), 6) == () and passes((4, 5), (4, 5), 6) == ((4, 5),)


def test_what_is_missing_is_told_before_anything_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKYANCHOR_WEIGHTS", str(tmp_path))
    inputs = Inputs(tmp_path / "nothing", tmp_path / "here")
    with RunFolder(tmp_path / "run") as run:
        absent = PipelineConfig(trajectory=TrajectoryConfig(local=Vggt(weights=tmp_path / "vggt.pt")))
        with pytest.raises(BackendError, match=r"vggt\.pt does not exist"):
            pipeline.run(run, inputs, absent, InProcess(), TRAJECTORY)
        empty = PipelineConfig(trajectory=TrajectoryConfig(local=FreeFolder(tmp_path)))
        with pytest.raises(InputError, match=r"has no trajectory\.tum"):
            pipeline.run(run, inputs, empty, InProcess())
        groups = PipelineConfig(anchors=AnchorConfig(shape=Vggt(weights=tmp_path / "vggt.pt")))
        with pytest.raises(BackendError, match=r"vggt\.pt does not exist"):
            pipeline.run(run, inputs, groups, InProcess(), ANCHORS)
        with pytest.raises(InputError, match=r"has no trajectory\.tum"):
            folder = PipelineConfig(anchors=AnchorConfig(shape=FreeFolder(tmp_path)))
            pipeline.run(run, inputs, folder, InProcess(), ANCHORS)
