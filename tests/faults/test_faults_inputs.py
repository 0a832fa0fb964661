"""What people bring and what is wrong with it: one line that names it, before any work begins."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from PIL import Image
from sequence_fixture import exif_of, write_photo, write_walk
from survey_fixture import PINHOLE, make_survey, write_survey

from skyanchor import photos, reading
from skyanchor.anchors.area_file import read_area
from skyanchor.errors import InputError
from skyanchor.events import Note
from skyanchor.gaussians import ply
from skyanchor.gaussians.splats import Splats
from skyanchor.geometry import cameras
from skyanchor.matching.features import FeatureCache, Features
from skyanchor.presets import SETTINGS_FILE, read_settings
from skyanchor.run import memory, records, timing
from skyanchor.run.inputs import COMMANDS_FILE, remembered_commands
from skyanchor.run.layout import STATE
from skyanchor.run.results import Run
from skyanchor.scaffold import (
    OrientationConfig,
    ScaffoldConfig,
    colmap_files,
    georeference,
    load_scaffold,
    warnings_of,
)
from skyanchor.scaffold import describe as describe_model
from skyanchor.scaffold.colmap_model import ColmapModel, camera_of
from skyanchor.scaffold.colmap_text import read_cameras_txt
from skyanchor.sequence.copies import Copies
from skyanchor.sequence.depth_files import read_depth
from skyanchor.sequence.intrinsics import parse_camera, read_exif
from skyanchor.sequence.loading import SequenceConfig, load_sequence, street_camera
from skyanchor.sequence.summary import camera_warnings, describe, told
from skyanchor.sequence.upright import write_upright
from skyanchor.sequence.video import INDEX, _extracted
from skyanchor.stages.scaffold import refuse_lonely
from skyanchor.stereo import CompletionConfig, ConsistencyConfig, complete, estimate_depth, make_consistent
from skyanchor.stereo.storage import load_depth, save_depth
from skyanchor.storage.digest_cache import DigestCache
from skyanchor.types import Camera, Photo


def refused(work: Callable[[], object], said: str) -> None:
    """The work ends in one line that says so."""
    with pytest.raises(InputError, match=said) as caught:
        work()
    assert "\n" not in str(caught.value)


# --- the aerial model -----------------------------------------------------------------------------------------------


def _written(folder: Path, changed: Callable[[ColmapModel], ColmapModel]) -> Path:
    survey = make_survey(stations=2)
    return write_survey(folder, replace(survey, model=changed(survey.model)))


@pytest.mark.parametrize("focal", [0.0, -55.0, 1e-9, 1e300, 5.0, 1e5])
@pytest.mark.parametrize("suffix", [".bin", ".txt"])
def test_a_focal_length_that_no_lens_has(focal: float, suffix: str, tmp_path: Path) -> None:
    root = _written(tmp_path, lambda model: replace(model, cameras={7: replace(PINHOLE, params=(focal, 55.0, 32, 24))}))
    folder = colmap_files.find_model(root)
    if suffix == ".txt":
        (folder / "cameras.txt").write_text(f"7 PINHOLE 64 48 {focal} 55 32 24\n")
        refused(lambda: read_cameras_txt(folder / "cameras.txt"), "focal length that a lens can have")
    else:
        refused(lambda: load_scaffold(root), "parameters that cannot be")


@pytest.mark.parametrize("orientation", [OrientationConfig(up=(0.0, 0.0, -1.0)), OrientationConfig(ground_height=5e3)])
def test_a_flight_below_the_ground(orientation: OrientationConfig, tmp_path: Path) -> None:
    root = write_survey(tmp_path, make_survey(stations=2))
    refused(lambda: load_scaffold(root, None, None, ScaffoldConfig(orientation)), "all its photos below the ground")


def test_a_lens_that_exists_is_read() -> None:
    for focal in (6.4, 55.0, 6000.0):
        assert camera_of(Path("c"), 1, "PINHOLE", 64, 48, np.array([focal, focal, 32, 24]))
    fisheye = np.array([18.0, 18.0, 32, 24, 0.1, 0.01, 0.0, 0.0])
    assert camera_of(Path("c"), 1, "OPENCV_FISHEYE", 64, 48, fisheye)


def test_ids_that_are_there_twice(tmp_path: Path) -> None:
    def same_image(model: ColmapModel) -> ColmapModel:
        first, second, *rest = model.images
        return replace(model, images=(first, replace(second, image_id=first.image_id), *rest))

    def same_point(model: ColmapModel) -> ColmapModel:
        ids = model.points.ids.copy()
        ids[1] = ids[0]
        return replace(model, points=replace(model.points, ids=ids))

    refused(lambda: load_scaffold(_written(tmp_path / "a", same_image)), "image id twice")
    refused(lambda: load_scaffold(_written(tmp_path / "b", same_point)), "point id twice")
    path = tmp_path / "cameras.txt"
    path.write_text("1 PINHOLE 64 48 55 55 32 24\n1 PINHOLE 64 48 60 60 32 24\n")
    refused(lambda: read_cameras_txt(path), "camera 1 twice")


def test_a_name_that_is_too_long(tmp_path: Path) -> None:
    def long_name(model: ColmapModel) -> ColmapModel:
        first, *rest = model.images
        return replace(model, images=(replace(first, name="9" * 5000 + ".jpg"), *rest))

    survey = make_survey(stations=2)
    root = write_survey(tmp_path, survey)
    colmap_files.write_model(colmap_files.find_model(root), long_name(survey.model))
    refused(lambda: load_scaffold(root), "name of 5004 bytes")
    street = tmp_path / "street"
    street.mkdir()
    for k in range(6):
        cv2.imwrite(str(street / f"{'a' * 230}{k}.png"), np.zeros((48, 64, 3), np.uint8))
    refused(lambda: load_sequence(street, SequenceConfig(camera="f=60")), "name of 235 bytes")


def test_natural_order_of_any_number() -> None:
    names = ["a" + "9" * 5000, "a10", "a9", "a010", "b1", "a1" + "0" * 5000]
    assert sorted(names, key=photos.natural_key) == ["a9", "a010", "a10", names[0], names[5], "b1"]


# --- photos ---------------------------------------------------------------------------------------------------------


def test_the_largest_photo_is_a_matter_of_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "large.png"
    Image.new("L", (400, 300)).save(path)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    assert photos.photo_size(path) == (400, 300)  # Pillow alone would take it for a bomb
    assert Image.MAX_IMAGE_PIXELS == 1000
    monkeypatch.setattr(photos, "memory", lambda: 5_000_000)
    refused(lambda: photos.photo_size(path), "0 megapixels, and this machine can read 0")
    monkeypatch.setattr(photos, "memory", lambda: 6_000_000)
    assert photos.photo_size(path) == (400, 300)


def test_a_file_that_is_too_small_for_what_it_says(tmp_path: Path) -> None:
    path = tmp_path / "bomb.png"
    Image.new("L", (64, 48)).save(path)
    data = bytearray(path.read_bytes())
    data[16:24] = (20000).to_bytes(4, "big") * 2
    data[29:33] = zlib.crc32(data[12:29]).to_bytes(4, "big")
    path.write_bytes(data)
    refused(lambda: photos.photo_size(path), "says that it is 20000x20000, and has")


def test_large_photos_are_undistorted_in_bands() -> None:
    camera = Camera("OPENCV", 97, 2 * cameras.BAND + 5, (80.0, 81.0, 48.0, 60.0, -0.1, 0.02, 0.001, 0.0))
    x, y = cameras._undistortion_map(camera)
    target = cameras.undistorted(camera)
    pixels = np.stack(np.meshgrid(np.arange(target.width) + 0.5, np.arange(target.height) + 0.5), axis=-1)
    at_once = cameras.project(camera, cameras.unproject(target, pixels.reshape(-1, 2))) - 0.5
    assert np.array_equal(np.stack([x, y], axis=-1).reshape(-1, 2), at_once.astype(np.float32))


def test_odd_exif_is_no_exif(tmp_path: Path) -> None:
    path, exif = tmp_path / "odd.jpg", Image.Exif()
    exif[271], exif[274] = "Ma\0ker\n" + "x" * 500, 77
    exif.get_ifd(0x8769).update({37386: 1e30, 41989: 0, 41486: 1e-30, 36867: "no time"})
    exif.get_ifd(0x8825).update({1: "N", 2: (500.0, 0.0, 0.0), 3: "E", 4: (11.0, 0.0, 0.0)})
    Image.new("RGB", (64, 48)).save(path, exif=exif)
    found = read_exif(path)
    assert (found.focal_px, found.gps, found.orientation, found.taken) == (None, None, 1, "")
    assert len(found.make_model) <= 80 and found.make_model.isprintable()
    write_upright(tmp_path, [path], Copies(tmp_path / "upright"))
    path.write_bytes(path.read_bytes()[:300])
    refused(lambda: write_upright(tmp_path, [path], Copies(tmp_path / "upright")), "odd.jpg: ")


def test_photos_of_16_bits_are_turned_as_bright_as_they_are(tmp_path: Path) -> None:
    grey = np.random.default_rng(0).integers(0, 1 << 16, (40, 60), dtype=np.uint16)
    path = tmp_path / "deep.png"
    Image.fromarray(grey).save(path, exif=exif_of(orientation=6))
    copy = cv2.imread(str(write_upright(tmp_path, [path], Copies(tmp_path / "run"))[0]), cv2.IMREAD_GRAYSCALE)
    assert copy is not None and copy.shape == (60, 40)
    assert np.mean(np.abs(copy - np.rot90(grey // 256, -1).astype(np.float64))) < 8.0


def test_photos_turned_in_part_are_named_before_a_copy_is_made(tmp_path: Path) -> None:
    walk = write_walk(tmp_path / "walk", 7)
    write_photo(walk / "frame3.jpg", exif=exif_of(orientation=6))
    for work in (lambda: describe(walk), lambda: load_sequence(walk, None, tmp_path / "frames")):
        with pytest.raises(InputError, match=r"walk/frame3.jpg: is 54x96, but 6 photos like frame1.jpg are 96x54"):
            work()
    assert not (tmp_path / "frames").exists()


def test_a_photo_that_only_another_reader_can_read_is_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "height.tif"
    Image.fromarray(np.ones((40, 60), np.float32)).save(path)
    with pytest.raises(InputError, match=r"height.tif: cannot be read as an image"):
        photos.photo_size(path)


REAL = (
    ("OPENCV", (500, 500, 320, 240, -0.3, 0.15, 0.001, 0.001)),
    ("FULL_OPENCV", (460, 460, 320, 240, 8.0, 5.0, 0, 0, 1.0, 8.3, 8.0, 2.0)),
    ("OPENCV_FISHEYE", (182, 182, 320, 240, 0.1, -0.03, 0.01, -0.002)),
    ("SIMPLE_FISHEYE", (180, 320, 240)),
    ("FOV", (300, 300, 320, 240, 0.9)),
    ("FOV", (460, 460, 320, 240, 0)),
    ("DIVISION", (460, 460, 320, 240, -0.2)),
    ("PINHOLE", (460, 460, -320, 240)),
)
NONE_SUCH = (
    ("PINHOLE", (460, 460, 9000, 240)),
    ("PINHOLE", (460, 460, 320, -900)),
    ("SIMPLE_RADIAL", (460, 320, 240, 1e6)),
    ("OPENCV", (460, 460, 320, 240, 1e3, 0, 0, 0)),
    ("OPENCV", (460, 460, 320, 240, -5.0, 0, 0, 0)),
    ("OPENCV", (460, 460, 320, 240, 0, 0, 9.0, 9.0)),
    ("OPENCV_FISHEYE", (460, 460, 320, 240, 900.0, 0, 0, 0)),
    ("FOV", (460, 460, 320, 240, 5.0)),
    ("DIVISION", (460, 460, 320, 240, -90.0)),
    ("EUCM", (460, 460, 320, 240, -4.0, -3.0)),
)


@pytest.mark.parametrize(("model", "params"), [*REAL, *NONE_SUCH])
def test_a_lens_that_bends_as_none_does(model: str, params: tuple[float, ...]) -> None:
    text = ",".join([model, *map(str, params)])
    reads = (
        lambda: parse_camera(text, 640, 480),
        lambda: camera_of(Path("cameras.bin"), 1, model, 640, 480, np.array(params)),
    )
    for read in reads:
        if (model, params) in REAL:
            assert read().params == params
        else:
            refused(read, "no lens has such|parameters that cannot be")


@pytest.mark.parametrize("text", ["f=60,f=70", "f=60,fov=70", "cx=3,f=60,cx=4", "F=60,f=60"])
def test_a_camera_that_says_two_things(text: str) -> None:
    refused(lambda: parse_camera(text, 640, 480), "twice|both")


@pytest.mark.parametrize("text", ["f=1e-9", "f=1e300", "f=-5", "f=0", "PINHOLE,900,900,1e300,5", "f=60,cx=1e12"])
def test_a_camera_that_cannot_be(text: str) -> None:
    refused(lambda: parse_camera(text, 640, 480), "camera '")


def test_a_size_of_many_digits() -> None:
    refused(lambda: parse_camera(f"PINHOLE,{'9' * 5000}x480,900,900,320,240", 640, 480), "is no size")


def test_a_model_in_other_units(tmp_path: Path) -> None:
    survey = make_survey(stations=2)
    points, images = survey.model.points, survey.model.images
    for k, scale in enumerate((1e-3, 1e4)):
        scaled = replace(
            survey.model,
            images=tuple(replace(image, translation=image.translation * scale) for image in images),
            points=replace(points, xyz=points.xyz * scale),
        )
        root = write_survey(tmp_path / str(k), replace(survey, model=scaled))
        refused(lambda root=root: load_scaffold(root), "m above the ground: its units are not metres")  # type: ignore[misc]


def test_a_run_says_what_looks_wrong_in_its_model(tmp_path: Path) -> None:
    held = load_scaffold(write_survey(tmp_path, make_survey(stations=2)))
    low = replace(held, ground=replace(held.ground, offset=held.ground.offset + 37.0))
    said: list[Note] = []
    reading.tell_of_model(low, said.append)  # type: ignore[arg-type]
    assert warnings_of(low) == describe_model(low).warnings
    assert [note.text for note in said if note.warning] == list(warnings_of(low))
    assert any("is the model metric" in note.text for note in said)


@pytest.mark.parametrize(
    ("rename", "advice"),
    [
        (lambda path: path.with_name(path.name.upper()), "is there: photos must have the names"),
        (lambda path: path.with_suffix(".tif"), "is there: photos must have the names"),
        (lambda path: path.parent / "flight" / path.name, "flight: photos|give --images .*/images/flight"),
        (lambda path: path.with_name(f"DJI_{path.name}"), "Give the folder with --images"),
    ],
)
def test_photos_by_other_names_are_named(rename: Callable[[Path], Path], advice: str, tmp_path: Path) -> None:
    root = write_survey(tmp_path, make_survey(stations=2))
    for path in list((root / "images").iterdir()):
        rename(path).parent.mkdir(exist_ok=True)
        path.rename(rename(path))
    with pytest.raises(InputError, match=advice):
        load_scaffold(root)


def test_photos_that_are_there_in_part(tmp_path: Path) -> None:
    root = write_survey(tmp_path, make_survey(stations=2))
    (root / "images/s0_n.jpg").unlink()
    with pytest.raises(InputError, match="take them out of the model"):
        load_scaffold(root)


@pytest.mark.parametrize(
    ("signs", "kind"),
    [
        ((".state/inputs.json",), "is a run folder"),
        (("aerial.json", "model/images.bin"), "is a prepared scaffold"),
        (("tiles.json",), "is a folder of tiles"),
    ],
)
def test_a_folder_of_ours_where_a_model_or_a_walk_was_to_be(signs: tuple[str, ...], kind: str, tmp_path: Path) -> None:
    for name in signs:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
    for work in (lambda: load_scaffold(tmp_path), lambda: describe(tmp_path), lambda: load_sequence(tmp_path)):
        refused(work, kind)


# --- walks that are none --------------------------------------------------------------------------------------------


def both(walk: Path, config: SequenceConfig | None = None) -> tuple[Callable[[], object], ...]:
    """What looks at a walk: the check before a run, and the run."""
    return lambda: describe(walk, config), lambda: load_sequence(walk, config, walk.parent / "frames")


def test_photos_of_a_kind_that_is_not_read_are_not_passed_over(tmp_path: Path) -> None:
    walk = write_walk(tmp_path / "walk", 8)
    for k in range(8):
        (walk / f"frame{k + 1}.DNG").write_bytes(b"raw")
    assert describe(walk).frames == 8, "a camera writes both of each"
    (walk / "Frame3.JPG").unlink(missing_ok=True)
    (walk / "frame3.jpg").rename(walk / "frame3.HEIC")
    for work in both(walk):
        refused(work, "holds 2 photos of a kind that is not read, frame3.(DNG|HEIC) first")
    for path in walk.glob("*.jpg"):
        path.unlink()
    refused(lambda: describe(walk), "of a kind that is not read")
    for path in walk.iterdir():
        path.unlink()
    (walk / "walk.MOV").write_bytes(b"video")
    refused(lambda: describe(walk), "holds no photos")
    with pytest.raises(InputError, match=r"Give one of its videos, e.g. .*walk.MOV"):
        describe(walk)


def test_one_photo_is_no_video(tmp_path: Path) -> None:
    walk = write_walk(tmp_path / "walk", 7)
    for work in (*both(walk / "frame1.jpg"), lambda: street_camera(walk / "frame1.jpg", SequenceConfig())):
        refused(work, "is one photo")
    assert not (tmp_path / "frames").exists()


def test_photos_of_one_colour_and_copies(tmp_path: Path) -> None:
    walk = write_walk(tmp_path / "walk", 8)
    Image.new("RGB", (96, 54)).save(walk / "frame2.jpg")
    (walk / "frame9.jpg").write_bytes((walk / "frame3.jpg").read_bytes())
    warnings = describe(walk).warnings
    assert any("1 of 9 photos that were looked at are of one colour" in text for text in warnings)
    assert any("another one holds can be taken out: frame9.jpg" in text for text in warnings)
    assert set(told(load_sequence(walk))) >= {text for text in warnings if "one colour" in text or "another" in text}
    for path in walk.iterdir():
        path.write_bytes((walk / "frame3.jpg").read_bytes())
    refused(lambda: describe(walk), "holds one photo, and copies of it")
    for k, path in enumerate(sorted(walk.iterdir())):
        Image.new("RGB", (96, 54), (k, k, k)).save(path)
    refused(lambda: describe(walk), "shows nothing")
    refused(lambda: told(load_sequence(walk)), "shows nothing")


def test_a_camera_that_cannot_be_is_told_before_photos_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    walk = write_walk(tmp_path / "walk", 7, exif=exif_of(orientation=6))
    video = tmp_path / "walk.avi"
    writer = cv2.VideoWriter(str(video), cv2.VideoWriter_fourcc(*"MJPG"), 30.0, (96, 54))
    writer.write(np.zeros((54, 96, 3), np.uint8))
    writer.release()

    def looked(*_: object) -> None:
        raise AssertionError("it looks at them first")

    monkeypatch.setattr("skyanchor.sequence.summary._sharpness", looked)
    monkeypatch.setattr("skyanchor.sequence.video.survey_video", looked)
    monkeypatch.setattr("skyanchor.sequence.upright.write_upright", looked)
    for path in (walk, video):
        for work in both(path, SequenceConfig(camera="banana")):
            refused(work, "unknown camera model BANANA")


def test_numbers_of_a_camera_in_another_order_are_told() -> None:
    swapped, right = parse_camera("OPENCV,160,90,230,230,0,0,0,0", 320, 180), parse_camera("f=230", 320, 180)
    warnings = camera_warnings(swapped, 0.0)
    assert any("outside the picture" in text for text in warnings) and any("not square" in text for text in warnings)
    assert not any("outside" in text or "square" in text for text in camera_warnings(right, 0.0))


# --- few photos -----------------------------------------------------------------------------------------------------


def test_too_few_photos_are_told_before_depth_is_measured(tmp_path: Path) -> None:
    held = load_scaffold(write_survey(tmp_path, make_survey(stations=2)))
    apart = tuple(np.zeros(k, np.int64) for k in (0, 1, 1))
    refused(lambda: refuse_lonely(held, apart, 3), "has 3 photos, none of which overlaps with 2 others")
    elsewhere = (*apart, np.zeros(2, np.int64))
    refuse_lonely(held, elsewhere, 3)
    one_spot = replace(
        held, views=tuple(replace(view, cam_from_world=held.views[0].cam_from_world) for view in held.views)
    )
    refused(lambda: refuse_lonely(one_spot, elsewhere, 3), "2 others taken elsewhere")


def test_a_photo_that_no_other_overlaps_has_no_depth(tmp_path: Path) -> None:
    held = load_scaffold(write_survey(tmp_path, make_survey(stations=2)))
    view = held.views[0]
    lonely = estimate_depth(view, [], held.points[:0], photos.PhotoCache())
    assert not lonely.depth.any() and lonely.depth.shape == (48, 64)
    pixels = photos.read_pixels(view.path)
    agreed = complete(make_consistent(lonely, [], ConsistencyConfig()), lonely, pixels, held.ground, CompletionConfig())
    save_depth(tmp_path / "d.npz", agreed)
    assert not load_depth(tmp_path / "d.npz").confidence.any()


# --- splats ---------------------------------------------------------------------------------------------------------


def _splats(count: int = 5) -> Splats:
    shapes = ((count, 3), (count, 4), (count, 3), (count,), (count, 1, 3))
    return Splats(*(np.ones(shape, np.float32) for shape in shapes), owner=np.zeros(count, np.int32))


def test_a_property_twice_and_a_count_beyond_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.ply"
    ply.write_ply(path, _splats())
    good = path.read_bytes()
    path.write_bytes(good.replace(b"property float y", b"property float x", 1))
    refused(lambda: ply.read_splats(path), "property x twice")
    path.write_bytes(good.replace(b"element vertex 5", b"element vertex 99999999999999999999", 1))
    refused(lambda: ply.read_splats(path), "announces 99999999999999999999")
    refused(lambda: ply.check_splats(path), "announces 99999999999999999999")


@pytest.mark.parametrize(
    ("part", "shape"),
    [("means", (5, 2)), ("quats", (4, 4)), ("scales", (5,)), ("opacities", (5, 2)), ("shN", (5, 2, 3)), ("means", ())],
)
def test_a_checkpoint_of_other_shapes(part: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    shapes = {"means": (5, 3), "quats": (5, 4), "scales": (5, 3), "opacities": (5,), "sh0": (5, 1, 3), "shN": (5, 3, 3)}
    path = tmp_path / "a.pt"
    torch.save({"splats": {name: torch.ones(size) for name, size in shapes.items()}}, path)
    assert len(ply.read_splats(path)) == 5
    torch.save({"splats": {name: torch.ones(size) for name, size in (shapes | {part: shape}).items()}}, path)
    refused(lambda: ply.read_splats(path), "is no(t a gsplat)? checkpoint")


# --- JSON and arrays ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "said",
    [
        {"enu_origin": [500.0, 11.0, 0.0]},
        {"enu_origin": [48.0, 1100.0, 0.0]},
        {"enu_origin": [48.0, 11.0, 1e9]},
        {"enu_origin": ["nan", 11.0, 0.0]},
        {"offset": [1e300, 0, 0]},
        {"up": [0, 0, 0]},
        {"up": [1e-300, 0, 0]},
        {"offset": [[1, 2], 3, 4]},
    ],
)
def test_a_georeference_that_lies_nowhere(said: dict[str, object], tmp_path: Path) -> None:
    path = tmp_path / "georef.json"
    path.write_text(json.dumps(said))
    refused(lambda: georeference.read_georef(path), "cannot be understood")


@pytest.mark.parametrize(
    "coordinates",
    [[], [[]], [[[0, 0]]], [[[0, 0], [1e300, 0], [1, 1]]], [[[0, 0], [None, 1], [1, 1]]], "x", [[["a", "b"]]], None],
)
def test_a_polygon_that_encloses_nothing(coordinates: object, tmp_path: Path) -> None:
    path = tmp_path / "area.geojson"
    path.write_text(json.dumps({"type": "Polygon", "coordinates": coordinates}))
    refused(lambda: read_area(path), "area.geojson: ")


@pytest.mark.parametrize("read", [georeference.read_georef, read_area])
def test_deeply_nested_json(read: Callable[[Path], object], tmp_path: Path) -> None:
    path = tmp_path / "deep.json"
    path.write_text('{"type": ' + "[" * 100_000)
    refused(lambda: read(path), "nested too deeply")
    path.write_bytes(b'{"type": "\xff\xfe"}')
    refused(lambda: read(path), "is no text in UTF-8")


@pytest.mark.parametrize("text", ["", "[", "null", "[1, 2]", '{"a": 1}', '{"a": [1, 2, 3]}', "[" * 100_000, "\0"])
def test_broken_memories_are_made_again(text: str, tmp_path: Path) -> None:
    for name in ("digests.json", timing.TIMINGS, memory.MEMORY, INDEX):
        (tmp_path / name).write_text(text)
    photo = tmp_path / "a.jpg"
    photo.write_bytes(b"x")
    fresh = DigestCache(tmp_path / "none.json").digest({"a": photo})
    assert DigestCache(tmp_path / "digests.json").digest({"a": photo}) == fresh
    assert timing.timings(tmp_path) in ({}, {"a": 1.0}) and memory.peaks(tmp_path) == {}
    assert _extracted(tmp_path, {"video": "a.mp4"}) is None
    state = tmp_path / STATE
    state.mkdir()
    for name in (COMMANDS_FILE, SETTINGS_FILE):
        (state / name).write_text(text)
    assert remembered_commands(tmp_path) == () and read_settings(tmp_path) is None
    for name in (records.ANCHOR_SECONDS_FILE, records.TRAJECTORY_SECONDS_FILE, records.SCENE_SECONDS_FILE):
        (tmp_path / name).write_text(text)
    run = Run(tmp_path)
    assert (run.anchor_seconds, run.trajectory_seconds, run.scene_seconds) == (None, None, None)


@pytest.mark.parametrize(
    ("name", "ask", "advice"),
    [
        ("metrics.json", lambda run: run.metrics, "Delete it: `skyanchor evaluate` measures again."),
        (".state/inputs.json", lambda run: run.inputs, "Run its last verb once more"),
        (".state/sequence.json", lambda run: run.sequence, "Run its last verb once more"),
    ],
)
def test_nobody_is_told_to_delete_a_run_for_a_file_of_it(
    name: str, ask: Callable[[Run], object], advice: str, tmp_path: Path
) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("{")
    with pytest.raises(InputError, match=advice) as told:
        ask(Run(tmp_path))
    assert "stage folder" not in str(told.value)


def test_broken_features_are_extracted_again(tmp_path: Path) -> None:
    class Counting:
        key, calls = "counting", 0

        def extract(self, photo: Photo) -> Features:
            self.calls += 1
            return Features(np.ones((2, 2)), np.ones((2, 4), np.float32), np.ones(2), np.ones(2), 8, 8, 1.0)

    matcher = Counting()
    photo = Photo("a", np.zeros((8, 8, 3), np.uint8))
    FeatureCache(matcher, tmp_path).features(photo)  # type: ignore[arg-type]
    stored = next(tmp_path.glob("*.npz"))
    stored.write_bytes(stored.read_bytes()[:90])
    FeatureCache(matcher, tmp_path).features(photo)  # type: ignore[arg-type]
    FeatureCache(matcher, tmp_path).features(photo)  # type: ignore[arg-type]
    assert matcher.calls == 2


def test_arrays_that_claim_more_than_they_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "d.npy"
    np.save(path, np.ones((6, 8), np.float32))
    path.write_bytes(path.read_bytes().replace(b"(6, 8)", b"(9999999999, 8)"))
    refused(lambda: read_depth(path), "holds no arrays that can be read")
    packed = tmp_path / "d.npz"
    np.savez_compressed(packed, depth=np.zeros((1000, 1000)))
    monkeypatch.setattr("skyanchor.storage.foreign.memory", lambda: 4_000_000)
    refused(lambda: read_depth(packed), "unpacks to 0.0 GB, more than")
    np.savez(packed)
    refused(lambda: read_depth(packed), "has shape")
    np.save(path, np.array([["a", "b"]]))
    refused(lambda: read_depth(path), "has shape")
