"""The live viewer: layers switch with the patch, cameras open their photo, a growing run is followed."""

from __future__ import annotations

import socket
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import cv2
import numpy as np
import pytest

from skyanchor.errors import InputError
from skyanchor.gaussians.seeding import splats_from_points
from skyanchor.gaussians.splats import concat, owned, select
from skyanchor.geometry import cameras, rigid
from skyanchor.report.live import LiveViewer, first_viewpoint, flight, follow
from skyanchor.report.live_scene import Kind, LiveScene, covariances, is_visible, layers, owners_by_patches
from skyanchor.report.still import SKY
from skyanchor.types import View

viser = pytest.importorskip("viser")
UP = np.array([0.0, 0.0, 1.0])


def scene(tmp_path: Path) -> LiveScene:
    rng = np.random.default_rng(0)
    before = splats_from_points(rng.normal(size=(10, 3)), np.full((10, 3), 90, np.uint8), sh_degree=0)
    dark = [splats_from_points(rng.normal(size=(n, 3)), np.zeros((n, 3), np.uint8), sh_degree=0) for n in (4, 3)]
    monday, friday = (owned(one, k) for k, one in enumerate(dark, start=1))
    changed, hidden = np.zeros((2, 14), bool)
    changed[:3] = True
    hidden[2] = True
    photo = tmp_path / "a.png"
    cv2.imwrite(str(photo), np.full((48, 64, 3), 30, np.uint8))
    pose = rigid.look_at(np.array([0.0, 0.0, 9.0]), np.zeros(3), np.array([0.0, 1.0, 0.0]))
    names = ("a.png", "b.png", "c.png", "d.png")
    views = [
        View(name, photo, cameras.pinhole(64, 48, 60.0), pose, image_id=30 * (k == 3) + k)
        for k, name in enumerate(names)
    ]
    flown = concat([before, monday])
    return LiveScene(
        flown, concat([flown, friday]), changed, hidden, (views[0],), tuple(views[1:]), UP, ("monday", "friday")
    )


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_layers_split_the_rows_once(tmp_path: Path) -> None:
    parts = {one.name: (one.kind, len(one.splats), one.patched, one.owner) for one in layers(scene(tmp_path))}
    assert parts == {
        "aerial": (Kind.AERIAL, 7, None, 0), "ground 1": (Kind.GROUND, 4, None, 1),
        "before the patch": (Kind.AERIAL, 2, False, 0), "hidden by the patch": (Kind.AERIAL, 1, False, 0),
        "hidden, in red": (Kind.HIDDEN, 1, True, 0), "refined by the patch": (Kind.AERIAL, 2, True, 0),
        "ground 2": (Kind.GROUND, 3, True, 2),
    }  # fmt: skip


def test_rows_are_seen_once_whatever_is_switched(tmp_path: Path) -> None:
    parts, both = layers(scene(tmp_path)), frozenset([Kind.AERIAL, Kind.GROUND])

    def rows(on: frozenset[Kind], patch_on: bool, until: int) -> int:
        return sum(len(one.splats) for one in parts if is_visible(one, on, patch_on, until, 2))

    assert rows(both, True, 2) == 14 - 1 + 3
    assert rows(both, False, 2) == rows(both, True, 1) == 14  # friday's patch is off before friday
    assert rows(frozenset([Kind.GROUND]), True, 2) == 7 and rows(frozenset([Kind.HIDDEN]), True, 2) == 1
    assert rows(frozenset([Kind.GROUND]), True, 1) == 4


def test_before_the_update_the_street_in_training_is_shown(tmp_path: Path) -> None:
    whole = scene(tmp_path)
    going_on = replace(whole, after=None, training=select(whole.before, slice(0, 5)))  # type: ignore[arg-type]
    assert [(one.name, len(one.splats), one.owner) for one in layers(going_on)] == [
        ("aerial", 10, 0), ("ground 1", 4, 1), ("ground, in training", 5, 2),
    ]  # fmt: skip
    assert layers(replace(going_on, before=None)) == ()


def test_owners_follow_the_patches() -> None:
    assert owners_by_patches(9, (2, 3)).tolist() == [0, 0, 0, 0, 1, 1, 2, 2, 2]
    assert owners_by_patches(3, ()).tolist() == [0, 0, 0]


def test_the_first_view_looks_down_at_the_walk(tmp_path: Path) -> None:
    whole = scene(tmp_path)
    for seen in (whole, replace(whole, ground=()), replace(whole, ground=(), aerial=())):
        position, target = first_viewpoint(seen)
        assert (position - target) @ UP > 10.0 and np.linalg.norm(np.cross(position - target, UP)) > 5.0


def test_covariance_of_a_turned_ellipsoid() -> None:
    one = splats_from_points(np.zeros((1, 3)), np.zeros((1, 3), np.uint8), sh_degree=0)
    one.log_scales[0] = np.log([1.0, 2.0, 3.0])
    one.quats[0] = [np.sqrt(0.5), 0, 0, np.sqrt(0.5)]  # 90 degrees about z: x and y change places
    np.testing.assert_allclose(covariances(one)[0], np.diag([4.0, 1.0, 9.0]), atol=1e-5)


