"""Feed-forward reconstructions on a street of planes with known truth: drift in, centimetres out, refusals."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import ModuleType, SimpleNamespace

import cv2
import numpy as np
import pytest
import torch
from trajectory_world import CAMERA, World, anchors_of, centre_errors, posed, sequence_of, street_poses

from skyanchor.errors import BackendError, InputError
from skyanchor.feedforward.free_frames import FreeFrame, FreeFrames, read_free_frames
from skyanchor.feedforward.vggt import Vggt, VggtReconstruction
from skyanchor.geometry import cameras, rigid, similarity
from skyanchor.trajectory.feedforward import FeedForwardConfig, Laid, lay, lay_all, recover_feedforward
from skyanchor.trajectory.planning import accepted_anchors
from skyanchor.trajectory.pseudo import (
    PseudoConfig,
    bilinear,
    carried,
    follow,
    inverse_depth,
    lift,
    pseudo_matches,
    smooth,
)
from skyanchor.types import AnchorGroup, Photo, Pose, Reason, Refusal, Similarity, Support

SIZE = (216, 384)  # of the depth maps: 0.6 of the photos
PLANES = ((np.array([0.0, 0.0, 1.0]), 0.0), (np.array([0.0, 1.0, 0.0]), -7.0), (np.array([0.0, 1.0, 0.0]), 7.0))
COUNT = 24


def hits(pose: Pose, height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """(depth (N,), plane (N,)) of two house fronts and the ground, for every pixel of a picture; inf beyond 60 m."""
    v, u = np.meshgrid(np.arange(height) + 0.5, np.arange(width) + 0.5, indexing="ij")
    pixels = np.stack([u.ravel() * CAMERA.width / width, v.ravel() * CAMERA.height / height], axis=1)
    rays = cameras.unproject(CAMERA, pixels) @ pose.rotation
    with np.errstate(divide="ignore"):
        t = np.stack([(offset - normal @ rigid.centre_in_world(pose)) / (rays @ normal) for normal, offset in PLANES])
    t = np.where((t > 0) & (t < 60), t, np.inf)
    return t.min(axis=0), t.argmin(axis=0)


@lru_cache(maxsize=64)
def depth_of(pose: Pose) -> np.ndarray:
    """(h, w); 0 beyond 60 m."""
    depth = hits(pose, *SIZE)[0]
    return np.where(np.isfinite(depth), depth, 0.0).reshape(SIZE).astype(np.float32)


@lru_cache(maxsize=1)
def texture(side: int = 1024) -> np.ndarray:
    rng = np.random.default_rng(3)
    total = np.zeros((side, side), np.float32)
    for cell in (2, 4, 8, 16, 32, 64):
        grid = rng.normal(size=(side // cell, side // cell)).astype(np.float32)
        total += cell**0.5 * cv2.resize(grid, (side, side), interpolation=cv2.INTER_CUBIC)
    return np.clip(128 + 45 * total / total.std(), 0, 255)


def photo_of(pose: Pose) -> np.ndarray:
    """(H, W, 3), the planes with plaster and gravel, 20 texels a metre."""
    depth, plane = hits(pose, CAMERA.height, CAMERA.width)
    v, u = np.meshgrid(np.arange(CAMERA.height) + 0.5, np.arange(CAMERA.width) + 0.5, indexing="ij")
    rays = cameras.unproject(CAMERA, np.stack([u.ravel(), v.ravel()], axis=1)) @ pose.rotation
    known = np.isfinite(depth)
    points = 20.0 * (rigid.centre_in_world(pose) + rays * np.where(known, depth, 0.0)[:, None])
    x, y = points[:, 0] + 333.0 * plane, np.where(plane == 0, points[:, 1], points[:, 2]) + 200.0
    column, row = np.floor(x).astype(int), np.floor(y).astype(int)
    u, v = x - column, y - row
    tex, side = texture(), len(texture())
    corner = [[tex[(row + i) % side, (column + j) % side] for j in (0, 1)] for i in (0, 1)]
    value = (1 - v) * ((1 - u) * corner[0][0] + u * corner[0][1]) + v * ((1 - u) * corner[1][0] + u * corner[1][1])
    grey = np.where(known, value, 200.0).reshape(CAMERA.height, CAMERA.width).astype(np.float32)
    return np.repeat(cv2.GaussianBlur(grey, (0, 0), 0.7).astype(np.uint8)[..., None], 3, axis=2)


@pytest.fixture(scope="module")
def world() -> World:
    return World(street_poses(COUNT, bend=0.0), np.empty((0, 3)))


def free_frames(world: World, drift: float = 0.0, turn_deg: float = 0.0, noise: float = 0.0) -> FreeFrames:
    """Truth in another frame and scale, the scale drifting by `drift` and the heading by `turn_deg` from end to end."""
    rng = np.random.default_rng(0)
    free_from_world = Similarity(0.37, rigid.rotation_exp(np.array([0.3, -1.0, 2.0])), np.array([5.0, -2.0, 9.0]))
    chain = [world.poses[0]]
    for k in range(1, len(world.poses)):
        step = world.poses[k] @ world.poses[k - 1].inverse
        grown = 1.0 + drift * k / len(world.poses)
        turn = rigid.rotation_exp(np.array([0.0, np.radians(turn_deg) / len(world.poses), 0.0]))
        chain.append(Pose(turn @ step.rotation, step.translation * grown) @ chain[-1])
    frames = []
    for k, pose in enumerate(chain):
        grown = 1.0 + drift * k / len(world.poses)
        depth = depth_of(world.poses[k]) * 0.37 * grown * (1.0 + noise * rng.normal(size=SIZE))
        confidence = (1.0 / (1.0 + depth)).astype(np.float32)
        frames.append(
            FreeFrame(k, similarity.transform_camera(free_from_world, pose), depth.astype(np.float32), confidence)
        )
    return FreeFrames(tuple(frames))


def sim3_errors(world: World, free: FreeFrames, anchors) -> dict[int, float]:
    """What a similarity alone would leave."""
    frames = [p.frame for g in anchors.groups for p in g.poses]
    found = similarity.align_cameras(
        [free.frames[f].cam_from_free for f in frames], [p.cam_from_world for g in anchors.groups for p in g.poses]
    )
    return centre_errors(world, {f.frame: similarity.transform_camera(found, f.cam_from_free) for f in free.frames})


CONFIG = FeedForwardConfig(PseudoConfig(stride=16))


@pytest.mark.parametrize(("turn_deg", "with_photos"), [(0.0, False), (5.0, True)])
def test_drift_is_taken_out_by_the_anchored_adjustment(turn_deg: float, with_photos: bool, world: World):
    """A drift of scale without photos; with photos an even turn as well, which carried pixels alone hand on."""
    sequence = sequence_of(world)
    anchors = anchors_of(world, sequence)
    free = free_frames(world, drift=0.2, turn_deg=turn_deg, noise=0.005)
    photos = {k: photo_of(pose) for k, pose in enumerate(world.poses)} if with_photos else None
    trajectory, laid = recover_feedforward(sequence, anchors, (free,), CONFIG, photos)
    found = centre_errors(world, posed(trajectory))
    before = sim3_errors(world, free, anchors)
    assert len(found) == COUNT and len(laid) == 1 and len(trajectory.points) > 300
    assert max(before.values()) > 0.12  # the test can fail
    assert max(found.values()) < 0.4 * max(before.values()) and max(found.values()) < 0.06
    supports = [frame.support for frame in trajectory.frames]
    assert supports.count(Support.ANCHORED) == 12 and supports.count(Support.KEYFRAME) == COUNT - 12
    for group in anchors.groups:
        for anchor in group.poses:
            held = trajectory.frames[anchor.frame].cam_from_world
            assert held is not None and np.array_equal(held.translation, anchor.cam_from_world.translation)
    assert all(0 < frame.sigma_m < 0.2 for frame in trajectory.frames)


def test_a_perfect_reconstruction_stays_perfect(world: World):
    sequence = sequence_of(world)
    trajectory, laid = recover_feedforward(sequence, anchors_of(world, sequence), (free_frames(world),), CONFIG)
    assert max(centre_errors(world, posed(trajectory)).values()) < 0.005
    assert laid[0].world_from_free.scale == pytest.approx(1 / 0.37, rel=1e-6) and laid[0].residual_m < 1e-6
    depth = trajectory.points @ np.array([0.0, 0.0, 1.0])
    on_plane = np.minimum(np.abs(depth), np.abs(np.abs(trajectory.points[:, 1]) - 7.0))
    assert np.quantile(on_plane, 0.9) < 0.05


def test_nothing_is_carried_across_a_cut(world: World):
    """One reconstruction of the whole walk, as a network makes it that knows of no cut."""
    sequence = sequence_of(world, submaps=2)
    ends = [end for part in sequence.submaps for end in (part.front, part.rear)]
    groups = tuple(AnchorGroup(k, frames, (k // 2,)) for k, frames in enumerate(ends))
    for cuts in ((12,), ()):
        cut = replace(sequence, cuts=cuts, groups=groups)
        trajectory, laid = recover_feedforward(cut, anchors_of(world, cut), (free_frames(world),), CONFIG)
        assert len(posed(trajectory)) == COUNT and len(laid) == 2
        point, after = trajectory.tracks.point, trajectory.tracks.image >= 12
        before_cut, after_cut = (np.bincount(point[rows], minlength=len(trajectory.points)) for rows in (~after, after))
        assert bool(np.minimum(before_cut, after_cut).any()) == (not cuts)


def test_frames_without_anchors_or_depth_say_why(world: World):
    sequence = sequence_of(world)
    nobody = anchors_of(world, sequence, refused=frozenset({0, 1}))
    trajectory, laid = recover_feedforward(sequence, nobody, (free_frames(world),), FeedForwardConfig())
    assert laid == () and all(f.cam_from_world is None and f.refusal is not None for f in trajectory.frames)
    part = FreeFrames(free_frames(world).frames[:20])
    laid, missing = lay_all(sequence, accepted_anchors(anchors_of(world, sequence)), (part,), FeedForwardConfig())
    assert len(laid) == 1 and sorted(laid[0].poses) == list(range(20)) and sorted(missing) == list(range(20, COUNT))
    assert {why.reason for why in missing.values()} == {"not-reconstructed"}


def test_contradiction_and_degeneracy_are_refused(world: World):
    submap = sequence_of(world).submaps[0]
    free = {f.frame: f.cam_from_free for f in free_frames(world).frames}
    truth = {f: world.poses[f] for f in (*submap.front, *submap.rear)}
    config = FeedForwardConfig()
    assert isinstance(lay(submap, free, truth, config), Laid)
    shuffled = dict(zip(truth, [truth[f] for f in sorted(truth, key=lambda f: (f % 5, f))], strict=True))
    refused = lay(submap, free, shuffled, config)
    assert isinstance(refused, Refusal) and refused.reason == Reason.CONTRADICTS_ANCHORS
    few = lay(submap, free, {0: world.poses[0]}, config)
    assert isinstance(few, Refusal) and few.reason == Reason.TOO_FEW_ANCHORS
    still = lay(submap, dict.fromkeys(free, free[0]), truth, config)
    assert isinstance(still, Refusal) and still.reason == Reason.DEGENERATE_ANCHORS


# --- pixels ---------------------------------------------------------------------------------------------------------


def test_carried_pixels_are_where_the_truth_puts_them(world: World):
    free = free_frames(world)
    found = pseudo_matches((free,), CAMERA, PseudoConfig())
    assert set(found.xy) == set(range(COUNT)) and found.sigma_px == pytest.approx(640 / 384)
    worst = 0.0
    for (i, j), pairs in found.pairs.items():
        xy = found.xy[i][pairs[:, 0]]
        column, row = np.floor(xy * [SIZE[1] / 640, SIZE[0] / 360]).astype(int).T
        depth = depth_of(world.poses[i])[row, column, None]
        points = world.poses[i].inverse(cameras.unproject(CAMERA, xy) * depth)
        there = cameras.project(CAMERA, world.poses[j](points))
        worst = max(worst, float(np.abs(there - found.xy[j][pairs[:, 1]]).max()))
    assert worst < 0.02 and sum(len(p) for p in found.pairs.values()) > 5000


def test_hidden_points_are_not_carried(world: World):
    free = free_frames(world)
    first, other = free.frames[0], free.frames[3]
    uv = np.stack(np.meshgrid(np.arange(20, 370, 10), np.arange(120, 200, 10)), -1).reshape(-1, 2) + 0.5
    points = lift(first, uv, CAMERA)
    known = first.depth[120:200:10, 20:370:10].ravel() > 0
    seen = carried(points[known], other, inverse_depth(other.depth), CAMERA, 0.03)[1]
    nearer = replace(other, depth=0.8 * other.depth)
    hidden = carried(points[known], nearer, inverse_depth(nearer.depth), CAMERA, 0.03)[1]
    assert seen.mean() > 0.5 and not hidden.any()


def test_edges_of_surfaces_give_no_seeds():
    depth = np.full((20, 30), 5.0, np.float32)
    depth[:, 15:] = 9.0
    depth[3, 3] = 0.0
    good = smooth(depth)
    assert not good[10, 14:16].any() and good[10, 5] and good[10, 25] and not good[3, 3]
    slope = 1.0 / np.linspace(0.05, 0.5, 20)[:, None] * np.ones((1, 30))  # a plane, however oblique
    assert smooth(slope.astype(np.float32))[2:-2, 2:-2].all()


def test_bilinear_is_exact_on_planes():
    y, x = np.meshgrid(np.arange(6) + 0.5, np.arange(9) + 0.5, indexing="ij")
    at = np.random.default_rng(0).uniform([1, 1], [8, 5], (50, 2))
    assert np.allclose(bilinear(2 * x - 3 * y + 1, at), 2 * at[:, 0] - 3 * at[:, 1] + 1)


def test_pixels_are_followed_to_where_the_photo_shows_them():
    rng = np.random.default_rng(0)
    wide = cv2.GaussianBlur(rng.integers(0, 256, (220, 330, 3)).astype(np.uint8), (0, 0), 1.5)
    a, b = np.ascontiguousarray(wide[:200, :300]), np.ascontiguousarray(wide[3:203, 5:305])
    xy = rng.uniform([40, 40], [260, 160], (80, 2))
    truth = xy - [5.0, 3.0]
    found, good = follow(a, b, xy, truth + rng.normal(0, 1.5, xy.shape), PseudoConfig())
    assert good.mean() > 0.9 and np.abs(found[good] - truth[good]).max() < 0.05
    assert not follow(a, np.full_like(b, 100), xy, truth, PseudoConfig())[1].any()
    lost = follow(a, b, xy, truth + np.array([25.0, 0.0]), PseudoConfig())[1]
    assert not lost.any()  # the right place is too far from such a guess


# --- import ---------------------------------------------------------------------------------------------------------


def write(folder: Path, free: FreeFrames, times: list[float], kind: str) -> None:
    (folder / "depth").mkdir(parents=True)
    lines = ["# t x y z qx qy qz qw"]
    for time, one in zip(times, free.frames, strict=True):
        pose = one.cam_from_free.inverse
        w, x, y, z = rigid.quaternion_from_rotation(pose.rotation)
        lines.append(" ".join(str(v) for v in (time, *pose.translation, x, y, z, w)))
        name = folder / "depth" / f"{one.frame:04d}"
        if kind == "npz":
            np.savez(name.with_suffix(".npz"), depth=one.depth[..., None], confidence=one.confidence)
        elif kind == "npy":
            np.save(name.with_suffix(".npy"), one.depth)
        else:
            cv2.imwrite(str(name.with_suffix(".png")), np.round(one.depth / 0.002).astype(np.uint16))
            (folder / "depth_scale.txt").write_text("0.002\n")
    (folder / "trajectory.tum").write_text("\n".join(lines))
    (folder / "intrinsics.txt").write_text("270 270 192 108")


@pytest.mark.parametrize("kind", ["npz", "npy", "png"])
def test_a_folder_made_elsewhere_is_read(kind: str, world: World, tmp_path: Path):
    free = FreeFrames(free_frames(world).frames[:4])
    sequence = sequence_of(world)
    write(tmp_path / "out", free, [float(f.frame) for f in free.frames], kind)
    found = read_free_frames(tmp_path / "out", sequence)
    assert [f.frame for f in found.frames] == [0, 1, 2, 3] and found.camera == CAMERA
    for ours, theirs in zip(found.frames, free.frames, strict=True):
        assert np.allclose(ours.cam_from_free.rotation, theirs.cam_from_free.rotation, atol=1e-9)
        assert np.allclose(ours.cam_from_free.translation, theirs.cam_from_free.translation, atol=1e-9)
        assert np.allclose(ours.depth, theirs.depth, atol=0.0011 if kind == "png" else 0)
        assert np.array_equal(ours.confidence, theirs.confidence if kind == "npz" else np.ones(SIZE, np.float32))


def test_times_are_taken_in_order_when_all_frames_are_there(world: World, tmp_path: Path):
    free = free_frames(world)
    write(tmp_path / "out", free, [1305031.1 + 0.033 * f.frame for f in free.frames], "npy")
    assert [f.frame for f in read_free_frames(tmp_path / "out", sequence_of(world)).frames] == list(range(COUNT))


def test_bad_folders_are_told(world: World, tmp_path: Path):
    sequence = sequence_of(world)
    with pytest.raises(InputError, match="does not exist"):
        read_free_frames(tmp_path, sequence)
    (tmp_path / "trajectory.tum").write_text("0 1 2 3\n")
    with pytest.raises(InputError, match="8 numbers"):
        read_free_frames(tmp_path, sequence)
    (tmp_path / "trajectory.tum").write_text("0.5 0 0 0 0 0 0 1\n")
    with pytest.raises(InputError, match="not numbered by frame"):
        read_free_frames(tmp_path, sequence)
    (tmp_path / "trajectory.tum").write_text("0 0 0 0 0 0 0 1\n")
    with pytest.raises(InputError, match="no depth map of any frame"):
        read_free_frames(tmp_path, sequence)


# --- VGGT -----------------------------------------------------------------------------------------------------------


def test_vggts_answer_becomes_free_frames(monkeypatch: pytest.MonkeyPatch):
    """A stand-in for the package, with its calls and shapes."""
    code = ModuleType("vggt.utils.pose_enc")
    poses = torch.eye(4)[None, :3].repeat(2, 1, 1)[None]
    poses[0, 1, 0, 3] = -1.5
    k = torch.tensor([[400.0, 0, 259], [0, 420.0, 147], [0, 0, 1]]).repeat(2, 1, 1)[None]
    code.pose_encoding_to_extri_intri = lambda encoded, size: (poses, k)
    for name in ("vggt", "vggt.utils"):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace())
    monkeypatch.setitem(sys.modules, "vggt.utils.pose_enc", code)

    def network(images):
        assert images.shape == (1, 2, 3, 294, 518) and float(images.max()) <= 1.0
        depth = torch.arange(2.0).reshape(1, 2, 1, 1, 1) + torch.ones(1, 2, 294, 518, 1)
        return {"pose_enc": torch.zeros(1, 2, 9), "depth": depth, "depth_conf": torch.ones(1, 2, 294, 518)}

    photos = [Photo(str(n), np.full((720, 1280, 3), 200, np.uint8)) for n in range(2)]
    found = VggtReconstruction(network, Vggt(), "cpu").reconstruct((7, 9), photos)
    assert [f.frame for f in found.frames] == [7, 9] and found.frames[1].depth.max() == 2.0
    assert np.allclose(rigid.centre_in_world(found.frames[1].cam_from_free), [1.5, 0, 0])
    assert found.camera is not None
    assert np.allclose(found.camera.params, (400 * 1280 / 518, 420 * 720 / 294, 640, 360))


def test_missing_vggt_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    torch.save({"w": torch.zeros(1)}, tmp_path / "vggt_1B.pt")
    monkeypatch.setitem(sys.modules, "vggt", None)
    with pytest.raises(BackendError, match="vggt is not installed"):
        Vggt(weights=tmp_path).load("cpu")
