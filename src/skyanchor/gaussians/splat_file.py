"""A splat file and the frame it is in: files keep the user's coordinates, everything else works in the local frame."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from skyanchor.gaussians import ply
from skyanchor.gaussians.splats import Splats
from skyanchor.types import Floats


@dataclass(frozen=True, eq=False)
class SplatFile:
    """Where a file's Gaussians are: coordinates in the file = local coordinates + moved."""

    path: Path
    moved: Floats = field(default_factory=lambda: np.zeros(3))
    """(3,), metres; zero when the file is in the local frame."""

    @property
    def _offset(self) -> Floats | None:
        return self.moved if self.moved.any() else None

    def at(self, path: Path) -> SplatFile:
        """Another file in the same frame."""
        return replace(self, path=path)

    def read(self) -> Splats:
        """The usable Gaussians in the local frame."""
        return ply.read_splats(self.path, self._offset)

    def local(self, held: ply.PlyBytes) -> Splats:
        """The usable Gaussians of the file's own bytes, in the local frame."""
        return held.splats(self._offset)

    def in_file(self, splats: Splats) -> Splats:
        """Gaussians of the local frame in the file's coordinates."""
        if not self.moved.any():
            return splats
        return replace(splats, means=(splats.means.astype(np.float64) + self.moved).astype(np.float32))
