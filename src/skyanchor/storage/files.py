"""Files that are whole or absent, and what they hold: atomic writes, typed values, content digests.

Whatever the program writes is written here, and whatever it removes is removed here. A disk that refuses is a
WriteError, one line that names the place and says what to do, and the half file is gone.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from skyanchor.errors import InputError, WriteError
from skyanchor.storage import codec

T = TypeVar("T")

TEMPORARY = ".skyanchor.tmp"
"""Ending of files and folders that are being written."""
TEMPORARY_NAME = re.compile(rf"\..+\.\d+{re.escape(TEMPORARY)}", re.DOTALL)
"""Whole name of such a file or folder, as `temporary` makes it."""
LONGEST_NAME = 200
"""Bytes of a name that a draft's name may repeat: a disk takes 255 in all."""
STAGE_AGAIN = "Delete its stage folder and run that stage again."
"""What helps where a stage's own file is missing or spoiled."""
REMEDIES = {
    errno.ENOSPC: "Make room there",
    errno.EDQUOT: "Make room there",
    errno.EFBIG: "Raise the limit on the size of files (`ulimit -f`), or choose another disk",
    errno.EACCES: "Choose a place that you may write to",
    errno.EPERM: "Choose a place that you may write to",
    errno.EROFS: "Choose a disk that can be written to",
    errno.ENAMETOOLONG: "Choose a shorter name",
    errno.ELOOP: "It is a link that leads to itself: choose another place",
    errno.ENOTDIR: "A file is where a folder was to be: choose another place",
    errno.EEXIST: "Something else has that name: choose another place",
    errno.EISDIR: "A folder has that name: choose another one",
}
"""What helps against what a disk says."""


# --- what a disk refuses ------------------------------------------------------------------------------------------


def write_error(path: Path, error: OSError) -> WriteError:
    """What to tell of a disk that refused to write `path`, or to read what it was to be made of."""
    named = error.filename2 or error.filename
    where = _meant(path if named is None else Path(os.fsdecode(named)))
    what, advice = error.strerror or str(error), REMEDIES.get(error.errno or 0, "Check the disk")
    return WriteError(f"{where}: cannot be written ({what}). {advice}; then the same command goes on.")


def _meant(path: Path) -> Path:
    """The path with drafts named as what they will become."""
    return Path(*(part[1:].rsplit(".", 3)[0] if TEMPORARY_NAME.fullmatch(part) else part for part in path.parts))


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """While inside, a disk that refuses is a WriteError about `path`."""
    try:
        yield
    except OSError as error:
        raise write_error(path, error) from error


def refuse_special(path: Path) -> None:
    """WriteError where neither a file nor a folder has the name, but a device, a pipe or a socket, which would go."""
    with writing(path):
        special = path.exists() and not path.is_file() and not path.is_dir()
    if special:
        raise WriteError(f"{path}: is no file but a device, a pipe or a socket. Choose another place.")


# --- names --------------------------------------------------------------------------------------------------------


def leads_outside(name: str) -> bool:
    """Whether a name that was read somewhere, as a path beneath a folder, would be one that is not; on any system."""
    ways = (PurePosixPath(name), PureWindowsPath(name), PureWindowsPath(PurePosixPath(name).as_posix()))
    odd = any(way.is_absolute() or way.drive or way.root or ".." in way.parts for way in ways)
    return odd or "\0" in name or PurePosixPath(name) == PurePosixPath()


def beneath(folder: Path, name: str) -> Path:
    """The path of a name that was read somewhere, beneath a folder; InputError for one that would lead out of it."""
    if leads_outside(name):
        raise InputError(folder, f"{name!r} would lead out of it", "Names are relative to a folder and have no '..'.")
    return folder / name


def names_for(names: Sequence[str], ending: str) -> tuple[str, ...]:
    """A name of its own for what is made of each file, beneath one folder: the file's, its ending replaced.

    Files that would share one, a.jpg and a.png, keep their ending: a.jpg.npz and a.png.npz. InputError for names that
    lead out of a folder.
    """
    whole = [PurePosixPath(beneath(Path(), name)).as_posix() for name in names]
    short = [PurePosixPath(name).with_suffix(ending).as_posix() for name in whole]
    taken = Counter([*short, *(f"{name}{ending}" for name in whole)])
    found = tuple(f"{name}{ending}" if taken[file] > 1 else file for name, file in zip(whole, short, strict=True))
    if len(set(found)) < len(found):
        twice = next(name for name, count in Counter(whole).items() if count > 1)
        raise InputError(twice, "is named twice", "Every file needs a name of its own.")
    return found


