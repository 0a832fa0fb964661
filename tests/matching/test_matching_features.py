"""Feature cache, mutual neighbours against a slow twin, two-view verification."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Literal

import cv2
import numpy as np
import pytest

from skyanchor.geometry import cameras, rigid
from skyanchor.matching import (
    FeatureCache,
    Features,
    Sift,
    TwoView,
    VerifyConfig,
    features,
    match_alike,
    match_features,
    neighbours,
    verify,
)
from skyanchor.matching.features import one_per_place, shrunk
from skyanchor.types import Camera, Photo, Reason, Refusal


def random_features(count: int, seed: int, dims: int = 16) -> Features:
    rng = np.random.default_rng(seed)
    descriptors = rng.normal(size=(count, dims))
    descriptors /= np.linalg.norm(descriptors, axis=1, keepdims=True)
    ones = np.ones(count, np.float32)
    return Features(rng.uniform(0, 100, (count, 2)), descriptors.astype(np.float32), ones, ones, 100, 100, 1.0)


def slow_matches(a: Features, b: Features, ratio: float) -> list[tuple[int, int]]:
    distance = np.linalg.norm(a.descriptors[:, None].astype(float) - b.descriptors[None].astype(float), axis=2)
    found = []
    for i, row in enumerate(distance):
        j, runner_up = np.argsort(row)[:2]
        if distance[:, j].argmin() == i and row[j] <= ratio * row[runner_up]:
            found.append((i, int(j)))
    return found


@pytest.mark.parametrize("ratio", [0.8, 0.95, 1.0])
def test_mutual_neighbours_equal_the_slow_twin(ratio: float):
    a, b = random_features(120, 1), random_features(150, 2)
    expected = slow_matches(a, b, ratio)
    assert [tuple(p) for p in match_features(a, b, ratio).tolist()] == expected
    assert len(expected) > 0


def test_pairs_of_a_higher_limit_are_those_that_reach_it():
    a, b = random_features(120, 1), random_features(150, 2)
    twins = replace(b, descriptors=np.concatenate([b.descriptors[:75], b.descriptors[:75]]))  # they tie to the bit
    for one, other in ((a, b), (a, twins), (twins, a)):
        pairs, cosines = match_alike(one.descriptors, other.descriptors, 0.3)
        assert np.allclose(cosines, (one.descriptors[pairs[:, 0]] * other.descriptors[pairs[:, 1]]).sum(axis=1))
        for limit in (0.3, 0.6, 0.7):
            assert np.array_equal(pairs[cosines >= limit], match_features(one, other, 1.0, limit))
        assert 0 < (cosines >= 0.7).sum() < (cosines >= 0.6).sum() < len(pairs)
    assert [len(part) for part in match_alike(random_features(1, 0).descriptors, b.descriptors, 0.3)] == [0, 0]


def test_memory_that_is_used_again_changes_no_match(monkeypatch: pytest.MonkeyPatch):
    pairs = [(random_features(n, n), random_features(m, m)) for n, m in ((120, 150), (30, 20), (150, 160), (40, 90))]
    used = [match_features(a, b, 0.95) for a, b in pairs]
    monkeypatch.setattr(neighbours, "ROOM", 0)
    fresh = [match_features(a, b, 0.95) for a, b in pairs]
    assert all(np.array_equal(ours, theirs) for ours, theirs in zip(used, fresh, strict=True))
    assert not np.shares_memory(neighbours._room(3, 4), neighbours._room(3, 4))
    monkeypatch.undo()
    assert np.shares_memory(neighbours._room(3, 4), neighbours._room(5, 2))
    with ThreadPoolExecutor(1) as other:
        assert not np.shares_memory(neighbours._room(3, 4), other.submit(neighbours._room, 3, 4).result())


def test_few_keypoints_match_nothing():
    assert match_features(random_features(1, 0), random_features(5, 1)).shape == (0, 2)
    assert match_features(random_features(0, 0), random_features(5, 1)).shape == (0, 2)


@dataclass
class CountingMatcher:
    """Extracts the same features again and again and counts how often."""

    key: str = "counting 1"
    calls: list[str] = field(default_factory=list)

    def extract(self, photo: Photo) -> Features:
        self.calls.append(photo.name)
        return random_features(int(photo.pixels[0, 0, 0]) + 5, 3)


def photo(value: int, mask: bool = False) -> Photo:
    pixels = np.full((8, 9, 3), value, np.uint8)
    return Photo(f"p{value}", pixels, np.eye(8, 9, dtype=bool) if mask else None)


def test_features_are_extracted_once_per_content_and_settings(tmp_path):
    matcher = CountingMatcher()
    cache = FeatureCache(matcher, tmp_path)
    first = cache.features(photo(7))
    assert cache.features(photo(7)) is first and len(matcher.calls) == 1
    cache.features(photo(8))
    cache.features(photo(7, mask=True))
    assert len(matcher.calls) == 3
    again = FeatureCache(matcher, tmp_path).features(photo(7))
    assert len(matcher.calls) == 3  # from the folder
    for name in ("xy", "descriptors", "scores", "scales"):
        assert np.array_equal(getattr(again, name), getattr(first, name))
    FeatureCache(CountingMatcher("counting 2", matcher.calls), tmp_path).features(photo(7))
    assert len(matcher.calls) == 4


def test_a_small_photo_is_looked_at_once_whatever_larger_ones_are_shrunk_to(tmp_path):
    noise = np.random.default_rng(0).integers(0, 255, (90, 120, 3), dtype=np.uint8)
    small, large = Photo("s", cv2.GaussianBlur(noise, (0, 0), 2)), Photo("l", cv2.resize(noise, (700, 525)))
    near, far = (Sift(keypoints=50, longest=longest).load("cpu") for longest in (640, 1600))
    for matcher, one in ((near, small), (far, small), (near, large), (far, large)):
        found = FeatureCache(matcher, tmp_path).features(one)
        assert np.array_equal(found.xy, matcher.extract(one).xy.astype(np.float32).astype(np.float64))
    assert len(list(tmp_path.iterdir())) == 3


def test_cache_forgets_beyond_its_limit():
    matcher = CountingMatcher()
    cache = FeatureCache(matcher, limit_bytes=1)
    for value in (7, 8, 7):
        cache.features(photo(value))
    assert len(matcher.calls) == 3


def test_a_photo_is_digested_once_for_each_way_to_look_at_it(monkeypatch: pytest.MonkeyPatch):
    looked: list[str] = []
    digest = features._digest
    monkeypatch.setattr(features, "_digest", lambda photo, settings: looked.append(settings) or digest(photo, settings))
    pixels = np.random.default_rng(3).integers(0, 255, (8, 9, 3), dtype=np.uint8)
    photo, other = Photo("a", pixels), Photo("b", pixels.copy())
    keys = [features.content_key(photo, "one") for _ in range(3)] + [features.content_key(other, "one")]
    assert len(set(keys)) == 1 and looked == ["one", "one"]
    assert features.content_key(photo, "two") != keys[0]
    assert features.content_key(Photo("a", pixels, pixels[..., 0] > 9), "one") != keys[0]


def test_shrunk_keeps_aspect_and_mask():
    pixels, mask, factor = shrunk(Photo("p", np.zeros((300, 800, 3), np.uint8), np.ones((300, 800), bool)), 400)
    assert pixels.shape == (150, 400, 3) and mask.shape == (150, 400) and factor == 2.0
    assert shrunk(Photo("p", np.zeros((30, 80, 3), np.uint8)), 400)[2] == 1.0


def test_one_per_place_keeps_the_first():
    xy = np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0], [3.0, 4.5]])
    assert one_per_place(xy).tolist() == [0, 1, 3]


def scene(camera: Camera, outliers: float, seed: int = 0):
    """Pixels of one cloud in two cameras with noise and a part of wrong matches, and b_from_a."""
    rng = np.random.default_rng(seed)
    points = np.c_[rng.uniform(-4, 4, 300), rng.uniform(-2, 2, 300), rng.uniform(6, 14, 300)]
    b_from_a = rigid.from_centre(rigid.rotation_exp(np.array([0.02, -0.05, 0.01])), np.array([0.8, 0.1, 0.2]))
    xy_a = cameras.project(camera, points) + rng.normal(0, 0.4, (300, 2))
    xy_b = cameras.project(camera, b_from_a(points)) + rng.normal(0, 0.4, (300, 2))
    wrong = rng.random(300) < outliers
    xy_b[wrong] = rng.uniform(0, [camera.width, camera.height], (int(wrong.sum()), 2))
    return xy_a, xy_b, wrong, b_from_a


CAMERAS = [cameras.pinhole(640, 480, 500.0), Camera("SIMPLE_RADIAL", 640, 480, (500.0, 320.0, 240.0, -0.05))]


@pytest.mark.parametrize("estimator", ["lo-ransac", "magsac"])
@pytest.mark.parametrize("camera", CAMERAS, ids=lambda c: c.model)
def test_verification_finds_the_pose_and_the_outliers(camera: Camera, estimator: Literal["lo-ransac", "magsac"]):
    xy_a, xy_b, wrong, b_from_a = scene(camera, 0.4)
    config = VerifyConfig(estimator=estimator)
    found = verify(xy_a, xy_b, camera, camera, 1.0, config)
    assert isinstance(found, TwoView)
    assert found.inliers[~wrong].mean() > 0.93
    assert found.inliers[wrong].mean() < 0.15  # some wrong ones lie on their epipolar line
    direction = b_from_a.translation / np.linalg.norm(b_from_a.translation)
    assert np.degrees(rigid.angle_between(found.b_from_a.rotation, b_from_a.rotation)) < 0.5
    assert np.degrees(np.arccos(np.clip(found.b_from_a.translation @ direction, -1, 1))) < 4.0
    again = verify(xy_a, xy_b, camera, camera, 1.0, config)
    assert isinstance(again, TwoView) and np.array_equal(again.inliers, found.inliers)


@pytest.mark.parametrize("estimator", ["lo-ransac", "magsac"])
def test_unrelated_photos_are_refused(estimator: Literal["lo-ransac", "magsac"]):
    rng = np.random.default_rng(0)
    camera = CAMERAS[0]
    a, b = (rng.uniform(0, [640, 480], (200, 2)) for _ in range(2))
    config = VerifyConfig(estimator=estimator)
    refused = verify(a, b, camera, camera, 1.0, config)
    assert isinstance(refused, Refusal) and refused.reason == Reason.NO_COMMON_GEOMETRY
    few = verify(a[:10], b[:10], camera, camera, 1.0, config)
    assert isinstance(few, Refusal) and few.reason == Reason.TOO_FEW_MATCHES


def test_choices_are_light_to_import():
    import subprocess
    import sys

    code = "import sys, skyanchor.matching, skyanchor.trajectory.config; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
