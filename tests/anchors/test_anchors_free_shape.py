"""The shape of a group from a feed-forward reconstruction: drift is taken out, nonsense is told and replaced."""

from __future__ import annotations

from collections.abc import Sequence as Ordered
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from anchors_street import GROUND, localised, shoot, small_config, street_poses, write_photo

from skyanchor.anchors.config import AnchorConfig, LadderConfig
from skyanchor.anchors.frames import GroundFrames, with_focal
from skyanchor.anchors.prepared_scaffold import PreparedScaffold
from skyanchor.anchors.shape.choice import group_shape, moving_shape
from skyanchor.anchors.shape.free import confident, depth_of_free, refocused, shape_from_free, with_intrinsics
from skyanchor.anchors.shape.incremental import LocalGroup, match_group, reconstruct_local, tracked, worst_frame
from skyanchor.events import Event, Note
from skyanchor.feedforward import AnyLocal, FreeFolder, FreeFrame, FreeFrames, Incremental, Vggt, write_free_frames
from skyanchor.geometry import cameras, rigid, similarity
from skyanchor.matching import Features
from skyanchor.types import Camera, Frame, Photo, Pose, Reason, Refusal, Sequence, Similarity

FREE_FROM_WORLD = Similarity(0.3, rigid.rotation_exp(np.array([0.3, -1.0, 2.0])), np.array([5.0, -2.0, 9.0]))
UP = np.array([0.0, 0.0, 1.0])


def drifted(poses: Ordered[Pose], turn_deg: float, share: float, drift: float) -> list[Pose]:
    """Poses with noise of `turn_deg` and of a `share` of a step, the steps growing by `drift` from end to end."""
    rng = np.random.default_rng(4)
    eyes = rigid.centres_in_world(poses)
    grown = 1.0 + drift * np.arange(1, len(eyes)) / len(eyes)
    steps = np.diff(eyes, axis=0) * grown[:, None]
    step = np.linalg.norm(steps, axis=1).mean()
    eyes = np.concatenate([eyes[:1], eyes[0] + np.cumsum(steps, axis=0)]) + rng.normal(0, share * step, eyes.shape)
    turns = [rigid.rotation_exp(np.radians(turn_deg) * rng.normal(size=3) / 3**0.5) for _ in poses]
    return [rigid.from_centre(turn @ pose.rotation, eye) for turn, pose, eye in zip(turns, poses, eyes, strict=True)]


def as_free(
    frames: Ordered[int], poses: Ordered[Pose], truth: Ordered[Pose], camera: Camera | None = None, noise: float = 0.02
) -> FreeFrames:
    """Poses, and depth of the truth at half the size, in another frame and scale."""
    rng = np.random.default_rng(6)
    found = []
    for frame, pose, true in zip(frames, poses, truth, strict=True):
        depth = 0.3 * shoot(GROUND, true)[1][::2, ::2] * (1.0 + noise * rng.normal(size=(112, 200)))
        free = similarity.transform_camera(FREE_FROM_WORLD, pose)
        found.append(FreeFrame(frame, free, depth.astype(np.float32), np.ones((112, 200), np.float32)))
    return FreeFrames(tuple(found), camera)


class StandIn:
    """Answers with what it was given, and remembers what it was asked."""

    def __init__(self, poses: Ordered[Pose], truth: Ordered[Pose], camera: Camera | None = None) -> None:
        self.poses, self.truth, self.camera = poses, truth, camera
        self.shown: list[tuple[int, ...]] = []

    def reconstruct(self, frames: Ordered[int], photos: Ordered[Photo]) -> FreeFrames:
        assert [photo.name for photo in photos] == [f"g{frame:02d}.png" for frame in frames]
        assert all(photo.pixels.shape == (224, 400, 3) for photo in photos)
        self.shown.append(tuple(frames))
        return as_free(frames, [self.poses[k] for k in frames], [self.truth[k] for k in frames], self.camera)


