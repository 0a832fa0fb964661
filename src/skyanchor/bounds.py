"""How far a setting may go: declared on its field as part of its type, checked in one place before anything begins.

A field says `motion: Positive = 0.03`, or `Annotated[int, Range(1, 100)]` where no name here fits. Every number of
every setting has such a bound; a float that has none must be finite.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import math
import types
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Annotated, Any, ParamSpec, Protocol, TypeAlias, TypeVar, runtime_checkable

from skyanchor.errors import SkyAnchorError

P = ParamSpec("P")
R = TypeVar("R")


# --- kinds of bounds ----------------------------------------------------------------------------------------------


@runtime_checkable
class Bound(Protocol):
    """What a value must be like."""

    @property
    def wanted(self) -> str:
        """It in words, after "must be"."""
        ...

    def holds(self, value: Any) -> bool:
        """Whether the value is like that."""
        ...


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, both included."""

    low: float
    high: float
    above: bool = False
    """`low` itself is too small."""

    @property
    def wanted(self) -> str:
        """Both ends."""
        return f"above {self.low:g} and at most {self.high:g}" if self.above else f"from {self.low:g} to {self.high:g}"

    def holds(self, value: float) -> bool:
        """Whether a number lies within; nan never does."""
        return self.low <= value <= self.high and not (self.above and value == self.low)


@dataclass(frozen=True)
class ZeroOr:
    """Nothing, or numbers from `low` to `high`."""

    low: float
    high: float

    @property
    def wanted(self) -> str:
        """All of it."""
        return f"0, or from {self.low:g} to {self.high:g}"

    def holds(self, value: float) -> bool:
        """Whether a number is one of them; nan never is."""
        return value == 0.0 or self.low <= value <= self.high


@dataclass(frozen=True)
class Rising:
    """Numbers of which none is smaller than the one before it."""

    wanted: str = "numbers that do not fall"

    def holds(self, values: tuple[float, ...]) -> bool:
        """Whether they are in order."""
        return all(a <= b for a, b in itertools.pairwise(values))


@dataclass(frozen=True)
class Direction:
    """A vector that points somewhere."""

    wanted: str = "a direction, not all zero"

    def holds(self, vector: tuple[float, ...]) -> bool:
        """Whether its length is one that can be divided by."""
        return 1e-9 <= math.hypot(*vector) <= 1e9


Count: TypeAlias = Annotated[int, Range(1, 1e9)]
CountOrNone: TypeAlias = Annotated[int, Range(0, 1e9)]
Few: TypeAlias = Annotated[int, Range(1, 1000)]
"""Of frames, photos, rounds: what is gone through one by one."""
FewOrNone: TypeAlias = Annotated[int, Range(0, 1000)]
Pixels: TypeAlias = Annotated[int, Range(16, 65536)]
"""Of the side of a picture."""
Radius: TypeAlias = Annotated[int, Range(1, 64)]
"""Of a window around a pixel, pixels."""
Keypoints: TypeAlias = Annotated[int, Range(1, 1e6)]
"""Of one photo."""
Seed: TypeAlias = Annotated[int, Range(0, 2**31 - 1)]
Positive: TypeAlias = Annotated[float, Range(0.0, 1e9, above=True)]
NotNegative: TypeAlias = Annotated[float, Range(0.0, 1e9)]
NotNegativeOrAny: TypeAlias = Annotated[float, Range(0.0, math.inf)]
"""Infinite where nothing is too much."""
Share: TypeAlias = Annotated[float, Range(0.0, 1.0)]
Cosine: TypeAlias = Annotated[float, Range(-1.0, 1.0)]
Degrees: TypeAlias = Annotated[float, Range(0.0, 180.0)]
Coordinate: TypeAlias = Annotated[float, Range(-1e9, 1e9)]
"""Metres; the Earth's centre is nearer."""
Voxel: TypeAlias = Annotated[float, Range(0.001, 10.0)]
"""Of a lattice in a street, metres."""
Reach: TypeAlias = Annotated[float, Range(0.1, 10_000.0)]
"""How far from a camera, metres."""
Workers: TypeAlias = Annotated[int, Range(0, 1024)]
"""Processes; 0 leaves their number to the machine."""


# --- the check ----------------------------------------------------------------------------------------------------


def check(settings: object) -> None:
    """SkyAnchorError that names the first setting in a tree of dataclasses that lies outside its bound."""
    for path, value, wanted in _outside(settings, type(settings), ()):
        raise SkyAnchorError(f"The setting {'.'.join(path)} is {value}, but must be {wanted}.")


def checked(verb: Callable[P, R]) -> Callable[P, R]:
    """The verb, which refuses options and settings outside their bounds before it begins."""
    hints = typing.get_type_hints(verb, include_extras=True)

    @functools.wraps(verb)
    def bounded(*given: P.args, **named: P.kwargs) -> R:
        for name, value in inspect.signature(verb).bind(*given, **named).arguments.items():
            for path, found, wanted in _outside(value, hints.get(name, Any), () if is_dataclass(value) else (name,)):
                option = ".".join(path).replace("_", "-")
                more = f" `--help {option.rpartition('.')[0]}` says what it does." if len(path) > 1 else ""
                raise SkyAnchorError(f"--{option} {found}: it must be {wanted}.{more}")
        return verb(*given, **named)

    return bounded


def _outside(value: Any, hint: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any, str]]:
    """(path, value, what is wanted) of everything in a value that its annotation does not allow."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if value is None:
        return
    if is_dataclass(value) and not isinstance(value, type):
        hints = _hints(type(value))
        for field in fields(value):
            yield from _outside(getattr(value, field.name), hints[field.name], (*path, field.name))
    elif origin is Annotated:
        if typing.get_origin(args[0]) is not None:  # a tuple, or one of several: bounds may stand within
            yield from _outside(value, args[0], path)
        for bound in hint.__metadata__:
            if isinstance(bound, Bound) and not bound.holds(value):
                yield path, value, bound.wanted
    elif origin in (typing.Union, types.UnionType):
        for arm in args:
            yield from _outside(value, arm, path)
    elif isinstance(value, tuple):
        for item, kind in zip(value, _items(args, len(value)), strict=True):
            yield from _outside(item, kind, path)
    elif isinstance(value, float) and not math.isfinite(value):
        yield path, value, "a finite number"


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    """The annotations of a dataclass, whose text takes long to evaluate."""
    return typing.get_type_hints(kind, include_extras=True)


def _items(args: tuple[Any, ...], count: int) -> tuple[Any, ...]:
    """The annotation of each item of a tuple."""
    return args if len(args) == count and Ellipsis not in args else (args[0] if args else Any,) * count
