"""The street as a mesh, on request: depth of the posed street views, fused in tiles, joined, written for others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from skyanchor.errors import NothingPlacedError
from skyanchor.events import MESH, TRAJECTORY, Listener, Note
from skyanchor.gaussians.devices import Engine
from skyanchor.gaussians.surfels import GsplatSurfels
from skyanchor.meshing import Mesh, MeshConfig, blocks_near, coarser, depth_stack, joined, meshed, sampled
from skyanchor.meshing.extraction import Piece
from skyanchor.meshing.mesh import area_m2, without_crumbs, write_glb, write_ply
from skyanchor.photos import PhotoCache
from skyanchor.run.executor import Executor
from skyanchor.run.folder import Made, RunFolder, Stage
from skyanchor.run.job import Job
from skyanchor.run.layout import PROGRESS
from skyanchor.run.records import MESH_FILE, MESH_GLB, MESH_RECORD, MeshRecord
from skyanchor.run.results import Run
from skyanchor.scaffold import georeference
from skyanchor.scene.ground_points import GroundPointConfig, ground_cloud
from skyanchor.scene.surfels import StreetSurface, SurfelConfig, surfel_depths, trained_surfels
from skyanchor.scene.views import ground_views
from skyanchor.stages.digests import check_street_photos
from skyanchor.stages.street_depth import NEIGHBOURS, StreetPlan, confirmed, street_depth, typical_depth
from skyanchor.stereo import load_depth, save_depth
from skyanchor.stereo.backends import Photometry, RefineConfig
from skyanchor.stereo.consistency import ConsistencyConfig
from skyanchor.stereo.estimate import StereoConfig
from skyanchor.stereo.large_planes import LargePlaneConfig
from skyanchor.stereo.smoothing import SmoothConfig
from skyanchor.storage import files
from skyanchor.types import Ints, Pose, View

WHAT = "a mesh of the street"
TILE = 32
"""Blocks along the edge of a tile, one job."""


def _careful() -> GroundPointConfig:
    """More than splats need: wide baselines, all sources that see a place, large windows, planes averaged, no halo.

    And more views: a surface takes two that have measured it, so with every second one what three look at is lost.
    """
    stereo = StereoConfig(
        width=960,
        photometry=Photometry(best_sources=6),
        refine=RefineConfig(rounds=1, radius=5, tried_sources=8),
        smooth=SmoothConfig(tolerance_px=2.0),
    )
    agreeing = ConsistencyConfig(tolerance_px=6.0, fewest_layers=2)
    return GroundPointConfig(
        stereo=stereo,
        baselines=(0.6, 1.2, 2.4, 4.8),
        instead=1.5,
        consistency=agreeing,
        least_motion=0.4,
        halo_px=stereo.refine.radius,
        planes=LargePlaneConfig(),
    )


@dataclass(frozen=True)
class StreetMeshConfig:
    """Settings of the street's mesh."""

    points: GroundPointConfig = field(default_factory=_careful)
    """How the street is measured."""
    mesh: MeshConfig = field(default_factory=MeshConfig)
    """How depth becomes a mesh."""
    surfels: SurfelConfig | None = None
    """How surfels are trained whose depth is fused (CUDA); None fuses the measured depth itself."""


@dataclass(frozen=True, eq=False)
class TilePlan:
    """What the job of one tile needs."""

    blocks: Ints
    """(B, 3)."""
    depth: tuple[str, ...]
    """Files of the depth maps that say something here."""
    views: tuple[View, ...]
    """Their photos."""
    others: tuple[tuple[Pose, ...], ...]
    """For each, the cameras beside it on the walk."""
    config: MeshConfig


def run(folder: RunFolder, held: Run, config: StreetMeshConfig, executor: Executor) -> Made:
    """The mesh of a run whose trajectory is finished."""
    above = held.stage(TRAJECTORY)
    plan = _readied(folder, held, config) if folder.would_make(MESH, config, {}, (above,)) else None
    stage = folder.stage(MESH, WHAT, config, {}, (above,))
    if plan is not None:
        engine = None if config.surfels is None else Engine(GsplatSurfels().load("cuda"), "cuda")
        maps = street_depth(stage, plan, executor)
        if engine is not None and config.surfels is not None:
            maps = _of_surfels(stage, held, plan, maps, config.surfels, engine, executor)
        mesh = _fused(stage, plan, list(maps.values()), config.mesh, executor)
        if not len(mesh):
            raise NothingPlacedError(_nothing(config.mesh))
        _write(stage, held, mesh, config.mesh)
    return stage


def _readied(folder: RunFolder, held: Run, config: StreetMeshConfig) -> StreetPlan:
    """What is to be measured; SkyAnchorError, before an earlier mesh goes or another is begun, where it cannot be."""
    if config.surfels is not None:
        GsplatSurfels().check()
    views = ground_views(held.sequence, held.trajectory)
    if len(views) < 2:
        raise NothingPlacedError("fewer than two street frames have a pose: there is nothing to mesh")
    check_street_photos(folder, held)
    return StreetPlan(views, held.trajectory.points, held.scaffold.up, config.points)


def _nothing(config: MeshConfig) -> str:
    """What to tell where no triangle came of it."""
    seen = f"no surface that {config.least_views} street views have measured alike within {config.farthest_m:g} m"
    return f"{seen}: there is nothing to mesh. Try a larger --farthest, or a --voxel nearer to {MeshConfig.voxel_m:g}."


