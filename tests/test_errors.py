"""Errors of ours go from one process to another: a pool that cannot read one takes it for a worker that died."""

from __future__ import annotations

import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from skyanchor import errors
from skyanchor.errors import InputError, SkyAnchorError

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, SkyAnchorError)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_error_is_the_same_in_another_process(kind: type[SkyAnchorError]) -> None:
    given = ("photos", "holds no photo", "Give another.") if kind is InputError else ("Nothing was found.",)
    error = kind(*given)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind and str(again) == str(error)


def test_a_long_problem_is_told_in_one_bearable_line() -> None:
    told = str(InputError(Path("a.ply"), "x\n" * 1000, "Export it again."))
    assert told.startswith("a.ply: x x") and told.endswith("x.... Export it again.")
    assert "\n" not in told and len(told) < 500


def refused() -> None:
    raise InputError("walk", "has photos of two sizes", "Give those of one camera.")


def test_a_pool_hands_it_on() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool, pytest.raises(InputError, match="two sizes"):
        pool.submit(refused).result()
