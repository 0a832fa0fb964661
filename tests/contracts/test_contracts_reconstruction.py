"""One contract for every feed-forward reconstruction, and for both who use it: anchor groups and submaps."""

from __future__ import annotations

import sys
from collections.abc import Sequence as Ordered
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import get_args

import numpy as np
import pytest
import torch

from skyanchor.anchors.shape.free import depth_of_free, shape_from_free
from skyanchor.anchors.shape.incremental import LocalConfig, LocalGroup
from skyanchor.errors import BackendError
from skyanchor.feedforward import (
    AnyLocal,
    FeedForward,
    FreeFolder,
    FreeFrames,
    Incremental,
    LocalReconstruction,
    Vggt,
)
from skyanchor.feedforward.vggt import VggtReconstruction
from skyanchor.geometry import cameras, rigid, similarity
from skyanchor.matching import Features
from skyanchor.trajectory.feedforward import FeedForwardConfig, Laid, lay
from skyanchor.types import Frame, Ints, Photo, Pose, Sequence, Similarity, Submap

CAMERA = cameras.pinhole(640, 360, 450.0)
GROUP = tuple(range(2, 8))
COUNT = 10
FREE_FROM_WORLD = Similarity(0.4, rigid.rotation_exp(np.array([0.2, -0.5, 1.0])), np.array([3.0, 1.0, -2.0]))


def truth() -> list[Pose]:
    eyes = [np.array([0.1 * k, 0.6 * k + 0.02 * k * k, 1.7]) for k in range(COUNT)]
    up = np.array([0.0, 0.0, 1.0])
    return [rigid.look_at(eye, eye + np.array([0.04 * k - 0.2, 1.0, 0.02]), up) for k, eye in enumerate(eyes)]


def freely(frames: Ordered[int]) -> list[Pose]:
    """cam_from_free with some noise."""
    rng = np.random.default_rng(8)
    noise = [rigid.rotation_exp(0.004 * rng.normal(size=3)) for _ in range(COUNT)]
    held = [Pose(n @ p.rotation, n @ p.translation) for n, p in zip(noise, truth(), strict=True)]
    return [similarity.transform_camera(FREE_FROM_WORLD, held[k]) for k in frames]


def sequence(root: Path) -> Sequence:
    frames = tuple(Frame(k, f"f{k}.png", root / f"f{k}.png") for k in range(COUNT))
    return Sequence(root, frames, CAMERA, False, (), ())


def folder(root: Path) -> FreeFolder:
    """What a system run elsewhere would have left."""
    (root / "depth").mkdir()
    lines = []
    for k, pose in enumerate(one.inverse for one in freely(range(COUNT))):
        w, x, y, z = rigid.quaternion_from_rotation(pose.rotation)
        lines.append(" ".join(str(v) for v in (k, *pose.translation, x, y, z, w)))
        np.save(root / f"depth/f{k}.npy", np.full((90, 160), 4.0, np.float32))
    (root / "trajectory.tum").write_text("\n".join(lines))
    return FreeFolder(root)


def vggt(monkeypatch: pytest.MonkeyPatch) -> VggtReconstruction:
    """Our adapter around a stand-in for the package and its network."""
    poses = torch.tensor(np.array([np.c_[p.rotation, p.translation] for p in freely(GROUP)]))[None]
    k = torch.tensor([[450 * 56 / 640, 0, 28], [0, 450 * 28 / 360, 14], [0, 0, 1.0]]).repeat(len(GROUP), 1, 1)[None]
    code = ModuleType("vggt.utils.pose_enc")
    code.pose_encoding_to_extri_intri = lambda encoded, size: (poses, k)
    for name in ("vggt", "vggt.utils"):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace())
    monkeypatch.setitem(sys.modules, "vggt.utils.pose_enc", code)

    def network(images):
        count, height, width = images.shape[1], *images.shape[-2:]
        depth = torch.full((1, count, height, width, 1), 4.0)
        return {"pose_enc": torch.zeros(1, count, 9), "depth": depth, "depth_conf": torch.ones(1, count, height, width)}

    return VggtReconstruction(network, Vggt(side=56), "cpu")


