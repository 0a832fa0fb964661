"""What every choice of a backend has in common, and the checks of all choices in a tree of settings.

A choice is a frozen dataclass, light to import: its fields are the backend's settings. `needs` says which packages and
weights it takes, `check` tries whether it really runs here, `load(device)` gives the backend itself. The union of the
choices of a role (`AnyMatcher`, `AnyDescriptor`, `AnyLocal`, `AnyStereo`, `AnyRasteriser`) is the whole registry.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, Protocol, runtime_checkable


class Need(Protocol):
    """Something that a choice cannot run without."""

    @property
    def label(self) -> str:
        """What it is, and what it is called."""
        ...

    @property
    def command(self) -> str:
        """What to type to get it."""
        ...

    def place(self) -> str | None:
        """Which one is here, or where; None where it is not."""
        ...


@runtime_checkable
class Checked(Protocol):
    """Something whose use here can be tried."""

    def check(self) -> None:
        """SkyAnchorError that says what is missing and how to get it; nothing where it runs."""
        ...


class Choice(Checked, Protocol):
    """A backend and its settings."""

    @property
    def needs(self) -> tuple[Need, ...]:
        """Packages and weights beyond the core's."""
        ...


def check_all(*settings: object) -> None:
    """Every choice in trees of settings is checked, each once; the first that does not run here raises its error."""
    for choice in dict.fromkeys(found for tree in settings for found in choices_in(tree)):
        choice.check()


def choices_in(settings: Any) -> Iterator[Checked]:
    """What can be checked in nested dataclasses and tuples of them.

    Settings may have `unused`, the names of fields that play no part under their switches, and `implied`, choices that
    they mean without holding them.
    """
    if isinstance(settings, tuple):
        for item in settings:
            yield from choices_in(item)
    if not is_dataclass(settings) or isinstance(settings, type):
        return
    if isinstance(settings, Checked):
        yield settings
    used = [field.name for field in fields(settings) if field.name not in getattr(settings, "unused", ())]
    yield from choices_in((*getattr(settings, "implied", ()), *(getattr(settings, name) for name in used)))
