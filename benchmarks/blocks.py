"""What training in blocks costs, and whether it shows where they meet: the same aerial photos whole and in blocks.

    python benchmarks/blocks.py SCAFFOLD [--side M] [--margin M] [--work DIR] [--workers N]

SCAFFOLD is a prepared scaffold with depth. Both are trained with the CPU's settings. The test photos' pixels are told
apart by the depth of what they show: within a metre of where two blocks meet, and elsewhere.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from skyanchor.gaussians.devices import Engine, load_engine
from skyanchor.gaussians.ply import read_ply
from skyanchor.gaussians.scoring import rendered_rgb
from skyanchor.gaussians.splats import Splats, to_tensors
from skyanchor.gaussians.split import split
from skyanchor.gaussians.views import TrainingView, load_target
from skyanchor.geometry import cameras
from skyanchor.geometry.depth import lift, pixel_centres, under
from skyanchor.photos import PhotoCache
from skyanchor.run import prepared as parts
from skyanchor.run.executor import executor_of
from skyanchor.run.folder import RunFolder
from skyanchor.run.prepared import Prepared
from skyanchor.scaffold import training
from skyanchor.scaffold.blocks import Block, BlockConfig, blocks_of
from skyanchor.stages.splats import train_splats
from skyanchor.stereo import depth_path, load_depth
from skyanchor.types import Bools, Floats, Scaffold

SEAM_M = 1.0


def at_seams(blocks: tuple[Block, ...], points: Floats) -> Bools:
    """(N,), whether points lie within a metre of an edge that two blocks share."""
    flat = points @ blocks[0].across.T
    edges = [np.unique([edge for block in blocks for edge in (block.low[k], block.high[k])]) for k in range(2)]
    inner = [one[np.isfinite(one)] for one in edges]
    return np.any([(np.abs(flat[:, k, None] - inner[k]) < SEAM_M).any(axis=1) for k in range(2)], axis=0)


def squared_errors(
    splats: Splats, scaffold: Scaffold, depth: Path, blocks: tuple[Block, ...], engine: Engine, width: int
) -> tuple[Floats, Floats]:
    """(at the seams, elsewhere), of the pixels of the test photos that have depth."""
    tensors, seam, rest = to_tensors(splats, engine.device), [], []
    for view in split(scaffold.views).test:
        target = load_target(PhotoCache(), TrainingView(view), width)
        off = rendered_rgb(tensors, target, engine).cpu().numpy() - target.pixels / 255.0
        held = load_depth(depth_path(depth, view.name))
        rows, columns = (axis.ravel() for axis in np.mgrid[: target.camera.height, : target.camera.width])
        rays = cameras.unproject(target.camera, pixel_centres(rows, columns))
        xy = cameras.project(held.camera, rays)
        z = under(held.depth, xy).astype(np.float64)
        near = at_seams(blocks, lift(held.camera, held.cam_from_world, xy, z))
        squared = (off[rows, columns] ** 2).mean(axis=1)
        seam.append(squared[near & (z > 0)])
        rest.append(squared[~near & (z > 0)])
    return np.concatenate(seam), np.concatenate(rest)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scaffold", type=Path)
    parser.add_argument("--side", type=float, default=40.0)
    parser.add_argument("--margin", type=float, default=10.0)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--workers", type=int, default=1)
    args = parser.parse_args()
    prepared = Prepared(args.scaffold)
    scaffold, depth, engine = prepared.scaffold(), prepared.needed(parts.DEPTH), load_engine("cpu")
    config = training.CPU
    divided = BlockConfig(args.side, args.margin)
    blocks = blocks_of(scaffold.points, scaffold.up, divided)
    print(f"{len(scaffold.views)} photos, {len(blocks)} blocks", flush=True)
    print("| trained | Gaussians | at the seams | elsewhere | seconds |\n|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, asked in (("whole", config), ("in blocks", replace(config, blocks=divided))):
            begun = time.perf_counter()
            with RunFolder((args.work or Path(folder)) / name.replace(" ", "-")) as run:
                made = train_splats(run, scaffold, engine, asked, depth, executor_of(args.workers))
            splats = read_ply(made.path(parts.SPLATS_FILE))
            seconds = time.perf_counter() - begun
            errors = squared_errors(splats, scaffold, depth.folder, blocks, engine, config.train.width)
            seam, rest = (f"{-10.0 * np.log10(one.mean()):.2f} dB ({len(one)} pixels)" for one in errors)
            print(f"| {name} | {len(splats)} | {seam} | {rest} | {seconds:.0f} |", flush=True)


if __name__ == "__main__":
    main()
