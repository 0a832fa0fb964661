"""Depth on a GPU: seconds a photo of every step, agreement with the Numba kernels, and the whole stage end to end.

    python benchmarks/stereo_cuda.py SCENE [--width 1600] [--out RUN] [--photos 4] [--steps] [--same] [--stage]

SCENE holds aerial/images and aerial/sparse. --steps times each step alone on some photos, --same measures one photo,
half as wide, by Numba and by Triton, --stage makes depth, surface and places as `skyanchor prepare --preset gpu` does;
without any of them all three run. With --out the maps stay in RUN/1-scaffold and `aerial_depth.py --scene SCENE --run
RUN` scores them. The first run on a machine compiles the kernels, which are kept: the second one counts.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch

from skyanchor import stereo
from skyanchor.anchors.place_finding import PlacesConfig
from skyanchor.events import SCAFFOLD, Event, Progress
from skyanchor.geometry import cameras
from skyanchor.photos import PhotoCache
from skyanchor.presets import GPU, GPU_STEREO
from skyanchor.run.executor import executor_of
from skyanchor.run.prepared import Prepared
from skyanchor.scaffold import ScaffoldConfig, load_scaffold
from skyanchor.stages.places import PHONE, places_part
from skyanchor.stages.scaffold import run
from skyanchor.stages.work import Site
from skyanchor.stereo import estimate, sweep_kernels
from skyanchor.stereo.planes import GreyStack, sweep_planes, upsampled
from skyanchor.types import DepthMap, Floats32, Scaffold

T = TypeVar("T")


class Watch:
    """Seconds by step, with the GPU's work in them."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = defaultdict(list)

    def __call__(self, step: str, call: Callable[..., T], *given: object) -> T:
        """What `call` returns."""
        torch.cuda.synchronize()
        start = time.perf_counter()
        result = call(*given)
        torch.cuda.synchronize()
        self.seconds[step].append(time.perf_counter() - start)
        return result

    def show(self) -> None:
        """Median of each step, the first call aside, which compiles."""
        for step, seconds in self.seconds.items():
            print(
                f"{step:34s} {np.median(seconds[1:] or seconds):7.3f} s a photo (first {seconds[0]:.2f} s)", flush=True
            )


class Flight:
    """The photos of a scene and what is needed to measure one."""

    def __init__(self, scaffold: Scaffold, width: int) -> None:
        self.scaffold, self.width, self.photos = scaffold, width, PhotoCache()
        self.sources = stereo.choose_sources(scaffold.views, scaffold.points, scaffold.tracks)
        self.config = replace(GPU_STEREO, width=width)

    def stack(self, index: int, width: int) -> GreyStack:
        """The photos at a width."""
        views = self.scaffold.views
        return estimate.grey_stack(views[index], [views[j] for j in self.sources[index]], self.photos, width)

    def sweep(self, index: int, stack: GreyStack) -> tuple[Floats32, Floats32]:
        """Tilt and inverse distances of the planes."""
        view, ground = self.scaffold.views[index], self.scaffold.ground
        normal = estimate.sweep_normal(stack.camera, view.cam_from_world, ground)
        hints = stereo.points_in_view(index, view, self.scaffold.points, self.scaffold.tracks)
        distances = estimate.distance_range(view.cam_from_world, normal, hints, ground)
        tilt = estimate.tilt_of(stack.camera, normal)
        return tilt, sweep_planes(stack, tilt, distances, self.config.sweep.step_px, self.config.sweep.most_planes)

    def measured(self, index: int, backend: stereo.AnyStereo) -> DepthMap:
        """The map of one photo."""
        view, scaffold = self.scaffold.views[index], self.scaffold
        hints = stereo.points_in_view(index, view, scaffold.points, scaffold.tracks)
        sources = [scaffold.views[j] for j in self.sources[index]]
        config = replace(self.config, backend=backend)
        return stereo.estimate_depth(view, sources, hints, self.photos, config, scaffold.ground)


def steps(flight: Flight, photos: int) -> None:
    """Print the seconds of every step of a measurement."""
    watch = Watch()
    for index in np.linspace(0, len(flight.scaffold.views) - 1, photos + 1).astype(int):
        time_photo(flight, int(index), watch)
    watch.show()
    print(f"GPU memory {torch.cuda.max_memory_allocated() / 2**30:.2f} GiB at most", flush=True)