def frames_with(walk: Sequence, system: StandIn, monkeypatch: pytest.MonkeyPatch) -> tuple[GroundFrames, AnchorConfig]:
    """The walk's frames with a stand-in for the network."""
    monkeypatch.setattr(Vggt, "load", lambda self, device, sequence=None: system)
    config = replace(AnchorConfig(), shape=Vggt())
    return GroundFrames(walk), config


def ground_features(frames: GroundFrames, config: AnchorConfig) -> tuple[Features, ...]:
    """Of the first six frames."""
    return tuple(frames.features(i, config.ground_matcher) for i in range(6))


def off(poses: Ordered[Pose], truth: Ordered[Pose]) -> tuple[float, float]:
    """(largest error of a centre over the mean step, after a similarity; of a turn since frame 0, degrees)."""
    found = similarity.align_cameras(poses, truth)
    there = [similarity.transform_camera(found, pose) for pose in poses]
    eyes = rigid.centres_in_world(truth)
    step = np.linalg.norm(np.diff(eyes, axis=0), axis=1).mean()
    far = np.linalg.norm(rigid.centres_in_world(there) - eyes, axis=1).max() / step
    turns = [
        rigid.angle_between(a.rotation @ poses[0].rotation.T, b.rotation @ truth[0].rotation.T)
        for a, b in zip(poses, truth, strict=True)
    ]
    return float(far), float(np.degrees(max(turns)))


def test_a_shape_follows_another_focal_length(walk: Sequence) -> None:
    """From a focal length a fifth too long: as a reconstruction with the right one, and the one before is far off."""
    frames, config = GroundFrames(walk), AnchorConfig()
    features, matcher = ground_features(frames, config), config.ground_matcher.load()
    indices, truth = tuple(range(6)), street_poses()[:6]
    wrong = reconstruct_local(indices, features, with_focal(GROUND, 1.2), matcher, config.local)
    assert isinstance(wrong, LocalGroup)
    found = refocused(wrong, GROUND, config.local)
    anew = reconstruct_local(indices, features, GROUND, matcher, config.local)
    assert isinstance(found, LocalGroup) and isinstance(anew, LocalGroup)
    assert off(found.cams_from_local, truth)[0] < 1.5 * off(anew.cams_from_local, truth)[0] + 0.005
    assert off(found.cams_from_local, truth)[0] < 0.5 * off(wrong.cams_from_local, truth)[0]
    assert isinstance(refocused(wrong, with_focal(GROUND, 0.05), config.local), Refusal)


