"""Large aerial photos in windows: which are cut, that nothing of them is lost, and that a window is a camera."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyanchor.bridges.views import AerialAtlas, BridgeConfig
from skyanchor.geometry import cameras, rigid
from skyanchor.geometry.depth import inside
from skyanchor.scaffold.windows import (
    MARGIN,
    SLACK,
    Cut,
    WindowConfig,
    boxes,
    cut_camera,
    cuts_of,
    ground_samples,
    photos_of,
    window_camera,
    with_windows,
)
from skyanchor.types import Camera, Georeference, Plane, Scaffold, Tracks, View

UP = np.array([0.0, 0.0, 1.0])


def flight(*lenses: Camera, height: float = 100.0, tracked: bool = True) -> Scaffold:
    """Photos that look straight down on a field of points, each seen where it projects."""
    rng = np.random.default_rng(0)
    points = np.c_[rng.uniform(-120.0, 120.0, (3000, 2)), np.zeros(3000)]
    eyes = [np.array([12.0 * k, 3.0 * k, height]) for k in range(len(lenses))]
    poses = [rigid.look_at(eye, eye - UP, np.array([0.0, 1.0, 0.0])) for eye in eyes]
    views = tuple(
        View(f"a{k}.jpg", Path(f"a{k}.jpg"), lens, pose, image_id=k + 1)
        for k, (lens, pose) in enumerate(zip(lenses, poses, strict=True))
    )
    seen = [cameras.project(view.camera, view.cam_from_world(points)) for view in views]
    held = [np.flatnonzero(inside(view.camera, xy)) for view, xy in zip(views, seen, strict=True)]
    image = np.concatenate([np.full(len(rows), k) for k, rows in enumerate(held)])
    xy = np.concatenate([xy[rows] for xy, rows in zip(seen, held, strict=True)])
    tracks = Tracks(np.concatenate(held), image, xy) if tracked else Tracks(image[:0], image[:0], xy[:0])
    none = np.zeros(3)
    return Scaffold(
        Path(), views, points, np.zeros((3000, 3), np.uint8), np.arange(3000), tracks, UP, Plane(UP, 0.0),
        Georeference(none),
    )  # fmt: skip


LARGE, SMALL = cameras.pinhole(4000, 3000, 2000.0), cameras.pinhole(1600, 1200, 2000.0)
BENT = Camera("SIMPLE_RADIAL", 4000, 3000, (2000.0, 2000.0, 1500.0, -0.05))


@pytest.mark.parametrize("tracked", [True, False])
def test_a_pixel_covers_depth_over_focal_length(tracked: bool) -> None:
    assert ground_samples(flight(LARGE, SMALL, tracked=tracked)) == pytest.approx([0.05, 0.05])


def test_a_view_without_points_takes_the_sample_of_the_others() -> None:
    seen = flight(LARGE, LARGE)
    alone = Tracks(*(part[seen.tracks.image == 0] for part in (seen.tracks.point, seen.tracks.image, seen.tracks.xy)))
    half = replace(seen, tracks=alone)
    assert np.isnan(ground_samples(half)[1])
    assert [cut.photo for cut in cuts_of(half, WindowConfig(longest=1000))] == [0, 1]
    blind = replace(flight(LARGE, tracked=False), points=200.0 * UP[None])
    assert cuts_of(blind, WindowConfig(longest=1000)) == ()


def test_photos_that_are_small_stay_whole() -> None:
    assert cuts_of(flight(SMALL, cameras.pinhole(int(1600 * SLACK), 1200, 2000.0)), WindowConfig(finest_m=0.05)) == ()


def test_photos_that_are_fine_enough_when_reduced_stay_whole() -> None:
    assert cuts_of(flight(LARGE), WindowConfig(finest_m=0.125)) == ()
    assert len(cuts_of(flight(LARGE), WindowConfig(finest_m=0.05))) == 1


@given(
    size=st.tuples(st.integers(1, 6000), st.integers(1, 6000)),
    longest=st.integers(256, 2000),
    finest=st.floats(0.03, 0.2),
)
def test_windows_are_no_larger_than_asked_and_cover_the_photo(
    size: tuple[int, int], longest: int, finest: float
) -> None:
    held = flight(Camera("PINHOLE", *size, (2000.0, 2000.0, size[0] / 2, size[1] / 2)))
    config = WindowConfig(longest, finest)
    cuts = cuts_of(held, config)
    if not cuts:
        return
    camera = cut_camera(held.views[0], cuts[0])
    covered = np.zeros((camera.height, camera.width), bool)
    for box in boxes(camera, cuts[0]):
        assert 0 < box.right - box.left <= longest and 0 < box.bottom - box.top <= longest
        covered[box.top : box.bottom, box.left : box.right] = True
    assert covered.all()
    assert camera.width == pytest.approx(size[0] * min(1.0, 0.05 / finest), abs=2)


@pytest.mark.parametrize("lens", [LARGE, BENT], ids=["pinhole", "bent"])
def test_a_window_sees_what_the_photo_sees_there(lens: Camera) -> None:
    held = flight(lens)
    cut = Cut(0, 2000, 2, 2)
    camera = cut_camera(held.views[0], cut)
    seen = cameras.project(camera, held.views[0].cam_from_world(held.points))
    for box in boxes(camera, cut):
        own = cameras.project(window_camera(camera, box), held.views[0].cam_from_world(held.points))
        assert np.allclose(own + np.array([box.left, box.top]), seen)
    first, right, below, _ = boxes(camera, cut)
    assert first.right - right.left == first.bottom - below.top == 2 * MARGIN, "each reaches into the other"


def test_points_are_seen_in_the_windows_where_they_lie() -> None:
    held = flight(LARGE, SMALL, BENT)
    cuts = cuts_of(held, WindowConfig(longest=1100, finest_m=0.05))
    assert [cut.photo for cut in cuts] == [0, 1, 2]
    parts = {}
    for cut in cuts[::2]:  # the second photo stays whole
        view, camera = held.views[cut.photo], cut_camera(held.views[cut.photo], cut)
        parts[cut.photo] = tuple(
            View(f"{view.name}#{k}", view.path, window_camera(camera, box), view.cam_from_world)
            for k, box in enumerate(boxes(camera, cut))
        )
    cut_up = with_windows(held, parts)
    photos = photos_of(cut_up)
    assert photos.views == held.views and len(photos.of_view) == len(cut_up.views)
    assert [cut_up.views[k].name for k in np.flatnonzero(photos.of_view == 1)] == ["a1.jpg"]
    tracks = cut_up.tracks
    for k, view in enumerate(cut_up.views):
        rows = tracks.image == k
        points = held.points[tracks.point[rows]]
        assert np.allclose(tracks.xy[rows], cameras.project(view.camera, view.cam_from_world(points)))
        assert inside(view.camera, tracks.xy[rows]).all()
    for index in range(3):
        before = set(held.tracks.point[held.tracks.image == index])
        after = set(tracks.point[np.isin(tracks.image, np.flatnonzero(photos.of_view == index))])
        assert after <= before
        assert len(after) >= (0.88 if index == 2 else 1.0) * len(before)  # a bent photo shows more at its rim


def test_without_windows_views_are_the_photos() -> None:
    held = flight(SMALL, SMALL)
    assert photos_of(held).views == held.views and photos_of(held).of_view.tolist() == [0, 1]


def test_cones_hold_what_a_window_shows_and_little_else() -> None:
    """The cone of a corner window is about its own middle: what lies under the photo's middle is not in it."""
    held = flight(LARGE)
    cut = Cut(0, 4000, 4, 4)
    camera = cut_camera(held.views[0], cut)
    windows = tuple(
        View(f"w{k}", Path("w"), window_camera(camera, box), held.views[0].cam_from_world)
        for k, box in enumerate(boxes(camera, cut))
    )
    atlas = AerialAtlas(surface=None, views=windows, config=BridgeConfig(), limit_bytes=1)  # type: ignore[arg-type]
    axes, half_angles = atlas.cones
    towards = held.points - rigid.centre_in_world(held.views[0].cam_from_world)
    towards /= np.linalg.norm(towards, axis=1, keepdims=True)
    for k, view in enumerate(windows):
        shown = inside(view.camera, cameras.project(view.camera, view.cam_from_world(held.points)))
        within = towards @ axes[k] >= np.cos(half_angles[k]) - 1e-9
        assert (within | ~shown).all()
        assert within.sum() < 3 * shown.sum() + 10
