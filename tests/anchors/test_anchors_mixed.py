"""The paper's way on synthetic geometry: aerial photos registered into a group's own frame, aligned and adjusted."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from skyanchor.anchors.config import AnchorConfig
from skyanchor.anchors.paper_route import mixed, mixed_depth
from skyanchor.anchors.paper_route import route as paper
from skyanchor.anchors.paper_route.mixed import MixedConfig, PixelPairs
from skyanchor.anchors.paper_route.mixed_depth import SightedDepth, sighted_depth
from skyanchor.anchors.paper_route.route import aligned_to, apart_m
from skyanchor.anchors.paper_route.snapped import adjusted_at_reference, evidence, halves_of
from skyanchor.anchors.shape import choice
from skyanchor.anchors.shape.depth import BELIEF, DepthAt, shape_from_depth
from skyanchor.anchors.shape.incremental import LocalConfig, LocalGroup, reconstruct_local
from skyanchor.geometry import cameras, rigid, similarity
from skyanchor.matching import Features
from skyanchor.sfm import bundle as ba
from skyanchor.types import Camera, Floats, Ints, Pose, Reason, Refusal, Similarity

STREET, ABOVE = cameras.pinhole(640, 360, 457.0), cameras.pinhole(1200, 800, 1000.0)
UP = np.array([0.0, 0.0, 1.0])
SIGMA_PX = 0.5
FRAMES = 6
GROUND = tuple(
    rigid.look_at(np.array([0.1 * k, 0.8 * k, 1.7]), np.array([0.1 * k, 0.8 * k + 10.0, 2.5]), UP)
    for k in range(FRAMES)
)
RING = tuple(
    rigid.look_at(np.array([x, y, z]), np.array([0.0, 18.0, 2.0]), UP)
    for x, y, z in ((-20, -10, 40), (-8, -16, 45), (6, -14, 38), (18, -8, 42), (-14, -20, 52), (12, -22, 50))
)
LINE = tuple(rigid.look_at(np.array([x, -15.0, 42.0]), np.array([x / 3, 18.0, 2.0]), UP) for x in range(-20, 21, 8))
CONFIG = MixedConfig()


class SameRow:
    """Keypoint k of every photo is point k; those out of view lie at nan and are not matched."""

    def pairs(self, a: Features, b: Features) -> Ints:
        both = np.flatnonzero(np.isfinite(a.xy[:, 0]) & np.isfinite(b.xy[:, 0]))
        return np.stack([both, both], axis=1)


def houses() -> Floats:
    rng = np.random.default_rng(0)
    side = np.where(rng.random(500) < 0.5, -6.0, 6.0) + rng.normal(0, 0.3, 500)
    walls = np.stack([side, rng.uniform(6, 40, 500), rng.uniform(0, 7, 500)], axis=1)
    floor = np.stack([rng.uniform(-6, 6, 200), rng.uniform(6, 30, 200), np.zeros(200)], axis=1)
    return np.concatenate([walls, floor])


def roofs() -> Floats:
    """What the flight alone sees."""
    return np.random.default_rng(1).uniform([-12, 6, 7], [12, 40, 9], (1500, 3))


def seen(pose: Pose, camera: Camera, rng: np.random.Generator, spots: Floats | None = None) -> Floats:
    in_cam = pose(houses() if spots is None else spots)
    xy = cameras.project(camera, in_cam) + rng.normal(0, SIGMA_PX, (len(in_cam), 2))
    out = (in_cam[:, 2] < 0.5) | (xy < 0).any(axis=1) | (xy > [camera.width, camera.height]).any(axis=1)
    xy[out] = np.nan
    return xy


def described(pixels: list[Floats]) -> tuple[Features, ...]:
    ones = np.ones(len(houses()), np.float32)
    return tuple(Features(xy, np.zeros((len(xy), 4), np.float32), ones, ones, 640, 360, SIGMA_PX) for xy in pixels)


def group(rng: np.random.Generator, frames: tuple[Pose, ...] = GROUND) -> tuple[LocalGroup, list[Floats]]:
    """(the group's own shape, what its frames see)."""
    pixels = [seen(pose, STREET, rng) for pose in frames]
    local = reconstruct_local(tuple(range(FRAMES)), described(pixels), STREET, SameRow(), LocalConfig())
    assert isinstance(local, LocalGroup)
    return local, pixels


def matched(pixels: list[Floats], wrong: float, rng: np.random.Generator, every: int = 2) -> PixelPairs:
    """Matches of every second point, or of fewer with aerial photos, a share of them wrong by some tens of pixels."""
    paired: PixelPairs = {}
    for i, j in combinations(range(len(pixels)), 2):
        rows = np.flatnonzero(np.isfinite(pixels[i][:, 0]) & np.isfinite(pixels[j][:, 0]))
        rows = rows[:: 2 if j < FRAMES else every]
        b = pixels[j][rows].copy()
        bad = rng.random(len(rows)) < wrong
        b[bad] += rng.normal(0, 30, (int(bad.sum()), 2))
        paired[i, j] = (pixels[i][rows], b)
    return paired


def mixed_with(
    aerial: tuple[Pose, ...], wrong: float = 0.05, seed: int = 1, frames: tuple[Pose, ...] = GROUND
) -> tuple[LocalGroup, ba.Bundle]:
    rng = np.random.default_rng(seed)
    local, pixels = group(rng, frames)
    pixels += [seen(pose, ABOVE, rng) for pose in aerial]
    lenses = (*(STREET,) * FRAMES, *(ABOVE,) * len(aerial))
    sigmas = np.full(len(pixels), SIGMA_PX)
    return local, mixed.mixed_bundle(local, lenses, sigmas, matched(pixels, wrong, rng))


def test_noise_in_error_near_noise_out_and_the_flight_keeps_its_bits() -> None:
    local, bundle = mixed_with(RING)
    found = aligned_to(bundle, FRAMES, np.arange(6) + 10, RING, CONFIG)
    assert not isinstance(found, Refusal)
    before, start = found
    assert before.views.tolist() == [10, 11, 12, 13, 14, 15]
    aligned = tuple(similarity.transform_camera(start, pose) for pose in local.cams_from_local)
    done = adjusted_at_reference(before, CONFIG, refine_focal=False)
    assert done is not None
    after, covariances = done
    poses = after.bundle.cams_from_world
    assert poses[FRAMES:] == RING  # the very same values
    off = apart_m(poses[:FRAMES], GROUND)
    assert 0.0005 < off < 0.02 and off < apart_m(aligned, GROUND)
    at, fixed = evidence(local, STREET, before, after, covariances, start)
    assert 0.5 < fixed.reprojection < 2.0 and 0.5 < fixed.aerial_reprojection < 2.0
    assert 0.8 < at.solution.inliers.mean() < 1.0 and fixed.views_per_match.min() >= 1  # the wrong ones are out
    sigma = float(np.sqrt(np.mean([np.diag(c)[3:].mean() for c in fixed.covariances])))
    assert 0.2 < off / np.sqrt(3.0) / sigma < 4.0
    halves = halves_of(before, CONFIG)
    assert 0.001 < halves.metres < 0.1 and halves.degrees < 0.2


def test_frames_that_hardly_move_are_placed_by_their_rays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Points of a few short steps lie metres off in depth, which is across the view of a photo from above."""
    short = tuple(
        rigid.look_at(np.array([0.0, 0.1 * k, 1.7]), np.array([0.0, 0.1 * k + 10.0, 2.5]), UP) for k in range(FRAMES)
    )
    _, bundle = mixed_with(RING, frames=short)
    found = aligned_to(bundle, FRAMES, np.arange(6), RING, CONFIG)
    assert not isinstance(found, Refusal) and len(found[0].views) == 6
    done = adjusted_at_reference(found[0], CONFIG, refine_focal=False)
    assert done is not None and apart_m(done[0].bundle.cams_from_world[:FRAMES], short) < 0.05
    monkeypatch.setattr(mixed, "_by_rays", lambda *_: (rigid.identity(), 0))
    assert isinstance(aligned_to(bundle, FRAMES, np.arange(6), RING, CONFIG), Refusal)


def test_what_the_flight_alone_sees_splits_no_halves() -> None:
    rng = np.random.default_rng(1)
    local, pixels = group(rng)
    blind = np.full((len(roofs()), 2), np.nan)
    both = [np.concatenate([one, blind]) for one in pixels]
    both += [np.concatenate([seen(pose, ABOVE, rng), seen(pose, ABOVE, rng, roofs())]) for pose in RING]
    lenses = (*(STREET,) * FRAMES, *(ABOVE,) * len(RING))
    bundle = mixed.mixed_bundle(local, lenses, np.full(len(lenses), SIGMA_PX), matched(both, 0.0, rng))
    found = aligned_to(bundle, FRAMES, np.arange(6), RING, CONFIG)
    assert not isinstance(found, Refusal)
    assert 0.001 < halves_of(found[0], CONFIG).metres < 0.1


def test_pixels_of_a_dense_matcher_chain_by_where_they_lie() -> None:
    """One place of an image, a fraction of a sigma apart in two pairs, is one keypoint; two sigmas apart are two."""
    spot, other = np.array([[100.0, 50.0]]), np.array([[300.0, 80.0]])
    near, far = spot + 0.3, spot + 2.4
    local = group(np.random.default_rng(2))[0]
    lenses, sigmas = (*(STREET,) * FRAMES, ABOVE, ABOVE), np.ones(FRAMES + 2)
    points = len(local.bundle.points)
    chained = mixed.mixed_bundle(local, lenses, sigmas, {(0, 6): (spot, other), (0, 7): (near, other)})
    assert len(chained.points) == points + 1 and chained.camera[-3:].tolist() == [0, 6, 7]
    apart = mixed.mixed_bundle(local, lenses, sigmas, {(0, 6): (spot, other), (0, 7): (far, other)})
    assert len(apart.points) == points + 2


def test_an_aerial_photo_with_a_wrong_reference_is_left_out() -> None:
    """A wrong seed: its picture is of this street, its pose in the model is said to be elsewhere."""
    _, bundle = mixed_with(RING)
    moved = rigid.from_centre(RING[2].rotation, rigid.centre_in_world(RING[2]) + np.array([15.0, 0.0, 5.0]))
    found = aligned_to(bundle, FRAMES, np.arange(6), (*RING[:2], moved, *RING[3:]), CONFIG)
    assert not isinstance(found, Refusal)
    assert found[0].views.tolist() == [0, 1, 3, 4, 5]


def test_a_wrong_place_is_refused() -> None:
    """References that do not lie as the reconstruction says: no similarity fits them."""
    _, bundle = mixed_with(RING)
    rng = np.random.default_rng(5)
    scattered = tuple(rigid.from_centre(p.rotation, rng.uniform([-40, -40, 20], [40, 40, 60])) for p in RING)
    found = aligned_to(bundle, FRAMES, np.arange(6), scattered, CONFIG)
    assert isinstance(found, Refusal) and found.reason is Reason.SIMILARITY_RESIDUAL


def test_photos_of_another_street_are_not_registered() -> None:
    rng = np.random.default_rng(6)
    local, pixels = group(rng)
    strange = [rng.uniform([0, 0], [1200, 800], (len(houses()), 2)) for _ in RING]
    lenses = (*(STREET,) * FRAMES, *(ABOVE,) * len(RING))
    bundle = mixed.mixed_bundle(local, lenses, np.full(12, SIGMA_PX), matched([*pixels, *strange], 0.0, rng))
    found = aligned_to(bundle, FRAMES, np.arange(6), RING, CONFIG)
    assert isinstance(found, Refusal) and found.reason is Reason.TOO_FEW_AERIAL_VIEWS
    assert found.figures["registered"] == 0.0


def test_cameras_on_a_line_are_refused_unless_their_directions_help() -> None:
    _, bundle = mixed_with(LINE)
    by_centres = replace(CONFIG, orientations=False)
    found = aligned_to(bundle, FRAMES, np.arange(len(LINE)), LINE, by_centres)
    assert isinstance(found, Refusal) and found.reason is Reason.COLLINEAR_CAMERAS
    assert found.figures["spread"] < 0.01
    helped = aligned_to(bundle, FRAMES, np.arange(len(LINE)), LINE, CONFIG)
    assert not isinstance(helped, Refusal)
    done = adjusted_at_reference(helped[0], CONFIG, refine_focal=False)
    assert done is not None and apart_m(done[0].bundle.cams_from_world[:FRAMES], GROUND) < 0.02


@pytest.mark.parametrize("orientations", [True, False])
def test_cameras_in_one_place_determine_nothing(orientations: bool) -> None:
    """A five-camera head that hovers: no scale, whatever the directions are."""
    here = tuple(rigid.look_at(np.zeros(3), np.array([x, 1.0, -1.0]), UP) for x in (-1.0, -0.5, 0.0, 0.5, 1.0))
    inside = Similarity(0.2, rigid.rotation_exp(np.array([0.1, 0.2, 0.3])), np.ones(3))
    local = tuple(similarity.transform_camera(inside, pose) for pose in here)
    found = mixed.align(local, here, 5.0, replace(CONFIG, orientations=orientations))
    assert isinstance(found, Refusal) and found.reason is Reason.COLLINEAR_CAMERAS


# --- depth ----------------------------------------------------------------------------------------------------------


def maps(frames: tuple[Pose, ...], pixels: list[Floats], bent: float) -> DepthAt:
    """Depth good to 3 %, of another scale in every frame; bent away by a factor from left to right where asked."""
    rng, depths = np.random.default_rng(3), []
    for scale, pose in zip((0.7, 1.3, 2.0, 0.4, 1.0, 3.0), frames, strict=True):
        across, _, z = pose(houses()).T
        depths.append(scale * z * (1 + 0.03 * rng.normal(size=len(z))) * np.exp(bent * across / 6.0))

    def at(frame: int, xy: Floats) -> Floats:
        spots = np.nan_to_num(pixels[frame], nan=1e6)
        return depths[frame][np.argmin(np.linalg.norm(spots[None] - xy[:, None], axis=2), axis=1)]

    return at


def steps_off(frames: tuple[Pose, ...], seed: int, bent: float = 0.0) -> tuple[float, float]:
    """How far frames lie from where they should among each other after the mixed reconstruction, metres, without the
    depth of their photos and with it; few matches with the flight."""
    rng = np.random.default_rng(seed)
    pixels = [seen(pose, STREET, rng) for pose in frames]
    at = maps(frames, pixels, bent)
    given = (tuple(range(FRAMES)), described(pixels), STREET, SameRow())
    local = reconstruct_local(*given, LocalConfig()) if bent else shape_from_depth(*given, at, LocalConfig())
    assert isinstance(local, LocalGroup)
    pixels += [seen(pose, ABOVE, rng) for pose in RING]
    lenses, sigmas = (*(STREET,) * FRAMES, *(ABOVE,) * len(RING)), np.full(len(pixels), SIGMA_PX)
    bundle = mixed.mixed_bundle(local, lenses, sigmas, matched(pixels, 0.05, rng, every=10))
    off = []
    for depth in (None, sighted_depth(bundle, FRAMES, at)):
        found = aligned_to(bundle, FRAMES, np.arange(6), RING, CONFIG, depth)
        assert not isinstance(found, Refusal) and len(found[0].views) == 6
        assert found[0].bundle.prior is None, "the last adjustment is the matches' alone"
        ends = [rigid.centres_in_world(poses) for poses in (found[0].bundle.cams_from_world[:FRAMES], frames)]
        a, b = (end - end.mean(axis=0) for end in ends)
        off.append(float(np.linalg.norm(a - b, axis=1).mean()))
    return off[0], off[1]


def test_right_depth_holds_a_group_that_hardly_moves() -> None:
    """Steps of 6 cm before houses 6 to 40 m away: a fifth of a degree of parallax."""
    still = tuple(
        rigid.look_at(np.array([0.0, 0.06 * k, 1.7]), np.array([0.0, 0.06 * k + 10.0, 2.5]), UP) for k in range(FRAMES)
    )
    alone, held = np.mean([steps_off(still, seed) for seed in (1, 3)], axis=0)
    assert 0.001 < held < 0.75 * alone < 0.01


def test_wrong_depth_is_outvoted_by_a_group_that_moves() -> None:
    """Maps twice too near on one side and twice too far on the other move a frame by less than 2 mm."""
    alone, held = steps_off(GROUND, 1, bent=0.7)
    assert abs(held - alone) < 0.002 and held < 0.01


def test_a_map_is_believed_as_far_as_parallax_bears_it_out() -> None:
    camera, sure = np.zeros(40, np.int64), np.arange(40) < 30
    z = np.linspace(5.0, 20.0, 40)
    right, belief = mixed_depth._scaled(camera, z, z / 3.0, sure)
    np.testing.assert_allclose(right, z)
    np.testing.assert_allclose(belief, BELIEF)
    tilted, doubted = mixed_depth._scaled(camera, z, z / 3.0 * np.exp(0.1 * np.arange(40)), sure)
    assert doubted.min() > 0.8 and np.isfinite(tilted).all()
    few, _ = mixed_depth._scaled(camera, np.where(np.arange(40) < 11, z, np.nan), z, sure)
    assert np.isnan(few).all(), "no scale, no depth"


@pytest.mark.parametrize("always", [True, False])
def test_the_papers_route_takes_depth_where_it_is_asked_for(always: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    local, pixels = group(rng)
    monkeypatch.setattr(choice, "_depth", lambda *_: maps(GROUND, pixels, 0.0))
    told: list[SightedDepth | None] = []

    def asked(*given: object) -> Refusal:
        depth = given[-1]
        assert depth is None or isinstance(depth, SightedDepth)
        told.append(depth)
        return Refusal(Reason.NO_PLACE, "as far as this goes")

    monkeypatch.setattr(paper, "aligned_to", asked)
    views = tuple(SimpleNamespace(cam_from_world=pose) for pose in RING)
    scaffold, config = SimpleNamespace(views=views), AnchorConfig(local=LocalConfig(depth_always=always))
    search: Any = SimpleNamespace(
        config=config, camera=STREET, frames=None, prepared=SimpleNamespace(scaffold=scaffold)
    )
    index = SimpleNamespace(
        features={j: SimpleNamespace(sigma_px=SIGMA_PX) for j in range(6)},
        atlas=SimpleNamespace(photo_camera=lambda j: ABOVE),
    )
    support: Any = SimpleNamespace(pairs=SimpleNamespace(frames=described(pixels)), index=index, views=np.arange(6))
    every = [*pixels, *(seen(pose, ABOVE, rng) for pose in RING)]
    paper.settle_matched(search, local, support, matched(every, 0.0, rng))
    (depth,) = told
    assert (depth is not None) == always and local.parallax_deg > config.local.low_parallax_deg
    assert depth is None or len(depth.names) > 1000, "also of what the flight sees"
