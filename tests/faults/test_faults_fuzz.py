"""Every reader of a file that others write, on that file altered in many ways: a value, or one line; nothing else."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
import trimesh
from mutations import mutated
from PIL import Image
from survey_fixture import make_survey, write_survey

from skyanchor.anchors.area_file import read_area
from skyanchor.backends.checkpoints import read_state
from skyanchor.errors import SkyAnchorError
from skyanchor.evaluation import true_depth, truth, tum
from skyanchor.feedforward.free_frames import read_tum
from skyanchor.gaussians import ply
from skyanchor.gaussians.splats import Splats
from skyanchor.geometry import cameras
from skyanchor.meshing import mesh
from skyanchor.photos import photo_size, read_mask, read_pixels
from skyanchor.pipeline import CPU, PipelineConfig
from skyanchor.scaffold import colmap_files, georeference
from skyanchor.scaffold.loading import check_model
from skyanchor.sequence.depth_files import read_depth
from skyanchor.sequence.intrinsics import read_exif
from skyanchor.stereo import load_depth, save_depth
from skyanchor.storage import files, foreign
from skyanchor.types import DepthMap, Pose

TRIES = 120


@dataclass(frozen=True)
class Reader:
    """A file and what reads it."""

    name: str
    """Of the file."""
    write: Callable[[Path], None]
    """Puts a good one at a path."""
    read: Callable[[Path], object]
    """From the path of the file."""


# --- good files -----------------------------------------------------------------------------------------------------


@cache
def _model_bytes(suffix: str) -> dict[str, bytes]:
    """The files of a small model with its rigs and frames, by name."""
    import tempfile

    import pycolmap

    with tempfile.TemporaryDirectory() as folder:
        root = write_survey(Path(folder), make_survey(stations=1))
        held = colmap_files.find_model(root)
        model = pycolmap.Reconstruction(str(held))
        (model.write_text if suffix == ".txt" else model.write_binary)(str(held))
        return {path.name: path.read_bytes() for path in held.iterdir() if path.suffix == suffix}


def _model(path: Path) -> None:
    for name, data in _model_bytes(path.suffix).items():
        (path.parent / name).write_bytes(data)


def _read_model(path: Path) -> object:
    model = colmap_files.read_model(path.parent)
    check_model(path.parent, model)
    return model


def _splats(count: int = 12) -> Splats:
    rng = np.random.default_rng(0)
    shapes = ((count, 3), (count, 4), (count, 3), (count,), (count, 4, 3))
    return Splats(*(rng.normal(size=s).astype(np.float32) for s in shapes), owner=np.zeros(count, np.int32))


def _ascii(path: Path) -> None:
    ply.write_ply(path, _splats())
    head, body = path.read_bytes().split(b"end_header\n")
    rows = np.frombuffer(body, "<f4").reshape(12, -1)
    lines = "\n".join(" ".join(f"{value:.6g}" for value in row) for row in rows)
    path.write_bytes(head.replace(b"binary_little_endian", b"ascii") + b"end_header\n" + lines.encode() + b"\n")


def _checkpoint(path: Path) -> None:
    held = _splats()
    parts = {"means": held.means, "quats": held.quats, "scales": held.log_scales, "opacities": held.logit_opacities}
    parts |= {"sh0": held.sh[:, :1], "shN": held.sh[:, 1:]}
    torch.save({"splats": {name: torch.tensor(value) for name, value in parts.items()}}, path)


def _safetensors(path: Path) -> None:
    body = np.arange(6, dtype="<f4").tobytes()
    header = json.dumps({"layer.weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, len(body)]}}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + body)


def _photo(path: Path) -> None:
    rng = np.random.default_rng(0)
    exif = Image.Exif()
    exif[271], exif[272], exif[274] = "Maker", "Model", 1
    exif.get_ifd(0x8769).update({37386: 4.2, 41989: 26, 36867: "2026:05:01 14:03:27"})
    exif.get_ifd(0x8825).update({1: "N", 2: (48.0, 8.0, 1.5), 3: "E", 4: (11.0, 34.0, 2.5), 6: 520.0})
    Image.fromarray(rng.integers(0, 255, (24, 32, 3), np.uint8)).save(path, exif=exif, quality=60)


def _read_photo(path: Path) -> object:
    return read_exif(path), photo_size(path), read_pixels(path)


def _own_depth(path: Path) -> None:
    camera, size = cameras.pinhole(16, 12, 15.0), (12, 16)
    normal = np.zeros((*size, 3), np.float32)
    normal[..., 2] = -1.0
    depth = np.linspace(1, 9, 192, dtype=np.float32).reshape(size)
    pose = Pose(np.eye(3), np.zeros(3))
    save_depth(path, DepthMap("a.jpg", camera, pose, depth, np.ones(size, np.float32), np.zeros(size, bool), normal))


def _area(path: Path) -> None:
    ring = [[11.57, 48.13], [11.58, 48.13], [11.58, 48.14], [11.57, 48.13]]
    feature = {"type": "Feature", "properties": {}, "geometry": {"type": "Polygon", "coordinates": [ring]}}
    crs = {"type": "name", "properties": {"name": "urn:ogc:def:crs:OGC:1.3:CRS84"}}
    path.write_text(json.dumps({"type": "FeatureCollection", "crs": crs, "features": [feature]}))


def _georef(path: Path) -> None:
    said = {"offset": [100.0, 200.0, 3.0], "crs": "EPSG:25832", "up": [0, 0, 1]}
    path.write_text(json.dumps({**said, "enu_origin": {"lat": 48.1, "lon": 11.5, "height": 520.0}}))


def _mesh(path: Path) -> None:
    points = np.array([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 1]])
    colors = np.array([[9, 8, 7], [90, 80, 70], [0, 0, 0], [255, 255, 255]], np.uint8)
    held = mesh.Mesh(points, np.array([[0, 1, 2], [0, 2, 3]]), colors)
    if path.name.startswith("ascii"):
        path.write_bytes(
            trimesh.Trimesh(points, held.faces, vertex_colors=colors).export(file_type="ply", encoding="ascii")
        )
    else:
        mesh.write_ply(path, held, np.zeros(3))


def _png(dtype: type[np.generic]) -> Callable[[Path], None]:
    """Writes a picture of one channel, 32x24."""

    def write(path: Path) -> None:
        cv2.imwrite(str(path), np.random.default_rng(0).integers(0, 200, (24, 32)).astype(dtype))

    return write


def _read_true(path: Path) -> object:
    return true_depth.read_true_depths(
        path.parent, {"frame.jpg": (cameras.pinhole(64, 48, 60.0), Pose(np.eye(3), np.zeros(3)))}
    )


def _read_tracks(path: Path) -> object:
    names = ["g0001.jpg", "g0002.jpg", "g0003.jpg"]
    return [tum.read_tum(path, names, fps) for fps in (None, 1.0)]


def _truth(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    _model(path)


COLMAP = (*colmap_files.FILES, *colmap_files.OPTIONAL_FILES)
READERS = (
    *(Reader(f"{name}{end}", _model, _read_model) for end in (".bin", ".txt") for name in COLMAP),
    *(
        Reader(f"truth/{name}{end}", _truth, lambda path: truth.read_cameras(path.parent, np.zeros(3)))
        for end in (".bin", ".txt")
        for name in ("cameras", "images")
    ),
    Reader("tracks.tum", lambda path: path.write_text("0 1 2 3 0 0 0 1\n1 1 2 4 0 0.1 0 1\n"), _read_tracks),
    Reader("frame.png", _png(np.uint16), _read_true),
    Reader("mask.png", _png(np.uint8), lambda path: read_mask(path, 32, 24)),
    Reader("binary-mesh.ply", _mesh, mesh.read_ply),
    Reader("ascii-mesh.ply", _mesh, mesh.read_ply),
    Reader("binary.ply", lambda path: ply.write_ply(path, _splats()), ply.read_splats),
    Reader("patched.ply", lambda path: ply.write_ply(path, _splats()), ply.read_bytes),
    Reader("looked-at.ply", lambda path: ply.write_ply(path, _splats()), ply.check_splats),
    Reader("ascii.ply", _ascii, ply.read_splats),
    Reader("splats.pt", _checkpoint, ply.read_splats),
    Reader("weights.safetensors", _safetensors, read_state),
    Reader("weights.pth", _checkpoint, read_state),
    Reader("photo.jpg", _photo, _read_photo),
    Reader("measured.npz", _own_depth, load_depth),
    Reader("street.npz", lambda path: np.savez_compressed(path, depth=np.ones((6, 8))), read_depth),
    Reader("street.npy", lambda path: np.save(path, np.ones((6, 8), np.float32)), read_depth),
    Reader("street.png", lambda path: cv2.imwrite(str(path), np.ones((6, 8), np.uint16)), read_depth),
    Reader("settings.json", lambda path: files.save(path, CPU), lambda path: files.load(path, PipelineConfig)),
    Reader("plain.json", _georef, lambda path: foreign.read_json(path, "Mend it.")),
    Reader("georef.json", _georef, georeference.read_georef),
    Reader("area.geojson", _area, read_area),
    Reader("area.txt", lambda path: path.write_text("x,y\n0,0\n100,0\n100,80 # corner\n0,80\n"), read_area),
    Reader("walk.tum", lambda path: path.write_text("0 1 2 3 0 0 0 1\n1 1 2 4 0 0.1 0 1\n"), read_tum),
)


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_an_altered_file_is_a_value_or_one_line(reader: Reader, tmp_path: Path) -> None:
    path = tmp_path / reader.name
    reader.write(path)
    reader.read(path)
    good, refused = path.read_bytes(), 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for altered in mutated(good, TRIES):
            path.write_bytes(altered)
            try:
                reader.read(path)
            except SkyAnchorError as error:
                refused += 1
                assert "\n" not in str(error) and len(str(error)) < 1000
    assert refused > TRIES // 20  # what is altered is noticed, where it matters
