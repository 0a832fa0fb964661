"""The live viewer: layers switch with the patch, cameras open their photo, a growing run is followed."""

from __future__ import annotations

import socket
from pathlib import Path

import cv2
import numpy as np
import pytest

from skyanchor.gaussians.seeding import splats_from_points
from skyanchor.gaussians.splats import concat, owned
from skyanchor.geometry import cameras, rigid
from skyanchor.report.live import LiveScene, LiveViewer, covariances, follow, layers
from skyanchor.types import View

viser = pytest.importorskip("viser")
UP = np.array([0.0, 0.0, 1.0])


def scene(tmp_path: Path) -> LiveScene:
    rng = np.random.default_rng(0)
    before = splats_from_points(rng.normal(size=(10, 3)), np.full((10, 3), 90, np.uint8), sh_degree=0)
    dark = [splats_from_points(rng.normal(size=(n, 3)), np.zeros((n, 3), np.uint8), sh_degree=0) for n in (4, 3)]
    street = [owned(one, k) for k, one in enumerate(dark, start=1)]
    changed, hidden = np.zeros((2, 10), bool)
    changed[:3] = True
    hidden[2] = True
    photo = tmp_path / "a.png"
    cv2.imwrite(str(photo), np.full((48, 64, 3), 30, np.uint8))
    pose = rigid.look_at(np.array([0.0, 0.0, 9.0]), np.zeros(3), np.array([0.0, 1.0, 0.0]))
    views = [View(name, photo, cameras.pinhole(64, 48, 60.0), pose) for name in ("a.png", "b.png", "c.png")]
    return LiveScene(before, concat([before, *street]), changed, hidden, (views[0],), (views[1], views[2]), UP)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_layers_split_the_rows_once(tmp_path: Path) -> None:
    parts = {layer.name: (len(layer.splats), layer.patched) for layer in layers(scene(tmp_path))}
    assert parts == {
        "aerial": (7, None), "aerial before the patch": (2, False), "hidden by the patch": (1, False),
        "aerial refined": (2, True), "ground 1": (4, True), "ground 2": (3, True),
    }  # fmt: skip


def test_covariance_of_a_turned_ellipsoid() -> None:
    one = splats_from_points(np.zeros((1, 3)), np.zeros((1, 3), np.uint8), sh_degree=0)
    one.log_scales[0] = np.log([1.0, 2.0, 3.0])
    one.quats[0] = [np.sqrt(0.5), 0, 0, np.sqrt(0.5)]  # 90 degrees about z: x and y change places
    np.testing.assert_allclose(covariances(one)[0], np.diag([4.0, 1.0, 9.0]), atol=1e-5)


def test_viewer_switches_layers_and_opens_photos(tmp_path: Path) -> None:
    viewer = LiveViewer(free_port())
    try:
        viewer.show(scene(tmp_path))
        shown = {layer.name: handle.visible for layer, handle in viewer._splats}
        assert shown["ground 1"] and shown["ground 2"] and not shown["hidden by the patch"]
        viewer.patched.value = False
        viewer._switch()
        shown = {layer.name: handle.visible for layer, handle in viewer._splats}
        assert not shown["ground 1"] and shown["hidden by the patch"] and shown["aerial"]
        viewer.patched.value, viewer.until.value = True, 1
        viewer._switch()
        assert {layer.name: handle.visible for layer, handle in viewer._splats}["ground 2"] is False
        viewer._open(scene(tmp_path).aerial[0])
        assert viewer.photo.label == "a.png"
    finally:
        viewer.server.stop()


def test_a_run_is_followed(tmp_path: Path) -> None:
    states = iter(["one", "one", "two", "two"])
    left = iter([True] * 4 + [False])
    shown: list[LiveScene] = []

    class Recorder:
        def show(self, value: LiveScene) -> None:
            shown.append(value)

    follow(Recorder(), lambda: scene(tmp_path), lambda: next(states), 0.0, lambda: next(left))  # type: ignore[arg-type]
    assert len(shown) == 2