# --- atomic writes ------------------------------------------------------------------------------------------------


def temporary(path: Path) -> Path:
    """Where this process writes what will become `path`; WriteError for one like `.`, beside which nothing can lie."""
    if path.name in ("", ".."):
        raise WriteError(f"{path}: is no name for what is to be written. Give a new folder or file by its name.")
    name = path.name if len(os.fsencode(path.name)) <= LONGEST_NAME else digest(os.fsencode(path.name))
    return path.with_name(f".{name}.{os.getpid()}{TEMPORARY}")


def make_folder(path: Path) -> Path:
    """The folder, made where it is not there, with those above it."""
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)
    return path


def write_bytes(path: Path, data: bytes) -> None:
    """Write the file whole or not at all: beside it, to the disk, then renamed into place."""

    def write(draft: Path) -> None:
        draft.write_bytes(data)

    write_through(path, write)


def note_bytes(path: Path, data: bytes) -> None:
    """As `write_bytes` as far as processes can tell; when the power goes, what was there before may be back."""

    def write(draft: Path) -> None:
        draft.write_bytes(data)

    write_through(path, write, lasting=False)


def write_text(path: Path, text: str) -> None:
    """As `write_bytes`, for a text."""
    write_bytes(path, text.encode())


def write_through(path: Path, write: Callable[[Path], None], lasting: bool = True) -> None:
    """As `write_bytes`, for a function that writes a file or a folder at the path it is given.

    Where the function raises, what it wrote goes and what was there stays. Only what is `lasting` waits for the disk.
    """
    refuse_special(path)
    make_folder(path.parent)
    draft = temporary(path)
    with writing(path):
        try:
            remove(draft)
            write(draft)
            if lasting:
                sync_tree(draft)
            _put_into_place(draft, path)
        except BaseException as error:
            with suppress(OSError):
                remove(draft)
            _raise_meant(error)
            raise
        if lasting:
            sync_folder(path.parent)


@contextmanager
def drafts_of(folder: Path) -> Iterator[Path]:
    """While inside, a folder beside another for what shall lie in that one later; in the end it goes, moved or not."""
    draft = temporary(folder)
    remove(draft)
    try:
        yield draft
    except InputError as error:
        _raise_meant(error)
        raise
    finally:
        with suppress(OSError, WriteError):
            remove(draft)


def _raise_meant(error: BaseException) -> None:
    """The same InputError about what a draft will become; nothing for any other error."""
    if isinstance(error, InputError) and isinstance(error.args[0], Path):
        raise InputError(_meant(error.args[0]), *error.args[1:]) from error


def move_all(source: Path, target: Path, last: str) -> None:
    """Every file below a folder moved below another of the same disk, over what has its name; one of them last."""
    found = [path for path in sorted(source.rglob("*")) if not path.is_dir()]
    for path in sorted(found, key=lambda path: path == source / last):
        place = target / path.relative_to(source)
        make_folder(place.parent)
        with writing(place):
            path.replace(place)
    for folder in {(target / path.relative_to(source)).parent for path in found}:
        with writing(folder):
            sync_folder(folder)


def _put_into_place(draft: Path, path: Path) -> None:
    """Rename a draft to its name; a folder of that name is gone only once the new one has it."""
    old = temporary(path.with_name(path.name + ".old"))
    aside = draft.is_dir() and path.is_dir() and not path.is_symlink()
    if aside:
        shutil.rmtree(old, ignore_errors=True)
        path.rename(old)
    elif draft.is_dir():
        remove(path)
    try:
        draft.replace(path)
    except OSError:
        if aside:
            old.rename(path)
        raise
    if aside:
        shutil.rmtree(old)


def write_arrays(
    path: Path, arrays: Mapping[str, npt.NDArray[Any]], compressed: bool = False, lasting: bool = True
) -> None:
    """As `write_bytes`, for an .npz of named arrays."""

    def write(draft: Path) -> None:
        with draft.open("wb") as file:
            (np.savez_compressed if compressed else np.savez)(file, allow_pickle=False, **arrays)

    write_through(path, write, lasting)


def link(source: Path, target: Path) -> None:
    """The same file under a second name, or a copy where the disk knows no links; what is there already stays."""
    make_folder(target.parent)
    try:
        os.link(source, target)
    except FileExistsError:
        return
    except OSError:
        copy(source, target)


