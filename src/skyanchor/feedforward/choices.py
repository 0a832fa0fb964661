"""Where the geometry of a group or submap comes from: matched keypoints, a feed-forward network, a folder.

A choice and its settings each, light to import; the heavy imports happen in `load`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, TypeAlias

from skyanchor.backends import weights
from skyanchor.backends.choices import Need
from skyanchor.backends.devices import resolved
from skyanchor.backends.packages import Package
from skyanchor.bounds import Range
from skyanchor.errors import InputError

if TYPE_CHECKING:
    from skyanchor.feedforward.free_frames import LocalReconstruction
    from skyanchor.types import Sequence

VGGT = Package(
    "vggt",
    "vggt.models.vggt",
    "pip install --no-deps git+https://github.com/facebookresearch/vggt && pip install einops huggingface_hub",
)


@dataclass(frozen=True)
class Incremental:
    """Keypoints matched frame by frame, the default: nothing to load, the matcher's keypoints are all it takes."""

    needs: ClassVar[tuple[Need, ...]] = ()

    def check(self) -> None:
        """Nothing is needed."""


@dataclass(frozen=True)
class Vggt:
    """VGGT-1B with the user's package and weights, which are for non-commercial use only."""

    needs: ClassVar[tuple[Need, ...]] = (weights.VGGT, VGGT)
    side: Annotated[int, Range(14, 4096)] = 518
    """Width that photos are resized to, pixels, a multiple of 14."""
    weights: Path | None = None
    """Checkpoint or its folder; looked for in the usual places without it."""
    most_frames: Annotated[int, Range(2, 1000)] = 80
    """Frames in one pass, which memory limits; longer submaps go in several passes that share the anchors.
    An anchor group is always one pass."""

    def check(self) -> None:
        """BackendError that says what is missing; all but the network itself is loaded for that."""
        from skyanchor.feedforward.vggt import check

        check(self)

    def load(self, device: str = "auto", sequence: Sequence | None = None) -> LocalReconstruction:
        """The reconstruction, ready to run; the network is loaded once per process, `sequence` plays no part."""
        from skyanchor.feedforward.vggt import VggtReconstruction, load_network

        found, there = weights.resolve(weights.VGGT, self.weights), resolved(device)
        return VggtReconstruction(load_network(found, there), self, there)


@dataclass(frozen=True)
class FreeFolder:
    """Poses and depth that VGGT-SLAM, MASt3R-SLAM or their like, run elsewhere, have left in a folder."""

    needs: ClassVar[tuple[Need, ...]] = ()
    named_by: ClassVar[tuple[str, ...]] = ("folder",)
    folder: Path
    """Holds trajectory.tum and depth/, see docs/backends.md."""

    def check(self) -> None:
        """InputError when there is nothing to read."""
        if not (self.folder / "trajectory.tum").is_file():
            raise InputError(self.folder, "has no trajectory.tum", "Give the folder with trajectory.tum and depth/.")

    def load(self, device: str, sequence: Sequence) -> LocalReconstruction:
        """What the folder says of the sequence's frames; nothing is computed, so `device` plays no part."""
        from skyanchor.feedforward.free_frames import FolderReconstruction

        return FolderReconstruction(self.folder, sequence)


AnyLocal: TypeAlias = Incremental | Vggt | FreeFolder
FeedForward: TypeAlias = Vggt | FreeFolder
"""Those that give poses and depth in a frame of their own."""
