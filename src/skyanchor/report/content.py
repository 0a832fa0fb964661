"""What the report shows, as plain values: filled from stage results, written as one JSON block into the page."""

from __future__ import annotations

from dataclasses import dataclass, field

from skyanchor.types import Bytes


@dataclass(frozen=True)
class MapCamera:
    """An aerial camera on the map."""

    name: str
    x: float
    y: float


@dataclass(frozen=True)
class MapFrame:
    """A ground frame on the map; x and y are nan when it has no pose."""

    index: int
    name: str
    x: float
    y: float
    support: str
    sigma_m: float
    reason: str = ""


@dataclass(frozen=True)
class GroupRow:
    """An anchor group: where, accepted or refused, and why."""

    index: int
    first_frame: int
    last_frame: int
    accepted: bool
    reason: str
    """Empty when accepted."""
    detail: str
    x: float
    y: float
    figures: dict[str, float] = field(default_factory=dict)
    attempts: tuple[str, ...] = ()
    meaning: str = ""
    """The reason in plain words."""
    remedy: str = ""
    """What to try."""
    left_out: str = ""
    """Why the trajectory did not use an accepted group; empty when it did."""


@dataclass(frozen=True)
class SubmapRow:
    """A submap with its figures (closure error, counts)."""

    index: int
    first_frame: int
    last_frame: int
    figures: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class MapContent:
    """The top view: a raster of the scaffold and what lies on it; x east, y north, metres."""

    raster: str
    """Data URI; empty when there is none."""
    extent: tuple[float, float, float, float]
    """x_min, y_min, x_max, y_max of the raster, metres."""
    cameras: tuple[MapCamera, ...]
    frames: tuple[MapFrame, ...]
    truth: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True)
class Comparison:
    """One view: the photo beside the renders before and after the update."""

    name: str
    kind: str
    """aerial or ground."""
    photo: str
    before: str
    after: str
    error: str
    """Error map of `after`; all four are data URIs."""
    psnr_before: float
    psnr_after: float


@dataclass(frozen=True)
class MatchLine:
    """A match: from a pixel of the street picture to one of the aerial picture."""

    street_x: float
    street_y: float
    aerial_x: float
    aerial_y: float
    agrees: bool
    residual_px: float
    """In the street photo."""


@dataclass(frozen=True)
class MatchPicture:
    """A street photo and a part of an aerial photo, with matches of an anchor group."""

    group: int
    accepted: bool
    frame: str
    """Name of the street photo."""
    aerial_name: str
    street: str
    """Data URI."""
    street_size: tuple[int, int]
    """Width, height of the picture, pixels."""
    aerial: str
    """Data URI."""
    aerial_size: tuple[int, int]
    lines: tuple[MatchLine, ...]


@dataclass(frozen=True)
class Curve:
    """One line of a chart."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True)
class Scene3d:
    """The interactive scene: thinned splats in the .splat format, the walk and the aerial cameras."""

    splats: str
    """Base64 of the .splat bytes."""
    shown: int
    total: int
    up: tuple[float, float, float]
    path: tuple[tuple[float, ...], ...]
    """Per posed frame: centre (3), forward (3)."""
    aerial: tuple[tuple[float, ...], ...]
    """Per aerial camera: centre (3), forward (3)."""


@dataclass(frozen=True)
class Report:
    """Everything on the page."""

    title: str
    verdict: str
    """One sentence."""
    status: str
    """good, partial or refused."""
    map: MapContent
    groups: tuple[GroupRow, ...]
    submaps: tuple[SubmapRow, ...]
    figures: dict[str, dict[str, float]]
    """Tables of figures by heading."""
    reached: str = "anchors"
    """The last finished stage: anchors, trajectory or scene."""
    frames: int = 0
    """Street frames in all."""
    warnings: tuple[str, ...] = ()
    """What a person should know besides."""
    comparisons: tuple[Comparison, ...] = ()
    matches: tuple[MatchPicture, ...] = ()
    curves: tuple[Curve, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)
    settings: dict[str, object] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    scene: Scene3d | None = None


@dataclass(frozen=True, eq=False)
class RenderedView:
    """Pixels behind a Comparison, all (H, W, 3) RGB of one size."""

    name: str
    kind: str
    photo: Bytes
    before: Bytes
    after: Bytes
