"""A mesh against known depth: what is off, what is missing, what nobody looked at."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from skyanchor.errors import InputError
from skyanchor.evaluation.shared_surface import seen_from_the_street
from skyanchor.evaluation.surface import against_aerial, surface_metrics
from skyanchor.evaluation.true_depth import TrueDepth, read_true_depths
from skyanchor.geometry import cameras, rigid
from skyanchor.meshing import Mesh
from skyanchor.types import Bools, Camera, Floats, Pose

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


def before_a_wall(eye: Floats) -> TrueDepth:
    """The wall behind a post of half a metre, both upright before the camera."""
    one = depth_of_wall(eye, 9.0)
    pose = rigid.look_at(eye, np.array([eye[0], 9.0, 0.0]), UP)
    columns = np.arange(80) + 0.5
    x = eye[0] + (columns - 40.0) / 70.0 * (POST_Y - eye[1])
    depth = np.where(np.abs(x) < POST, POST_Y - eye[1], 9.0 - eye[1])
    return TrueDepth(one.camera, pose, np.tile(depth.astype(np.float32), (60, 1)))


POST, POST_Y = 0.25, 3.0


@pytest.mark.parametrize("wider", [0.04, 0.2])
def test_the_rim_of_a_post_is_off_by_what_it_is_wider(wider: float) -> None:
    """The wall is six metres behind what stands out beside the post."""
    truth = [before_a_wall(np.array([x, 0.0, 0.0])) for x in (-0.3, -0.1, 0.1, 0.3)]
    rim = wall_mesh(POST_Y, POST + wider - 0.02, POST + wider)
    found = surface_metrics(rim, truth, farthest_m=5.0)
    pixel = POST_Y / 70.0
    assert found.mean_m is not None and found.mesh_points > 0
    assert abs(found.mean_m - (wider - 0.01)) < pixel


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


def said_unit(unit: str) -> PngInfo:
    held = PngInfo()
    held.add_text("unit_m", unit)
    return held


def test_a_depth_says_its_own_unit(tmp_path: Path) -> None:
    Image.fromarray(np.full((30, 40), 2500, np.uint16)).save(tmp_path / "frame_1.png", pnginfo=said_unit("0.006"))
    found = read_true_depths(tmp_path, {"walk/frame_1.jpg": (CAMERA, rigid.identity())})
    assert np.abs(found[0].depth - 15.0).max() < 1e-5


@pytest.mark.parametrize("unit", ["", "two", "nan", "0", "-0.002", "inf"])
def test_a_unit_that_is_no_length_is_told(unit: str, tmp_path: Path) -> None:
    Image.fromarray(np.full((30, 40), 2500, np.uint16)).save(tmp_path / "frame_1.png", pnginfo=said_unit(unit))
    with pytest.raises(InputError, match=r"frame_1\.png: says that its unit_m is"):
        read_true_depths(tmp_path, {"walk/frame_1.jpg": (CAMERA, rigid.identity())})


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


# --- depth of aerial photos ---------------------------------------------------------------------------------------

CAR = np.array([-0.5, 2.0]), np.array([0.5, 3.0]), 1.2
"""Low and high corner on the ground, and height, of a thing that stands between the walk and the house."""
HOUSE_Y, HOUSE_UP = 6.0, 7.0
WALKER = cameras.pinhole(160, 120, 90.0)
PATHS = [(WALKER, rigid.look_at(np.array([x, 0.0, 1.6]), np.array([x, 6.0, 1.0]), UP)) for x in (-1.0, -0.3, 0.4, 1.0)]
"""A walk past a house, looking at it."""


def _faces() -> list[tuple[Floats, Floats, Floats]]:
    """Ground, front and roof of the house, front, sides and roof of the car: corner and two sides each."""
    (left, near), (right, back), tall = CAR
    x, y, z = np.eye(3)
    low = np.array([left, near, 0.0])
    return [
        (np.array([-7.0, -1.0, 0.0]), 14.0 * x, 7.0 * y),
        (np.array([-7.0, HOUSE_Y, 0.0]), 14.0 * x, HOUSE_UP * z),
        (np.array([-7.0, HOUSE_Y, HOUSE_UP]), 14.0 * x, 2.0 * y),
        (low, (right - left) * x, tall * z),
        (low, (back - near) * y, tall * z),
        (low + (right - left) * x, (back - near) * y, tall * z),
        (low + tall * z, (right - left) * x, (back - near) * y),
    ]


def _depth_at(camera: Camera, pose: Pose) -> TrueDepth:
    """The depth that a camera sees of the faces."""
    rows, columns = (axis.ravel() for axis in np.mgrid[: camera.height, : camera.width])
    rays = cameras.unproject(camera, np.stack([columns + 0.5, rows + 0.5], axis=1).astype(float)) @ pose.rotation
    eye, nearest = rigid.centre_in_world(pose), np.full(len(rays), np.inf)
    for corner, across, along in _faces():
        normal = np.cross(across, along)
        with np.errstate(divide="ignore", invalid="ignore"):
            depth = (corner - eye) @ normal / (rays @ normal)
        at = eye + depth[:, None] * rays - corner
        u, v = at @ across / (across @ across), at @ along / (along @ along)
        hit = (depth > 0) & (u >= 0) & (u <= 1) & (v >= 0) & (v <= 1)
        nearest[hit] = np.minimum(nearest[hit], depth[hit])
    depth = np.where(np.isfinite(nearest), nearest, 0.0).reshape(camera.height, camera.width)
    return TrueDepth(camera, pose, depth.astype(np.float32))


@pytest.fixture(scope="module")
def from_above() -> list[TrueDepth]:
    """Straight down, and from both sides of the street."""
    eyes = [np.array([x, y, 30.0]) for x in (-4.0, 4.0) for y in (-18.0, 0.0, 18.0)]
    lens = cameras.pinhole(400, 300, 380.0)
    return [_depth_at(lens, rigid.look_at(eye, np.array([0.0, 3.0, 0.0]), np.eye(3)[0])) for eye in eyes]


def _patch(corner: Floats, across: Floats, along: Floats, keep: Callable[[Floats], Bools] | None = None) -> Mesh:
    """A rectangle of triangles half a metre wide, without those whose middle is not kept."""
    steps = [np.linspace(0.0, 1.0, int(np.linalg.norm(side) / 0.5) + 1) for side in (across, along)]
    u, v = np.meshgrid(*steps, indexing="ij")
    vertices = corner + u.reshape(-1, 1) * across + v.reshape(-1, 1) * along
    index = np.arange(u.size).reshape(u.shape)
    quads = np.stack([index[:-1, :-1], index[1:, :-1], index[1:, 1:], index[:-1, 1:]], axis=-1).reshape(-1, 4)
    if keep is not None:
        quads = quads[keep(vertices[quads].mean(axis=1))]
    return Mesh(vertices, np.concatenate([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]]), _grey(len(vertices)))


def _grey(count: int) -> np.ndarray:
    return np.zeros((count, 3), np.uint8)


def _all(keep: Callable[[Floats], Bools] | None = None) -> Mesh:
    """The faces as one mesh."""
    parts = [_patch(*face, keep) for face in _faces()]
    starts = np.cumsum([0, *(len(part.vertices) for part in parts)])
    faces = np.concatenate([part.faces + start for part, start in zip(parts, starts, strict=False)])
    return Mesh(np.concatenate([part.vertices for part in parts]), faces, _grey(starts[-1]))


def test_aerial_truth_finds_a_whole_mesh_whole(from_above: list[TrueDepth]) -> None:
    found = against_aerial(_all(), from_above, PATHS, farthest_m=20.0)
    assert found.accuracy is not None and found.accuracy > 0.97
    assert found.completeness is not None and found.completeness > 0.97 and found.true_points > 2000


def test_holes_of_the_mesh_are_missed_by_aerial_truth(from_above: list[TrueDepth]) -> None:
    whole = against_aerial(_all(), from_above, PATHS, farthest_m=20.0)
    holed = against_aerial(_all(lambda at: np.floor(at[:, 0]) % 2 > 0), from_above, PATHS, farthest_m=20.0)
    without_front = against_aerial(_all(lambda at: at[:, 1] < HOUSE_Y - 0.1), from_above, PATHS, farthest_m=20.0)
    nothing = against_aerial(_all(lambda at: np.zeros(len(at), bool)), from_above, PATHS, farthest_m=20.0)
    counted = {one.true_points for one in (whole, holed, without_front, nothing)}
    assert len(counted) == 1, "what counts does not depend on the mesh"
    assert holed.accuracy is not None and holed.accuracy > 0.97 and 0.4 < (holed.completeness or 0.0) < 0.6
    assert (without_front.completeness or 0.0) < 0.75 and nothing.completeness == 0.0


def test_what_the_street_does_not_see_does_not_count(from_above: list[TrueDepth]) -> None:
    points = seen_from_the_street(from_above, PATHS, 3, 20.0)
    assert points[:, 2].max() < HOUSE_UP - 0.5, "the roof is out of their pictures"
    assert points[:, 1].min() > 0.5, "so is what lies behind them"
    (left, near), (right, back), tall = CAR
    beside = (points[:, 0] > left + 0.2) & (points[:, 0] < right - 0.2)
    behind = beside & (points[:, 1] > back + 0.7) & (points[:, 1] < HOUSE_Y - 0.3) & (points[:, 2] < 0.05)
    assert not behind.any(), "the car hides the ground behind it"
    aside = (np.abs(points[:, 0]) > 1.0) & (points[:, 2] < 0.05) & (points[:, 1] < HOUSE_Y - 0.3)
    assert aside.sum() > 100 and (points[:, 1] > HOUSE_Y - 0.05).sum() > 500, "the ground beside it, and the house"
    on_car = beside & (points[:, 2] > 0.1) & (points[:, 1] < HOUSE_Y - 0.3)
    front, roof = np.abs(points[on_car, 1] - near) < 0.02, np.abs(points[on_car, 2] - tall) < 0.02
    assert front.sum() > 20 and roof.sum() > 50, "of the car what the walk sees"


def test_three_photos_must_see_it_within_the_distance(from_above: list[TrueDepth]) -> None:
    assert not len(seen_from_the_street(from_above, PATHS[:2], 3, 20.0))
    near, far = (seen_from_the_street(from_above, PATHS, 3, metres) for metres in (4.0, 20.0))
    assert 0 < len(near) < len(far) and near[:, 1].max() < 4.3


def test_a_back_is_not_seen() -> None:
    """A roof that only photos above show, above a walk that looks up at it: nobody knows its underside."""
    lens, high = cameras.pinhole(200, 150, 150.0), np.array([0.0, 4.0, 30.0])
    roof = depth_of_level(lens, rigid.look_at(high, np.array([0.0, 4.0, 0.0]), np.eye(3)[0]), 4.0)
    up = [(CAMERA, rigid.look_at(np.array([x, 0.0, 1.6]), np.array([x, 4.0, 4.0]), UP)) for x in (-1.0, 0.0, 1.0)]
    down = [(CAMERA, rigid.look_at(np.array([x, 0.0, 8.0]), np.array([x, 4.0, 4.0]), UP)) for x in (-1.0, 0.0, 1.0)]
    assert not len(seen_from_the_street([roof], up, 3, 20.0)) and len(seen_from_the_street([roof], down, 3, 20.0))


def depth_of_level(camera: Camera, pose: Pose, height: float) -> TrueDepth:
    """A level plane from above."""
    rows, columns = (axis.ravel() for axis in np.mgrid[: camera.height, : camera.width])
    rays = cameras.unproject(camera, np.stack([columns + 0.5, rows + 0.5], axis=1).astype(float)) @ pose.rotation
    depth = (height - rigid.centre_in_world(pose)[2]) / rays[:, 2]
    return TrueDepth(camera, pose, depth.reshape(camera.height, camera.width).astype(np.float32))
