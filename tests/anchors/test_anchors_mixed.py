"""The paper's way on synthetic geometry: aerial photos registered into a group's own frame, aligned and adjusted."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from skyanchor.anchors import mixed
from skyanchor.anchors.mixed import MixedConfig, PixelPairs
from skyanchor.anchors.paper import aligned_to, apart_m
from skyanchor.anchors.shape.incremental import LocalConfig, LocalGroup, reconstruct_local
from skyanchor.anchors.snapped import adjusted_at_reference, evidence, halves_of
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


def group(rng: np.random.Generator, frames: tuple[Pose, ...] = GROUND) -> tuple[LocalGroup, list[Floats]]:
    """(the group's own shape, what its frames see)."""
    pixels = [seen(pose, STREET, rng) for pose in frames]
    ones = np.ones(len(houses()), np.float32)
    features = tuple(Features(xy, np.zeros((len(xy), 4), np.float32), ones, ones, 640, 360, SIGMA_PX) for xy in pixels)
    local = reconstruct_local(tuple(range(FRAMES)), features, STREET, SameRow(), LocalConfig())
    assert isinstance(local, LocalGroup)
    return local, pixels


def matched(pixels: list[Floats], wrong: float, rng: np.random.Generator) -> PixelPairs:
    """Matches of every second point, a share of them wrong by some tens of pixels."""
    paired: PixelPairs = {}
    for i, j in combinations(range(len(pixels)), 2):
        rows = np.flatnonzero(np.isfinite(pixels[i][:, 0]) & np.isfinite(pixels[j][:, 0]))[::2]
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
