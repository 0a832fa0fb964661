"""Camera strings, EXIF and the guess."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from PIL import Image
from sequence_fixture import exif_of, write_photo

from skyanchor.errors import InputError
from skyanchor.geometry import cameras
from skyanchor.sequence.intrinsics import guessed_camera, parse_camera, read_exif
from skyanchor.types import Camera


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PINHOLE,900,910,640,360", Camera("PINHOLE", 1280, 720, (900, 910, 640, 360))),
        ("pinhole 900 910 640 360", Camera("PINHOLE", 1280, 720, (900, 910, 640, 360))),
        ("SIMPLE_RADIAL, 900, 640, 360, -0.05", Camera("SIMPLE_RADIAL", 1280, 720, (900, 640, 360, -0.05))),
        ("radial,900,640,360,-0.1,0.03", Camera("RADIAL", 1280, 720, (900, 640, 360, -0.1, 0.03))),
        ("f=900", Camera("PINHOLE", 1280, 720, (900, 900, 640, 360))),
        ("f=900,cx=650,cy=355", Camera("PINHOLE", 1280, 720, (900, 900, 650, 355))),
        ("PINHOLE,2560x1440,1800,1820,1280,720", Camera("PINHOLE", 1280, 720, (900, 910, 640, 360))),
    ],
)
def test_camera_strings(text: str, expected: Camera) -> None:
    assert parse_camera(text, 1280, 720) == expected


def test_field_of_view_in_degrees() -> None:
    camera = parse_camera("fov=90", 1280, 720)
    assert cameras.focal_px(camera) == pytest.approx(640.0)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "is empty"),
        ("PINHOLE,900", r"PINHOLE has 4 parameters \(fx, fy, cx, cy\), not 1"),
        ("FANCY,1,2,3", "unknown camera model FANCY"),
        ("EQUIRECTANGULAR,1,2", "unknown camera model"),
        ("PINHOLE,a,b,c,d", "could not convert"),
        ("PINHOLE,nan,900,640,360", "not finite"),
        ("PINHOLE,-5,900,640,360", "above zero"),
        ("f=0", "above zero"),
        ("cx=3", "no focal length"),
        ("g=3", "unknown g"),
        ("PINHOLE,1920x1200,900,900,960,600", "another aspect"),
        ("PINHOLE,ax9,900,900,960,600", "is no size"),
    ],
)
def test_bad_camera_strings(text: str, match: str) -> None:
    with pytest.raises(InputError, match=match) as caught:
        parse_camera(text, 1280, 720)
    assert str(caught.value).startswith(f"camera '{text}'") and "Expected e.g. PINHOLE" in str(caught.value)


def test_exif_equivalent_focal_length(tmp_path: Path) -> None:
    write_photo(tmp_path / "a.jpg", (1200, 800), exif_of("Maker", "Phone", focal_mm=4.2, focal_35mm=28))
    exif = read_exif(tmp_path / "a.jpg")
    assert exif.focal_px == pytest.approx(28 / math.hypot(36, 24) * math.hypot(1200, 800))
    assert exif.focal_px == pytest.approx(28 / 36 * 1200, rel=1e-9)  # 3:2 is the film's own shape
    assert (exif.make_model, exif.focal_mm, exif.orientation) == ("Maker Phone", 4.2, 1)


@pytest.mark.parametrize("place", [(47.123456, 8.654321, 430.5), (-33.9, -70.6, -12.0)])
def test_exif_gps(tmp_path: Path, place: tuple[float, float, float]) -> None:
    write_photo(tmp_path / "a.jpg", exif=exif_of(gps=place))
    found = read_exif(tmp_path / "a.jpg").gps
    assert found is not None and found == pytest.approx(place, abs=1e-6)


def test_photo_without_exif_says_nothing(tmp_path: Path) -> None:
    write_photo(tmp_path / "a.jpg")
    exif = read_exif(tmp_path / "a.jpg")
    assert (exif.make_model, exif.focal_px, exif.gps, exif.orientation) == ("", None, None, 1)
    (tmp_path / "b.jpg").write_bytes(b"rubbish")
    assert read_exif(tmp_path / "b.jpg").focal_px is None


def test_nonsense_in_exif_is_ignored(tmp_path: Path) -> None:
    exif = exif_of(focal_35mm=0, gps=(0.0, 0.0, 0.0))
    Image.new("RGB", (60, 40)).save(tmp_path / "a.jpg", exif=exif)
    found = read_exif(tmp_path / "a.jpg")
    assert found.focal_px is None and found.gps is None


def test_guess_follows_the_longer_side() -> None:
    assert guessed_camera(1280, 720).params[0] == guessed_camera(720, 1280).params[0] == pytest.approx(998.4)
