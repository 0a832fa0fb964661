"""The paper's support with any matcher: candidates by a global descriptor, the verified one with most inliers."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from skyanchor.anchors.paper_route import support
from skyanchor.anchors.priors import Area, Near
from skyanchor.bridges.ground import Ground
from skyanchor.geometry import cameras, rigid
from skyanchor.matching import FeatureCache, Features, VerifyConfig
from skyanchor.types import Floats32, Matches, Photo, Pose, View

CAMERA = cameras.pinhole(640, 360, 450.0)
UP = np.array([0.0, 0.0, 1.0])
STREET = rigid.look_at(np.array([0.0, -12.0, 1.7]), np.array([0.0, 0.0, 2.0]), UP)
AERIAL = [rigid.look_at(np.array([x, -25.0, 30.0]), np.array([x / 2, 0.0, 2.0]), UP) for x in (-20.0, 0.0, 20.0, 40.0)]
RIGHT = 2
"""The aerial photo that really shows what the frame shows."""


def landmarks() -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.uniform([-5, -3, 0], [5, 3, 6], (200, 3))


class PairNetwork:
    """Sees pairs of pictures only, like MASt3R: a photo's features are its name."""

    key = "pairs"

    def extract(self, photo: Photo) -> Features:
        one = np.ones(1, np.float32)
        return Features(np.zeros((1, 2)), np.full((1, 1), float(photo.name), np.float32), one, one, 640, 360, 1.5)

    def match_extracted(self, a: Features, b: Features) -> Matches:
        view = int(b.descriptors[0, 0])
        rng = np.random.default_rng(view)
        xy_a = cameras.project(CAMERA, STREET(landmarks()))
        xy_b = cameras.project(CAMERA, AERIAL[view](landmarks()))
        if view != RIGHT:
            xy_b = rng.uniform([0, 0], [640, 360], xy_b.shape)
        return Matches(xy_a, xy_b + rng.normal(0, 0.3, xy_b.shape), np.ones(200), 2.0)

    def match(self, a: Photo, b: Photo) -> Matches:
        return self.match_extracted(self.extract(a), self.extract(b))


class Prefers:
    """A descriptor that finds the frame most like some photos."""

    key = "stub"

    def __init__(self, order: tuple[int, ...]) -> None:
        self.order = order

    def describe(self, photo: Photo) -> Floats32:
        like = np.zeros(5, np.float32)
        if photo.name == "-1":
            for rank, view in enumerate(self.order):
                like[view] = 1.0 - 0.1 * rank
        else:
            like[int(photo.name)] = 1.0
        return like


class Choice:
    def __init__(self, order: tuple[int, ...]) -> None:
        self.order = order

    def load(self, device: str, scene: list[Photo]) -> Prefers:
        assert device == "auto" and [photo.name for photo in scene] == ["0", "1", "2", "3"]
        return Prefers(self.order)


ATLAS = SimpleNamespace(
    views=tuple(SimpleNamespace(name=str(k), cam_from_world=pose) for k, pose in enumerate(AERIAL)),
    photo=lambda k: Photo(str(k), np.full((4, 4, 3), k, np.uint8)),
    photo_camera=lambda k: CAMERA,
)
FRAME = Photo("-1", np.zeros((4, 4, 3), np.uint8))


def seed(order: tuple[int, ...], retrieved: int, among: np.ndarray | None = None) -> int | None:
    matcher = PairNetwork()
    index = support.index_aerial(ATLAS, FeatureCache(matcher), Choice(order))  # type: ignore[arg-type]
    candidates = index.candidates(FRAME, np.arange(len(AERIAL)) if among is None else among, retrieved)
    return support.seed_of(support.CrossPairs(index, (matcher.extract(FRAME),), CAMERA, VerifyConfig()), 0, candidates)


def test_the_verified_candidate_is_the_seed() -> None:
    assert seed((0, 3, RIGHT, 1), 3) == RIGHT
    assert seed((0, 3, RIGHT, 1), 2) is None  # the descriptor left the right one out


def test_a_pair_is_matched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    matcher = PairNetwork()
    index = support.index_aerial(ATLAS, FeatureCache(matcher), Choice((RIGHT,)))  # type: ignore[arg-type]
    pairs = support.CrossPairs(index, (matcher.extract(FRAME),), CAMERA, VerifyConfig())
    rows = pairs.agreeing(0, RIGHT)
    assert rows is not None and rows[0].shape == rows[1].shape and len(rows[0]) >= 30
    assert pairs.agreeing(0, 0) is None
    monkeypatch.setattr(support, "verify", lambda *_: pytest.fail("verified again"))
    assert pairs.agreeing(0, RIGHT) is rows and pairs.agreeing(0, 0) is None


