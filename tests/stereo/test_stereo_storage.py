"""A depth map comes back from disk as it went in, to the stated precision."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from skyanchor.errors import InputError
from skyanchor.geometry import cameras, rigid
from skyanchor.stereo import DepthFolder, depth_files, depth_path, load_depth, save_depth
from skyanchor.types import DepthMap, Pose


def some_map() -> DepthMap:
    rng = np.random.default_rng(0)
    depth = rng.uniform(20.0, 130.0, (31, 45)).astype(np.float32)
    depth[:5] = 0.0
    normal = rng.normal(size=(31, 45, 3)).astype(np.float32)
    normal /= np.linalg.norm(normal, axis=-1, keepdims=True)
    normal[:5] = 0.0
    pose = Pose(rigid.rotation_exp(np.array([0.1, -0.4, 0.2])), np.array([3.0, 4.0, 5.0]))
    confidence = rng.uniform(0, 1, (31, 45)).astype(np.float32)
    completed = rng.uniform(0, 1, (31, 45)) < 0.3
    return DepthMap("flight/a.jpg", cameras.pinhole(45, 31, 40.0), pose, depth, confidence, completed, normal)


def test_round_trip(tmp_path):
    saved = some_map()
    path = depth_path(tmp_path, saved.name)
    save_depth(path, saved)
    loaded = load_depth(path)
    assert path == tmp_path / "flight" / "a.npz"
    assert loaded.name == saved.name and loaded.camera == saved.camera
    assert np.array_equal(loaded.cam_from_world.rotation, saved.cam_from_world.rotation)
    assert np.array_equal(loaded.depth > 0, saved.depth > 0)
    assert 0 < np.abs(loaded.depth - saved.depth).max() < 0.003
    assert np.array_equal(loaded.completed, saved.completed)
    assert np.abs(loaded.confidence - saved.confidence).max() < 0.5 / 255 + 1e-6
    cosine = (loaded.normal * saved.normal).sum(-1)[5:]
    assert cosine.min() > np.cos(np.deg2rad(1.0)) and not loaded.normal[:5].any()
    assert [p.name for p in path.parent.iterdir()] == ["a.npz"]


@pytest.mark.parametrize(
    ("names", "files"),
    [
        (("a.jpg", "b.png", "flight/a.jpg"), ("a.npz", "b.npz", "flight/a.npz")),
        (("a.jpg", "a.png", "b.jpg"), ("a.jpg.npz", "a.png.npz", "b.npz")),
        (("a.jpg", "a.jpg.png"), ("a.npz", "a.jpg.png.npz")),
        (("x/a.tif", "y/a.jpg"), ("x/a.npz", "y/a.npz")),
        (("noon", "noon.jpg"), ("noon.npz", "noon.jpg.npz")),
    ],
)
def test_every_photo_has_a_depth_file_of_its_own(tmp_path, names, files):
    assert depth_files(names) == files
    for name, file in zip(names, files, strict=True):
        save_depth(tmp_path / file, replace(some_map(), name=name))
    assert [depth_path(tmp_path, name) for name in names] == [tmp_path / file for file in files]
    assert [one.name for one in DepthFolder(tmp_path, names)] == list(names)


def test_a_folder_reads_what_is_asked_for_and_forgets(tmp_path):
    names = tuple(f"{k}.jpg" for k in range(5))
    for name in names:
        save_depth(depth_path(tmp_path, name), replace(some_map(), name=name))
    folder = DepthFolder(tmp_path, names, limit_bytes=2 * 31 * 45 * 21)
    assert len(folder) == 5 and folder[3].name == "3.jpg" and folder[-1].name == "4.jpg"
    assert folder[3] is folder[3]
    assert [one.name for one in folder] == list(names) and len(folder._held) == 2
    with ThreadPoolExecutor(4) as pool:
        assert [one.name for one in pool.map(folder.__getitem__, [k % 5 for k in range(40)])] == [*names] * 8
    assert folder._bytes == 2 * 31 * 45 * 21
    with pytest.raises(IndexError):
        folder[5]


def test_the_depth_of_another_photo_is_refused(tmp_path):
    save_depth(tmp_path / "a.npz", replace(some_map(), name="b.jpg"))
    with pytest.raises(InputError, match=r"is the depth of b\.jpg, not of a\.jpg"):
        DepthFolder(tmp_path, ("a.jpg",))[0]


def test_empty_map_and_broken_file(tmp_path):
    whole = some_map()
    empty = DepthMap(
        whole.name,
        whole.camera,
        whole.cam_from_world,
        whole.depth * 0,
        whole.confidence * 0,
        ~whole.completed,
        whole.normal * 0,
    )
    save_depth(tmp_path / "empty.npz", empty)
    assert not load_depth(tmp_path / "empty.npz").depth.any()
    (tmp_path / "broken.npz").write_bytes((tmp_path / "empty.npz").read_bytes()[:200])
    with pytest.raises(InputError, match="no depth map"):
        load_depth(tmp_path / "broken.npz")
