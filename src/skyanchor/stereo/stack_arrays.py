"""Small arrays on the stack of a compiled function, for the scratch of a hot loop.

Nothing else can point to them, and the compiler knows it: loops over them become vectors without a question whether
arrays overlap. They hold what the stack held, and are gone when the function returns.
"""
# mypy: disable-error-code="no-untyped-def, no-untyped-call, misc"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba as nb
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.extending import intrinsic

from skyanchor.compiled import njit

STACKED = 512
"""Elements of such an array."""


def _pointer(element: Any, stored: ir.Type) -> Callable[[], Any]:
    """A function, for compiled code alone, that returns a pointer to `STACKED` elements on the stack."""

    @intrinsic
    def pointer(context):
        def written(context, builder, signature, arguments):
            return cgutils.alloca_once(builder, stored, size=STACKED)

        return types.CPointer(element)(), written  # type: ignore[attr-defined]

    return pointer


_floats = _pointer(types.float32, ir.FloatType())
_integers = _pointer(types.int32, ir.IntType(32))
_words = _pointer(types.uint64, ir.IntType(64))


@njit(inline="always")
def stack_floats():
    """(STACKED,) float32."""
    return nb.carray(_floats(), STACKED)


@njit(inline="always")
def stack_integers():
    """(STACKED,) int32."""
    return nb.carray(_integers(), STACKED)


@njit(inline="always")
def stack_words():
    """(STACKED,) uint64."""
    return nb.carray(_words(), STACKED)
