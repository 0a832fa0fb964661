"""Bad input gets one line that names the file and says what to do; never an abort, never garbage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from survey_fixture import make_survey, write_survey

from skyanchor.errors import InputError
from skyanchor.scaffold import colmap_files, load_scaffold
from skyanchor.scaffold.colmap_model import ColmapModel


def refused(path: Path, match: str, **arguments: Path) -> str:
    """The one line of the refusal."""
    with pytest.raises(InputError, match=match) as caught:
        load_scaffold(path, **arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def survey(tmp_path: Path) -> Path:
    return write_survey(tmp_path, make_survey(stations=2))


def test_places_without_a_model(tmp_path: Path) -> None:
    refused(tmp_path / "none", "none: does not exist")
    refused(tmp_path, "holds no COLMAP model")
    (tmp_path / "file").write_text("x")
    refused(tmp_path / "file", "is not a folder")


@pytest.mark.parametrize("name", colmap_files.FILES)
def test_missing_file(survey: Path, name: str) -> None:
    (survey / "sparse" / f"{name}.bin").unlink()
    refused(survey, rf"{name}\.bin: is missing beside")


@pytest.mark.parametrize("name", colmap_files.FILES)
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_truncated_binary_file(survey: Path, name: str, share: float) -> None:
    path = survey / "sparse" / f"{name}.bin"
    data = path.read_bytes()
    path.write_bytes(data[: min(int(len(data) * share), len(data) - 1)])
    refused(survey, rf"{name}\.bin: is truncated: it ends inside")


@pytest.mark.parametrize("name", colmap_files.FILES)
def test_unreadable_file(survey: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    readable = Path.read_bytes

    def read(path: Path) -> bytes:
        if path.stem == name:
            raise PermissionError(13, "Permission denied")
        return readable(path)

    monkeypatch.setattr(Path, "read_bytes", read)
    refused(survey, rf"{name}\.bin: cannot be read \(Permission denied\)")


@pytest.mark.parametrize("name", colmap_files.FILES)
def test_binary_file_with_rubbish_behind(survey: Path, name: str) -> None:
    path = survey / "sparse" / f"{name}.bin"
    path.write_bytes(path.read_bytes() + b"more")
    refused(survey, rf"{name}\.bin: has 4 bytes more")


@pytest.mark.parametrize("name", colmap_files.FILES)
def test_file_of_random_bytes(survey: Path, name: str) -> None:
    path = survey / "sparse" / f"{name}.bin"
    for seed in range(20):
        path.write_bytes(np.random.default_rng(seed).bytes(500))
        refused(survey, rf"{name}\.bin: ")


def edit_text(survey: Path, name: str, edit: Callable[[list[str]], list[str]]) -> None:
    path = survey / "sparse" / f"{name}.txt"
    path.write_text("\n".join(edit(path.read_text().split("\n"))))


@pytest.mark.parametrize(
    ("name", "edit", "match"),
    [
        ("cameras", lambda lines: [*lines[:-2], "1 PINHOLE 64"], r"cameras\.txt: line \d+ is no camera"),
        ("cameras", lambda lines: [*lines, "9 FANCY 64 48 1 2 3"], "camera 9 has the unknown camera model FANCY"),
        ("cameras", lambda lines: [*lines, "9 PINHOLE 64 48 1 2 3"], "PINHOLE needs 4 finite numbers"),
        ("cameras", lambda lines: [*lines, "9 PINHOLE 64 0 1 2 3 4"], "PINHOLE needs 4 finite numbers"),
        ("images", lambda lines: [*lines[:-3], "1 0.5 0.5 zero"], r"images\.txt: line \d+ is no image"),
        ("images", lambda lines: lines[:5] + lines[6:], r"images\.txt: line \d+ is no image"),
        ("points3D", lambda lines: [*lines[:-2], "5 1.0 2.0"], r"points3D\.txt: line \d+ is no point"),
        ("points3D", lambda lines: [*lines[:-2], "5 1 2 3 9 9 9 0.5 3"], r"points3D\.txt: line \d+ is no point"),
    ],
)
def test_broken_text_file(tmp_path: Path, name: str, edit: Callable[[list[str]], list[str]], match: str) -> None:
    survey = write_survey(tmp_path, make_survey(stations=2), text=True)
    edit_text(survey, name, edit)
    refused(survey, match)


def test_binary_named_text(survey: Path) -> None:
    for name in colmap_files.FILES:
        path = survey / "sparse" / f"{name}.bin"
        path.write_bytes(b"\xff\xfe\x80" + path.read_bytes())
        path.rename(path.with_suffix(".txt"))
    refused(survey, r"cameras\.txt: is not a text file")


def rewrite(survey: Path, change: Callable[[ColmapModel], ColmapModel]) -> None:
    folder = survey / "sparse"
    colmap_files.write_model(folder, change(colmap_files.read_model(folder)))


def with_image(model: ColmapModel, **fields: object) -> ColmapModel:
    return replace(model, images=(*model.images[:-1], replace(model.images[-1], **fields)))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda m: replace(m, images=()), "images.bin: holds no image: the model is empty"),
        (
            lambda m: with_image(m, translation=np.array([0, np.nan, 0])),
            r"image s3_l\.jpg has a pose that is not a num",
        ),
        (lambda m: with_image(m, quaternion=np.zeros(4)), r"image s3_l\.jpg has a pose that is not a number"),
        (lambda m: with_image(m, quaternion=np.array([np.inf, 0, 0, 1])), "pose that is not a number"),
        (lambda m: with_image(m, camera_id=99), r"image s3_l\.jpg has camera 99, which is missing"),
        (lambda m: with_image(m, name="s0_n.jpg"), r"image s0_n\.jpg is there twice"),
        (lambda m: with_image(m, name="../s3_l.jpg"), r"image '\.\./s3_l\.jpg' has a name that leads out of"),
        (lambda m: with_image(m, name="a/../../s3_l.jpg"), "leads out of the image folder"),
        (lambda m: with_image(m, name="/etc/passwd.jpg"), "leads out of the image folder"),
        (lambda m: with_image(m, name="C:\\s3_l.jpg"), "leads out of the image folder"),
        (lambda m: with_image(m, name="..\\s3_l.jpg"), "leads out of the image folder"),
        (lambda m: with_image(m, name=""), "leads out of the image folder"),
    ],
)
def test_models_that_say_nonsense(survey: Path, change: Callable[[ColmapModel], ColmapModel], match: str) -> None:
    rewrite(survey, change)
    refused(survey, match)


@pytest.mark.parametrize("model", [17, 99, -1])
def test_unknown_camera_model_number(survey: Path, model: int) -> None:
    path = survey / "sparse" / "cameras.bin"
    data = bytearray(path.read_bytes())
    data[12:16] = model.to_bytes(4, "little", signed=True)
    path.write_bytes(data)
    refused(survey, r"cameras\.bin: camera 7 has the unknown camera model .* Undistort the model to PINHOLE")


# --- photos -----------------------------------------------------------------------------------------------------


def test_missing_photos(survey: Path) -> None:
    (survey / "images" / "s1_n.jpg").unlink()
    refused(survey, r"s1_n\.jpg: is missing, one of the model's 12 photos.*--images")
    refused(survey, "is not a folder", images=survey / "nowhere")


def test_photo_cut_off(survey: Path) -> None:
    path = survey / "images" / "s1_n.jpg"
    path.write_bytes(path.read_bytes()[:-200])
    refused(survey, r"s1_n\.jpg: is cut off before its end")


@pytest.mark.parametrize("data", [b"", b"not an image", b"\xff\xd8\xff"])
def test_photo_that_is_none(survey: Path, data: bytes) -> None:
    (survey / "images" / "s1_n.jpg").write_bytes(data)
    refused(survey, r"s1_n\.jpg: cannot be read as an image")


def test_photo_of_another_size(survey: Path) -> None:
    cv2.imwrite(str(survey / "images" / "s1_n.jpg"), np.zeros((24, 32, 3), np.uint8))
    refused(survey, r"s1_n\.jpg: is 32x24 but its camera says 64x48")


def test_mask_of_another_size(survey: Path) -> None:
    (survey / "masks").mkdir()
    cv2.imwrite(str(survey / "masks" / "s1_n.jpg.png"), np.zeros((24, 32), np.uint8))
    refused(survey, r"masks.s1_n\.jpg\.png: is 32x24")


# --- splats -----------------------------------------------------------------------------------------------------


def header(properties: list[str]) -> bytes:
    lines = ["ply", "format binary_little_endian 1.0", "element vertex 0"]
    return "\n".join([*lines, *(f"property float {p}" for p in properties), "end_header\n"]).encode()


GAUSSIAN = ["x", "y", "z", "f_dc_0", "f_dc_1", "f_dc_2", "opacity", "scale_0", "scale_1", "scale_2"]
GAUSSIAN += ["rot_0", "rot_1", "rot_2", "rot_3"]


def test_splats_are_found_and_checked_by_their_header(survey: Path) -> None:
    assert load_scaffold(survey).splats_path is None
    for iteration in (7000, 30000):
        path = survey / "point_cloud" / f"iteration_{iteration}" / "point_cloud.ply"
        path.parent.mkdir(parents=True)
        path.write_bytes(header(GAUSSIAN))
    assert load_scaffold(survey).splats_path == path
    (survey / "splats.ply").write_bytes(header(GAUSSIAN))
    assert load_scaffold(survey).splats_path == survey / "splats.ply"


def test_splats_that_hold_mlp_anchors(survey: Path) -> None:
    path = survey / "anchors.ply"
    path.write_bytes(header([*GAUSSIAN, "f_offset_0", "f_anchor_feat_0"]))
    refused(survey, r"anchors\.ply: holds anchors of a Scaffold-GS.*Export explicit", splats=path)


def test_splats_that_are_a_mesh_or_missing(survey: Path) -> None:
    path = survey / "mesh.ply"
    path.write_bytes(header(["x", "y", "z"]))
    refused(survey, r"mesh\.ply: has no Gaussians", splats=path)
    path.write_bytes(b"solid")
    refused(survey, r"mesh\.ply: is not a \.ply", splats=path)
    refused(survey, r"none\.ply: does not exist", splats=survey / "none.ply")
