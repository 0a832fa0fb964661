"""Arrays that wait in a folder come back as they went, and few are in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from skyanchor.storage.spill import Heaps, Spill


def pair(number: int) -> tuple[np.ndarray, np.ndarray]:
    return np.full((10, 3), number, np.float32), np.arange(number)


def test_the_least_recently_used_go_and_come_back(tmp_path: Path) -> None:
    spill = Spill(tmp_path / "away", limit_bytes=3 * 120)
    for number in (5, 3, 8):
        spill[number] = pair(number)
    assert list(spill) == [3, 5, 8] and 4 not in spill
    assert {path.name for path in (tmp_path / "away").iterdir()} == {"5"}
    for number in (8, 5, 3, 5):
        assert all(np.array_equal(one, two) for one, two in zip(spill[number], pair(number), strict=True))
        assert spill[number][0].dtype == np.float32
    with pytest.raises(KeyError):
        spill[4]


def test_what_was_taken_out_is_gone_and_may_be_put_back_changed(tmp_path: Path) -> None:
    spill = Spill(tmp_path, limit_bytes=0)
    for number in (1, 2):
        spill[number] = pair(number)
    values, rest = spill.pop(1)
    assert 1 not in spill and not list(tmp_path.iterdir())
    values += 1.0
    spill[1] = (values, rest)
    spill[2] = pair(7)
    assert spill[1][0][0, 0] == 2.0 and spill[2][0][0, 0] == 7.0 and list(spill) == [1, 2]


def test_without_a_folder_everything_stays() -> None:
    spill = Spill(None, limit_bytes=0)
    for number in range(9):
        spill[number] = pair(number)
    assert [spill[number][0][0, 0] for number in spill] == list(range(9))


@pytest.mark.parametrize("room", [0, 500, 1 << 20])
def test_a_heap_gives_its_arrays_in_the_order_they_came(tmp_path: Path, room: int) -> None:
    heaps = Heaps(tmp_path / "away", room)
    for number in (5, 3, 5, 8, 3, 5):
        heaps.add(number, pair(number))
        heaps.add(number, pair(number + 1))
    assert list(heaps) == [3, 5, 8]
    assert (tmp_path / "away").is_dir() == (room < 1 << 20)
    assert [int(values[0, 0]) for values, _ in heaps.take(5)] == [5, 6, 5, 6, 5, 6]
    assert [len(rest) for _, rest in heaps.take(3)] == [3, 4, 3, 4]
    assert list(heaps) == [8] and not list(heaps.take(5))
    assert not (tmp_path / "away" / "5").exists()


def test_what_a_killed_process_left_in_the_folder_is_no_part_of_a_heap(tmp_path: Path) -> None:
    left, heaps = Heaps(tmp_path, 0), Heaps(tmp_path, 0)
    for number in (5, 3):
        left.add(number, pair(number))
    for number in (5, 8, 5):
        heaps.add(number, pair(number))
    assert [len(rest) for _, rest in heaps.take(5)] == [5, 5] and list(heaps) == [8]


def test_what_is_taken_out_makes_room(tmp_path: Path) -> None:
    spill, heaps = Spill(tmp_path / "spill", 300), Heaps(tmp_path / "heaps", 300)
    for number in (0, 1, 2, 3):
        spill[0], spill[0] = pair(0), pair(0)
        spill[number] = pair(0)
        assert len(spill.pop(number)) == 2
        heaps.add(number, pair(0))
        assert len(list(heaps.take(number))) == 1
    assert not list(tmp_path.iterdir())
