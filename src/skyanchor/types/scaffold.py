"""The aerial reference: its photos and points, where it lies, which of its photos show the same."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from skyanchor.types.basics import Bytes, Floats, Ints
from skyanchor.types.geometry import Plane
from skyanchor.types.images import View


@dataclass(frozen=True, eq=False)
class Georeference:
    """Where the local frame lies: x_original = x_local + offset, exactly."""

    offset: Floats
    """(3,), metres; zero when the model's own coordinates are small enough."""
    crs: str | None = None
    """Name of the original coordinate system, e.g. EPSG:32650, where known."""
    enu_origin: tuple[float, float, float] | None = None
    """Latitude (deg), longitude (deg), height (m) of the original frame's origin when it is a local ENU frame."""
    moved: Floats | None = None
    """(3,), what the loader subtracted from the user's files; None means the offset. It is another one where the files
    were local already and came with an offset of their own."""


class UpSource(Enum):
    """What the up direction of a scaffold rests on."""

    GIVEN = "given"
    GEOREFERENCE = "georeference"
    MODEL_AXIS = "model-axis"
    """The cameras and points agree with the model's z axis to a few degrees, so z it is."""
    CAMERAS = "cameras"
    """Level image axes of the photos."""
    POINTS = "points"
    """Normal of the dominant plane beneath the cameras."""


@dataclass(frozen=True, eq=False)
class Tracks:
    """Observations of 3D points in images, flat arrays of one length."""

    point: Ints
    """(K,), index into the points."""
    image: Ints
    """(K,), index into the views."""
    xy: Floats
    """(K, 2), pixels."""


@dataclass(frozen=True, eq=False)
class Scaffold:
    """The fixed aerial reference: posed photos, sparse points, up and ground; local frame."""

    root: Path
    views: tuple[View, ...]
    points: Floats
    """(M, 3), metres."""
    point_colors: Bytes
    """(M, 3), RGB."""
    point_ids: Ints
    """(M,), COLMAP point ids."""
    tracks: Tracks
    """Empty for a model that came without tracks."""
    up: Floats
    """(3,), unit."""
    ground: Plane
    georef: Georeference
    splats_path: Path | None = None
    """Aerial Gaussian model, INRIA .ply, in the model's original frame."""
    model_path: Path | None = None
    """Folder with the COLMAP files it was read from."""
    up_source: UpSource = UpSource.GIVEN
    whole: tuple[View, ...] = ()
    """The photos, where some of `views` are windows of them."""
    whole_of: Ints | None = None
    """(V,), index in `whole` of the photo that each of `views` is, or is a window of; None where all are photos."""


@dataclass(frozen=True, eq=False)
class VisibilityGraph:
    """Directed top-N_vis neighbours of every aerial view by footprint overlap, best first."""

    neighbours: tuple[Ints, ...]
    """Per view, indices of its neighbours."""
    weights: tuple[Floats, ...]
    """Per view, footprint IoU of each neighbour, 0..1."""
