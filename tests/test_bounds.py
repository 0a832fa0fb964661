"""Settings outside their bounds are refused by name; presets and ablations lie within."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Annotated, Any

import pytest

from skyanchor import bounds, pipeline
from skyanchor.bounds import Direction, Positive, Range, Rising
from skyanchor.errors import SkyAnchorError
from skyanchor.evaluation import ablations
from skyanchor.run.executor import executor_of


@pytest.mark.parametrize("name", pipeline.PRESETS)
def test_presets_lie_within(name: pipeline.Preset) -> None:
    bounds.check(pipeline.PRESETS[name])


@pytest.mark.parametrize("table", ["anchors", "trajectory", "update"])
def test_ablations_lie_within(table: ablations.Table) -> None:
    for variant in ablations.all_variants(table):
        bounds.check(variant.change(pipeline.CPU))


# --- each number ----------------------------------------------------------------------------------------------------


def _numbers(config: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], float]]:
    for field in fields(config):
        value = getattr(config, field.name)
        if is_dataclass(value):
            yield from _numbers(value, (*path, field.name))
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield (*path, field.name), value


def _with(config: Any, path: tuple[str, ...], value: float) -> Any:
    first, *rest = path
    return replace(config, **{first: _with(getattr(config, first), tuple(rest), value) if rest else value})


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -(10**12), 10**18])
def test_no_number_may_be_absurd(value: float) -> None:
    named = dict(_numbers(pipeline.CPU))
    assert len(named) > 150
    for path in named:
        if path[-1] == "most_aerial_loss_db" and value > 0:
            continue  # any loss may be allowed
        with pytest.raises(SkyAnchorError, match=rf"^The setting {'.'.join(path)} is "):
            bounds.check(_with(pipeline.CPU, path, value))


def test_both_ends_of_a_range_and_what_lies_beyond() -> None:
    closed, above = Range(0.0, 2.0), Range(0.0, 2.0, above=True)
    assert [closed.holds(x) for x in (-1e-9, 0.0, 2.0, 2.1, math.nan)] == [False, True, True, False, False]
    assert [above.holds(x) for x in (0.0, 1e-9, 2.0)] == [False, True, True]
    assert (closed.wanted, above.wanted) == ("from 0 to 2", "above 0 and at most 2")
    assert Rising().holds((1, 1, 2)) and not Rising().holds((2, 1))
    assert Direction().holds((0.0, 0.0, 1.0)) and not Direction().holds((0.0, 0.0, 0.0))
    assert not Direction().holds((math.nan, 0.0, 1.0))


@dataclass(frozen=True)
class _Inner:
    pairs: Annotated[tuple[Positive, ...], Rising()] = (1.0, 2.0)
    free: float = 0.0


@dataclass(frozen=True)
class _Outer:
    inner: _Inner | None = None
    several: tuple[_Inner, ...] = ()
    maybe: Positive | None = None


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (_Outer(_Inner((1.0, -2.0))), "inner.pairs is -2.0, but must be above 0"),
        (_Outer(_Inner((2.0, 1.0))), "inner.pairs is (2.0, 1.0), but must be numbers that do not fall"),
        (_Outer(several=(_Inner(), _Inner(free=math.inf))), "several.free is inf, but must be a finite number"),
        (_Outer(maybe=0.0), "maybe is 0.0, but must be above 0"),
    ],
)
def test_a_bound_is_found_wherever_it_stands(settings: _Outer, said: str) -> None:
    bounds.check(_Outer(_Inner(), (_Inner(),), 1.0))
    with pytest.raises(SkyAnchorError) as told:
        bounds.check(settings)
    assert said in str(told.value)


def test_python_is_told_too() -> None:
    with pytest.raises(SkyAnchorError, match="must be from 0 to 1024"):
        executor_of(-1)
