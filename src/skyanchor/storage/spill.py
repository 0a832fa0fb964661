"""Arrays that need not all be in memory at a time: the others wait in a folder."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt

from skyanchor.storage import files

Arrays: TypeAlias = tuple[npt.NDArray[Any], ...]


@dataclass
class Spill:
    """Arrays by number, in memory while there is room; those in the folder come back when they are asked for."""

    folder: Path | None
    """The caller's to remove; what an interrupted process left there is written over. None keeps all in memory."""
    limit_bytes: int = 1 << 28
    """Of arrays in memory; the ones used last stay, however large they are."""
    _held: OrderedDict[int, Arrays] = field(default_factory=OrderedDict)
    _away: set[int] = field(default_factory=set)
    _bytes: int = 0

    def __contains__(self, number: int) -> bool:
        """Whether there are arrays of this number."""
        return number in self._held or number in self._away

    def __iter__(self) -> Iterator[int]:
        """The numbers, ascending."""
        return iter(sorted(self._away | set(self._held)))

    def __getitem__(self, number: int) -> Arrays:
        """The arrays of a number, not to be written to."""
        if number in self._held:
            self._held.move_to_end(number)
            return self._held[number]
        return self._fetched(number)

    def __setitem__(self, number: int, arrays: Arrays) -> None:
        """Keep these arrays."""
        if number in self:
            self.pop(number)
        self._held[number] = arrays
        self._bytes += _bytes_of(arrays)
        while self.folder is not None and self._bytes > self.limit_bytes and len(self._held) > 1:
            oldest, old = self._held.popitem(last=False)
            self._bytes -= _bytes_of(old)
            self._put_away(oldest, old)

    def pop(self, number: int) -> Arrays:
        """The arrays of a number, which are kept here no longer."""
        if number in self._held:
            arrays = self._held.pop(number)
            self._bytes -= _bytes_of(arrays)
            return arrays
        arrays = self._fetched(number)
        self._away.remove(number)
        files.remove(self._path(number))
        return arrays

    def _path(self, number: int) -> Path:
        assert self.folder is not None
        return self.folder / str(number)

    def _put_away(self, number: int, arrays: Arrays) -> None:
        path = self._path(number)
        files.make_folder(path.parent)
        with files.writing(path), path.open("wb") as file:
            _write(file, arrays)
        self._away.add(number)

    def _fetched(self, number: int) -> Arrays:
        if number not in self._away:
            raise KeyError(number)
        with self._path(number).open("rb") as file:
            return _read(file)


@dataclass
class Heaps:
    """Arrays by number, those of one number laid upon each other; when there is no room all go to the folder."""

    folder: Path | None
    """The caller's to remove; what an interrupted process left there is written over. None keeps all in memory."""
    limit_bytes: int = 1 << 28
    """Of arrays in memory."""
    _held: defaultdict[int, list[Arrays]] = field(default_factory=lambda: defaultdict(list))
    _away: set[int] = field(default_factory=set)
    _bytes: int = 0

    def __iter__(self) -> Iterator[int]:
        """The numbers, ascending."""
        return iter(sorted(self._away | set(self._held)))

    def add(self, number: int, arrays: Arrays) -> None:
        """Lay arrays upon those of this number."""
        self._held[number].append(arrays)
        self._bytes += _bytes_of(arrays)
        if self.folder is not None and self._bytes > self.limit_bytes:
            self._put_away(files.make_folder(self.folder))

    def take(self, number: int) -> Iterator[Arrays]:
        """The arrays of a number as they came, one after the other; they are kept here no longer."""
        if number in self._away:
            assert self.folder is not None
            path = self.folder / str(number)
            with path.open("rb") as file:
                while file.peek(1):
                    yield _read(file)
            self._away.remove(number)
            files.remove(path)
        for arrays in self._held.pop(number, []):
            self._bytes -= _bytes_of(arrays)
            yield arrays

    def _put_away(self, folder: Path) -> None:
        for number, heap in self._held.items():
            path = folder / str(number)
            with files.writing(path), path.open("ab" if number in self._away else "wb") as file:
                for arrays in heap:
                    _write(file, arrays)
        self._away |= set(self._held)
        self._held.clear()
        self._bytes = 0


def _write(file: BinaryIO, arrays: Arrays) -> None:
    np.save(file, np.array(len(arrays)))
    for array in arrays:
        np.save(file, array, allow_pickle=False)


def _read(file: BinaryIO) -> Arrays:
    return tuple(np.load(file, allow_pickle=False) for _ in range(int(np.load(file))))


def _bytes_of(arrays: Arrays) -> int:
    return sum(array.nbytes for array in arrays)