@pytest.fixture(params=["folder", "vggt"])
def system(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalReconstruction:
    if request.param == "folder":
        return folder(tmp_path).load("auto", sequence(tmp_path))
    return vggt(monkeypatch)


def photos(frames: Ordered[int]) -> list[Photo]:
    return [Photo(f"f{k}.png", np.full((360, 640, 3), 20 * k, np.uint8)) for k in frames]


def answer(system: LocalReconstruction) -> FreeFrames:
    return system.reconstruct(GROUP, photos(GROUP))


def test_frames_keep_their_numbers_and_sizes(system: LocalReconstruction, capfd: pytest.CaptureFixture[str]) -> None:
    first, again = answer(system), answer(system)
    assert [one.frame for one in first.frames] == list(GROUP)
    for one, other in zip(first.frames, again.frames, strict=True):
        height, width = one.depth.shape
        assert width / height == pytest.approx(640 / 360, rel=0.15) and one.confidence.shape == one.depth.shape
        assert (one.depth >= 0).all() and np.isfinite(one.depth).all() and np.isfinite(one.confidence).all()
        rotation = one.cam_from_free.rotation
        assert np.allclose(rotation @ rotation.T, np.eye(3), atol=1e-5) and np.linalg.det(rotation) > 0
        assert np.array_equal(one.depth, other.depth) and np.array_equal(rotation, other.cam_from_free.rotation)
    assert first.camera is None or (first.camera.width, first.camera.height) == (640, 360)
    assert capfd.readouterr().out == ""


class SameNumbers:
    """Keypoints of one number are one landmark."""

    def pairs(self, a: Features, b: Features) -> Ints:
        return np.stack([np.arange(len(a))] * 2, axis=1)


def seen(frames: Ordered[int]) -> tuple[Features, ...]:
    rng = np.random.default_rng(2)
    points = np.stack([rng.uniform(-5, 5, 300), rng.uniform(9, 25, 300), rng.uniform(0, 5, 300)], axis=1)
    ones = np.ones(300, np.float32)
    found = []
    for k in frames:
        xy = cameras.project(CAMERA, truth()[k](points)) + rng.normal(0, 0.3, (300, 2))
        found.append(Features(xy, np.zeros((300, 2), np.float32), ones, ones, 640, 360, 0.5))
    return tuple(found)


def test_it_serves_an_anchor_group(system: LocalReconstruction) -> None:
    free = answer(system)
    group = shape_from_free(GROUP, seen(GROUP), CAMERA, SameNumbers(), free, LocalConfig())
    assert isinstance(group, LocalGroup) and group.frames == GROUP
    world_from_local = similarity.align_cameras(group.cams_from_local, [truth()[k] for k in GROUP])
    eyes = world_from_local(rigid.centres_in_world(group.cams_from_local))
    off = np.linalg.norm(eyes - rigid.centres_in_world([truth()[k] for k in GROUP]), axis=1)
    assert 0.0 < off.max() < 0.05
    depth_at = depth_of_free(GROUP, free, CAMERA)
    assert depth_at is not None and depth_at(0, np.array([[320.0, 180.0]]))[0] == 4.0


def test_it_serves_a_submap(system: LocalReconstruction) -> None:
    poses = {one.frame: one.cam_from_free for one in answer(system).frames}
    anchors = {k: truth()[k] for k in GROUP}
    laid = lay(Submap(0, GROUP, GROUP[:3], GROUP[3:]), poses, anchors, FeedForwardConfig())
    assert isinstance(laid, Laid) and set(laid.poses) == set(GROUP)
    assert laid.world_from_free.scale == pytest.approx(2.5, rel=0.05)


def test_the_contract_covers_every_kind(tmp_path: Path) -> None:
    assert set(get_args(FeedForward)) == {Vggt, FreeFolder} == set(get_args(AnyLocal)) - {Incremental}
    with pytest.raises(BackendError, match="does not exist"):
        Vggt(weights=tmp_path / "vggt.pt").load("auto", sequence(tmp_path))
