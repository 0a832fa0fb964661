"""A mesh against known depth: what is off, what is missing, what nobody looked at."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from skyanchor.errors import InputError
from skyanchor.evaluation.surface import TrueDepth, read_true_depths, surface_metrics
from skyanchor.geometry import cameras, rigid
from skyanchor.meshing import Mesh
from skyanchor.types import Floats

UP = np.array([0.0, 0.0, 1.0])
CAMERA = cameras.pinhole(80, 60, 70.0)


def wall_mesh(y: float, low: float = -6.0, high: float = 6.0) -> Mesh:
    """The plane at `y`, x from `low` to `high`, as two triangles."""
    vertices = np.array([[low, y, -6.0], [high, y, -6.0], [high, y, 6.0], [low, y, 6.0]])
    return Mesh(vertices, np.array([[0, 1, 2], [0, 2, 3]]), np.zeros((4, 3), np.uint8))


def depth_of_wall(eye: Floats, y: float = 5.0) -> TrueDepth:
    """A camera that looks at the wall at `y`, a little from the side."""
    pose = rigid.look_at(eye, np.array([0.5, y, 0.0]), UP)
    rows, columns = (axis.ravel() for axis in np.mgrid[:60, :80])
    rays = cameras.unproject(CAMERA, np.stack([columns + 0.5, rows + 0.5], axis=1).astype(float)) @ pose.rotation
    return TrueDepth(CAMERA, pose, ((y - eye[1]) / rays[:, 1]).reshape(60, 80).astype(np.float32))


@pytest.fixture(scope="module")
def truth() -> list[TrueDepth]:
    return [depth_of_wall(np.array([x, 0.0, 0.0])) for x in (-1.0, -0.4, 0.3, 1.0)]


def test_the_true_surface_is_right_and_whole(truth: list[TrueDepth]) -> None:
    found = surface_metrics(wall_mesh(5.0), truth)
    assert found.accuracy == 1.0 and found.completeness == 1.0
    assert found.mean_m is not None and found.mean_m < 1e-5
    assert 0 < found.mesh_points < 200_000, "only what three cameras look at counts"


@pytest.mark.parametrize(("off", "good"), [(0.03, 1.0), (0.07, 0.0)])
def test_a_shifted_surface_is_off_by_its_shift(truth: list[TrueDepth], off: float, good: float) -> None:
    found = surface_metrics(wall_mesh(5.0 - off), truth)
    assert found.accuracy == good and found.completeness == good
    assert found.mean_m == pytest.approx(off, rel=0.01)


def test_half_a_wall_is_right_and_half_complete(truth: list[TrueDepth]) -> None:
    found = surface_metrics(wall_mesh(5.0, low=0.5), truth)
    assert found.accuracy == 1.0
    assert found.completeness is not None and 0.4 < found.completeness < 0.6


def test_what_lies_behind_the_surface_is_not_judged(truth: list[TrueDepth]) -> None:
    hidden = surface_metrics(wall_mesh(8.0), truth)
    assert hidden.mesh_points == 0 and hidden.accuracy is None and hidden.completeness == 0.0


def test_depth_that_is_too_far_is_not_judged(truth: list[TrueDepth]) -> None:
    assert surface_metrics(wall_mesh(5.0), truth, farthest_m=4.0).mesh_points == 0


def test_depth_is_read_in_its_units_by_the_name_of_the_photo(tmp_path: Path) -> None:
    Image.fromarray(np.full((30, 40), 2500, np.uint16)).save(tmp_path / "frame_1.png")
    Image.fromarray(np.full((30, 40), 2500, np.uint16)).save(tmp_path / "other.png")
    found = read_true_depths(tmp_path, {"walk/frame_1.jpg": (CAMERA, rigid.identity())})
    assert len(found) == 1 and found[0].camera.width == 40
    assert np.abs(found[0].depth - 5.0).max() < 1e-6
    with pytest.raises(InputError, match="no depth of a camera"):
        read_true_depths(tmp_path, {"b.jpg": (CAMERA, rigid.identity())})


@pytest.mark.parametrize(
    ("pixels", "problem"),
    [
        (np.full((30, 40, 3), 9, np.uint8), "is no depth map"),
        (np.full((30, 40), 9, np.uint8), "has 8 bits a pixel"),
        (np.full((40, 40), 2500, np.uint16), "is 40x40, its camera"),
        (None, "cannot be read as an image"),
    ],
)
def test_a_picture_that_is_no_depth_of_its_camera_is_told(
    pixels: np.ndarray | None, problem: str, tmp_path: Path
) -> None:
    path = tmp_path / "frame_1.png"
    if pixels is None:
        path.write_text("depth: five metres")
    else:
        Image.fromarray(pixels).save(path)
    with pytest.raises(InputError, match=rf"frame_1\.png: {problem}"):
        read_true_depths(tmp_path, {"walk/frame_1.jpg": (CAMERA, rigid.identity())})
