"""Dense aerial depth against exact depth: median error, shares within bounds, completeness, seconds per photo.

    python benchmarks/aerial_depth.py --scene DIR [--photos N] [--work DIR] [--compare DIR ...] [--device cuda]
    python benchmarks/aerial_depth.py --scene DIR --run RUN [--splats aerial.ply]

DIR holds aerial/images, aerial/sparse and truth_aerial_depth (16-bit PNG in units of 2 mm or of what it says, 0 = none;
read here only, to score). Raw maps are kept in --work and reused, so that a broken run goes on where it stopped.
--compare scores other folders of depth maps beside ours. --run scores the maps of a finished run instead of making
them, and --splats the expected depth of a Gaussian model.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import cv2
import numpy as np

from skyanchor import stereo
from skyanchor.evaluation.true_depth import unit_m
from skyanchor.geometry import cameras
from skyanchor.photos import PhotoCache
from skyanchor.scaffold import load_scaffold
from skyanchor.stages.scaffold import GeometryConfig
from skyanchor.stereo.completion import plane_field
from skyanchor.stereo.planes import pixel_grid, upsampled
from skyanchor.types import Bools, DepthMap, Floats32, Plane, Scaffold, View

FACADE_ANGLES_DEG = ((0, 15), (15, 30), (30, 90))
"""Angles between the ray and the front, by which facades are told apart."""


@dataclass
class Score:
    """Errors of all scored pixels, collected over photos."""

    label: str
    errors: list[Floats32]

    def line(self) -> str:
        """One row of the table."""
        e = np.concatenate(self.errors) if self.errors else np.empty(0)
        if not len(e):
            return f"{self.label:34s} no pixels"
        have = np.isfinite(e)
        shares = "  ".join(f"<{b:.2f} m {np.mean(e < b):6.1%}" for b in (0.05, 0.15, 0.25))
        return f"{self.label:34s} median {np.median(e):6.3f} m  {shares}  complete {have.mean():6.1%}  ({len(e)} px)"


def read_truth(scene: Path, view: View) -> Floats32 | None:
    path = scene / "truth_aerial_depth" / Path(view.name).with_suffix(".png").name
    return cv2.imread(str(path), cv2.IMREAD_UNCHANGED).astype(np.float32) * unit_m(path) if path.is_file() else None


def truth_slope(view: View, depth: Floats32, up: np.ndarray) -> tuple[Floats32, Floats32]:
    """|normal . up| of the true surface, nan at its edges, and the angle at which it is seen, degrees, 90 = face on."""
    camera = cameras.scaled(cameras.undistorted(view.camera), depth.shape[1])
    x, y = pixel_grid(camera)
    rays = cameras.unproject(camera, np.stack([x.ravel(), y.ravel()], axis=1)).reshape(*depth.shape, 3)
    points = rays * depth[..., None]
    across, down = np.gradient(points, axis=1), np.gradient(points, axis=0)
    normal = np.cross(across, down)
    normal /= np.maximum(np.linalg.norm(normal, axis=-1, keepdims=True), 1e-12)
    slope = np.abs(normal @ (view.cam_from_world.rotation @ up))
    curved = np.abs(
        cv2.Laplacian(np.where(depth > 0, 1.0 / np.maximum(depth, 1e-3), 0.0).astype(np.float32), cv2.CV_32F)
    )
    edge = (curved * depth > 0.02) | (depth <= 0)
    sine = np.abs((normal * rays).sum(axis=-1)) / np.linalg.norm(rays, axis=-1)
    return np.where(edge, np.nan, slope).astype(np.float32), np.rad2deg(np.arcsin(np.minimum(sine, 1.0)))


def depth_at(depth_map: DepthMap, shape: tuple[int, int]) -> Floats32:
    """Depth on a grid of another size: each pixel centre on the local plane of the map's pixel that holds it."""
    if depth_map.depth.shape == shape:
        return depth_map.depth
    planes = plane_field(depth_map, depth_map, depth_map.depth > 0)
    target = cameras.scaled(depth_map.camera, shape[1])
    moved = upsampled(planes, target, depth_map.camera)
    none = cv2.resize(depth_map.depth, shape[::-1], interpolation=cv2.INTER_NEAREST) <= 0
    return np.where(none | (moved.w <= 0), 0.0, 1.0 / np.maximum(moved.w, 1e-9)).astype(np.float32)