def time_photo(flight: Flight, index: int, watch: Watch) -> None:
    """Measure one photo step by step."""
    from skyanchor.stereo import sweep_triton
    from skyanchor.stereo.stack_triton import put, uploaded

    config, view = flight.config, flight.scaffold.views[index]
    backend = config.backend.load()
    coarse = watch("read, grey, coarse", flight.stack, index, flight.width // 2)
    fine = watch("grey, fine", flight.stack, index, flight.width)
    tilt, planes = flight.sweep(index, coarse)
    images = watch("upload, coarse", uploaded, coarse, "cuda")
    window = (config.sweep.radius, config.photometry.noise, config.photometry.best_sources)
    u = put(planes, "cuda")
    volume = watch("sweep", sweep_triton.sweep_costs, images, put(tilt, "cuda"), u, *window)
    paths = (config.sweep.small_step, config.sweep.jump, config.sweep.contrast)
    total = watch("aggregation", sweep_triton.aggregate, volume, images.reference, *paths)
    watch("best plane", sweep_triton.best_planes, total, u)
    normal = estimate.sweep_normal(coarse.camera, view.cam_from_world, flight.scaffold.ground)
    distances = (1.0 / float(planes[-1]), 1.0 / float(planes[0]))
    field = watch("sweep with upload, download", estimate.swept, coarse, normal, distances, config)
    start = watch("upsampling", upsampled, field, fine.camera, coarse.camera)
    steep, around = estimate.tilt_of(fine.camera, normal), (0.5 * float(start.w.min()), 2.0 * float(start.w.max()))
    given = (fine, start, start, steep, around, config.photometry, config.refine)
    watch("PatchMatch, no rounds", backend.refine, *given, range(0))
    found, cost = watch("PatchMatch with upload, download", backend.refine, *given, range(config.refine.rounds))
    made = watch("depth and normals", estimate.as_depth_map, view, fine.camera, found, cost)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "map.npz"
        watch("write", stereo.save_depth, path, made)
        watch("read a map", stereo.load_depth, path)
    print(f"{view.name}: {len(planes)} planes, {len(fine.sources)} sources", flush=True)


def same(flight: Flight, index: int) -> None:
    """Print how far Numba and Triton are apart on one photo."""
    from skyanchor.stereo import sweep_triton
    from skyanchor.stereo.stack_triton import put, uploaded

    coarse = flight.stack(index, flight.width // 2)
    tilt, planes = flight.sweep(index, coarse)
    planes = planes[::8]
    config = flight.config
    window = (config.sweep.radius, config.photometry.noise, config.photometry.best_sources)
    images = uploaded(coarse, "cuda")
    fast = sweep_triton.sweep_costs(images, put(tilt, "cuda"), put(planes, "cuda"), *window)
    slow = sweep_kernels.sweep_costs(
        coarse.reference, coarse.sources, coarse.sizes, coarse.M, coarse.m, tilt, planes, *window
    )
    apart = np.abs(fast.cpu().numpy().astype(int) - slow)
    print(f"sweep: {np.mean(apart == 0):.4%} of the costs the same, {np.mean(apart <= 1):.4%} within 1 of 255")
    paths = (config.sweep.small_step, config.sweep.jump, config.sweep.contrast)
    total = sweep_triton.aggregate(torch.as_tensor(slow, device="cuda"), images.reference, *paths)
    exact = sweep_kernels.aggregate(slow, coarse.reference, *paths)
    print(f"aggregation: {np.mean(total.cpu().numpy() == exact):.4%} of the sums the same")
    maps, seconds = [], []
    for backend in (stereo.NumbaStereo(), stereo.TritonStereo()):
        flight.measured(index, backend)
        start = time.perf_counter()
        maps.append(flight.measured(index, backend))
        seconds.append(time.perf_counter() - start)
    footprint = maps[0].depth / cameras.focal_px(maps[0].camera)
    apart = np.abs(maps[0].depth - maps[1].depth) / footprint
    sure = (maps[0].confidence > 0.7) & (maps[1].confidence > 0.7)
    print(
        f"depth: median {np.median(apart):.4f} footprints apart, {np.mean(apart < 1.0):.2%} within one "
        f"({np.mean(apart[sure] < 1.0):.2%} of the {sure.mean():.0%} that both are sure of); "
        f"mean confidence {maps[0].confidence.mean():.4f} and {maps[1].confidence.mean():.4f}"
    )
    print(f"one photo: Numba {seconds[0]:.2f} s, Triton {seconds[1]:.2f} s", flush=True)


class Log:
    """When each step of a stage began and what it has done."""

    def __init__(self) -> None:
        self.last, self.seconds, self.counts = (
            time.perf_counter(),
            defaultdict[str, float](float),
            defaultdict[str, int](int),
        )

    def __call__(self, event: Event) -> None:
        """Count the time since the last event for its step."""
        at = time.perf_counter()
        if isinstance(event, Progress):
            self.seconds[event.step] += at - self.last if event.done else 0.0
            self.counts[event.step] = event.total
        self.last = at


def stage(scaffold: Scaffold, width: int, out: Path, workers: int) -> None:
    """Print seconds of depth, surface and places of all photos, made as the command does."""
    config = replace(GPU.geometry, stereo=replace(GPU_STEREO, width=width))
    log, executor = Log(), executor_of(workers)
    site = Site(scaffold, Prepared(out / SCAFFOLD), executor, log)
    start = time.perf_counter()
    with executor.held():
        surface = run(site, config, ScaffoldConfig())
        middle = time.perf_counter()
        places_part(site, surface, PHONE, PlacesConfig())
    end = time.perf_counter()
    for step, seconds in log.seconds.items():
        print(f"{step}: {seconds:.1f} s, {seconds / max(log.counts[step], 1):.3f} s each of {log.counts[step]}")
    each = sum(log.seconds[step] for step in ("depth measured", "depth confirmed")) / len(scaffold.views)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"depth {each:.3f} s a photo; depth and surface {middle - start:.1f} s, places {end - middle:.1f} s; ", end=""
    )
    print(f"{peak:.1f} GiB of memory at most in this process", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scene", type=Path)
    parser.add_argument("--width", type=int, default=1600)
    parser.add_argument("--photos", type=int, default=4, help="photos whose steps are timed")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--out", type=Path, default=None, help="run folder for the maps of --stage")
    parser.add_argument("--steps", action="store_true")
    parser.add_argument("--same", action="store_true")
    parser.add_argument("--stage", action="store_true")
    args = parser.parse_args()
    everything = not (args.steps or args.same or args.stage)
    scaffold = load_scaffold(args.scene / "aerial")
    flight = Flight(scaffold, args.width)
    print(f"{len(scaffold.views)} photos, {args.width} px, {torch.cuda.get_device_name()}", flush=True)
    if args.steps or everything:
        steps(flight, args.photos)
    if args.same or everything:
        same(Flight(scaffold, args.width // 2), len(scaffold.views) // 2)
    if args.stage or everything:
        with tempfile.TemporaryDirectory() as scratch:
            stage(scaffold, args.width, args.out or Path(scratch), args.workers)


if __name__ == "__main__":
    main()