class Flight:
    """So many photos of their own content, as an atlas has them."""

    def __init__(self, count: int) -> None:
        self.views = tuple(SimpleNamespace(name=str(k)) for k in range(count))
        self.read: list[int] = []

    def photo(self, k: int) -> Photo:
        self.read.append(k)
        return Photo(str(k), np.full((4, 4, 3), k, np.uint8))


class Wide(PairNetwork):
    """Features of 40 kB."""

    def extract(self, photo: Photo) -> Features:
        one = np.ones(10_000, np.float32)
        return Features(np.zeros((1, 2)), np.full((1, 1), float(photo.name), np.float32), one, one, 640, 360, 1.5)


def held_bytes(cache: FeatureCache) -> int:
    return sum(one.scores.nbytes for one in cache._held.values())


@pytest.mark.parametrize("count", [20, 200])
def test_the_features_in_memory_do_not_grow_with_the_photos(count: int, tmp_path: Path) -> None:
    """Nothing is extracted that is not asked for; what was let go comes back from the disk, the photo unread."""
    flight, cache = Flight(count), FeatureCache(Wide(), tmp_path, limit_bytes=500_000)
    seen = support.AerialFeatures(flight, cache)  # type: ignore[arg-type]
    most = 0
    for k in [*range(count), 0, count - 1]:
        assert float(seen[k].descriptors[0, 0]) == k
        most = max(most, held_bytes(cache))
    assert 200_000 < most <= 500_000
    assert flight.read == list(range(count)) and len(list(tmp_path.iterdir())) == count


def test_features_are_extracted_of_photos_that_are_matched_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    extract = PairNetwork.extract
    monkeypatch.setattr(PairNetwork, "extract", lambda self, photo: looked.append(photo.name) or extract(self, photo))
    assert seed((0, 3, RIGHT, 1), 3) == RIGHT
    assert sorted(looked) == ["-1", "0", "2", "3"]


def test_no_trials_look_for_what_would_be_refused() -> None:
    bounded = support.without_vain_trials(VerifyConfig(least_ratio=0.3, confidence=0.9999, trials=(200, 20_000)))
    assert bounded.trials == (200, 3786)  # ln 1e-4 / ln(1 - 0.3^5)
    assert support.without_vain_trials(VerifyConfig(least_ratio=0.9)).trials == (200, 200)
    for same in (VerifyConfig(least_ratio=0.0), VerifyConfig(least_ratio=0.1), VerifyConfig(confidence=1.0)):
        assert support.without_vain_trials(same) == same


def test_priors_leave_views_that_look_elsewhere_out() -> None:
    assert seed((0, 3, RIGHT, 1), 2, np.array([1, RIGHT, 3])) == RIGHT  # one that looks elsewhere took a place before
    assert seed((0, 3, RIGHT, 1), 3, np.array([0, 1, 3])) is None
    assert seed((0, 3, RIGHT, 1), 3, np.empty(0, np.int64)) is None


def test_views_of_an_area_look_at_its_ground() -> None:
    flat = np.zeros((100, 100))
    ground = Ground(np.eye(3)[:2], UP, np.array([-50.0, -50.0]), 1.0, flat, np.ones((100, 100), bool))
    down = [rigid.look_at(np.array([x, 0.0, 30.0]), np.array([x, 0.01, 0.0]), UP) for x in (-40.0, 0.0, 40.0)]
    views = tuple(View(str(k), Path(str(k)), CAMERA, pose) for k, pose in enumerate(down))  # each sees 43 m across
    assert support.views_of((), ground, views).tolist() == [0, 1, 2]
    assert support.views_of((Near(0.0, 0.0, 5.0),), ground, views).tolist() == [1]
    east = Area((((30.0, -5.0), (45.0, -5.0), (45.0, 5.0), (30.0, 5.0)),))
    assert support.views_of((east,), ground, views).tolist() == [2]
    assert support.views_of((Near(0.0, 300.0, 5.0),), ground, views).tolist() == []


def test_matches_are_lifted_with_their_own_sigma(monkeypatch: pytest.MonkeyPatch) -> None:
    def lifted(atlas: object, view: int, xy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        points = np.tile(landmarks(), (len(xy) // 200, 1))
        points[::2] = np.nan  # no surface under every other pixel
        return points, np.zeros_like(points)

    monkeypatch.setattr(support, "_lifted", lifted)
    matcher = PairNetwork()
    index = support.index_aerial(ATLAS, FeatureCache(matcher), Choice((RIGHT,)))  # type: ignore[arg-type]
    seen = (matcher.extract(FRAME), matcher.extract(FRAME))
    found = support.match_support(index, np.array([RIGHT]), seen)
    assert len(found) == 200 and np.bincount(found.frame).tolist() == [100, 100]
    assert (found.sigma_px == 2.0).all() and (found.source == RIGHT).all()
    pose: Pose = STREET
    assert np.allclose(cameras.project(CAMERA, pose(found.points)), found.xy)
