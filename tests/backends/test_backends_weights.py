"""The resolver finds weights where users have them, and says exactly what to do when they are missing."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import replace
from pathlib import Path
from urllib.error import URLError

import pytest
import torch

from skyanchor.backends import weights
from skyanchor.cli.doctor import diagnose
from skyanchor.cli.main import main
from skyanchor.cli.runs import opened
from skyanchor.errors import BackendError

TINY = weights.Weights("tiny", "nothing", ("tiny.pth",), "https://example.org/tiny.pth", "MIT", True, 1, "me/tiny")


@pytest.fixture(autouse=True)
def empty_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in (weights.VARIABLE, "TORCH_HOME", "HF_HOME", "HF_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "project" / "here").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project" / "here")
    weights.state_licence.cache_clear()
    return tmp_path


def put(path: Path, content: bytes = b"\x80") -> Path:
    """A file that could be a checkpoint."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


PLACES = {
    "torch": "cache/torch/hub/checkpoints/tiny.pth",
    "hub": "cache/huggingface/hub/models--me--tiny/snapshots/abc/model.safetensors",
    "beside": "project/checkpoints/tiny.pth",
    "inside": "project/here/weights/tiny.pth",
    "sibling": "project/mast3r/checkpoints/tiny.pth",
}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_found_in_every_place_that_users_have(place: str, empty_home: Path):
    assert weights.find(TINY) is None
    held = put(empty_home / place)
    assert weights.find(TINY) == held


def test_the_environment_comes_first(empty_home: Path, monkeypatch: pytest.MonkeyPatch):
    put(empty_home / PLACES["torch"])
    mine = put(empty_home / "b" / "tiny.pth")
    monkeypatch.setenv(weights.VARIABLE, f"{empty_home / 'a'}:{empty_home / 'b'}")
    assert weights.find(TINY) == mine
    monkeypatch.delenv(weights.VARIABLE)
    monkeypatch.setenv("TORCH_HOME", str(empty_home / "t"))
    monkeypatch.setenv("HF_HOME", str(empty_home / "h"))
    assert weights.find(TINY) is None
    elsewhere = put(empty_home / "h/hub/models--me--tiny/snapshots/1/model.safetensors")
    assert weights.find(TINY) == elsewhere


def test_a_given_path_is_taken_or_refused(empty_home: Path):
    held = put(empty_home / "mine" / "renamed.pth")
    assert weights.resolve(TINY, held) == held
    inside = put(empty_home / "folder" / "tiny.pth")
    assert weights.resolve(TINY, inside.parent) == inside
    with pytest.raises(BackendError, match="does not exist"):
        weights.resolve(TINY, empty_home / "nowhere")
    with pytest.raises(BackendError, match=r"has none of tiny\.pth"):
        weights.resolve(TINY, held.parent)


def test_missing_weights_give_the_exact_command(empty_home: Path):
    with pytest.raises(BackendError) as told:
        weights.resolve(TINY)
    text = str(told.value)
    assert "skyanchor weights tiny --download" in text and TINY.url in text
    assert str(empty_home / "cache/torch/hub/checkpoints/tiny.pth") in text


