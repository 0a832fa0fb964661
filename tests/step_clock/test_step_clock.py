"""Seconds go to the innermost open step, once."""

from __future__ import annotations

import pytest

from skyanchor import step_clock
from skyanchor.step_clock import StepClock


@pytest.fixture
def tick(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(step_clock.time, "perf_counter", lambda: now[0])
    return now


def test_nested_steps_do_not_count_twice(tick: list[float]) -> None:
    clock = StepClock()
    with clock.step("outer"):
        tick[0] += 1.0
        with clock.step("inner"):
            tick[0] += 4.0
        tick[0] += 2.0
    tick[0] += 50.0
    with clock.step("inner"):
        tick[0] += 0.5
    assert clock.with_total == {"outer": 3.0, "inner": 4.5, "total": 7.5}
    assert clock.take() == {"outer": 3.0, "inner": 4.5}
    assert clock.take() == {}


def test_a_step_that_fails_is_counted_and_closed(tick: list[float]) -> None:
    clock = StepClock()
    with pytest.raises(ValueError, match="broken"), clock.step("a"):
        tick[0] += 3.0
        raise ValueError("broken")
    tick[0] += 9.0
    with clock.step("b"):
        tick[0] += 1.0
    assert clock.seconds == {"a": 3.0, "b": 1.0}
