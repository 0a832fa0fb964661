"""The resolver finds weights where users have them, and says exactly what to do when they are missing."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from skyanchor import weights
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


def put(path: Path, content: bytes = b"x") -> Path:
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
    source = put(empty_home / "server" / "tiny.pth", b"weights")
    good = replace(TINY, url=source.as_uri(), sha256=hashlib.sha256(b"weights").hexdigest())
    path = weights.resolve(good, download=True)
    assert path.read_bytes() == b"weights" and weights.find(good) == path
    path.unlink()
    with pytest.raises(BackendError, match="SHA-256 differs"):
        weights.fetch(replace(good, sha256="0123"))
    with pytest.raises(BackendError, match="cannot be downloaded"):
        weights.fetch(replace(good, url=(empty_home / "gone.pth").as_uri()))
    assert list(path.parent.iterdir()) == []


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
