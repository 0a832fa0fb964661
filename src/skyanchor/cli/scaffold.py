"""`skyanchor scaffold`: the aerial model checked, its Gaussians trained."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from skyanchor.bounds import Coordinate, Count, Direction
from skyanchor.cli.options import Crs, ImagesPath, SplatsPath, unless_said
from skyanchor.cli.tables import print_summary

if TYPE_CHECKING:
    from skyanchor.types import Scaffold

GPS_PHOTOS = 40
"""Photos whose EXIF position is asked for, about."""


def check(
    path: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="AERIAL")],
    /,
    images: ImagesPath = None,
    splats: SplatsPath = None,
    up: Annotated[Annotated[tuple[float, float, float], Direction()] | None, unless_said("X Y Z")] = None,
    ground_height: Annotated[Coordinate | None, unless_said("METRES")] = None,
    crs: Crs = None,
    fix_frame: SplatsPath = None,
    json: bool = False,
) -> None:
    """Read an aerial model and print what was understood of it; splats are compared with the photos.

    Args:
        path: Folder with sparse/ (or sparse/0) and images/, or the COLMAP model itself.
        images: Folder of the photos, where it is not found beside the model.
        splats: Aerial Gaussian model, a .ply of the INRIA convention.
        up: Up direction in the model's coordinates, where the model does not tell.
        ground_height: Ground level along up in the model's coordinates, metres.
        crs: Map projection of the model's coordinates, e.g. EPSG:25832, as in a georef.json beside it.
        fix_frame: Where to write the splats, brought into the model's frame, if they lie in another one.
        json: Print JSON instead of a table.
    """
    from skyanchor.scaffold import OrientationConfig, ScaffoldConfig, describe, load_scaffold
    from skyanchor.storage import codec

    config = ScaffoldConfig(OrientationConfig(up=up, ground_height=ground_height), crs=crs)
    held = load_scaffold(path, images, splats, config)
    summary = describe(held)
    if json:
        print(codec.dumps(summary), end="")
    else:
        print_summary(summary)
    _say_system(held)
    if held.splats_path is not None:
        _check_splats(held, fix_frame)


def train(
    scaffold: Annotated[Path, tyro.conf.arg(metavar="AERIAL")],
    out: Annotated[Path, tyro.conf.arg(metavar="SCAFFOLD")],
    images: ImagesPath = None,
    device: Literal["auto", "cpu", "cuda"] = "auto",
    iterations: Annotated[Count | None, unless_said("N")] = None,
    redo: bool = False,
) -> None:
    """Train Gaussians of an aerial model that has none; writes SCAFFOLD/splats/splats.ply.

    Args:
        scaffold: Folder with sparse/ (or sparse/0) and images/, or the COLMAP model itself.
        out: Folder of the prepared scaffold.
        images: Folder of the photos, where it is not found beside the model.
        device: auto is CUDA where everything for it is there, else the CPU.
        iterations: Steps; the device's preset without it.
        redo: Replace Gaussians that were made with other settings or inputs.
    """
    from skyanchor.gaussians.devices import load_engine
    from skyanchor.report.progress import display
    from skyanchor.run.executor import InProcess
    from skyanchor.run.prepared import Prepared
    from skyanchor.scaffold import load_scaffold
    from skyanchor.scaffold.training import preset, with_iterations
    from skyanchor.stages.splats import splats_part
    from skyanchor.stages.work import Site

    engine = load_engine(device)
    config = preset(engine.device)
    config = config if iterations is None else with_iterations(config, iterations)
    with display(sys.stderr) as show:
        site = Site(load_scaffold(scaffold, images), Prepared(out), InProcess(), show, redo)
        splats = splats_part(site, engine, config)
    print(f"written to {splats.path('.')}")


def _say_system(held: Scaffold) -> None:
    """Where the model is of an unnamed map and its photos have GPS, the georef.json that names the map."""
    from skyanchor.scaffold import georeference
    from skyanchor.sequence.intrinsics import read_exif

    if not georeference.unplaced(held):
        return
    step = max(1, len(held.views) // GPS_PHOTOS)
    gps = [read_exif(view.path).gps if k % step == 0 else None for k, view in enumerate(held.views)]
    fitting = georeference.fitting_systems(held, gps)
    if fitting:
        print(georeference.advice(held, fitting), file=sys.stderr)


def _check_splats(held: Scaffold, out: Path | None) -> None:
    """Say whether the splats show the photos; write them repaired to `out`, or stop and say how far off they are."""
    from skyanchor.errors import InputError
    from skyanchor.gaussians.devices import load_engine
    from skyanchor.scaffold import frame_check
    from skyanchor.storage import taken
    from skyanchor.types import Refusal

    engine, given = load_engine("auto"), frame_check.load_aerial_splats(held)
    assert given is not None and held.splats_path is not None
    if out is not None:
        taken.refuse_lost(out, held.splats_path, begins=taken.PLY)
    verdict = frame_check.check_frame(given, held, engine)
    print(verdict, file=sys.stderr)
    if verdict.fits:
        return
    fix = frame_check.fix_frame(given, held, engine)
    if isinstance(fix, Refusal):
        raise InputError(held.splats_path, fix.detail, "Is it a model of this flight? Else leave it out and train one.")
    if out is None:
        advice = "Give --fix-frame FIXED.ply to have it written in the model's frame."
        raise InputError(held.splats_path, f"lies in another frame: {fix}", advice)
    frame_check.write_fixed(out, given, fix, held)
    print(f"{fix}; written to {out}", file=sys.stderr)
