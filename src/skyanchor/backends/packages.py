"""Packages that a backend imports: tried for real, and told by name when they or what they need in turn is missing."""

from __future__ import annotations

import importlib
import io
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from types import ModuleType

from skyanchor.errors import BackendError

REGISTERED = {"cv2": "opencv-python-headless", "PIL": "pillow", "yaml": "pyyaml", "skimage": "scikit-image"}
"""Names in the registry of packages whose modules are called otherwise."""


@dataclass(frozen=True)
class Package:
    """A package that a choice needs."""

    name: str
    """In the registry."""
    module: str
    """What is imported of it."""
    command: str
    """What to type to get it."""

    @property
    def label(self) -> str:
        """What it is, and what it is called."""
        return f"package {self.name}"

    def place(self) -> str | None:
        """The version that is installed; None where none is."""
        try:
            return metadata.version(self.name)
        except metadata.PackageNotFoundError:
            return None


_ONE_BY_ONE = threading.RLock()


@contextmanager
def quietly() -> Iterator[None]:
    """A block whose prints and warnings nobody sees. One thread at a time, for all of a process share its output.

    Of two that overlap the second would give back what the first had put there, and all that is printed later is lost.
    """
    with _ONE_BY_ONE, redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def imported(package: Package) -> ModuleType:
    """The package's module; BackendError with the command that helps where it, or what it needs in turn, is missing."""
    try:
        with quietly():
            importlib.import_module(package.module.partition(".")[0])  # parts of one that failed before may be left
            return importlib.import_module(package.module)
    except ModuleNotFoundError as error:
        raise BackendError(missing(package, error.name or package.module)) from error
    except (ImportError, OSError, RuntimeError, AttributeError) as error:
        reason = str(error).partition("\n")[0]
        advice = f"Install it anew: {package.command}"
        raise BackendError(f"{package.name} cannot be imported ({reason}). {advice}") from error


def missing(package: Package, module: str) -> str:
    """What to say of a module that an import of the package did not find."""
    top = module.partition(".")[0]
    if top == package.module.partition(".")[0]:
        what = f"{package.name} is not installed" if module == top else f"{package.name} has no {module}"
        return f"{what}. Install it: {package.command}"
    name = REGISTERED.get(top, top)
    if module != top and find_spec(top) is not None:
        return f"{package.name} needs another version of {name}, one with {module}. {upgrade(name)}"
    advice = f"Install it: pip install -c constraints.txt {name}"
    return f"{package.name} is here, but {name}, which it needs, is not. {advice}"


def upgrade(name: str) -> str:
    """How to change the version of a package."""
    return f"Install that: pip install --upgrade {name}"
