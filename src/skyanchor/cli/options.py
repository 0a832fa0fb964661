"""What people say every day, with the words that the help shows. Nothing heavy is imported here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeAlias

import tyro
from tyro.conf import DisallowNone, arg

from skyanchor.bounds import Workers


def unless_said(metavar: str) -> Any:
    """An option that may be left away, whose help says what happens then."""
    return arg(metavar=metavar, help_behavior_hint="")


@dataclass(frozen=True)
class WithCommas:
    """Mark of an option whose parts are one word, with commas between them."""


WITH_COMMAS = WithCommas()
RunPath: TypeAlias = Annotated[Path, tyro.conf.Positional, arg(metavar="RUN")]
OptionalRunPath: TypeAlias = Annotated[Path | None, tyro.conf.Positional, unless_said("[RUN]")]
AerialPath: TypeAlias = Annotated[Path | None, unless_said("AERIAL")]
ImagesPath: TypeAlias = Annotated[Path | None, unless_said("PHOTOS")]
SplatsPath: TypeAlias = Annotated[Path | None, unless_said("PLY")]
Crs: TypeAlias = Annotated[str | None, unless_said("EPSG:CODE")]
StreetCamera: TypeAlias = Annotated[str | None, unless_said("CAMERA"), WITH_COMMAS]
TruthPath: TypeAlias = Annotated[Path, arg(metavar="MODEL")]
Processes: TypeAlias = Annotated[Workers, arg(metavar="N")]
Folder: TypeAlias = Annotated[Path, arg(metavar="DIR")]
Names: TypeAlias = Annotated[str | None, unless_said("NAMES"), WITH_COMMAS]
Choice: TypeAlias = Literal["auto", "cpu", "gpu", "paper"]
"""A preset of the pipeline, or auto."""

STAGE_VERBS = MappingProxyType(
    {
        "prepare": "Prepare an aerial model once for all walks: depth, surface, places, splats (stage 1).",
        "update": "Do the whole job: anchors, trajectory, and the street added to the splats, with a report.",
        "trajectory": "Recover the pose of every street frame (stages 1 to 3).",
        "anchors": "Localise groups of street frames in the aerial model (stages 1 and 2).",
    }
)
"""Verbs that run stages, and what they do."""
SETTINGS = ("scaffold", "sequence", "geometry", "anchors", "trajectory", "scene")
"""Groups of settings, in the order of the stages."""
BEYOND = {
    "prepare": ("sequence", "trajectory"),
    "anchors": ("trajectory", "scene"),
    "trajectory": ("scene",),
    "update": (),
}
"""Settings of stages that a verb does not reach."""
UNUSED = MappingProxyType({"anchors": ("splats",), "trajectory": ("splats",)})
"""Everyday options that a verb takes only for those after it, and does not name."""
SAID_SHORTER = ("sequence.camera", "scaffold.crs")
"""Settings that an everyday option says: one word for one thing."""


def _option(metavar: str | None, what: str) -> Any:
    return arg(metavar=metavar, help=what, help_behavior_hint="")


WorkersOption: TypeAlias = Annotated[
    Workers, _option("N", "Worker processes; 1 works in this process, 0 (the default) takes one per core that fits.")
]
EngineOption: TypeAlias = Annotated[
    str,
    _option(
        "processes|ray[:HOST:PORT]",
        "Where jobs run: in worker processes, or on a Ray cluster whose nodes see all files under the same paths.",
    ),
]
PhotosOption: TypeAlias = Annotated[
    DisallowNone[Path | None],
    _option("PHOTOS", "Folder of the aerial photos, where it is not found beside the model."),
]
CrsOption: TypeAlias = Annotated[
    DisallowNone[str | None],
    _option("EPSG:CODE", "Map projection of the aerial model's coordinates, where no georef.json beside it names it."),
]
RedoOption: TypeAlias = Annotated[bool, _option(None, "Replace stages that were made with other settings or inputs.")]


@dataclass(frozen=True)
class Options:
    """The everyday options of a verb that runs stages."""

    out: Annotated[Path, _option("RUN", "Run folder; what it holds already and was made the same way is kept.")]
    scaffold: Annotated[
        DisallowNone[Path | None],
        _option(
            "AERIAL",
            "A scaffold that `prepare` made, or another run (RUN/1-scaffold); or a folder with sparse/ (sparse/0) and "
            "images/, or the COLMAP model itself, from which one is made here. Needed the first time.",
        ),
    ] = None
    ground: Annotated[
        DisallowNone[Path | None],
        _option("WALK", "Folder of street photos in natural order, or a video. Needed the first time."),
    ] = None
    images: PhotosOption = None
    splats: Annotated[
        DisallowNone[Path | None],
        _option("PLY", "Aerial Gaussian model of the INRIA convention; `update` trains one without it."),
    ] = None
    onto: Annotated[
        tuple[Path, ...],
        _option(
            "RUN ...",
            "Runs of earlier walks on the same aerial model: the walk is also matched with their photos, their poses "
            "stand, and `update` goes on from their splats.",
        ),
    ] = ()
    crs: CrsOption = None
    camera: Annotated[
        DisallowNone[str | None],
        _option(
            "CAMERA",
            "Street camera: f=900, the focal length in pixels, or MODEL,params in COLMAP order (PINHOLE,fx,fy,cx,cy). "
            "EXIF or a guess without it, and a guess may be too far off.",
        ),
        WITH_COMMAS,
    ] = None
    near: Annotated[
        DisallowNone[str | None],
        _option("X,Y,RADIUS", "The walk stays within this circle, metres in the coordinates of the aerial model."),
        WITH_COMMAS,
    ] = None
    within: Annotated[
        DisallowNone[Path | None],
        _option(
            "AREA", "The walk stays in this area: GeoJSON, or lines of x,y in the coordinates of the aerial model."
        ),
    ] = None
    preset: Annotated[
        Choice,
        _option(
            "auto|cpu|gpu|paper",
            "Settings to start from. gpu: full-size depth and long training on CUDA; cpu: smaller and shorter; auto, "
            "the default: gpu where all of it is there, else cpu; paper: the paper's, on CUDA where there is one.",
        ),
    ] = "auto"
    workers: WorkersOption = 0
    engine: EngineOption = "processes"
    redo: RedoOption = False


@dataclass(frozen=True)
class Preparation:
    """The everyday options of `prepare`."""

    aerial: Annotated[
        Path,
        tyro.conf.Positional,
        _option("AERIAL", "Folder with sparse/ (or sparse/0) and images/, or the COLMAP model itself."),
    ]
    out: Annotated[Path, _option("SCAFFOLD", "Folder to write: the --scaffold of any number of walks.")]
    images: PhotosOption = None
    splats: Annotated[
        DisallowNone[Path | None],
        _option("PLY", "Aerial Gaussian model of the INRIA convention; one is trained without it."),
    ] = None
    crs: CrsOption = None
    ground: Annotated[
        DisallowNone[Path | None],
        _option("WALK", "A walk with the street camera of those to come; a phone's field of view without it."),
    ] = None
    camera: Annotated[
        DisallowNone[str | None],
        _option("CAMERA", "That street camera, where you know it: as for `update`."),
        WITH_COMMAS,
    ] = None
    preset: Annotated[Choice, _option("auto|cpu|gpu|paper", "Settings to start from, as for `update`.")] = "auto"
    workers: WorkersOption = 0
    engine: EngineOption = "processes"
    redo: Annotated[bool, _option(None, "Replace parts that were made with other settings or inputs.")] = False


@dataclass(frozen=True)
class SceneRun:
    """The everyday options of `dataset run`."""

    scene: Annotated[Path, tyro.conf.Positional, _option("SCENE", "Folder that `dataset` wrote.")]
    out: Annotated[
        Path,
        _option("RUNS", "Folder for the runs, one per walk; what is there and was made the same way is kept."),
    ]
    preset: Annotated[
        Choice,
        _option("auto|cpu|gpu|paper", "Settings to start from, paper without it; groups are laid out as in the paper."),
    ] = "paper"
    upto: Annotated[
        Literal["anchors", "trajectory", "update"],
        _option("anchors|trajectory|update", "Where to stop, update without it."),
    ] = "update"
    workers: WorkersOption = 0
    engine: EngineOption = "processes"
    redo: RedoOption = False
    json: Annotated[bool, _option(None, "Print JSON instead of a table.")] = False


SAID_BY_THE_SCENE = ("sequence.camera", "sequence.cut")
"""Settings that a scene of `dataset` says itself."""

PREPARATION_GROUPS = MappingProxyType(
    {
        "What you have": ("aerial", "out", "images", "splats", "crs"),
        "What walks will be taken with, if you know": ("ground", "camera"),
        "How good, how fast": ("preset", "workers", "engine"),
        "On a scaffold that is there": ("redo",),
    }
)
GROUPS = MappingProxyType(
    {
        "What you have": ("scaffold", "ground", "out", "onto", "images", "splats", "crs", "camera"),
        "Where the walk was, if you know": ("near", "within"),
        "How good, how fast": ("preset", "workers", "engine"),
        "On a run folder that is there": ("redo",),
    }
)
"""The everyday options by what a person wants to say."""

PREPARATION_EXAMPLES = (
    "skyanchor prepare survey/aerial --out survey/scaffold",
    "skyanchor prepare survey/aerial --out survey/scaffold --ground walk.mp4 --camera f=1450",
)
EXAMPLES = (
    "skyanchor {verb} --scaffold survey/aerial --ground walk.mp4 --out run --camera f=1450",
    "skyanchor {verb} --scaffold survey/aerial --ground photos --out run --near 120,-35,60 --preset cpu",
)
