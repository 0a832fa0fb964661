"""Which views train, which decide and which only judge: no choice is made on what is reported."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skyanchor.types import View

TEST_EVERY = 8
"""Every so many views one is kept for the test."""
FEWEST_VALIDATION = 3
"""Validation views, at least, where there are views enough: one alone shows a corner of the scene."""
MOST_VALIDATION = 8
"""Validation views, at most: they are scored again and again."""
FEWEST_APART = 4
"""With fewer views besides the test, the one that decides trains as well."""


@dataclass(frozen=True, eq=False)
class Split:
    """Views of one kind, in three."""

    training: tuple[View, ...]
    """What the Gaussians are fitted to."""
    validation: tuple[View, ...]
    """Scored during the work: they decide when to stop, what to keep and what to take back."""
    test: tuple[View, ...]
    """Scored once, at the end: they decide nothing."""


def split(views: tuple[View, ...], every: int = TEST_EVERY) -> Split:
    """Views 0, every, 2 every ... are the test; half as many, three or more, lie between them and decide, others train.

    With few views a single one decides. Where there are too few it is one of the training views, never one of the test.
    """
    test = np.arange(len(views)) % every == 0
    others = np.flatnonzero(~test)
    if len(others) < FEWEST_APART:
        return Split(_of(views, others), _of(views, others[len(others) // 2 :][:1]), _of(views, np.flatnonzero(test)))
    few = min(FEWEST_VALIDATION, len(views) // every)
    count = min(max(1, few, len(views) // (2 * every)), MOST_VALIDATION)
    deciding = others[((np.arange(count) + 0.5) / count * len(others)).astype(np.int64)]
    return Split(_of(views, np.setdiff1d(others, deciding)), _of(views, deciding), _of(views, np.flatnonzero(test)))


def _of(views: tuple[View, ...], rows: np.ndarray) -> tuple[View, ...]:
    return tuple(views[row] for row in rows)
