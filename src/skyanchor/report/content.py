"""What the report shows, as plain values: filled from stage results, written as one JSON block into the page."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import nan

from skyanchor.run.runtime import StageTime
from skyanchor.types import Bytes

STREET_TABLE, AIR_TABLE = "render from the street", "render from the air"
"""Headings of the tables of held-out views."""


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
    sigma_m: float = nan
    """Standard deviation of its least certain camera along the worst axis, metres; nan when refused."""
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
class MapPlace:
    """Where the map lies in the world."""

    system: str = ""
    """Name of the coordinate system; empty when the model does not say."""
    offset: tuple[float, float] = (0.0, 0.0)
    """Added to x and y gives the coordinates of the user's files, metres."""
    north_deg: float = nan
    """Direction of north, clockwise from the map's y axis, degrees; nan when nothing says where the model lies."""
    earth: tuple[tuple[float, float, float], tuple[float, float, float]] | None = None
    """Latitude and longitude in degrees as a + b x + c y of the map's metres; None when that is not known."""


@dataclass(frozen=True)
class Download:
    """A file that the page carries."""

    name: str
    kind: str
    """Media type."""
    what: str
    """For people."""
    text: str


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
    prior: tuple[tuple[tuple[tuple[float, float], ...], ...], ...] = ()
    """Where the user said that the walk was: per area its rings of corners."""
    place: MapPlace = field(default_factory=MapPlace)
    cuts: tuple[int, ...] = ()
    """Frames that no line leads to."""


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
    """Base64 of the .splat bytes: first what the update left alone, then what it changed as it was, then as it is."""
    counts: tuple[int, int, int]
    """Splats in these three parts."""
    total: int
    """Of the whole scene after the update."""
    picture: str
    """Data URI of the scene from the air, for paper and for browsers without scripts or WebGL; may be empty."""
    up: tuple[float, float, float]
    path: tuple[tuple[float, ...], ...]
    """Per posed frame: centre (3), forward (3)."""
    aerial: tuple[tuple[float, ...], ...]
    """Per aerial camera: centre (3), forward (3)."""


@dataclass(frozen=True)
class ChangeMark:
    """Something that is another way than before."""

    number: int
    how: str
    """appeared, vanished or altered."""
    x: float
    y: float
    size: str
    """Sides of the box around it, for people."""
    confidence: float
    before: str
    """Data URI of a picture; may be empty."""
    after: str
    photos: tuple[str, str]
    """Names of the photos behind the pictures."""


@dataclass(frozen=True)
class HiddenMark:
    """Something that vanished and is hidden in the splats."""

    number: int
    x: float
    y: float
    size: str
    """Sides of the box around it, for people."""
    gaussians: int
    before: str
    """Data URI of the splats there; may be empty."""
    after: str


@dataclass(frozen=True)
class MeshPictures:
    """The street's mesh, and the splats from the same places; data URIs, those of the splats may be empty."""

    faces: int
    area_m2: float
    air: str
    street: str
    splats_air: str
    splats_street: str


@dataclass(frozen=True)
class InputRow:
    """What went in."""

    what: str
    where: str
    """Path, as others may see it."""
    count: int
    """Photos; 0 where counting says nothing."""
    digest: str
    """Of its contents; empty where there is none."""


@dataclass(frozen=True)
class RecipeRow:
    """How one stage was made."""

    stage: str
    settings: dict[str, object]
    inputs: dict[str, str]
    versions: dict[str, str]


@dataclass(frozen=True)
class Provenance:
    """What, when, from what and how."""

    when: str = ""
    """When the last stage was finished, UTC."""
    inputs: tuple[InputRow, ...] = ()
    commands: tuple[str, ...] = ()
    """As they were typed, with short paths, the first one first."""
    recipes: tuple[RecipeRow, ...] = ()
    """Of every stage, in the order of the work."""


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
    memory: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Most memory at a time per stage, bytes: of the machine, of the GPU; 0 where it was not measured."""
    steps: tuple[StageTime, ...] = ()
    """Where the time of the anchors and of the trajectory went."""
    made: Provenance = field(default_factory=Provenance)
    downloads: tuple[Download, ...] = ()
    scene: Scene3d | None = None
    changes: tuple[ChangeMark, ...] = ()
    changed_since: str | None = None
    """What the changes are since, for people; None where nobody looked for any."""
    hidden: tuple[HiddenMark, ...] = ()
    """What the update hid because it vanished."""
    mesh: MeshPictures | None = None


@dataclass(frozen=True, eq=False)
class RenderedView:
    """Pixels behind a Comparison, all (H, W, 3) RGB of one size."""

    name: str
    kind: str
    photo: Bytes
    before: Bytes
    after: Bytes
