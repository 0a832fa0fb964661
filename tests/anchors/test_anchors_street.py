"""The anchor stage on a street with known truth: surface, bridges, carried points, group verdicts, refusals."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from anchors_street import AERIAL, GROUND, aerial_poses, faces, localised, shoot, small_config, street_poses

from skyanchor.anchors import prepared_scaffold
from skyanchor.anchors.config import AnchorAblation, AnchorConfig, LadderConfig
from skyanchor.anchors.frames import GroundFrames, Lens
from skyanchor.anchors.in_process import LocalRunner
from skyanchor.anchors.place_description import tiles_of
from skyanchor.anchors.place_refinement import Settled
from skyanchor.anchors.prepared_scaffold import PreparedScaffold
from skyanchor.anchors.priors import Area, Near, Prior, allowed
from skyanchor.anchors.search import Search, Watch, unwatched
from skyanchor.anchors.walk import GroupTask, verdict_on
from skyanchor.bridges.carry import CarryConfig, carry
from skyanchor.bridges.ground import height_above_ground
from skyanchor.bridges.surface import Surface
from skyanchor.bridges.views import AerialAtlas, BridgeConfig, free_places, lift, render_bridge
from skyanchor.events import Event, Note
from skyanchor.geometry import cameras, rigid
from skyanchor.photos import read_pixels
from skyanchor.storage import files
from skyanchor.types import Georeference, LocalisedGroup, Pose, Reason, Sequence

NOT_THERE = (
    Reason.NO_PLACE, Reason.PLACE_NOT_CONFIRMED, Reason.NOTHING_LEFT, Reason.TOO_LITTLE_SUPPORT,
    Reason.TOO_MANY_DISAGREE,
)  # fmt: skip
"""What may be said of frames that the scaffold does not show."""


def plane_distance(points: np.ndarray) -> np.ndarray:
    return np.min([np.abs((points - face.corner) @ face.normal) for face in faces()], axis=0)


def errors(group: LocalisedGroup) -> np.ndarray:
    true = rigid.centres_in_world([street_poses()[a.frame] for a in group.poses])
    return np.linalg.norm(rigid.centres_in_world([a.cam_from_world for a in group.poses]) - true, axis=1)


def looked_for(
    prepared: PreparedScaffold,
    sequence: Sequence,
    config: AnchorConfig,
    near: tuple[Prior, ...] = (),
    watch: Watch = unwatched,
) -> LocalisedGroup:
    """The verdict on the first group alone."""
    search = Search(prepared, GroundFrames(sequence), config, near=near, watch=watch)
    return verdict_on(search, GroupTask(sequence.groups[0], near)).localised


def test_the_fused_surface_is_better_than_its_maps(prepared: PreparedScaffold) -> None:
    off = plane_distance(prepared.surface.points)
    assert len(off) > 20_000
    assert 0.0 < np.median(off) < 0.03
    assert np.mean(off < 0.1) > 0.95


def test_free_ground_is_the_street(prepared: PreparedScaffold) -> None:
    places = free_places(prepared.ground, 4.0, 1.7)
    assert len(places) > 20
    assert np.mean(np.abs(places[:, 2] - 1.7) < 0.1) > 0.9
    for wall in (-7.0, 7.0):
        inside = (places[:, 1] > -8) & (places[:, 1] < 38)
        assert np.quantile(np.abs(places[inside, 0] - wall), 0.05) > 0.4
    eyes = rigid.centres_in_world(street_poses())
    assert np.allclose(height_above_ground(prepared.ground, eyes), eyes[:, 2], atol=0.1)


def test_photos_of_a_full_atlas_stay_what_they_are(prepared: PreparedScaffold) -> None:
    """Nine photos have room, fourteen are kept."""
    atlas = AerialAtlas(prepared.surface, prepared.scaffold.views, BridgeConfig(sources=1), limit_bytes=1)
    photos = [atlas.photo(j) for j in range(len(atlas.views))]
    assert len(photos) == 14
    for photo, view in zip(photos, atlas.views, strict=True):
        assert photo.name == view.name and np.array_equal(photo.pixels, read_pixels(view.path))


def test_a_bridge_looks_like_the_photo(prepared: PreparedScaffold) -> None:
    pose = street_poses()[3]
    bridge = render_bridge(prepared.atlas, GROUND, pose)
    photo, depth, _ = shoot(GROUND, pose)
    mask = bridge.photo.mask
    assert mask is not None and mask.mean() > 0.4
    off = np.abs(bridge.depth - depth)[mask] / depth[mask]
    assert np.median(off) < 0.01
    grey = photo[mask].mean(axis=1), bridge.photo.pixels[mask].mean(axis=1)
    assert np.corrcoef(*grey)[0, 1] > 0.85
    assert (bridge.source[mask] >= 0).all()


def test_bridge_pixels_know_their_place(prepared: PreparedScaffold) -> None:
    bridge = render_bridge(prepared.atlas, GROUND, street_poses()[3])
    xy = np.array([[150.5, 150.5], [260.5, 120.5], [200.5, 200.5]])
    points, source = lift(bridge, xy)
    assert plane_distance(points).max() < 0.1
    back = cameras.project(GROUND, bridge.cam_from_world(points))
    assert np.allclose(back, xy, atol=1e-6)
    assert (source >= 0).all()


def test_patches_are_found_again_in_other_photos(prepared: PreparedScaffold) -> None:
    """Points pushed 8 cm off the wall are found where the wall is, not where they would project."""
    rng = np.random.default_rng(0)
    wall = np.stack([np.full(60, -7.0), rng.uniform(2, 30, 60), rng.uniform(1, 6, 60)], axis=1)
    normals = np.tile([1.0, 0.0, 0.0], (60, 1))
    source = np.full(60, 4, np.int64)
    start = rigid.centre_in_world(aerial_poses()[4])
    pushed = wall + (start - wall) / np.linalg.norm(start - wall, axis=1, keepdims=True) * 0.08
    found = carry(prepared.atlas, pushed, normals, source, CarryConfig())
    again = found.reference == 0
    assert again.sum() > 20
    off, naive = [], []
    for point, view, xy in zip(found.point[again], found.view[again], found.xy[again], strict=True):
        pose = aerial_poses()[view]
        off.append(np.linalg.norm(cameras.project(AERIAL, pose(wall[point][None]))[0] - xy))
        naive.append(np.linalg.norm(cameras.project(AERIAL, pose(pushed[point][None]))[0] - xy))
    assert np.median(off) < 0.5
    assert np.median(naive) > 1.5 * np.median(off)


def test_groups_are_localised_and_the_aerial_poses_untouched(prepared: PreparedScaffold, walk: Sequence) -> None:
    before = [(v.cam_from_world.rotation.copy(), v.cam_from_world.translation.copy()) for v in prepared.scaffold.views]
    anchors = localised(prepared, walk, small_config())
    assert [group.accepted for group in anchors.groups] == [True, True], [g.refusal for g in anchors.groups]
    for group in anchors.groups:
        assert 0.0 < errors(group).max() < 0.12
        assert abs(group.figures.height_m - 1.7) < 0.2
        for anchor in group.poses:
            sigma = np.sqrt(np.linalg.eigvalsh(anchor.covariance[3:, 3:])[-1])
            assert 0.0005 < sigma < 0.2
        stated = [np.sqrt(np.trace(anchor.covariance[3:, 3:])) for anchor in group.poses]
        assert (errors(group) < 3.0 * np.array(stated)).all()
    for (rotation, translation), view in zip(before, prepared.scaffold.views, strict=True):
        assert np.array_equal(rotation, view.cam_from_world.rotation)
        assert np.array_equal(translation, view.cam_from_world.translation)


def one_rung() -> AnchorConfig:
    """Without the longer part of the ladder: neither shifted nor enlarged groups."""
    return replace(small_config(), ladder=LadderConfig(places=1, wider_search=1, shift=0, enlarge=6))


def test_a_wrong_prior_refuses_and_a_right_one_helps(
    prepared: PreparedScaffold, walk: Sequence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        prepared_scaffold, "visibility_graph", lambda _: pytest.fail("only the direct way needs the graph")
    )
    away = looked_for(prepared, walk, one_rung(), (Near(200.0, 0.0, 5.0),))
    assert not away.accepted and not away.poses
    close = looked_for(prepared, walk, one_rung(), (Near(0.0, 5.0, 12.0),))
    assert close.accepted


def rectangle(x0: float, y0: float, x1: float, y1: float) -> Area:
    return Area((((x0, y0), (x1, y0), (x1, y1), (x0, y1)),))


def test_a_wrong_area_refuses_and_a_right_one_helps(prepared: PreparedScaffold, walk: Sequence) -> None:
    away = looked_for(prepared, walk, one_rung(), (rectangle(190.0, 0.0, 210.0, 5.0),))
    assert not away.accepted and away.refusal is not None and away.refusal.reason == Reason.NO_PLACE
    assert "may stand" in away.refusal.detail
    looked: list[Settled] = []
    close = looked_for(prepared, walk, one_rung(), (rectangle(-7.0, -7.0, 7.0, 17.0),), looked.append)
    assert close.accepted and errors(close).max() < 0.25
    taken = next(place for place in looked if place.figures.confirmed == close.figures.confirmed)
    assert taken.figures.log_odds < close.figures.log_odds, "the last look bears the place out"
    assert taken.refusal is None and taken.at is not None
    assert taken.figures.support != close.figures.support, "the last look has matches of its own"
    last = taken.turns[-1]
    assert len(taken.turns) == 2 and last.matches == len(taken.at.matches)
    assert taken.support <= last.support <= last.agreeing == taken.at.solution.inliers.sum() <= last.matches


def test_only_tiles_that_touch_the_area_are_described(prepared: PreparedScaffold) -> None:
    config = replace(small_config().places, tile=20.0)
    everywhere = tiles_of(prepared.scaffold, prepared.ground, config)
    area = rectangle(-7.0, -7.0, 7.0, 17.0)
    inside = tiles_of(prepared.scaffold, prepared.ground, config, (area,))
    assert 1 <= len(inside) < len(everywhere)
    assert all(len(inside[square]) == len(everywhere[square]) for square in inside)  # whole: others can use them
    eyes = np.array([node.eye for square in everywhere if square not in inside for node in everywhere[square]])
    assert not allowed((area,), eyes @ prepared.ground.across.T).any()


def test_exif_narrows_the_search_but_never_moves_a_pose(prepared: PreparedScaffold, walk: Sequence) -> None:
    """Positions 15 m off, within the radius, give the same poses; those that no group bears out are dropped."""
    config = one_rung()
    there = replace(prepared, scaffold=replace(prepared.scaffold, georef=Georeference(np.zeros(3), None, (47, 8, 0))))
    plain = looked_for(prepared, walk, config)
    assert plain.accepted

    def with_exif(north: float, radius: float) -> tuple[LocalisedGroup, list[str]]:
        place = (47.0 + north / 111_170.0, 8.0, 0.0)
        sequence = replace(walk, gps=(place,) * len(walk.frames), groups=walk.groups[:1])
        prior, heard = replace(config.prior, gps_radius=radius), list[Event]()
        anchors = localised(there, sequence, replace(config, prior=prior), heard.append)
        return anchors.groups[0], [event.text for event in heard if isinstance(event, Note)]

    near, told = with_exif(15.0, 25.0)
    assert told == ["EXIF positions of 14 frames narrow their search to 25 m"]
    wrong, told_wrong = with_exif(45.0, 6.0)
    assert told_wrong[1:] == ["no group was found where EXIF says: all are looked for without it"]
    for group in (near, wrong):
        assert group.accepted and errors(group).max() < 0.25
        assert np.abs(errors(group) - errors(plain)).max() < 0.1


@pytest.mark.parametrize("which", ["mirrored", pytest.param("elsewhere", marks=pytest.mark.slow)])
def test_what_does_not_belong_is_refused(
    prepared: PreparedScaffold, which: str, request: pytest.FixtureRequest
) -> None:
    sequence: Sequence = request.getfixturevalue(which)
    result = looked_for(prepared, sequence, one_rung())
    assert not result.accepted and result.poses == ()
    assert result.refusal is not None and result.refusal.reason in NOT_THERE and result.refusal.detail


@pytest.mark.slow
def test_a_focal_length_that_nobody_gave_is_found(prepared: PreparedScaffold, walk: Sequence) -> None:
    wrong = cameras.pinhole(GROUND.width, GROUND.height, 1.1 * cameras.focal_px(GROUND))
    sequence = replace(walk, camera=wrong, camera_is_guess=True, groups=walk.groups[:1])
    task = GroupTask(sequence.groups[0], (), Lens(known=False))
    (verdict,) = LocalRunner(prepared, GroundFrames(sequence), small_config()).groups((task,))
    assert verdict.localised.accepted
    assert verdict.focal_scale == pytest.approx(1.0 / 1.1, rel=0.01)
    assert errors(verdict.localised).max() < 0.25


def test_a_support_photo_with_a_wrong_pose_does_no_harm(prepared: PreparedScaffold, walk: Sequence) -> None:
    views = list(prepared.scaffold.views)
    pose = views[4].cam_from_world
    views[4] = replace(views[4], cam_from_world=Pose(pose.rotation, pose.translation + np.array([0.8, 0.5, 0.0])))
    spoilt = replace(prepared, scaffold=replace(prepared.scaffold, views=tuple(views)))
    result = looked_for(spoilt, walk, small_config())
    assert result.accepted and errors(result).max() < 0.25


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ablation", "most"),
    [
        (AnchorAblation(bridges=False), 0.25),
        (AnchorAblation(bridges=False, visibility_graph=False), 0.25),
        (AnchorAblation(ground_first=False), 0.5),
        (AnchorAblation(metric_alignment=False), 2.0),
        (AnchorAblation(single_frame=True), 0.5),
    ],
    ids=["no bridges", "no graph", "frame by frame", "unaligned", "one frame"],
)
def test_ablations_localise_too(
    prepared: PreparedScaffold, walk: Sequence, ablation: AnchorAblation, most: float
) -> None:
    config = replace(small_config(), ablation=ablation)
    if not ablation.bridges:  # half of what matches an aerial photo directly is wrong, which the verdict refuses
        refusal = looked_for(prepared, walk, config).refusal
        assert refusal is not None and refusal.reason is Reason.TOO_MANY_DISAGREE
        config = replace(config, verdict=replace(config.verdict, least_ratio=0.0))
    result = looked_for(prepared, walk, config)
    assert result.accepted, result.refusal
    assert 0.0 < errors(result).max() < most
    assert (len(result.poses) == 1) == ablation.single_frame


def test_surface_survives_the_disk(prepared: PreparedScaffold, tmp_path: Path) -> None:
    files.save(tmp_path / "surface.npz", prepared.surface)
    surface = files.load(tmp_path / "surface.npz", Surface)
    assert np.array_equal(surface.points, prepared.surface.points)
    assert np.array_equal(surface.cell_starts, prepared.surface.cell_starts)
