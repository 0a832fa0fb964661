"""A matcher of the user's own, found by name: nothing of SkyAnchor has to be edited for it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from skyanchor.backends.packages import Package, imported, missing
from skyanchor.errors import BackendError
from skyanchor.matching.choices import Own
from skyanchor.matching.protocol import Matcher

PARTS = ("key", "extract", "match_extracted", "match")
"""What a matcher has."""


def load(choice: Own, device: str) -> Matcher:
    """The matcher that the user's class loads; BackendError where that is none."""
    matcher = class_of(choice.target)(keypoints=choice.keypoints, longest=choice.longest).load(device)
    absent = [part for part in PARTS if not hasattr(matcher, part)]
    if absent:
        raise BackendError(f"{choice.target} loads no matcher: it has no {', '.join(absent)}. See docs/backends.md")
    return matcher


def class_of(target: str) -> Any:
    """The class that `module:Class` or `file.py:Class` names."""
    where, _, name = target.rpartition(":")
    if not where or not name:
        raise BackendError(f"{target!r} names no matcher. Give package.module:Class or path/to/file.py:Class")
    package = Package(where, where, "put it on PYTHONPATH")
    module = module_of(Path(where)) if where.endswith(".py") else imported(package)
    if not hasattr(module, name):
        raise BackendError(f"{where} has no {name}. Give the name of a class with keypoints, longest and load(device)")
    return getattr(module, name)


def module_of(path: Path) -> ModuleType:
    """The module that a file holds, run once per process."""
    name = f"own matcher {path.resolve()}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise BackendError(f"{path} does not exist. Give the file of your matcher")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except ModuleNotFoundError as error:
        del sys.modules[name]
        raise BackendError(missing(Package(str(path), name, ""), error.name or "")) from error
    return module
