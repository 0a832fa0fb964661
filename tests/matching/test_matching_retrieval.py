"""Vocabularies of a scene: from evenly many descriptors of each photo, however many photos there are."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import numpy as np

from skyanchor.matching.retrieval import even_sample, fit_vocabulary


def parts(count: int, rows: int) -> Iterator[np.ndarray]:
    for k in range(count):
        yield np.full((rows, 8), k, np.float32) + np.linspace(0.0, 0.5, rows, dtype=np.float32)[:, None]


def test_every_photo_has_its_share() -> None:
    found = even_sample(parts(40, 500), 40, most=1000)
    owners, counts = np.unique(np.floor(found[:, 0]), return_counts=True)
    assert len(owners) == 40 and set(counts) == {25}
    assert np.unique(found[:, 0]).size > 900, "rows of all of a photo, none twice"


def test_few_descriptors_are_all_taken_in_order() -> None:
    whole = np.concatenate(list(parts(6, 30)))
    assert even_sample(parts(6, 30), 6, most=200).tobytes() == whole.tobytes()
    centres = fit_vocabulary(whole, 6).centres
    assert sorted(np.floor(centres[:, 0]).tolist()) == [0, 1, 2, 3, 4, 5]


def test_memory_does_not_grow_with_the_photos() -> None:
    def peak(count: int) -> int:
        tracemalloc.start()
        even_sample(parts(count, 2000), count, most=1000)
        held = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return held

    assert peak(100) < 1.3 * peak(10) < 1_000_000