def test_viewer_switches_layers_and_opens_photos(tmp_path: Path) -> None:
    viewer = LiveViewer(free_port())
    try:
        viewer.show(scene(tmp_path))

        def seen() -> set[str]:
            viewer._switch()
            return {layer.name for layer, handle in viewer._splats if handle.visible}

        assert seen() == {"aerial", "ground 1", "refined by the patch", "ground 2"}
        assert viewer.until.visible and viewer.until.label == "up to friday"
        viewer.patched.value = False
        assert seen() == {"aerial", "ground 1", "before the patch", "hidden by the patch"}
        viewer.patched.value, viewer.until.value = True, 1
        assert "ground 2" not in seen() and viewer.until.label == "up to monday"
        viewer.until.value, viewer.kinds[Kind.HIDDEN].value, viewer.kinds[Kind.AERIAL].value = 2, True, False
        assert seen() == {"ground 1", "ground 2", "hidden, in red"}
        viewer.show(scene(tmp_path))
        assert seen() == {"ground 1", "ground 2", "hidden, in red"}  # switches survive a new look
        viewer._open(scene(tmp_path).aerial[0])
        assert viewer.photo.label == "a.png"
        viewer._open(replace(scene(tmp_path).aerial[0], path=tmp_path / "gone.png"))
        assert "not there any more" in viewer.photo.label
        walk = viewer._marks[-1]
        assert len(walk.points) == 1  # b to c; d is 31 frames on
    finally:
        viewer.server.stop()


class Visitor:
    """Stands in for a browser: keeps where its camera was sent."""

    def __init__(self) -> None:
        self.camera = SimpleNamespace(position=np.array([3.0, -4.0, 5.0]), wxyz=np.array([1.0, 0.0, 0.0, 0.0]))

    def atomic(self) -> AbstractContextManager[None]:
        return nullcontext()


def test_a_click_flies_to_the_camera_and_shows_photo_and_render(tmp_path: Path) -> None:
    viewer, visitor = LiveViewer(free_port()), Visitor()
    try:
        assert viewer.server.get_host() == "127.0.0.1"
        whole = scene(tmp_path)
        viewer.show(whole)
        view = whole.aerial[0]
        viewer._visit(visitor, view)
        np.testing.assert_allclose(visitor.camera.position, rigid.centre_in_world(view.cam_from_world), atol=1e-9)
        turned = rigid.rotation_from_quaternion(visitor.camera.wxyz)
        assert rigid.angle_between(turned, view.cam_from_world.rotation.T) < 1e-6
        assert viewer.photo.label == "a.png" and viewer.photo.image.mean() == pytest.approx(30.0, abs=2.0)
        assert viewer.render.visible and viewer.render.image.shape == (48, 64, 3)
        assert abs(viewer.render.image.astype(int) - np.array(SKY)).max() > 20  # splats are in it
        viewer._open(replace(view, path=tmp_path / "gone.png"))
        assert not viewer.render.visible
    finally:
        viewer.server.stop()


def test_a_flight_is_even_and_ends_there() -> None:
    start = rigid.look_at(np.array([0.0, 0.0, 30.0]), np.zeros(3), np.array([0.0, 1.0, 0.0]))
    end = rigid.look_at(np.array([8.0, 2.0, 1.7]), np.array([9.0, 2.0, 1.7]), UP)
    way = flight(start, end, 10)
    np.testing.assert_allclose(way[-1].rotation, end.rotation, atol=1e-9)
    np.testing.assert_allclose(rigid.centre_in_world(way[-1]), [8.0, 2.0, 1.7], atol=1e-9)
    middle = rigid.centre_in_world(way[4])
    np.testing.assert_allclose(middle, (np.array([0.0, 0.0, 30.0]) + np.array([8.0, 2.0, 1.7])) / 2, atol=1e-9)
    turns = [rigid.angle_between(pose.rotation, start.rotation) for pose in way]
    assert np.all(np.diff(turns) > 0)


class Recorder:
    """Stands in for the viewer."""

    def __init__(self) -> None:
        self.shown: list[LiveScene] = []
        self.said: list[str] = []

    def show(self, value: LiveScene) -> None:
        self.shown.append(value)

    def say(self, text: str) -> None:
        self.said.append(text)


def test_a_run_is_followed(tmp_path: Path) -> None:
    states, left, words = iter(["one", "one", "two", "two"]), iter([True] * 4 + [False]), iter("abcd")
    viewer = Recorder()
    follow(
        viewer, lambda: scene(tmp_path), lambda: next(states), lambda: next(words), 0.0, lambda: next(left)  # type: ignore[arg-type]
    )  # fmt: skip
    assert len(viewer.shown) == 2 and viewer.said == ["a", "b", "c", "d"]


def test_a_file_that_vanishes_under_the_viewer_is_looked_at_again(tmp_path: Path) -> None:
    states, left = iter(["one", "two", "two"]), iter([True] * 3 + [False])
    answers = iter([scene(tmp_path), InputError("x", "is missing", "."), scene(tmp_path)])
    viewer = Recorder()

    def load() -> LiveScene:
        answer = next(answers)
        if isinstance(answer, InputError):
            raise answer
        return answer

    follow(viewer, load, lambda: next(states), lambda: "", 0.0, lambda: next(left))  # type: ignore[arg-type]
    assert len(viewer.shown) == 2
    with pytest.raises(InputError):
        follow(viewer, lambda: (_ for _ in ()).throw(InputError("x", "no", ".")), lambda: "a", poll_s=0.0)  # type: ignore[arg-type]
