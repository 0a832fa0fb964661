"""Photos, what is matched between two of them, and what one of them shows in depth."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from skyanchor.types.basics import Bools, Bytes, Floats, Floats32
from skyanchor.types.geometry import Camera, Pose


@dataclass(frozen=True, eq=False)
class Photo:
    """The pixels a matcher or renderer sees."""

    name: str
    pixels: Bytes
    """(H, W, 3), RGB."""
    mask: Bools | None = None
    """(H, W), True where the photo may be used; None means everywhere."""


@dataclass(frozen=True, eq=False)
class View:
    """A photo on disk with known intrinsics and pose."""

    name: str
    """Path relative to the image folder, as COLMAP stores it."""
    path: Path
    camera: Camera
    cam_from_world: Pose
    mask_path: Path | None = None
    """Black = ignore."""
    image_id: int = -1
    """COLMAP image id where the view comes from a model."""


@dataclass(frozen=True, eq=False)
class Matches:
    """Point correspondences between two photos a and b."""

    xy_a: Floats
    """(N, 2), pixels of photo a, pixel-centre convention."""
    xy_b: Floats
    """(N, 2), pixels of photo b."""
    score: Floats
    """(N,), higher is better; comparable only within one matcher."""
    sigma_px: float = 1.0
    """Localisation error of this matcher on these photos, pixels; pixel thresholds are multiples of it."""


@dataclass(frozen=True, eq=False)
class DepthMap:
    """Depth along the optical axis of one view, in a pinhole camera of its own resolution."""

    name: str
    camera: Camera
    """PINHOLE."""
    cam_from_world: Pose
    depth: Floats32
    """(H, W), metres; 0 = none."""
    confidence: Floats32
    """(H, W), 0..1."""
    completed: Bools
    """(H, W), True where the depth was filled in from its surroundings, not measured."""
    normal: Floats32
    """(H, W, 3), unit, world frame, towards the camera; zeros where there is no depth."""


@dataclass(frozen=True, eq=False)
class Cloud:
    """Surface points."""

    points: Floats32
    """(N, 3), metres."""
    normals: Floats32
    """(N, 3), unit."""
    colors: Bytes
    """(N, 3), RGB."""
    spacing: Floats32
    """(N,), distance to the neighbouring samples, metres."""