# --- good answers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "turn_deg", "share", "drift", "ratio"),
    [(6, 0.0, 0.0, 0.0, 1.0), (6, 0.8, 0.1, 0.3, 1.0), (12, 0.8, 0.1, 0.3, 1.0), (6, 0.3, 0.05, 0.0, 0.8)],
    ids=["true", "drift", "twelve frames", "another focal length"],
)
def test_noise_drift_and_scale_are_taken_out(
    count: int,
    turn_deg: float,
    share: float,
    drift: float,
    ratio: float,
    walk: Sequence,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    truth = street_poses()
    seen_with = with_focal(GROUND, ratio)
    given = with_intrinsics(tuple(drifted(truth[:count], turn_deg, share, drift)), GROUND, seen_with)
    system = StandIn(given, truth, seen_with)
    frames, config = frames_with(walk, system, monkeypatch)
    shape = group_shape(frames, tuple(range(count)), GROUND, config)
    assert isinstance(shape, LocalGroup) and shape.instead_of is None, shape
    before, after = off(given, truth[:count]), off(shape.cams_from_local, truth[:count])
    assert turn_deg == 0.0 or (before[0] > 0.1 and before[1] > 0.4)  # the test can fail
    assert 0.0 < after[0] < 0.08 and 0.0 < after[1] < 0.15
    assert 0.05 < shape.reprojection < 1.0 and len(shape.bundle.points) > 150
    steps = np.linalg.norm(np.diff(rigid.centres_in_world(shape.cams_from_local), axis=0), axis=1)
    assert steps.mean() == pytest.approx(1.0)
    group_shape(frames, tuple(range(count)), GROUND, config)
    assert system.shown == [tuple(range(count))]  # one pass serves all attempts


def test_a_guessed_focal_length_is_followed(walk: Sequence, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shape at 1.2 of the focal length is the one that matches alone give there: the system's focal is no truth."""
    truth = street_poses()
    frames, config = frames_with(walk, StandIn(drifted(truth, 0.3, 0.05, 0.0), truth, GROUND), monkeypatch)
    group, camera = tuple(range(6)), with_focal(GROUND, 1.2)
    features, matcher = ground_features(frames, config), config.ground_matcher.load()
    shape = moving_shape(frames, group, features, camera, matcher, config)
    alone = reconstruct_local(group, features, camera, matcher, config.local)
    assert isinstance(shape, LocalGroup) and isinstance(alone, LocalGroup) and shape.instead_of is None
    far, turned = off(shape.cams_from_local, alone.cams_from_local)
    assert far < 0.05 and turned < 0.1
    assert off(shape.cams_from_local, truth[:6])[0] > 2 * far


def test_intrinsics_move_pixels_alike() -> None:
    wide, turn = with_focal(GROUND, 0.8), rigid.rotation_exp(np.array([0.02, -0.03, 0.1]))
    poses = (rigid.identity(), rigid.identity(), rigid.from_centre(turn, np.array([0.1, 0.0, 0.5])))
    moved = with_intrinsics(poses, GROUND, wide)
    flat = np.stack(np.meshgrid([-1.0, 0.0, 1.0], [-0.6, 0.6]), -1).reshape(-1, 2)
    points = np.c_[flat, np.full(6, 8.0)]
    deeper = points * np.array([1.0, 1.0, 0.8])  # the same pixels of the middle frame
    there = cameras.project(GROUND, poses[2](points))
    assert np.abs(cameras.project(wide, moved[2](deeper)) - there).max() < 0.7
    assert np.abs(cameras.project(wide, poses[2](deeper)) - there).max() > 2.0
    back = with_intrinsics(moved, wide, GROUND)
    assert np.allclose(back[2].rotation, turn, atol=1e-12) and with_intrinsics(poses, None, wide) is poses


# --- nonsense -------------------------------------------------------------------------------------------------------


def nonsense(kind: str) -> list[Pose]:
    truth = list(street_poses())
    if kind == "shuffled":
        return [truth[k] for k in (3, 0, 5, 1, 4, 2, *range(6, 14))]
    if kind == "backwards":
        return [rigid.from_centre(pose.rotation, -rigid.centre_in_world(pose)) for pose in truth]
    if kind == "one frame":
        aside = rigid.from_centre(rigid.rotation_exp(np.array([0.0, 0.7, 0.0])), np.zeros(3))
        return [*truth[:3], aside @ truth[3], *truth[4:]]
    rng = np.random.default_rng(0)
    return [rigid.from_centre(rigid.rotation_exp(rng.normal(size=3)), rng.normal(size=3)) for _ in truth]


@pytest.mark.parametrize("kind", ["shuffled", "one frame", "backwards", "random"])
def test_nonsense_never_becomes_the_shape(kind: str, walk: Sequence, monkeypatch: pytest.MonkeyPatch) -> None:
    """The adjustment may still find its way from frames in a wrong order or one that is turned; else it is told."""
    truth = street_poses()
    assert off(nonsense(kind)[:6], truth[:6])[0] > 0.5 or kind == "one frame"
    frames, config = frames_with(walk, StandIn(nonsense(kind), truth), monkeypatch)
    shape = group_shape(frames, tuple(range(6)), GROUND, config)
    assert isinstance(shape, LocalGroup)
    far, turned = off(shape.cams_from_local, truth[:6])
    assert 0.0 < far < 0.08 and turned < 0.15
    if kind in ("backwards", "random") or shape.instead_of is not None:
        assert shape.instead_of is not None and shape.instead_of.reason is Reason.FEED_FORWARD_REFUSED
        assert "not taken" in shape.instead_of.detail and shape.instead_of.figures


def test_where_nothing_fits_both_reasons_are_given(walk: Sequence, monkeypatch: pytest.MonkeyPatch) -> None:
    truth = street_poses()
    frames, config = frames_with(walk, StandIn(nonsense("random"), truth), monkeypatch)
    group = tuple(range(6))
    features = ground_features(frames, config)
    strict = replace(config, local=replace(config.local, least_points=100_000))
    refused = moving_shape(frames, group, features, GROUND, config.ground_matcher.load(), strict)
    assert isinstance(refused, Refusal) and refused.reason == Reason.TOO_FEW_GROUND_POINTS
    assert "feed-forward" in refused.detail and refused.figures["points"] > refused.figures["feed_forward_points"]


def test_poses_that_contradict_the_matches_are_measured(walk: Sequence) -> None:
    config = AnchorConfig()
    features, matcher = ground_features(GroundFrames(walk), config), config.ground_matcher.load()
    pairs = match_group(features, GROUND, matcher, config.local)
    truth = tracked(features, GROUND, pairs, street_poses()[:6])
    wrong = replace(truth, cams_from_world=tuple(nonsense("one frame")[:6]))
    assert 0.1 < worst_frame(truth) < 1.5 and worst_frame(wrong) > 3 * config.local.outlier
    poses = [*street_poses()[:5], Pose(np.full((3, 3), np.nan), np.zeros(3))]
    free = as_free(range(6), street_poses()[:6], street_poses()[:6])
    broken = FreeFrames(tuple(replace(one, cam_from_free=pose) for one, pose in zip(free.frames, poses, strict=True)))
    refused = shape_from_free(tuple(range(6)), features, GROUND, matcher, broken, config.local)
    assert isinstance(refused, Refusal) and refused.reason == Reason.NOT_RECONSTRUCTED


def test_the_units_of_the_free_frame_do_not_matter(walk: Sequence) -> None:
    config = AnchorConfig()
    features, matcher = ground_features(GroundFrames(walk), config), config.ground_matcher.load()
    truth = street_poses()[:6]
    free = as_free(range(6), drifted(truth, 0.5, 0.1, 0.2), truth)
    for factor in (1e-5, 1e5):
        scaled = FreeFrames(
            tuple(
                replace(one, cam_from_free=Pose(one.cam_from_free.rotation, factor * one.cam_from_free.translation))
                for one in free.frames
            )
        )
        shape = shape_from_free(tuple(range(6)), features, GROUND, matcher, scaled, config.local)
        assert isinstance(shape, LocalGroup) and 0.0 < off(shape.cams_from_local, truth)[0] < 0.08


# --- a folder, and depth --------------------------------------------------------------------------------------------


def test_a_folder_made_elsewhere_gives_the_shape(walk: Sequence, tmp_path: Path) -> None:
    truth = street_poses()
    folder = tmp_path / "elsewhere"
    write_free_frames(folder, as_free(range(14), drifted(truth, 0.5, 0.1, 0.2), truth))
    config = replace(AnchorConfig(), shape=FreeFolder(folder))
    config.shape.check()
    shape = group_shape(GroundFrames(walk), tuple(range(8, 14)), GROUND, config)
    assert isinstance(shape, LocalGroup) and shape.instead_of is None
    assert off(shape.cams_from_local, truth[8:])[0] < 0.08
    (folder / "depth/9.npy").unlink()
    without = group_shape(GroundFrames(walk), tuple(range(8, 14)), GROUND, config)
    assert isinstance(without, LocalGroup) and without.instead_of is not None
    assert "5 of 6 frames" in without.instead_of.detail and without.instead_of.figures["reconstructed"] == 5.0
    assert off(without.cams_from_local, truth[8:])[0] < 0.08


def hardly_moving(folder: Path, step: float) -> tuple[Sequence, list[Pose]]:
    """Six photos whose cameras turn more than they move."""
    rng = np.random.default_rng(3)
    eyes = [np.array([step * k, 8.0 + 0.3 * step * k, 1.7]) for k in range(6)]
    poses = [rigid.look_at(eye, eye + np.array([0.08 * k - 0.2, 1.0, 0.05]), UP) for k, eye in enumerate(eyes)]
    frames = []
    for k, pose in enumerate(poses):
        pixels = shoot(GROUND, pose)[0] + rng.normal(0, 2.0, (224, 400, 3))
        frames.append(Frame(k, f"g{k:02d}.png", folder / f"g{k:02d}.png"))
        write_photo(frames[-1].path, np.clip(pixels, 0, 255).astype(np.uint8))
    return Sequence(folder, tuple(frames), GROUND, False, (), ()), poses


def test_where_parallax_is_missing_its_depth_gives_the_shape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sequence, truth = hardly_moving(tmp_path, 0.03)
    group = tuple(range(6))
    plain = group_shape(GroundFrames(sequence), group, GROUND, AnchorConfig())
    assert isinstance(plain, Refusal) or off(plain.cams_from_local, truth)[0] > 0.4
    frames, config = frames_with(sequence, StandIn(drifted(truth, 0.5, 0.5, 0.0), truth), monkeypatch)
    shape = group_shape(frames, group, GROUND, config)
    assert isinstance(shape, LocalGroup) and len(shape.bundle.points) > 100
    far, turned = off(shape.cams_from_local, truth)
    assert 0.0 < far < 0.4 and 0.0 < turned < 0.3  # of steps of 3 cm
    assert 0.05 < shape.parallax_deg < 1.0


def test_only_confident_depth_is_used() -> None:
    depth = np.full((10, 10), 4.0, np.float32)
    depth[0, 0] = np.nan
    sure = np.arange(100, dtype=np.float32).reshape(10, 10)
    one = FreeFrame(0, rigid.identity(), depth, sure)
    kept = confident(one)
    assert not kept[:2].any() and (kept[4:] == 4.0).all() and np.isfinite(kept).all()
    assert confident(replace(one, confidence=np.ones_like(sure))).astype(bool).sum() == 99
    at = depth_of_free((0,), FreeFrames((one,)), GROUND)
    assert at is not None and depth_of_free((0, 1), FreeFrames((one,)), GROUND) is None
    assert np.isnan(at(0, np.array([[200.0, 3.0]])))[0] and at(0, np.array([[200.0, 220.0]]))[0] == 4.0


# --- the whole stage ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "told"), [("drift", False), ("random", True)])
def test_groups_are_localised_with_it_and_nonsense_is_told(
    kind: str, told: bool, prepared: PreparedScaffold, walk: Sequence, monkeypatch: pytest.MonkeyPatch
) -> None:
    truth = street_poses()
    given = drifted(truth, 0.5, 0.1, 0.2) if kind == "drift" else nonsense(kind)
    monkeypatch.setattr(Vggt, "load", lambda self, device, sequence=None: StandIn(given, truth))
    ladder = LadderConfig(places=1, wider_search=1, shift=0, enlarge=6)
    config = replace(small_config(), ladder=ladder, shape=Vggt())
    heard: list[Event] = []
    anchors = localised(prepared, replace(walk, groups=walk.groups[:1]), config, heard.append)
    (group,) = anchors.groups
    assert group.accepted, group.refusal
    eyes = rigid.centres_in_world([pose.cam_from_world for pose in group.poses])
    assert 0.0 < np.linalg.norm(eyes - rigid.centres_in_world(truth[:6]), axis=1).max() < 0.15
    warnings = [event.text for event in heard if isinstance(event, Note) and event.warning]
    assert [attempt.reason for attempt in group.attempts] == ([Reason.FEED_FORWARD_REFUSED] if told else [])
    assert any("1 of 1 groups was not taken" in text for text in warnings) == told


def test_the_default_asks_nobody(walk: Sequence) -> None:
    choice: AnyLocal = AnchorConfig().shape
    assert choice == Incremental() and GroundFrames(walk).free((0, 1), choice) is None
