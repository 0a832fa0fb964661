"""Values made ahead: in order, on several threads, not without bound, and errors reach who asks."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from skyanchor import ahead
from skyanchor.ahead import made_ahead


def test_values_come_in_order_whoever_is_first() -> None:
    def slow_at_first(item: int) -> int:
        time.sleep(0.02 if item == 0 else 0.0)
        return item * item

    assert list(made_ahead(slow_at_first, range(20))) == [k * k for k in range(20)]


def test_several_are_at_work_while_one_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "threads", lambda: 2)
    both = threading.Barrier(2, timeout=10.0)
    assert list(made_ahead(lambda _: both.wait() >= 0, range(4))) == [True] * 4


def test_no_more_is_taken_than_threads_can_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "threads", lambda: 2)
    taken = []

    def items() -> Iterator[int]:
        for item in range(100):
            taken.append(item)
            yield item

    values = made_ahead(lambda item: item, items())
    assert next(values) == 0 and len(taken) == 3


def test_an_error_is_raised_where_its_value_was_due() -> None:
    values = made_ahead(lambda item: 1 // item, (2, 1, 0, 3))
    assert [next(values), next(values)] == [0, 1]
    with pytest.raises(ZeroDivisionError):
        next(values)
