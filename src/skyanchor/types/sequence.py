"""The walk: its frames, and the submaps and anchor groups that they are put into."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path

from skyanchor.types.geometry import Camera


@dataclass(frozen=True)
class Frame:
    """One photo of the ground sequence."""

    index: int
    """Position in the sequence, from 0."""
    name: str
    path: Path
    mask_path: Path | None = None


@dataclass(frozen=True)
class Submap:
    """A contiguous run of frames with an anchor group at each end."""

    index: int
    frames: tuple[int, ...]
    front: tuple[int, ...]
    """Frames of the front anchor group."""
    rear: tuple[int, ...]
    """Frames of the rear anchor group."""


@dataclass(frozen=True)
class AnchorGroup:
    """Consecutive frames that are localised together."""

    index: int
    frames: tuple[int, ...]
    submaps: tuple[int, ...]
    """Submaps whose front or rear lies in this group (two at a shared boundary)."""


@dataclass(frozen=True, eq=False)
class Sequence:
    """Unposed ground photos in order, one camera."""

    root: Path
    frames: tuple[Frame, ...]
    camera: Camera
    camera_is_guess: bool
    """True when the focal length was assumed and later stages may refine it."""
    submaps: tuple[Submap, ...]
    groups: tuple[AnchorGroup, ...]
    gps: tuple[tuple[float, float, float] | None, ...] = ()
    """Per frame EXIF latitude, longitude (deg), altitude (m); empty when no frame has any."""
    focal_sigma: float = 0.0
    """Relative standard deviation of the focal length: 0 as given, a few per cent from EXIF, much for a guess."""
    cuts: tuple[int, ...] = ()
    """Frames that begin a new stretch, in order: nothing is known of the way to them."""

    def stretch_of(self, frame: int) -> int:
        """Number of the stretch between cuts that a frame lies in."""
        return bisect_right(self.cuts, frame)
