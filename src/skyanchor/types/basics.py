"""Types of arrays, and the mark of fields that files seldom name."""

from __future__ import annotations

from types import MappingProxyType
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Floats32: TypeAlias = npt.NDArray[np.float32]
Ints: TypeAlias = npt.NDArray[np.int64]
Bytes: TypeAlias = npt.NDArray[np.uint8]
Bools: TypeAlias = npt.NDArray[np.bool_]

QUIET = MappingProxyType({"quiet": True})
"""Metadata of a field that files name only where it differs from its default."""