def error_of(depth_map: DepthMap, truth: Floats32) -> Floats32:
    """|depth - truth|, inf where there is no depth."""
    depth = depth_at(depth_map, truth.shape)
    return np.where(depth > 0, np.abs(depth - truth), np.inf)


def add(scores: dict[str, Score], label: str, error: Floats32, where: Bools) -> None:
    scores.setdefault(label, Score(label, [])).errors.append(error[where])


def score_photo(scores: dict[str, Score], scene: Path, view: View, up: np.ndarray, maps: dict[str, DepthMap]) -> None:
    truth = read_truth(scene, view)
    assert truth is not None
    slope, angle = truth_slope(view, truth, up)
    seen = truth > 0
    for stage, depth_map in maps.items():
        error = error_of(depth_map, truth)
        add(scores, f"{stage}: all pixels", error, seen)
        with np.errstate(invalid="ignore"):
            add(scores, f"{stage}: facades", error, seen & (slope < 0.3))
            for low, high in FACADE_ANGLES_DEG:
                turned = (slope < 0.3) & (angle >= low) & (angle < high)
                add(scores, f"{stage}: facades at {low} to {high} deg", error, seen & turned)
            add(scores, f"{stage}: ground and roofs", error, seen & (slope > 0.8))
        if depth_map.completed.any():
            made = (
                cv2.resize(depth_map.completed.astype(np.uint8), seen.shape[::-1], interpolation=cv2.INTER_NEAREST) > 0
            )
            add(scores, f"{stage}: measured", error, seen & np.isfinite(error) & ~made)
            add(scores, f"{stage}: filled in", error, seen & made)


class Maps:
    """Raw maps made when asked for and kept in a folder."""

    def __init__(self, scaffold: Scaffold, folder: Path, config: stereo.StereoConfig) -> None:
        self.scaffold, self.folder, self.config = scaffold, folder, config
        self.photos = PhotoCache()
        self.ground: Plane = scaffold.ground
        known = (scaffold.views, scaffold.points, scaffold.tracks)
        self.sources = stereo.choose_sources(*known, ground=self.ground)
        self.neighbours = stereo.choose_neighbours(*known, ground=self.ground)
        self.seconds: dict[str, list[float]] = {"measure": [], "confirm": [], "complete": []}

    def raw(self, index: int) -> DepthMap:
        """The measured map of one photo, from the folder when it is there."""
        view = self.scaffold.views[index]
        path = stereo.depth_path(self.folder, view.name)
        if not path.is_file():
            start = time.perf_counter()
            sources = [self.scaffold.views[j] for j in self.sources[index]]
            hints = stereo.points_in_view(index, view, self.scaffold.points, self.scaffold.tracks)
            made = stereo.estimate_depth(view, sources, hints, self.photos, self.config, self.ground)
            self.seconds["measure"].append(time.perf_counter() - start)
            stereo.save_depth(path, made)
        return stereo.load_depth(path)

    def finished(self, index: int) -> dict[str, DepthMap]:
        """The raw, the confirmed and the completed map of one photo."""
        view, raw = self.scaffold.views[index], self.raw(index)
        around = [self.raw(int(j)) for j in self.neighbours[index]]
        start = time.perf_counter()
        confirmed = stereo.make_consistent(raw, around)
        middle = time.perf_counter()
        photo, _ = self.photos.photo(view.name, view.path, view.camera, self.config.width, view.mask_path)
        completed = stereo.complete(confirmed, raw, photo.pixels, self.ground)
        self.seconds["confirm"].append(middle - start)
        self.seconds["complete"].append(time.perf_counter() - middle)
        return {"raw": raw, "confirmed": confirmed, "completed": completed}


