"""Speed of the Numba rasteriser: forward and backward of one view, stage by stage, in ns per pixel-lane.

    python benchmarks/rasteriser_cpu.py [--splats 40000] [--width 480] [--threads 2] [--prototype DIR]

A pixel-lane is one pixel row of one (Gaussian, tile) times the tile's width: the unit of work of the hot loops. A
change that costs their vectorisation shows there as a factor of five to ten. With --prototype, a folder that holds
`nrast.py` (Rast.apply) and `nssim.py` (SSIM.apply), both are measured in turn, and the ratio is printed.
Best of --rounds is printed; on a busy machine --cpu-time with --threads 1 is steadier than the clock.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numba
import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor

from skyanchor.gaussians.cpu import autograd, drawing
from skyanchor.gaussians.cpu.layout import BLOCK, CHUNKS, DRAWN, REACH, TILE, Splats
from skyanchor.gaussians.losses import photometric_loss
from skyanchor.gaussians.rasteriser import CpuRasteriser, SplatTensors
from skyanchor.geometry.cameras import pinhole
from skyanchor.types import Camera, Floats

Timed = Callable[[], object]


def street(count: int, seed: int = 0) -> SplatTensors:
    """A street as a camera in it sees it: ground, two facades, a back wall, clutter; sizes from the neighbours."""
    r = np.random.default_rng(seed)
    shares = (np.array([0.35, 0.2, 0.2, 0.15]) * count).astype(int)
    parts = [
        _box(r, shares[0], (-8, 1.58, 1), (8, 1.62, 30)),
        _box(r, shares[1], (-8.05, -8, 1), (-7.95, 1.6, 30)),
        _box(r, shares[2], (7.95, -8, 1), (8.05, 1.6, 30)),
        _box(r, shares[3], (-8, -8, 29.95), (8, 1.6, 30.05)),
        _box(r, count - int(shares.sum()), (-8, -6, 2), (8, 1.6, 30)),
    ]
    means = np.concatenate(parts)
    spacing = np.sqrt((cKDTree(means).query(means, 4)[0][:, 1:] ** 2).mean(axis=1))
    log_scales = np.log(spacing)[:, None] + 0.35 * r.standard_normal((count, 3)) + np.log([1.0, 1.0, 0.4])
    sh = 0.15 * r.standard_normal((count, 16, 3))
    sh[:, 0] = r.standard_normal((count, 3))
    values = (means, r.standard_normal((count, 4)), log_scales, r.normal(0.3, 2.0, count), sh)
    return SplatTensors(*(torch.tensor(v, dtype=torch.float32).requires_grad_() for v in values))


def _box(r: np.random.Generator, n: int, low: tuple[float, ...], high: tuple[float, ...]) -> Floats:
    return r.uniform(low, high, (n, 3))


def view_matrix() -> Tensor:
    c, s = np.cos(0.05), np.sin(0.05)
    return torch.tensor([[c, 0, -s, 0.2], [0, 1, 0, -0.1], [s, 0, c, 0.3], [0, 0, 0, 1]], dtype=torch.float32)


class Stopwatch:
    """Best milliseconds over rounds, by the clock or in CPU time of this process."""

    def __init__(self, rounds: int, cpu_time: bool) -> None:
        self.rounds, self.now = rounds, time.process_time if cpu_time else time.perf_counter

    def best(self, *jobs: Timed) -> list[float]:
        """One figure per job; the jobs take turns, so that a busy machine disturbs all alike."""
        found = np.full(len(jobs), np.inf)
        for _ in range(self.rounds):
            for k, job in enumerate(jobs):
                start = self.now()
                job()
                found[k] = min(found[k], 1e3 * (self.now() - start))
        return [float(f) for f in found]


def whole_view(splats: SplatTensors, camera: Camera, grads: tuple[Tensor, Tensor, Tensor], frozen: int = 0) -> Timed:
    rasteriser, pose = CpuRasteriser().load(), view_matrix()
    leaves = (splats.means, splats.quats, splats.log_scales, splats.logit_opacities, splats.sh)

    def job() -> None:
        view = rasteriser.render(splats, camera, pose, frozen=frozen)
        torch.autograd.grad((view.rgb, view.alpha, view.depth), leaves, grads)

    return job


def whole_view_of(prototype: Path, splats: SplatTensors, camera: Camera, grads: tuple[Tensor, Tensor, Tensor]) -> Timed:
    """The same work in the prototype, which takes activated scales and opacities."""
    sys.path.insert(0, str(prototype))
    other = importlib.import_module("nrast")
    fx, fy, cx, cy = camera.params
    matrix, pose, black = torch.tensor([[fx, 0, cx], [0, fy, cy], [0, 0, 1]]), view_matrix(), torch.zeros(3)
    scales, opacities = splats.log_scales.exp(), splats.logit_opacities.sigmoid()
    values = [v.detach().requires_grad_() for v in (splats.means, splats.quats, scales, opacities, splats.sh)]
    rgbd, alpha = torch.cat([grads[0], grads[2][..., None]], -1), grads[1][..., None]

    def job() -> None:
        out, a = other.Rast.apply(*values, pose, matrix, camera.width, camera.height, 3, black)
        torch.autograd.grad((out, a), values, (rgbd, alpha))

    return job


def loss_jobs(camera: Camera, prototype: Path | None) -> list[Timed]:
    rgb, target = torch.rand((2, camera.height, camera.width, 3))
    rgb.requires_grad_()
    jobs: list[Timed] = [lambda: torch.autograd.grad(photometric_loss(rgb, target), rgb)]
    if prototype is not None:
        other = importlib.import_module("nssim")
        jobs.append(
            lambda: torch.autograd.grad(
                0.8 * (rgb - target).abs().mean() + 0.2 * (1 - other.SSIM.apply(rgb, target)), rgb
            )
        )
    return jobs


def stages(
    splats: SplatTensors, camera: Camera, grads: tuple[Tensor, Tensor, Tensor], watch: Stopwatch
) -> tuple[dict[str, float], int]:
    """Milliseconds of each kernel, and the number of pixel-lanes."""
    values = Splats(
        *(
            v.detach().numpy()
            for v in (splats.means, splats.quats, splats.log_scales, splats.logit_opacities, splats.sh)
        )
    )
    eye = drawing.Eye(view_matrix().numpy(), autograd._lens(camera, CpuRasteriser()), np.float32(0.999), 3)
    n, place = len(values.means), (eye.cam_from_world, eye.lens, eye.centre_in_world, 3)
    drawn, reach = np.empty((n, DRAWN), np.float32), np.empty((n, REACH), np.float32)
    drawing.project_splats(values, *place, drawn, reach)
    view = drawing.draw(values, eye, np.zeros(3, np.float32))
    bins, images = view.bins, drawing.Images(*(np.empty_like(i) for i in view.images))
    hit_grads, g_drawn = np.empty((len(bins.ids), DRAWN), np.float32), np.zeros((n, DRAWN), np.float32)
    out, parts = Splats(*(np.zeros_like(v) for v in values)), np.zeros((-(-n // BLOCK), 15))
    lists = (bins.bounds, bins.ids, bins.spans, view.drawn, eye.alpha_cap)
    v_images = drawing.Images(*(g.numpy() for g in grads))
    jobs: dict[str, Timed] = {
        "project": lambda: drawing.project_splats(values, *place, drawn, reach),
        "sort and bin": lambda: drawing.bin_splats(drawn, reach, camera.width, camera.height),
        "tiles": lambda: drawing.draw_tiles(bins.columns, *lists, np.zeros(3, np.float32), *images),
        "tiles backward": lambda: drawing.tile_gradients(bins.columns, n, *lists, view.images, v_images, hit_grads),
        "sum": lambda: drawing.sum_hits(bins.order, n, bins.starts, bins.places, hit_grads, g_drawn, CHUNKS),
        "project backward": lambda: drawing.unproject_gradients(
            n, n, values, *place, view.drawn, view.reach, g_drawn, out, parts
        ),
    }
    lanes = int(((bins.spans >> 8 & 31) - (bins.spans & 31)).sum()) * TILE
    return dict(zip(jobs, watch.best(*jobs.values()), strict=True)), lanes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splats", type=int, default=40_000)
    parser.add_argument("--width", type=int, default=480)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--cpu-time", action="store_true")
    parser.add_argument("--prototype", type=Path, default=None)
    given = parser.parse_args()
    numba.set_num_threads(min(given.threads, numba.config.NUMBA_NUM_THREADS))
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    camera = pinhole(given.width, given.width * 9 // 16, 0.8 * given.width)
    splats, watch = street(given.splats), Stopwatch(given.rounds, given.cpu_time)
    shape = (camera.height, camera.width)
    grads = (torch.randn((*shape, 3)), torch.randn(shape), 0.1 * torch.randn(shape))
    jobs = [whole_view(splats, camera, grads)]
    if given.prototype is not None:
        jobs.append(whole_view_of(given.prototype, splats, camera, grads))
    print(f"{given.splats} splats, {camera.width}x{camera.height}, {given.threads} threads, best of {given.rounds}, ms")
    frozen = [whole_view(splats, camera, grads, frozen=given.splats * share // 100) for share in (90, 100)]
    for name, times in (
        ("forward + backward", watch.best(*jobs)),
        ("  90 % frozen", watch.best(frozen[0])),
        ("  all frozen", watch.best(frozen[1])),
        ("L1 + SSIM loss", watch.best(*loss_jobs(camera, given.prototype))),
    ):
        peer = f"   prototype {times[1]:7.2f}   ratio {times[0] / times[1]:.2f}" if len(times) > 1 else ""
        print(f"{name:20s} {times[0]:7.2f}{peer}")
    parts, lanes = stages(splats, camera, grads, watch)
    for name, ms in parts.items():
        per_lane = f"   {1e6 * ms / lanes:.3f} ns per pixel-lane" if name.startswith("tiles") else ""
        print(f"  {name:18s} {ms:7.2f}{per_lane}")
    print(f"  {lanes / 1e6:.1f} M pixel-lanes")


if __name__ == "__main__":
    main()
