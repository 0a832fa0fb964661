"""Which views train, which decide and which only judge: no choice is made on what is reported."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skyanchor.types import Bools, View

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


def split(views: tuple[View, ...], every: int = TEST_EVERY, among: Bools | None = None) -> Split:
    """Views 0, every, 2 every ... are the test; half as many, three or more, lie between them and decide, others train.

    With few views a single one decides. Where there are too few it is one of the training views, never one of the test.
    With `among` (V,) only those views take part, and a test view stays one: all of them where too few would be left.
    """
    test = np.arange(len(views)) % every == 0
    taken = np.ones(len(views), np.bool_)
    if among is not None and (among & test).any() and (among & ~test).sum() >= FEWEST_APART:
        taken = among
    others, judging, total = np.flatnonzero(taken & ~test), np.flatnonzero(taken & test), int(taken.sum())
    if len(others) < FEWEST_APART:
        return Split(_of(views, others), _of(views, others[len(others) // 2 :][:1]), _of(views, judging))
    few = min(FEWEST_VALIDATION, total // every)
    count = min(max(1, few, total // (2 * every)), MOST_VALIDATION)
    deciding = others[((np.arange(count) + 0.5) / count * len(others)).astype(np.int64)]
    return Split(_of(views, np.setdiff1d(others, deciding)), _of(views, deciding), _of(views, judging))


def _of(views: tuple[View, ...], rows: np.ndarray) -> tuple[View, ...]:
    return tuple(views[row] for row in rows)