# --- surfels ------------------------------------------------------------------------------------------------------


def _of_surfels(
    stage: Stage, held: Run, plan: StreetPlan, maps: dict[str, Path], config: SurfelConfig, engine: Engine,
    executor: Executor,
) -> dict[str, Path]:  # fmt: skip
    """By name, files with the depth of surfels trained from the measured maps, in their views, confirmed alike."""
    measured = tuple(load_depth(path) for path in maps.values())
    cloud = ground_cloud(measured, plan.views, plan.config)
    surface = StreetSurface(plan.views, cloud, measured, held.scaffold.up, typical_depth(measured))
    checkpoint = stage.path(f"{PROGRESS}/surfels.npz")
    surfels = trained_surfels(surface, config, engine, stage.listen, MESH, checkpoint)
    by_name = {view.name: view for view in plan.views}
    seen = [by_name[one.name] for one in measured]
    drawn = {name: stage.path(f"{PROGRESS}/drawn/{name}") for name in maps}
    found = surfel_depths(surfels, seen, plan.config.stereo.width, config, engine)
    for path, one in zip(drawn.values(), found, strict=True):
        save_depth(path, one)
    return confirmed(stage, plan, drawn, executor, "surfel")


# --- fusion -------------------------------------------------------------------------------------------------------


def _fused(stage: Stage, plan: StreetPlan, maps: Sequence[Path], config: MeshConfig, executor: Executor) -> Mesh:
    """The joined mesh of all tiles."""
    by_name = {view.name: view for view in plan.views}
    near, views = [], []
    for path in maps:
        one = load_depth(path)
        near.append(blocks_near(one, config))
        views.append(by_name[one.name])
    jobs = {}
    for tile, (blocks, rows) in tiles(near, config.least_views).items():
        shared = f"{PROGRESS}/tiles/{tile}.npz"
        depth, seen = tuple(str(maps[row]) for row in rows), tuple(views[row] for row in rows)
        files.save(stage.path(shared), TilePlan(blocks, depth, seen, tuple(beside(views, row) for row in rows), config))
        jobs[f"{PROGRESS}/pieces/{tile}.npz"] = Job.of(mesh_tile_job, plan=stage.path(shared))
    pieces = [files.load(path, Piece) for path in stage.produce("tiles meshed", jobs, executor, config)]
    return without_crumbs(joined(pieces, config.voxel_m), config.least_faces)


def tiles(near: Sequence[Ints], least_views: int) -> dict[str, tuple[Ints, tuple[int, ...]]]:
    """By name, the blocks of each tile that enough maps reach, and the rows of the maps that reach any of them."""
    owner = np.repeat(np.arange(len(near)), [len(part) for part in near])
    blocks, row, count = np.unique(np.concatenate(near), axis=0, return_inverse=True, return_counts=True)
    row = row.ravel()
    kept = count >= least_views
    homes, home = np.unique(np.floor_divide(blocks, TILE), axis=0, return_inverse=True)
    home = np.where(kept, home.ravel(), -1)
    found = {}
    for k, place in enumerate(homes):
        mine = home == k
        if mine.any():
            name = "_".join(str(value) for value in place)
            found[name] = blocks[mine], tuple(np.unique(owner[mine[row]]).tolist())
    return found


def beside(views: Sequence[View], row: int) -> tuple[Pose, ...]:
    """The cameras of the views before and after one, those that confirm its depth."""
    near = range(max(0, row - NEIGHBOURS), min(len(views), row + NEIGHBOURS + 1))
    return tuple(views[k].cam_from_world for k in near if k != row)


def mesh_tile_job(out: str, plan: str, listen: Listener) -> None:
    """Write the piece of the mesh in one tile."""
    held = files.load(Path(plan), TilePlan)
    maps = [load_depth(Path(path)) for path in held.depth]
    photos = PhotoCache(64 << 20)
    pixels = [
        photos.photo(view.name, view.path, view.camera, one.depth.shape[1], view.mask_path)[0].pixels
        for view, one in zip(held.views, maps, strict=True)
    ]
    stack = depth_stack(maps, pixels, held.others, held.config)
    files.save(Path(out), meshed(sampled(stack, held.blocks, held.config)))


# --- results ------------------------------------------------------------------------------------------------------


def _write(stage: Stage, held: Run, mesh: Mesh, config: MeshConfig) -> None:
    """mesh.ply and its coarser levels in the user's coordinates, mesh.glb in the local frame, mesh.json."""
    georef = held.scaffold.georef
    offset = georeference.moved_by(georef)
    write_ply(stage.path(MESH_FILE), mesh, offset)
    sizes = []
    for k, share in enumerate(config.levels, 1):
        level = coarser(mesh, share)
        sizes.append(len(level))
        write_ply(stage.path(MESH_FILE).with_stem(f"mesh-{k}"), level, offset)
    write_glb(stage.path(MESH_GLB), mesh)
    georeference.write_georef(stage.folder, georef, held.scaffold.up)
    record = MeshRecord(len(mesh.vertices), len(mesh), tuple(sizes), area_m2(mesh), config.voxel_m, config.farthest_m)
    stage.save(MESH_RECORD, record)
    stage.listen(Note(MESH, f"{record.faces} triangles, {record.area_m2:.0f} m²"))
    stage.finish({"triangles": record.faces, "area_m2": record.area_m2})
