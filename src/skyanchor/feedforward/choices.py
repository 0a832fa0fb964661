"""Where a submap's own geometry comes from: matched keypoints, a feed-forward network, or a folder made elsewhere.

A choice and its settings each, light to import; the heavy imports happen in `load`.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from skyanchor import weights
from skyanchor.errors import BackendError, InputError

if TYPE_CHECKING:
    from skyanchor.feedforward.free_frames import LocalReconstruction

VGGT_ADVICE = "pip install --no-deps git+https://github.com/facebookresearch/vggt && pip install einops huggingface_hub"


@dataclass(frozen=True)
class Incremental:
    """Keypoints matched frame by frame, the default: no weights."""

    def check(self) -> None:
        """Nothing is needed."""


@dataclass(frozen=True)
class Vggt:
    """VGGT-1B with the user's package and weights, which are for non-commercial use only."""

    side: int = 518
    """Width that photos are resized to, pixels, a multiple of 14."""
    weights: Path | None = None
    """Checkpoint or its folder; looked for in the usual places without it."""
    most_frames: int = 80
    """Frames in one pass, which memory limits; longer submaps go in several passes that share the anchors."""

    def check(self) -> None:
        """BackendError that says how to get what is missing."""
        weights.resolve(weights.VGGT, self.weights)
        if importlib.util.find_spec("vggt") is None:
            raise BackendError(f"VGGT needs the package vggt. Install it: {VGGT_ADVICE}")

    def load(self, device: str = "cpu") -> LocalReconstruction:
        """The reconstruction, ready to run."""
        from skyanchor.feedforward.vggt import VggtReconstruction, load_network

        found = weights.resolve(weights.VGGT, self.weights)
        return VggtReconstruction(load_network(found, device), self, device)


@dataclass(frozen=True)
class FreeFolder:
    """Poses and depth that VGGT-SLAM, MASt3R-SLAM or their like, run elsewhere, have left in a folder."""

    folder: Path
    """Holds trajectory.tum and depth/, see docs/backends.md."""

    def check(self) -> None:
        """InputError when there is nothing to read."""
        if not (self.folder / "trajectory.tum").is_file():
            raise InputError(self.folder, "has no trajectory.tum", "Give the folder with trajectory.tum and depth/.")


AnyLocal: TypeAlias = Incremental | Vggt | FreeFolder
