"""Files that are whole or absent, and the typed values in them: atomic writes, removal, reading back.

Whatever the program writes is written here, and whatever it removes is removed here. A disk that refuses is a
WriteError, one line that names the place and says what to do, and the half file is gone.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from skyanchor.errors import InputError, WriteError
from skyanchor.storage import codec
from skyanchor.storage.digests import digest
from skyanchor.storage.exchange import exchanged

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
    """Rename a draft to its name; a folder of that name is gone only once the new one has it, else it is put back.

    Both are whole under their names at any moment where the disk can exchange them, nearly so elsewhere.
    """
    old = temporary(path.with_name(path.name + ".old"))
    aside = draft.is_dir() and path.is_dir() and not path.is_symlink()
    if aside and exchanged(draft, path):
        shutil.rmtree(draft)
        return
    if aside:
        shutil.rmtree(old, ignore_errors=True)
    elif draft.is_dir():
        remove(path)
    try:
        if aside:
            path.rename(old)
        draft.replace(path)
    except BaseException:
        if aside and old.is_dir() and not path.exists():
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
        try:
            draft.replace(target)
        finally:  # it is still there where the disk refuses, and where both are names of one file already
            remove(draft)
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


def mark(path: Path) -> str:
    """A text that is another once the file is replaced or written to, whatever the clock says; empty without a file."""
    try:
        found = path.stat()
    except OSError:
        return ""
    return f"{found.st_size}.{found.st_ino}.{found.st_mtime_ns}.{found.st_ctime_ns}"
