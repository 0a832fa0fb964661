"""`skyanchor walk`: the street photos or video looked at before anything long begins."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from skyanchor.cli.options import AerialPath, Crs, ImagesPath, StreetCamera
from skyanchor.cli.tables import print_walk

if TYPE_CHECKING:
    from skyanchor.sequence.summary import WalkSummary
    from skyanchor.types import Scaffold


def check(
    path: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="WALK")],
    /,
    camera: StreetCamera = None,
    scaffold: AerialPath = None,
    images: ImagesPath = None,
    crs: Crs = None,
    json: bool = False,
) -> None:
    """Look at street photos or a video and print what a run would take of them, and how long it may need.

    Args:
        path: Folder of street photos, or a video. Nothing is written.
        camera: Street camera as for `update`: f=900, or MODEL,params in COLMAP order; EXIF or a guess without it.
        scaffold: Aerial model or prepared scaffold that the walk will stand on: for GPS and the estimate.
        images: Folder of the aerial photos, where it is not found beside the model.
        crs: Map projection of the aerial model's coordinates, where no georef.json beside it names it.
        json: Print JSON instead of a table.
    """
    from skyanchor.report.progress import display
    from skyanchor.sequence import SequenceConfig
    from skyanchor.sequence.summary import describe
    from skyanchor.storage import codec

    with display(sys.stderr) as listen:
        summary = describe(path, SequenceConfig(camera=camera), listen)
    if json:
        print(codec.dumps(summary), end="")
        return
    lines, warnings = _with_model(summary, _aerial(scaffold, images, crs) if scaffold is not None else None)
    print_walk(summary, lines, warnings)


def _with_model(summary: WalkSummary, aerial: tuple[Scaffold, bool] | None) -> tuple[list[tuple[str, str]], list[str]]:
    """Rows on GPS and time, and warnings, from the aerial model where one is given."""
    from skyanchor.gaussians.gsplat_adapter import missing_for_cuda
    from skyanchor.presets import CPU, GPU
    from skyanchor.scaffold.gps_check import gps_on_model
    from skyanchor.stages.outlook import Load, estimate
    from skyanchor.stages.scaffold import depth_megapixels

    held, ready = aerial if aerial is not None else (None, True)
    rows, warnings = [], []
    if held is not None and summary.gps:
        said, warning = gps_on_model(summary.gps, held)
        rows.append(("GPS on the model", said))
        warnings += [warning] if warning else []
    photos = 0 if held is None or ready else len(held.views)
    gpu = missing_for_cuda() is None
    geometry = (GPU if gpu else CPU).geometry
    megapixels = 0.0 if held is None or ready else depth_megapixels(held, geometry)
    walk = (megapixels, summary.groups, summary.submaps, summary.frames)
    poses, whole = (estimate(Load(*walk, scene), gpu) for scene in (False, True))
    stands = "on a prepared scaffold" if photos == 0 else f"{photos} aerial photos prepared first"
    rows.append(("`trajectory`", f"{poses} ({stands})"))
    rows.append(("`update`", str(whole)))
    return rows, warnings


def _aerial(path: Path, images: Path | None, crs: str | None) -> tuple[Scaffold, bool]:
    """The aerial model, and whether it was prepared."""
    from skyanchor.run.prepared import find_prepared
    from skyanchor.scaffold import ScaffoldConfig, georeference, load_scaffold

    prepared = find_prepared(path)
    if prepared is not None:
        held = prepared.scaffold(images)
        return replace(held, georef=georeference.named(held.georef, crs, prepared.root)), True
    return load_scaffold(path, images, None, ScaffoldConfig(crs=crs, check_photos=False)), False
