"""Depth of a rendered scene against its exact depth, stage by stage."""

from dataclasses import replace

import cv2
import numba
import numpy as np
import pytest

from skyanchor import stereo
from skyanchor.photos import PhotoCache
from skyanchor.stereo import patchmatch_kernels, stack_arrays, sweep_kernels
from skyanchor.stereo.backends import NumbaStereo, Photometry, RefineConfig
from skyanchor.stereo.estimate import tilt_of
from skyanchor.stereo.numba_backend import packed_corners
from skyanchor.stereo.planes import GreyStack, PlaneField
from skyanchor.types import Camera, Plane, Tracks

WIDTH = 200
FOOTPRINT = 20.0 / 170.0
GROUND = Plane(np.array([0.0, 0.0, 1.0]), 0.0)


def measure(scene, index, **settings):
    config = stereo.StereoConfig(width=WIDTH, **settings)
    sources = stereo.choose_sources(scene.views, scene.points, scene.tracks)[index]
    hints = stereo.points_in_view(index, scene.views[index], scene.points, scene.tracks)
    views = [scene.views[j] for j in sources]
    return stereo.estimate_depth(scene.views[index], views, hints, PhotoCache(), config, GROUND)


@pytest.fixture(scope="module")
def raw_maps(small_scene):
    return [measure(small_scene, i) for i in range(len(small_scene.views))]


def error(depth_map, truth):
    return np.abs(depth_map.depth - truth)


def test_sources_and_range(small_scene):
    scene = small_scene
    sources = stereo.choose_sources(scene.views, scene.points, scene.tracks)
    assert sorted(sources[0]) == [1, 2, 3, 4]
    assert all(i not in chosen for i, chosen in enumerate(sources))
    none = Tracks(np.empty(0, np.int64), np.empty(0, np.int64), np.empty((0, 2)))
    assert sorted(stereo.choose_sources(scene.views, scene.points, none)[0]) == [1, 2, 3, 4]
    near, far = stereo.depth_range(scene.views[0], scene.points, GROUND)
    truth = scene.depths[0]
    assert 0.5 * truth.min() < near < truth.min() and truth.max() < far < 1.6 * truth.max()


def test_measured_depth(small_scene, raw_maps):
    truth, plain = small_scene.depths[0], small_scene.plain[0]
    inner = np.zeros_like(plain)
    inner[8:-8, 8:-8] = True
    found = error(raw_maps[0], truth)[inner & ~plain]
    assert 1e-4 < np.median(found) < 0.3 * FOOTPRINT
    assert 0.85 < np.mean(found < FOOTPRINT) < 1.0
    flat = inner & (small_scene.points_of(0)[..., 2] < 0.2) & (raw_maps[0].confidence > 0.8)
    assert np.median(raw_maps[0].normal[flat][:, 2]) > 0.97
    assert raw_maps[0].confidence[plain].mean() < 0.5 < raw_maps[0].confidence[inner & ~plain].mean()


def test_thread_count_changes_nothing(small_scene, raw_maps):
    before = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        again = measure(small_scene, 0)
    finally:
        numba.set_num_threads(before)
    assert np.array_equal(again.depth, raw_maps[0].depth)
    assert np.array_equal(again.confidence, raw_maps[0].confidence)


def test_consistency_averages_and_removes_planted_depth(small_scene, raw_maps):
    truth = small_scene.depths[0]
    block = (slice(60, 70), slice(20, 34))
    spoiled = raw_maps[0].depth.copy()
    spoiled[block] = 14.0
    planted = replace(raw_maps[0], depth=spoiled)
    consistent = stereo.make_consistent(planted, raw_maps[1:])
    assert (error(planted, truth)[block] > 2.0).all()
    kept = consistent.depth[block] > 0
    assert kept.mean() > 0.5 and (error(consistent, truth)[block][kept] < 2 * FOOTPRINT).all()
    everywhere = consistent.depth > 0
    assert 0.6 < everywhere.mean() < 1.0
    assert np.median(error(consistent, truth)[everywhere]) < np.median(error(raw_maps[0], truth)[everywhere])
    assert not consistent.completed.any()


