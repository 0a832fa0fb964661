"""A name that something has which is no file: told where it is read, left alone where one is written."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
from survey_fixture import make_survey, write_survey

from skyanchor.cli.main import LONGEST, main, one_line
from skyanchor.errors import InputError, WriteError
from skyanchor.feedforward.free_frames import _number
from skyanchor.gaussians.ply import check_splats, read_splats
from skyanchor.photos import find_mask
from skyanchor.scaffold import colmap_files, load_scaffold
from skyanchor.scaffold.loading import find_splats
from skyanchor.scene.patch import load_patch
from skyanchor.sequence.depth_files import find_depth
from skyanchor.sequence.loading import find_photos
from skyanchor.sequence.networks import load_network
from skyanchor.storage import files, taken

PHOTO = np.zeros((8, 8, 3), np.uint8)


def _to_nowhere(path: Path) -> None:
    path.symlink_to("nowhere")


def _to_itself(path: Path) -> None:
    path.symlink_to(path)


def _folder(path: Path) -> None:
    path.mkdir()


def _to_a_device(path: Path) -> None:
    path.symlink_to(os.devnull)


ODD: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "link to nowhere": _to_nowhere,
    "link to itself": _to_itself,
    "device": _to_a_device,
    "folder": _folder,
}
READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "mask": ("masks/a.jpg.png", lambda root: find_mask(root / "images", "a.jpg")),
    "depth map": ("0001.png", lambda root: find_depth(root, 1, "a.jpg")),
    "scale": ("scale.txt", lambda root: _number(root / "scale.txt", 1.0)),
    "street photo": ("b.jpg", find_photos),
}
BESIDE_A_MODEL = ("georef.json", "splats.ply", "sparse/0/rigs.bin", "sparse/0/frames.bin")


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("reader", READERS)
def test_what_is_no_file_is_not_passed_over(reader: str, odd: str, tmp_path: Path) -> None:
    name, read = READERS[reader]
    cv2.imwrite(str(tmp_path / "a.jpg"), PHOTO)
    read(tmp_path)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    ODD[odd](tmp_path / name)
    if (reader, odd) == ("street photo", "folder"):
        assert find_photos(tmp_path)[1] == [tmp_path / "a.jpg"]  # a folder that is called like a photo is no photo
        return
    with pytest.raises(InputError, match=rf"{Path(name).name}: is (no file|a folder|a link that leads nowhere)\."):
        read(tmp_path)


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("name", BESIDE_A_MODEL)
def test_nor_beside_a_model(name: str, odd: str, tmp_path: Path) -> None:
    root = write_survey(tmp_path, make_survey(stations=2))
    place = (colmap_files.find_model(root) if name.endswith(".bin") else root) / Path(name).name
    place.unlink(missing_ok=True)
    ODD[odd](place)
    with pytest.raises(InputError, match=rf"{place.name}: is (no file|a folder|a link that leads nowhere)\."):
        load_scaffold(root)


@pytest.mark.parametrize("name", [b"a\xff.jpg", b"a\nb.jpg", b"a\x1b[2J.jpg", b"a\t.jpg", "a\u2028b.jpg".encode()])
def test_a_photo_whose_name_is_no_line_of_text(name: bytes, tmp_path: Path) -> None:
    for fine in ("-rf.jpg", "a b .jpg", "Straße 日本.jpg", "a\u202f1.jpg"):
        cv2.imwrite(str(tmp_path / fine), PHOTO)
    assert len(find_photos(tmp_path)[1]) == 4
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).write_bytes(b"x")
    with pytest.raises(InputError, match="which is no line of text") as told:
        find_photos(tmp_path)
    assert str(told.value).isprintable()


# --- what is written over -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("write", [lambda path: files.write_bytes(path, b"x"), lambda path: files.save(path, [1])])
def test_a_pipe_stays_a_pipe(write: Callable[[Path], None], linked: bool, tmp_path: Path) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    with pytest.raises(WriteError, match="is no file but a device, a pipe or a socket"):
        write(link if linked else pipe)
    assert pipe.is_fifo() and link.is_symlink() and len(list(tmp_path.iterdir())) == 2


def test_a_device_stays_a_device() -> None:
    with pytest.raises(WriteError, match="is no file but a device"):
        taken.refuse_lost(Path(os.devnull))  # asked alone: what would be lost here is the machine's


@pytest.mark.parametrize("name", ["o.splat", "o.spz", "photo.jpg", "patch.npz"])
def test_a_ply_is_not_written_by_the_name_of_another_kind(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"would be a \.ply that is called"):
        taken.refuse_lost(tmp_path / name, begins=taken.PLY)
    for right in ("o.ply", "o.PLY", "o"):
        taken.refuse_lost(tmp_path / right, begins=taken.PLY)


READ_ALONE: dict[str, Callable[[Path], object]] = {
    "splats": read_splats,
    "splats to be patched": check_splats,
    "a patch": load_patch,
    "a network": load_network,
    "an aerial model's splats": lambda path: find_splats(path, path, path),
}


@pytest.mark.parametrize("read", READ_ALONE.values(), ids=READ_ALONE)
def test_a_folder_is_not_said_to_be_absent(read: Callable[[Path], object], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder"):
        read(tmp_path)
    with pytest.raises(InputError, match="does not exist"):
        read(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("held", "begins", "lost"),
    [(b"my thesis", b"ply", True), (b"pl", b"ply", True), (b"", b"ply", False), (b"ply\n", b"ply", False),
     (b"my thesis", b"", False)],
)  # fmt: skip
def test_a_file_of_another_kind_is_not_written_over(held: bytes, begins: bytes, lost: bool, tmp_path: Path) -> None:
    out = tmp_path / "out.ply"
    taken.refuse_lost(out, begins=begins)
    out.write_bytes(held)
    if not lost:
        taken.refuse_lost(out, begins=begins)
        return
    with pytest.raises(InputError, match="holds something else, which would be lost"):
        taken.refuse_lost(out, begins=begins)


# --- words of the command -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ("update", "--scaffold", "a", "--ground", "b", "--out", ""),
        ("update", "--scaffold=", "--ground", "b", "--out", "c"),
        ("prepare", "", "--out", "c"),
        ("merge", "a", "", "--out", "c"),
        ("patch", "apply", "a.ply", "p.npz", "--out="),
        ("town", ""),
        ("",),
    ],
)
def test_an_empty_word_is_not_the_folder_that_one_stands_in(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    said = capsys.readouterr().err
    assert said.startswith("skyanchor: ") and "empty" in said and said.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_prefix_may_be_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("evaluate", "--model", str(tmp_path / "none"), "--truth", "b", "--scaffold", "c", "--aerial-prefix", "")
    assert main(words) == 2
    assert "empty" not in capsys.readouterr().err


@pytest.mark.parametrize("name", ["a\nb", "\x1b[2J", "a\rb", "\u2028", "b" * 100_000])
def test_whatever_a_file_is_called_it_is_told_in_a_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["walk", "check", f"/none/{name}/walk"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.isprintable() and line.startswith("skyanchor: /none/") and len(line) <= LONGEST + 5
    assert one_line("Grüße, 日本") == "Grüße, 日本"