def test_nothing_is_downloaded_unasked(monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(weights.urllib.request, "urlopen", refuse)
    with pytest.raises(BackendError):
        weights.resolve(TINY)
    with pytest.raises(AssertionError, match="connection"):
        weights.resolve(TINY, download=True)


def test_a_download_is_checked_and_leaves_no_parts(empty_home: Path):
    source = put(empty_home / "server" / "tiny.pth", b"\x80weights")
    good = replace(TINY, url=source.as_uri(), sha256=hashlib.sha256(b"\x80weights").hexdigest())
    path = weights.resolve(good, download=True)
    assert path.read_bytes() == b"\x80weights" and weights.find(good) == path
    path.unlink()
    with pytest.raises(BackendError, match=r"its SHA-256 begins with \w+, not 0123\. Nothing was kept"):
        weights.fetch(replace(good, sha256="0123"))
    with pytest.raises(BackendError, match="cannot be downloaded"):
        weights.fetch(replace(good, url=(empty_home / "gone.pth").as_uri()))
    assert list(path.parent.iterdir()) == []


FLAWS = {
    "is a web page": b"<!DOCTYPE html><title>404</title>",
    "is a Git LFS pointer": b"version https://git-lfs.github.com/spec/v1",
    "is cut off": b"PK\x03\x04and then the connection broke",
    "is no checkpoint": b"junk",
}


@pytest.mark.parametrize("flaw", FLAWS)
def test_what_is_no_checkpoint_is_told_before_any_work(flaw: str, empty_home: Path):
    held = put(empty_home / "mine" / "tiny.pth", FLAWS[flaw])
    with pytest.raises(BackendError, match=f"{flaw}.*get it again: skyanchor weights tiny --download"):
        weights.resolve(TINY, held)


def test_whole_checkpoints_of_every_format_have_no_flaw(empty_home: Path):
    torch.save({"a": torch.zeros(2)}, empty_home / "zip.pth")
    torch.save({"a": torch.zeros(2)}, empty_home / "old.pth", _use_new_zipfile_serialization=False)
    header = b'{"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}'
    whole = put(empty_home / "new.safetensors", len(header).to_bytes(8, "little") + header + b"\x00")
    assert [weights.flaw_of(empty_home / name) for name in ("zip.pth", "old.pth", whole.name)] == ["", "", ""]
    cut = put(empty_home / "cut.safetensors", whole.read_bytes()[:20])
    assert weights.flaw_of(cut) == "is no whole .safetensors file"
    assert weights.flaw_of(put(empty_home / "cut.pth", (empty_home / "zip.pth").read_bytes()[:-40])) == "is cut off"


def test_commands_say_what_is_wrong(
    empty_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    assert main(["weights", "mast4r"]) == 2 and "There are no weights mast4r. Name one: aerial-mast3r" in told(capsys)
    assert main(["weights", "--download"]) == 2 and "--download gets one set of weights. Name one" in told(capsys)
    assert main(["weights", "vggt"]) == 2
    assert "The weights vggt (feed-forward local reconstruction; 5030 MB, CC BY-NC 4.0: no commercial use)" in told(
        capsys
    )

    def offline(*_: object) -> None:
        raise URLError("Name or service not known")

    monkeypatch.setattr(weights.urllib.request, "urlopen", offline)
    assert main(["weights", "dinov2-s", "--download"]) == 2
    text = told(capsys)
    assert "getting about 88 MB from https://dl.fbaipublicfiles.com" in text
    assert "cannot be downloaded from here (Name or service not known). Get it with another program or machine" in text
    held = put(empty_home / "cache/torch/hub/checkpoints" / weights.VGGT.files[0])
    assert main(["weights", "vggt"]) == 0
    out = capsys.readouterr()
    assert out.out.strip() == str(held) and "no commercial use" in out.err


def told(capsys: pytest.CaptureFixture[str]) -> str:
    """What was said on stderr, in one line."""
    return " ".join(capsys.readouterr().err.split())


def test_doctor_names_a_broken_file(empty_home: Path):
    put(empty_home / "cache/torch/hub/checkpoints" / weights.ROMA.files[0], b"<html>")
    finding = next(found for found in diagnose() if found.part == "matcher roma-1")
    assert not finding.usable and "roma_outdoor.pth (MIT), weights dinov2-l: not found" in finding.detail
    assert "is a web page, not a checkpoint. Delete it and get it again: skyanchor weights roma" in finding.advice
    assert finding.advice.count("skyanchor weights dinov2-l --download") == 1


def test_a_run_says_the_licence_on_the_terminal(empty_home: Path, capsys: pytest.CaptureFixture[str]):
    held = put(empty_home / "tiny.pth")
    with opened(empty_home / "run", redo=False):
        weights.resolve(replace(TINY, licence="CC BY-NC", commercial=False), held)
    assert told(capsys).count("are used under CC BY-NC: no commercial use") == 1
    assert (empty_home / "run/log.txt").read_text().count("no commercial use") == 1


def test_the_licence_is_told_once(empty_home: Path, caplog: pytest.LogCaptureFixture):
    held = put(empty_home / "tiny.pth")
    strict = replace(TINY, commercial=False, licence="CC BY-NC")
    with caplog.at_level(logging.INFO, "skyanchor"):
        weights.resolve(strict, held)
        weights.resolve(strict, held)
    assert [r.getMessage() for r in caplog.records].count(
        "weights tiny (nothing) are used under CC BY-NC: no commercial use"
    ) == 1


def test_known_weights_have_names_of_their_own_and_safe_addresses():
    assert len({w.name for w in weights.KNOWN}) == len(weights.KNOWN)
    assert all(w.url.startswith("https://") and w.files and w.licence and w.megabytes > 0 for w in weights.KNOWN)
    assert {w.name for w in weights.KNOWN if not w.commercial} == {"mast3r", "aerial-mast3r", "vggt"}