def test_alone_nothing_is_confirmed(raw_maps):
    config = stereo.ConsistencyConfig(fewest_support=5.0)
    assert not stereo.make_consistent(raw_maps[0], raw_maps[1:], config).depth.any()


def test_plain_roof_is_completed_and_marked(small_scene, raw_maps):
    truth, plain = small_scene.depths[0], small_scene.plain[0]
    consistent = stereo.make_consistent(raw_maps[0], raw_maps[1:])
    pixels = cv2.imread(str(small_scene.views[0].path))
    done = stereo.complete(consistent, raw_maps[0], pixels, GROUND)
    inside = cv2.erode(plain.astype(np.uint8), np.ones((9, 9))) > 0
    outside = cv2.dilate(plain.astype(np.uint8), np.ones((9, 9))) == 0
    assert inside.sum() > 300
    assert done.completed[inside].all()
    assert np.median(error(done, truth)[inside]) < 2 * FOOTPRINT
    assert (done.depth > 0).mean() > 0.99
    confirmed = outside & (consistent.depth > 0)
    assert not done.completed[confirmed].any()
    assert np.array_equal(done.depth[confirmed] > 0, consistent.depth[confirmed] > 0)
    assert done.confidence[done.completed].max() < 0.3


def test_without_ground_plane_the_sweep_is_fronto_parallel(small_scene):
    scene = small_scene
    hints = stereo.points_in_view(0, scene.views[0], scene.points, scene.tracks)
    config = stereo.StereoConfig(width=WIDTH // 2)
    found = stereo.estimate_depth(scene.views[0], list(scene.views[1:]), hints, PhotoCache(), config)
    truth = cv2.resize(scene.depths[0], (WIDTH // 2, found.depth.shape[0]), interpolation=cv2.INTER_AREA)
    inner = np.s_[5:-5, 5:-5]
    assert 1e-4 < np.median(error(found, truth)[inner]) < 0.6 * FOOTPRINT


def test_the_source_that_speaks_most_against_a_plane_is_asked_first_of_the_next():
    """Planes are given up sooner then; the sources that are asked stay the same."""
    rng = np.random.default_rng(5)
    reference = cv2.GaussianBlur(rng.uniform(0, 255, (24, 24)).astype(np.float32), (0, 0), 1.0)
    noisy = np.clip(reference + rng.normal(0, 20, reference.shape), 0, 255)
    stack = np.stack([reference, noisy, rng.uniform(0, 255, reference.shape)]).astype(np.float32)
    layout = np.array([[s * 24 * 24, 24, 24] for s in range(3)], np.int64)
    warps = (np.tile(np.eye(3, dtype=np.float32), (3, 1, 1)), np.zeros((3, 3), np.float32))
    images = (packed_corners(stack), np.full((3, 2), 24, np.float32), layout, *warps)
    window = patchmatch_kernels._new_window(3, 1)
    variance = patchmatch_kernels._fill_window(reference, 12, 12, patchmatch_kernels._fading(10.0), window)
    order, each, low = np.arange(3), np.empty(3, np.float32), np.empty(3, np.float32)

    def cost(limit: float) -> float:
        where = (12, 12, np.float32(0.1), np.float32(0.0), np.float32(0.0))
        given = (window, variance, np.float32(1.0), order, 3, 3, np.float32(limit), each, low)
        return float(patchmatch_kernels._plane_cost(*images, *where, *given))

    whole = cost(patchmatch_kernels.ALWAYS)
    assert each[0] < 0.05 < each[1] < each[2] and whole == pytest.approx(float(np.minimum(each, 1.0).mean()))
    assert order.tolist() == [0, 1, 2]
    assert cost(0.5 * whole) == patchmatch_kernels.HOPELESS and order.tolist() == [2, 1, 0]
    assert cost(patchmatch_kernels.ALWAYS) == pytest.approx(whole)
    each[:] = -1.0
    assert cost(0.1 * whole) == patchmatch_kernels.HOPELESS and each.tolist()[:2] == [-1.0, -1.0]


@pytest.mark.parametrize("radius", [2, 3, 5, 12])
def test_a_window_is_compared_by_all_of_its_samples(radius):
    """Of sizes that are compiled of their own (3 and 5), of another, and of more samples than the stack holds."""
    assert stack_arrays.STACKED < (2 * 12 + 1) ** 2
    rng = np.random.default_rng(radius)
    size, middle = 64, 32
    reference, source = rng.uniform(0, 255, (2, size, size)).astype(np.float32)
    flat, warp = packed_corners(source[None]), np.eye(3, dtype=np.float32)[None]
    window = patchmatch_kernels._new_window(radius, 1)
    variance = patchmatch_kernels._fill_window(reference, middle, middle, patchmatch_kernels._fading(10.0), window)
    given = (size, np.float32(size), np.float32(size), warp, np.zeros((1, 3), np.float32), 0, middle, middle)
    flat_plane = (np.float32(0.1), np.float32(0.0), np.float32(0.0))
    cost = patchmatch_kernels._source_cost(flat, 0, *given, *flat_plane, window, variance, np.float32(1.0))
    inside = np.s_[middle - radius : middle + radius + 1, middle - radius : middle + radius + 1]
    own, theirs, weights = (v.ravel().astype(float) for v in (reference[inside], source[inside], window[3]))
    assert weights.sum() == pytest.approx(1.0, abs=1e-4)
    own, theirs = own - weights @ own, theirs - weights @ theirs
    expected = 1.0 - weights @ (own * theirs) / np.sqrt((weights @ own**2 + 1.0) * (weights @ theirs**2 + 1.0))
    assert cost == pytest.approx(expected, abs=2e-3)


def flat_stack(height: int, width: int, back: float) -> GreyStack:
    """A photo and one as it is seen from `back` metres ahead of it along the optical axis, focal length = width."""
    camera = Camera("PINHOLE", width, height, (float(width), float(width), width / 2.0, height / 2.0))
    grey = np.random.default_rng(3).uniform(0.0, 255.0, (height, width)).astype(np.float32)
    m = np.array([[-width / 2.0 * back, -height / 2.0 * back, -back]], np.float32)
    return GreyStack(
        camera, grey, grey[None], np.array([[width, height]], np.float32), np.eye(3, dtype=np.float32)[None], m
    )


def test_a_plane_through_the_eye_of_a_source_is_not_seen_by_it():
    """A walk looks along its way: planes ahead pass the cameras that lie there, at z = 0 exactly."""
    stack = flat_stack(24, 32, 2.0)
    tilt = np.array([0.0, 0.0, 1.0], np.float32)
    planes = np.array([0.25, 0.5, 1.0], np.float32)  # beyond the source, through its eye, behind it
    volume = sweep_kernels.sweep_costs(
        *(stack.reference, stack.sources, stack.sizes, stack.M, stack.m, tilt, planes, 2, 2.0, 1)
    )
    assert (volume[..., 1:] == 255).all()
    assert (volume[6:18, 8:24, 0] < 255).any()


def test_no_level_plane_is_tried_on_the_horizon():
    """Of a level camera with an odd height the horizon is a row of pixel centres: no level plane is met there."""
    stack = flat_stack(25, 32, 0.5)
    down = np.array([0.0, 1.0, 0.0])
    tilt = tilt_of(stack.camera, down)
    assert tilt @ [0.5, 12.5, 1.0] == 0.0
    flat = np.zeros((25, 32), np.float32)
    start = PlaneField(np.full((25, 32), 0.2, np.float32), flat, flat)
    settings = ((0.01, 1.0), Photometry(), RefineConfig(), range(2))
    found, cost = NumbaStereo().load().refine(stack, start, start, tilt, *settings)
    assert all(np.isfinite(part).all() for part in (found.w, found.a, found.b, cost))
    assert (found.w > 0).all()