class SplatDepth:
    """Expected depth of a Gaussian model."""

    def __init__(self, path: Path) -> None:
        from skyanchor.gaussians.devices import load_engine
        from skyanchor.gaussians.ply import read_splats
        from skyanchor.gaussians.splats import to_tensors

        self.engine = load_engine("auto")
        self.tensors = to_tensors(read_splats(path), self.engine.device)

    def depth_map(self, view: View, width: int) -> DepthMap:
        """What the splats show of one photo, where they are opaque."""
        import torch

        from skyanchor.gaussians.views import matrix

        camera = cameras.scaled(cameras.undistorted(view.camera), min(width, view.camera.width))
        pose = matrix(view.cam_from_world, self.engine.device)
        with torch.no_grad():
            drawn = self.engine.rasteriser.render(self.tensors, camera, pose)
        depth = torch.where(drawn.alpha > 0.5, drawn.depth, 0.0).cpu().numpy().astype(np.float32)
        made, flat = np.zeros(depth.shape, bool), np.zeros((*depth.shape, 3), np.float32)
        return DepthMap(view.name, camera, view.cam_from_world, depth, np.ones_like(depth), made, flat)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scene", type=Path, required=True)
    parser.add_argument("--photos", type=int, default=None, help="score this many of the photos with truth")
    parser.add_argument("--width", type=int, default=800)
    parser.add_argument("--work", type=Path, default=None, help="folder of raw maps; reused")
    parser.add_argument("--compare", type=Path, nargs="*", default=[], help="folders of other depth maps to score")
    parser.add_argument("--device", default="cpu", help="cpu (Numba) or cuda (Triton)")
    parser.add_argument("--run", type=Path, default=None, help="run folder whose maps are scored")
    parser.add_argument("--splats", type=Path, default=None, help="Gaussians whose expected depth is scored")
    args = parser.parse_args()
    backend = stereo.NumbaStereo() if args.device == "cpu" else stereo.TritonStereo(args.device)
    config = replace(GeometryConfig().stereo, width=args.width, backend=backend)
    scaffold = load_scaffold(args.scene / "aerial")
    with tempfile.TemporaryDirectory() as scratch:
        run(args, scaffold, Maps(scaffold, args.work or Path(scratch), config))


def run(args: argparse.Namespace, scaffold: Scaffold, maps: Maps) -> None:
    scores: dict[str, Score] = {}
    splats = None if args.splats is None else SplatDepth(args.splats)
    known = [i for i, view in enumerate(scaffold.views) if read_truth(args.scene, view) is not None][: args.photos]
    for index in known:
        view = scaffold.views[index]
        made = maps.finished(index) if args.run is None else {}
        if args.run is not None:
            made["completed"] = stereo.load_depth(stereo.depth_path(args.run / "1-scaffold" / "depth", view.name))
        if splats is not None:
            made["Gaussians"] = splats.depth_map(view, args.width)
        for folder in args.compare:
            path = stereo.depth_path(folder, view.name)
            if path.is_file():
                made[folder.name] = stereo.load_depth(path)
        score_photo(scores, args.scene, view, scaffold.up, made)
        truth = read_truth(args.scene, view)
        assert truth is not None
        good = np.mean(error_of(made["completed"], truth)[truth > 0] < 0.15)
        print(f"{view.name}: {good:.1%} within 0.15 m", flush=True)
    for score in scores.values():
        print(score.line())
    for step, seconds in maps.seconds.items():
        if seconds:
            print(f"{step}: {np.median(seconds):.1f} s a photo (median of {len(seconds)})")


if __name__ == "__main__":
    main()