def link_folder(source: Path, target: Path) -> None:
    """A relative link to a folder, so that both can be moved together; a link that is there already stays."""
    if not target.is_symlink():
        with writing(target):
            target.symlink_to(os.path.relpath(source, target.parent), target_is_directory=True)


def link_to(source: Path, target: Path) -> None:
    """A link to a file, wherever that lies; WriteError where something has the name already."""
    make_folder(target.parent)
    with writing(target):
        target.symlink_to(source.resolve())


def copy(source: Path, target: Path) -> None:
    """The file's contents under a second name; what was there is replaced."""

    def write(draft: Path) -> None:
        shutil.copyfile(source, draft)

    write_through(target, write)


def renamed_link(source: Path, target: Path) -> None:
    """As `copy`, without a second copy on disks that know links: for files that are replaced, never written to."""
    make_folder(target.parent)
    draft = temporary(target)
    try:
        remove(draft)
        os.link(source, draft)
    except OSError:
        copy(source, target)
        return
    with writing(target):
        draft.replace(target)
        sync_folder(target.parent)


def sync_tree(path: Path) -> None:
    """Make sure that a file or everything in a folder is on the disk."""
    with writing(path):
        for item in [path, *path.rglob("*")] if path.is_dir() else [path]:
            if not item.is_symlink():
                sync_folder(item)


def sync_folder(path: Path) -> None:
    """Make sure that a file's contents or a folder's names are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# --- removal ------------------------------------------------------------------------------------------------------


def remove(path: Path) -> None:
    """Remove a file, link or folder at once: a folder is renamed first, so that no half of it keeps the name."""
    with writing(path):
        if path.is_dir() and not path.is_symlink():
            doomed = temporary(path.with_name(path.name + ".old"))
            shutil.rmtree(doomed, ignore_errors=True)
            path.rename(doomed)
            shutil.rmtree(doomed)
        else:
            path.unlink(missing_ok=True)


def sweep_drafts(path: Path) -> None:
    """Remove what interrupted writes of one file or folder left beside it."""
    for leftover, _ in _drafts_of(path):
        _discard(leftover)


def sweep_dead(path: Path) -> None:
    """The same where no lock says that nobody else is writing: of processes alone that are no more."""
    for leftover, process in _drafts_of(path):
        if not _lives(process):
            _discard(leftover)


def _drafts_of(path: Path) -> list[tuple[Path, int]]:
    """Drafts of one file or folder, or of what was removed of it, and the processes that they are of."""
    names = [temporary(path).name, temporary(path.with_name(path.name + ".old")).name]
    heads = [name.removesuffix(f"{os.getpid()}{TEMPORARY}") for name in names]
    found = []
    for leftover in _drafts(path.parent.glob(f".*{TEMPORARY}")):
        ends = (leftover.name.removeprefix(head).removesuffix(TEMPORARY) for head in heads)
        found += [(leftover, int(end)) for end in ends if end.isdecimal()]
    return found


def _lives(process: int) -> bool:
    """Whether there is a process of that number on this machine."""
    with suppress(PermissionError, OverflowError):
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return False
    return True


def sweep(folder: Path) -> None:
    """Remove what interrupted writes of this program left below a folder that it made; links are not followed."""
    for leftover in _drafts(folder.rglob(f".*{TEMPORARY}")):
        _discard(leftover)


def _drafts(found: Iterator[Path]) -> list[Path]:
    return [path for path in found if TEMPORARY_NAME.fullmatch(path.name)]


def _discard(leftover: Path) -> None:
    if leftover.is_dir() and not leftover.is_symlink():
        shutil.rmtree(leftover, ignore_errors=True)
    else:
        with suppress(OSError):
            leftover.unlink(missing_ok=True)


# --- typed values -------------------------------------------------------------------------------------------------


def save(path: Path, value: object) -> None:
    """Write the value as JSON, or as an archive of arrays when the name ends in .npz."""
    if path.suffix != ".npz":
        write_bytes(path, codec.dumps(value).encode())
        return

    def write(draft: Path) -> None:
        with draft.open("wb") as file:
            codec.pack_into(file, value)

    write_through(path, write)


def load(path: Path, kind: type[T], advice: str = STAGE_AGAIN) -> T:
    """The value of type `kind` that `save` wrote; large arrays of an archive are read when they are looked at.

    `advice` is what helps where it is missing or spoiled; for what lies in no stage's folder it is another one.
    """

    def read() -> T:
        return codec.unpack_file(kind, path) if path.suffix == ".npz" else codec.loads(kind, path.read_text())

    return _read(path, kind, read, advice)


def load_mapped(path: Path, kind: type[T]) -> T:
    """The value that `save` wrote to an .npz, with all arrays left there until they are used, read-only."""
    return _read(path, kind, lambda: codec.mapped(kind, path), STAGE_AGAIN)


def _read(path: Path, kind: type[T], read: Callable[[], T], advice: str) -> T:
    """What the file holds; InputError where it is missing or holds something else."""
    if not path.is_file():
        raise InputError(path, "is missing", advice)
    try:
        return read()
    except (ValueError, TypeError, KeyError, OSError) as error:
        raise InputError(path, f"does not hold a {kind.__name__} ({error})", advice) from error


def recall(path: Path, kind: type[T]) -> T | None:
    """The value that `save` wrote; None where there is none or it cannot be read: for what is simply made again."""
    try:
        return codec.loads(kind, path.read_text()) if path.is_file() else None
    except (ValueError, TypeError, KeyError, OSError):
        return None


# --- digests ------------------------------------------------------------------------------------------------------


def digest(data: bytes) -> str:
    """BLAKE2b of the bytes, 128 bit, hexadecimal."""
    return blake2b(data, digest_size=16).hexdigest()


def file_digest(path: Path) -> str:
    """`digest` of a file's contents."""
    state = blake2b(digest_size=16)
    try:
        with path.open("rb") as file:
            while block := file.read(1 << 22):
                state.update(block)
    except OSError as error:
        problem = f"cannot be read ({error.strerror})"
        raise InputError(path, problem, "Check that the file exists and that you may read it.") from error
    return state.hexdigest()


