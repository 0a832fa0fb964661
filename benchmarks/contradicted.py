"""What moves in the photos of a walk, and what it costs the update: with all pixels, and without what is contradicted.

    python benchmarks/contradicted.py CLEAR DAY [--splats aerial.ply] [--depth-cache DIR] [--masks-only]

CLEAR and DAY hold ground/ (images/, truth/) of one walk on a clear day and on another one; CLEAR also holds aerial/.
DAY may be CLEAR. Prints how much of what differs from the clear day is left out, and how much else, at the settings of
a CPU and the true poses; then PSNR of the clear day's test photos after either update: whole, where nothing of the day
covers them and where it does. `skyanchor town CLEAR --preset mini` makes the first; a day's photos may be those of the
clear one after an operation of `town.conditions`. Without --splats the aerial model is trained, and kept beside CLEAR.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import torch
from scene_update import street_depth, true_views

from skyanchor.gaussians import exposure
from skyanchor.gaussians.devices import Engine, load_engine
from skyanchor.gaussians.ply import read_splats, write_ply
from skyanchor.gaussians.scoring import rendered_rgb
from skyanchor.gaussians.splats import Splats, concat, select, to_tensors
from skyanchor.gaussians.split import Split, split
from skyanchor.gaussians.views import targets
from skyanchor.geometry import cameras
from skyanchor.photos import PhotoCache, read_pixels
from skyanchor.scaffold import load_scaffold, training
from skyanchor.scene.config import CPU
from skyanchor.scene.contradicted import ContradictedConfig, uses
from skyanchor.scene.ground_points import GroundPointConfig, ground_cloud
from skyanchor.scene.inputs import UpdateInputs
from skyanchor.scene.scoring import borrowed_exposure
from skyanchor.scene.update import SceneUpdate, update_scene
from skyanchor.stages.masks import deciding, masked
from skyanchor.types import Bools, DepthMap, Scaffold, View

DIFFERS = 30
"""Of 255: more of a difference from the clear day than noise and compression make."""
BESIDE = 15
"""Pixels around what differs that are not counted as left out elsewhere."""


def differing(view: View, clear: Path) -> Bools:
    """(H, W), where the photo shows another thing than on the clear day."""
    off = np.abs(read_pixels(view.path).astype(int) - read_pixels(clear / "ground/images" / view.name)).max(axis=2)
    return np.asarray(cv2.medianBlur((off > DIFFERS).astype(np.uint8), 5) > 0)


def told(found: dict[str, Bools], views: tuple[View, ...], clear: Path) -> str:
    """How much of what differs is left out, and how much else."""
    held, whole, elsewhere, pixels = 0, 0, 0, 0
    for view in views:
        differs = differing(view, clear)
        use = found.get(view.name, np.ones(differs.shape, np.bool_)).astype(np.uint8)
        out = cv2.resize(use, differs.shape[::-1], interpolation=cv2.INTER_NEAREST) == 0
        near = cv2.dilate(differs.astype(np.uint8), np.ones((BESIDE, BESIDE), np.uint8)) > 0
        held, whole = held + int((out & differs).sum()), whole + int(differs.sum())
        elsewhere, pixels = elsewhere + int((out & ~near).sum()), pixels + differs.size
    share = held / max(whole, 1)
    return (
        f"{whole / pixels:.1%} of the pixels differ, {share:.0%} of them left out, {elsewhere / pixels:.2%} elsewhere"
    )


def inputs_of(
    scaffold: Scaffold, aerial: Splats, views: Split, maps: list[DepthMap], points: GroundPointConfig
) -> UpdateInputs:
    """What the update works on, without depth of the flight."""
    cloud = ground_cloud(maps, views.training, points)
    every = max(1, len(cloud.points) // 20_000)
    extent = float(np.median(np.concatenate([one.depth[one.depth > 0] for one in maps])))
    return UpdateInputs(
        aerial, split(scaffold.views), views, cloud, cloud.points[::every].astype(np.float64), cloud.colors[::every],
        tuple(maps), scaffold.up, extent,
    )  # fmt: skip


def scores(update: SceneUpdate, views: Split, clear: Path, engine: Engine) -> str:
    """PSNR of the clear day's test photos, dB, mean over photos."""
    final = to_tensors(concat([select(update.change.aerial, ~update.change.hidden), update.change.ground]))
    maps = torch.tensor(update.exposures, dtype=torch.float32)
    test = [replace(view, path=clear / "ground/images" / view.name) for view in views.test]
    rows = []
    for then, view, target in zip(views.test, test, targets(PhotoCache(), test, CPU.insertion.width), strict=True):
        rgb = exposure.exposed(rendered_rgb(final, target, engine), borrowed_exposure(view, views.training, maps))
        error = ((rgb.clamp(0.0, 1.0).numpy() - target.pixels / 255.0) ** 2).mean(axis=2)
        differs = differing(then, clear).astype(np.uint8)
        covered = cv2.resize(differs, error.shape[::-1], interpolation=cv2.INTER_NEAREST) > 0
        parts = (error.ravel(), error[~covered], error[covered])
        rows.append([-10.0 * np.log10(part.mean()) if len(part) > 50 else np.nan for part in parts])
    found = [np.nanmean(column) if np.isfinite(column).any() else np.nan for column in np.array(rows).T]
    return "clear day's test photos {:.2f} dB, uncovered {:.2f}, covered {:.2f}".format(*found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clear", type=Path)
    parser.add_argument("day", type=Path)
    parser.add_argument("--splats", type=Path)
    parser.add_argument("--depth-cache", type=Path, help="folder for the street's depth: read if there, else written")
    parser.add_argument("--masks-only", action="store_true")
    given = parser.parse_args()
    engine, scaffold = load_engine("cpu"), load_scaffold(given.clear / "aerial")
    views, points = split(true_views(given.day, scaffold)), GroundPointConfig()
    points = replace(points, stereo=replace(points.stereo, width=CPU.insertion.width))
    maps = street_depth(views.training, scaffold, points, given.depth_cache)
    begun, tolerance = time.perf_counter(), points.consistency.tolerance_px / cameras.focal_px(maps[0].camera)
    found = list(uses(deciding(views), maps, views.training, tolerance, ContradictedConfig()))
    spent = f"{time.perf_counter() - begun:.1f} s for {len(deciding(views))} photos"
    print(told({view.name: use for view, use in found}, deciding(views), given.clear), spent, sep=", ", flush=True)
    if given.masks_only:
        return
    path = given.splats or given.clear.parent / "aerial.ply"
    if not path.is_file():
        write_ply(path, training.train_aerial(scaffold, engine, training.preset("cpu")).splats)
    with tempfile.TemporaryDirectory() as folder:
        for name, day in (("all pixels", views), ("without", masked(Path(folder), views, found)[0])):
            update = update_scene(inputs_of(scaffold, read_splats(path), day, maps, points), CPU, engine)
            own = f"own test photos: air {update.after.aerial_psnr:.2f}, street {update.after.ground_psnr:.2f} dB"
            print(f"{name:12s} {scores(update, day, given.clear, engine)}; {own}", flush=True)


if __name__ == "__main__":
    main()
