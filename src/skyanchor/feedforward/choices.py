"""Where the geometry of a group or submap comes from: matched keypoints, a feed-forward network, a folder.

A choice and its settings each, light to import; the heavy imports happen in `load`.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from skyanchor.backends import weights
from skyanchor.backends.devices import resolved
from skyanchor.errors import BackendError, InputError

if TYPE_CHECKING:
    from skyanchor.feedforward.free_frames import LocalReconstruction
    from skyanchor.types import Sequence

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
    """Frames in one pass, which memory limits; longer submaps go in several passes that share the anchors.
    An anchor group is always one pass."""

    def check(self) -> None:
        """BackendError that says how to get what is missing."""
        weights.resolve(weights.VGGT, self.weights)
        if importlib.util.find_spec("vggt") is None:
            raise BackendError(f"VGGT needs the package vggt. Install it: {VGGT_ADVICE}")

    def load(self, device: str = "auto") -> LocalReconstruction:
        """The reconstruction, ready to run; the network is loaded once per process."""
        from skyanchor.feedforward.vggt import VggtReconstruction, load_network

        found, there = weights.resolve(weights.VGGT, self.weights), resolved(device)
        return VggtReconstruction(load_network(found, there), self, there)


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
FeedForward: TypeAlias = Vggt | FreeFolder
"""Those that give poses and depth in a frame of their own."""


def loaded(choice: FeedForward, sequence: Sequence, device: str = "auto") -> LocalReconstruction:
    """What reconstructs frames of the sequence, whichever the choice."""
    if isinstance(choice, FreeFolder):
        from skyanchor.feedforward.free_frames import FolderReconstruction

        return FolderReconstruction(choice.folder, sequence)
    return choice.load(device)
