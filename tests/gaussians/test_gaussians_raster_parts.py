"""The rasteriser's parts: projection and SH against gsplat's torch functions, binning against brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from gaussians_dense_twin import basis, cam_from_world, camera, street, tensors

from skyanchor.gaussians.cpu import autograd, drawing
from skyanchor.gaussians.cpu.drawing import Bins, Eye
from skyanchor.gaussians.cpu.layout import CONIC_A, DRAWN, LEVEL, OPACITY, REACH, TILE, Splats
from skyanchor.gaussians.cpu.projection_kernels import project_splats
from skyanchor.gaussians.cpu.sh_kernels import sh_basis
from skyanchor.gaussians.cpu.tile_kernels import exp_negative
from skyanchor.gaussians.rasteriser import CpuRasteriser, SplatTensors, intrinsics
from skyanchor.types import Camera, Floats32


def projected(splats: SplatTensors, cam: Camera) -> tuple[Floats32, Floats32]:
    """`drawn` and `reach` of the kernels."""
    arrays = Splats(*(np.ascontiguousarray(t.numpy()) for t in tensors(splats)))
    eye = Eye(cam_from_world().numpy(), autograd._lens(cam, CpuRasteriser()), np.float32(0.999), 3)
    drawn = np.zeros((len(splats.means), DRAWN), np.float32)
    reach = np.zeros((len(splats.means), REACH), np.float32)
    project_splats(arrays, eye.cam_from_world, eye.lens, eye.centre_in_world, 3, drawn, reach)
    return drawn, reach


def test_projection_is_that_of_gsplat() -> None:
    reference = pytest.importorskip("gsplat.cuda._torch_impl")
    splats, cam = street(2000, seed=7), camera(80, 60)
    drawn, reach = projected(splats, cam)
    k = intrinsics(cam)
    matrix = torch.tensor([[k.fx, 0.0, k.cx], [0.0, k.fy, k.cy], [0.0, 0.0, 1.0]], dtype=torch.float64)
    covars, _ = reference._quat_scale_to_covar_preci(splats.quats.double(), splats.log_scales.double().exp())
    radii, means, depths, conics, _ = reference._fully_fused_projection(
        splats.means.double(), covars, cam_from_world().double()[None], matrix[None], 80, 60
    )
    rows = np.flatnonzero(reach[:, LEVEL] > 0)
    assert 300 < len(rows) < 1900
    np.testing.assert_allclose(drawn[rows, :2], means[0, rows].numpy(), rtol=1e-5, atol=1e-3)
    np.testing.assert_allclose(drawn[rows, DRAWN - 1], depths[0, rows].numpy(), rtol=1e-5, atol=1e-6)
    error = np.abs(drawn[rows, CONIC_A : CONIC_A + 3] - conics[0, rows].numpy()).max(axis=1)
    assert float((error / np.abs(conics[0, rows].numpy()).max(axis=1)).max()) < 1e-3
    assert bool((radii[0, rows] > 0).all())
    hidden = np.flatnonzero((radii[0] > 0).all(dim=-1).numpy() & (reach[:, LEVEL] == 0))
    opaque = torch.sigmoid(splats.logit_opacities).numpy()
    assert bool((opaque[hidden] < 0.9).all())  # gsplat's torch radius is that of opacity 1; ours is of the opacity


def test_harmonics_are_those_of_gsplat() -> None:
    reference = pytest.importorskip("gsplat.cuda._torch_impl")
    directions = torch.nn.functional.normalize(torch.randn((50, 3), generator=torch.Generator().manual_seed(1)), dim=-1)
    for degree in range(4):
        theirs = reference._eval_sh_bases_fast((degree + 1) ** 2, directions).numpy()
        np.testing.assert_allclose(_kernel_basis(directions.numpy(), degree), theirs, atol=2e-6)


def test_harmonics_are_orthonormal_and_signed_as_the_twins() -> None:
    directions = torch.nn.functional.normalize(torch.randn((40, 3), generator=torch.Generator().manual_seed(2)), dim=-1)
    np.testing.assert_allclose(_kernel_basis(directions.numpy(), 3), basis(directions.double(), 3).numpy(), atol=2e-6)


def _kernel_basis(directions: Floats32, degree: int) -> Floats32:
    out = np.zeros((len(directions), 16), np.float32)
    for row, (x, y, z) in zip(out, directions, strict=True):
        sh_basis(x, y, z, degree, row)
    return out[:, : (degree + 1) ** 2]


def test_the_exponential_is_exact_to_single_precision() -> None:
    x = -np.linspace(0.0, 20.0, 2001, dtype=np.float32)
    found = np.array([exp_negative(v) for v in x])
    assert float(np.abs(found / np.exp(x.astype(np.float64)) - 1.0).max()) < 4e-7
    assert exp_negative(np.float32(-1e9)) < 1e-37


@pytest.mark.parametrize("size", [0.03, 0.3, 2.0])
def test_every_pixel_a_splat_reaches_is_binned_and_few_others(size: float) -> None:
    splats, cam = street(300, seed=9, size=size), camera(70, 45)
    splats.log_scales[::2, 0] += 2.0  # needles
    drawn, reach = projected(splats, cam)
    bins = drawing.bin_splats(drawn, reach, cam.width, cam.height)
    covered = _covered(bins, len(drawn), cam)
    reached = _reached(drawn, reach, cam)
    assert not bool((reached & ~covered).any())
    boxes = _box_tiles(drawn, reach, cam)
    assert reached.sum() > 500
    assert len(bins.ids) <= boxes


def test_tile_lists_are_sorted_by_depth_and_the_places_lead_back() -> None:
    splats, cam = street(500, seed=3), camera(70, 45)
    drawn, reach = projected(splats, cam)
    bins = drawing.bin_splats(drawn, reach, cam.width, cam.height)
    for start, end in zip(bins.bounds[:-1], bins.bounds[1:], strict=True):
        assert bool((np.diff(drawn[bins.ids[start:end], DRAWN - 1]) >= 0).all())
    owners = np.repeat(bins.order, np.diff(bins.starts))
    assert np.array_equal(bins.ids[bins.places], owners)
    assert np.array_equal(np.sort(bins.places), np.arange(len(bins.ids)))


def _covered(bins: Bins, n: int, cam: Camera) -> np.ndarray:
    """(N, H, W), the pixels each Gaussian is drawn to."""
    rows = -(-cam.height // TILE)
    out = np.zeros((n, rows * TILE, bins.columns * TILE), bool)
    for tile in range(len(bins.bounds) - 1):
        left, top = tile % bins.columns * TILE, tile // bins.columns * TILE
        for hit in range(bins.bounds[tile], bins.bounds[tile + 1]):
            first, end = bins.spans[hit] & 31, bins.spans[hit] >> 8 & 31
            out[bins.ids[hit], top + first : top + end, left : left + TILE] = True
    return out[:, : cam.height, : cam.width]


def _reached(drawn: Floats32, reach: Floats32, cam: Camera) -> np.ndarray:
    """(N, H, W), the pixels where alpha >= 1/255, in float64."""
    d = drawn.astype(np.float64)[:, :, None, None]
    y, x = np.mgrid[: cam.height, : cam.width] + 0.5
    dx, dy = x - d[:, 0], y - d[:, 1]
    alpha = d[:, OPACITY] * np.exp(-0.5 * (d[:, 2] * dx**2 + d[:, 4] * dy**2) - d[:, 3] * dx * dy)
    return (alpha >= 1.0001 / 255.0) & (reach[:, LEVEL] > 0)[:, None, None]


def _box_tiles(drawn: Floats32, reach: Floats32, cam: Camera) -> int:
    """How many tiles the bounding boxes touch: what a rasteriser without the exact test would list."""
    total = 0
    for row, (var_x, var_y, level) in zip(drawn, reach, strict=True):
        if level > 0:
            spans = []
            for at, var, size in ((row[0], var_x, cam.width), (row[1], var_y, cam.height)):
                radius = math.ceil(math.sqrt(level * var))
                low, high = max(0.0, at - radius), min(size, at + radius)
                spans.append(max(0, math.ceil(high / TILE) - math.floor(low / TILE)))
            total += spans[0] * spans[1]
    return total
