"""Pictures of cross-view matches: lines end where the photos show the points, budget kept, absent photos left out."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from skyanchor.geometry import cameras
from skyanchor.report import match_pictures as module
from skyanchor.report.match_pictures import WIDTH, StreetPhotos, match_pictures, pairs_of
from skyanchor.types import AnchorGroup, Anchors, Camera, CrossView, Floats, LocalisedGroup, Pose, Reason, Refusal, View

AERIAL, STREET = cameras.pinhole(900, 600, 800.0), cameras.pinhole(1120, 630, 900.0)
LENS = Camera("SIMPLE_RADIAL", 1120, 630, (900.0, 560.0, 315.0, -0.08))
SPOTS = np.array([[300.0, 200.0], [420.0, 260.0], [350.0, 310.0]])
NOWHERE = Pose(np.eye(3), np.zeros(3))


def marked(path: Path, camera: Camera, spots: Floats) -> Path:
    """A grey photo with a red disc at every spot."""
    x, y = np.meshgrid(np.arange(camera.width) + 0.5, np.arange(camera.height) + 0.5)
    pixels = np.full((camera.height, camera.width, 3), 90, np.uint8)
    for spot in spots:
        pixels[(x - spot[0]) ** 2 + (y - spot[1]) ** 2 < 36] = [255, 0, 0]
    Image.fromarray(pixels).save(path)
    return path


def cross_view(frames: list[int], views: list[int], ground: Floats, aerial: Floats) -> CrossView:
    agrees = np.arange(len(frames)) % 2 == 0
    return CrossView(np.array(frames), ground, np.array(views), aerial, np.ones(len(frames)), agrees)


def group(index: int, seen: CrossView | None, accepted: bool = True) -> LocalisedGroup:
    refusal = None if accepted else Refusal(Reason.NO_PLACE, "nowhere")
    return LocalisedGroup(AnchorGroup(index, (0, 1), (0,)), (), refusal, cross_view=seen)


def opened(uri: str) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(uri.split(",")[1]))).convert("RGB")).astype(int)


def is_red(picture: np.ndarray, x: float, y: float) -> bool:
    pixel = picture[int(y), int(x)]
    return bool(pixel[0] > 170 and pixel[1] < 90)


@pytest.mark.parametrize("camera", [STREET, LENS], ids=["pinhole", "radial"])
def test_lines_end_on_the_spots(tmp_path: Path, camera: Camera) -> None:
    flat = 1.5 * SPOTS
    bent = cameras.project(camera, cameras.unproject(cameras.undistorted(camera), flat))
    street = {"f0.png": marked(tmp_path / "f0.png", camera, bent)}
    view = View("a.png", marked(tmp_path / "a.png", AERIAL, SPOTS), AERIAL, NOWHERE)
    found = Anchors((group(0, cross_view([0] * 3, [0] * 3, flat, SPOTS)),), camera)
    (picture,) = match_pictures(found, (view,), StreetPhotos(("f0.png",), street, camera))
    below, above = opened(picture.street), opened(picture.aerial)
    assert below.shape[1] == above.shape[1] == WIDTH == picture.aerial_size[0]
    assert (above.shape[0], below.shape[0]) == (picture.aerial_size[1], picture.street_size[1])
    for line in picture.lines:
        assert is_red(below, line.street_x, line.street_y) and is_red(above, line.aerial_x, line.aerial_y)
    assert not is_red(above, 5, 5) and [line.agrees for line in picture.lines] == [True, False, True]


def test_a_part_at_the_photos_corner_stays_inside(tmp_path: Path) -> None:
    spots = np.array([[4.0, 596.0], [8.0, 590.0]])
    view = View("a.png", marked(tmp_path / "a.png", AERIAL, spots), AERIAL, NOWHERE)
    street = {"f0.png": marked(tmp_path / "f0.png", STREET, spots)}
    found = Anchors((group(0, cross_view([0, 0], [0, 0], spots, spots)),), STREET)
    (picture,) = match_pictures(found, (view,), StreetPhotos(("f0.png",), street, STREET))
    above = opened(picture.aerial)
    assert all(is_red(above, line.aerial_x, line.aerial_y) for line in picture.lines)


def test_every_group_has_its_first_picture_before_any_has_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("f0.png", "f1.png")
    street = {name: marked(tmp_path / name, STREET, SPOTS) for name in names}
    path = marked(tmp_path / "a.png", AERIAL, SPOTS)
    views = tuple(View(f"a{k}.png", path, AERIAL, NOWHERE) for k in range(2))
    two = cross_view([0, 1], [0, 1], SPOTS[:2], SPOTS[:2])
    groups = (group(0, two), group(1, None, accepted=False), group(2, two, accepted=False))
    assert [len(pairs_of(one)) for one in groups] == [2, 0, 2]
    photos = StreetPhotos(names, street, STREET)
    monkeypatch.setattr(module, "MOST_PICTURES", 3)
    chosen = match_pictures(Anchors(groups, STREET), views, photos)
    assert [(one.group, one.frame, one.accepted) for one in chosen] == [
        (0, "f0.png", True), (0, "f1.png", True), (2, "f0.png", False),
    ]  # fmt: skip
    gone = StreetPhotos(names, {"f1.png": street["f1.png"]}, STREET)
    assert {one.frame for one in match_pictures(Anchors(groups, STREET), views, gone)} == {"f1.png"}
