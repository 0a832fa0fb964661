"""`skyanchor mesh`: the street of a finished run as a triangle mesh."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import tyro

from skyanchor.bounds import Reach, Voxel
from skyanchor.cli.options import Processes, RunPath


def mesh(
    run: RunPath,
    /,
    voxel: Annotated[Voxel, tyro.conf.arg(metavar="METRES")] = 0.03,
    farthest: Annotated[Reach, tyro.conf.arg(metavar="METRES")] = 20.0,
    way: Literal["depth", "surfels"] = "depth",
    workers: Processes = 0,
    redo: bool = False,
) -> None:
    """Mesh what the street views of a run see, in RUN/5-mesh: coloured, holes left open, in your coordinates.

    Args:
        run: Run folder whose trajectory is finished.
        voxel: Distance of the grid's points: smaller is finer and larger on disk.
        farthest: Depth beyond which a street view takes no part.
        way: Fuse the measured depth, or that of flat Gaussians trained on the photos from it (2DGS; needs a GPU).
        workers: Worker processes; 0 takes one per core as memory allows.
        redo: Replace a mesh that was made with other settings.
    """
    _mesh(run, voxel, farthest, way, workers, redo)


def _mesh(root: Path, voxel: float, farthest: float, way: str, workers: int, redo: bool) -> None:
    from skyanchor.cli.runs import opened
    from skyanchor.meshing import MeshConfig
    from skyanchor.run.executor import executor_of
    from skyanchor.run.results import open_run
    from skyanchor.scene.surfels import SurfelConfig
    from skyanchor.stages import mesh as stage

    held = open_run(root)
    mesh = MeshConfig(voxel_m=voxel, band_m=4 * voxel, farthest_m=farthest)
    config = stage.StreetMeshConfig(mesh=mesh, surfels=SurfelConfig() if way == "surfels" else None)
    with opened(root, redo) as folder:
        made = stage.run(folder, held, config, executor_of(workers))
    print(f"{made.path('mesh.ply')} in your coordinates, mesh.glb beside it for viewers.")