def joint_digest(each: Mapping[str, str]) -> str:
    """One digest of named digests; their order does not matter."""
    return digest("".join(f"{name}\0{value}\n" for name, value in sorted(each.items())).encode())


SETTLED_S = 2.0
"""A file written so shortly before it is read may still change within one tick of its clock: not remembered, seconds.

One from the future, after a clock was set back, can: what is written to it next is marked with today's time."""


@dataclass(frozen=True)
class Found:
    """A file as it was when its digest was taken."""

    digest: str
    mark: str
    """Of its size, inode and both clocks."""
    settled: bool
    """Whether it cannot change without the mark."""

    def is_still(self, path: Path) -> bool:
        """Whether the file holds the same, by its mark where that tells; InputError where it cannot be read."""
        return (self.settled and mark(path) == self.mark) or file_digest(path) == self.digest


@dataclass
class DigestCache:
    """Digests of file contents, remembered as long as size, inode and both clocks of a file stand still."""

    path: Path
    """JSON file of the memory; may be deleted at any time."""
    kept: bool = True
    """Whether what is found is written there."""
    _known: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Absolute path -> (fingerprint, digest)."""

    def __post_init__(self) -> None:
        """Read the memory where there is one."""
        if self.path.is_file():
            self._known = recall(self.path, dict[str, tuple[str, str]]) or {}

    def digest(self, files: Mapping[str, Path]) -> str:
        """One digest of names and contents; neither order nor place on the disk matters."""
        return joint_digest(self.each(files))

    def each(self, files: Mapping[str, Path]) -> dict[str, str]:
        """The digest of every file's contents by its name."""
        return {name: found.digest for name, found in self.look(files).items()}

    def look(self, files: Mapping[str, Path]) -> dict[str, Found]:
        """Every file as it is now by its name."""
        before = dict(self._known)
        found = {name: self._file(path) for name, path in files.items()}
        if self.kept and self._known != before:
            write_bytes(self.path, json.dumps(self._known, indent=0).encode())
        return found

    def _file(self, path: Path) -> Found:
        key = str(path.resolve())
        seen = mark(path)
        if key in self._known and self._known[key][0] == seen:
            return Found(self._known[key][1], seen, True)
        value = file_digest(path)
        settled = bool(seen) and abs(time.time() - path.stat().st_mtime) > SETTLED_S
        if settled:
            self._known[key] = (seen, value)
        return Found(value, seen, settled)


def mark(path: Path) -> str:
    """A text that is another once the file is replaced or written to, whatever the clock says; empty without a file."""
    try:
        found = path.stat()
    except OSError:
        return ""
    return f"{found.st_size}.{found.st_ino}.{found.st_mtime_ns}.{found.st_ctime_ns}"
