"""Random transforms for property tests."""

from __future__ import annotations

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from skyanchor.geometry import rigid
from skyanchor.types import Floats, Pose, Similarity

settings.register_profile("repeatable", derandomize=True, deadline=None, database=None, max_examples=50)
settings.load_profile("repeatable")

_numbers = st.floats(-100.0, 100.0, allow_nan=False)


def vectors() -> st.SearchStrategy[Floats]:
    return st.tuples(_numbers, _numbers, _numbers).map(np.array)


def rotations() -> st.SearchStrategy[Floats]:
    angles = st.floats(-3.0, 3.0)
    return st.tuples(angles, angles, angles).map(lambda w: rigid.rotation_exp(np.array(w)))


def poses() -> st.SearchStrategy[Pose]:
    return st.builds(Pose, rotations(), vectors())


def similarities() -> st.SearchStrategy[Similarity]:
    scales = st.floats(-3.0, 3.0).map(lambda x: float(np.exp(x)))
    return st.builds(Similarity, scales, rotations(), vectors())
