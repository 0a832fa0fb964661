"""Digests of files: what lies still is read once, what may still change is read again."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from skyanchor.storage import digest_cache
from skyanchor.storage.digest_cache import DigestCache, Found
from skyanchor.storage.digests import digest, file_digest, joint_digest
from skyanchor.storage.files import mark


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files whose contents are read."""
    found: list[str] = []
    monkeypatch.setattr(digest_cache, "file_digest", lambda path: found.append(path.name) or file_digest(path))
    return found


def photo_at(path: Path, contents: bytes = b"pixels", age_s: float = 3600.0) -> Path:
    path.write_bytes(contents)
    os.utime(path, (time.time() - age_s,) * 2)
    return path


def test_what_was_written_just_now_is_read_again(tmp_path: Path, read: list[str]) -> None:
    photos = {"old": photo_at(tmp_path / "old"), "new": photo_at(tmp_path / "new", age_s=0.0)}
    for _ in range(2):
        cache = DigestCache(tmp_path / "digests.json")
        assert cache.each(photos) == dict.fromkeys(photos, digest(b"pixels"))
    assert read == ["old", "new", "new"]


def test_a_memory_that_is_not_kept_writes_nothing(tmp_path: Path, read: list[str]) -> None:
    photos, cache = {"a": photo_at(tmp_path / "a")}, DigestCache(tmp_path / "digests.json", kept=False)
    assert cache.digest(photos) == cache.digest(photos) and read == ["a"]
    assert not cache.path.exists()


@pytest.mark.parametrize("damage", ["", "[", "[]", '{"a": 1}', '{"a": ["b"]}', '{"a": "bc"}'])
def test_a_spoiled_memory_is_none(tmp_path: Path, damage: str) -> None:
    photos = {"a": photo_at(tmp_path / "a")}
    (tmp_path / "digests.json").write_text(damage)
    assert DigestCache(tmp_path / "digests.json").each(photos) == {"a": digest(b"pixels")}


def test_a_file_is_still_what_it_was_by_its_mark_where_that_tells(tmp_path: Path, read: list[str]) -> None:
    path = photo_at(tmp_path / "a")
    was, other = digest(b"pixels"), digest(b"others")
    assert Found(was, mark(path), True).is_still(path) and read == []
    assert Found(other, mark(path), True).is_still(path), "the mark tells"
    assert not Found(other, mark(path), False).is_still(path), "it may have changed within a tick"
    assert Found(was, "of another time", True).is_still(path) and read == ["a", "a"]


def test_a_joint_digest_is_of_names_and_contents() -> None:
    one = joint_digest({"a": digest(b"1"), "b": digest(b"2")})
    assert one == joint_digest({"b": digest(b"2"), "a": digest(b"1")})
    assert one != joint_digest({"a": digest(b"2"), "b": digest(b"1")}) != joint_digest({"a": digest(b"2")})
    assert joint_digest({"a": digest(b"1")}) != joint_digest({"b": digest(b"1")})
