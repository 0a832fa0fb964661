"""The fused loss against torch in float64, its mask, and the scores of known images."""

from __future__ import annotations

import importlib.util
import math
import os
import subprocess
import sys
from pathlib import Path

import numba
import pytest
import torch
from torch import Tensor

from skyanchor.gaussians.losses import photometric_loss, psnr, ssim, torch_photometric_loss


def images(height: int = 61, width: int = 43, noise: float = 0.2) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(height)
    target = torch.rand((height, width, 3), generator=g)
    return (target + noise * torch.randn(target.shape, generator=g)).clamp(0.0, 1.0), target


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("height", "width"), [(61, 43), (7, 5)])
@pytest.mark.parametrize("weight", [0.0, 0.2, 1.0])
def test_value_and_gradient_are_those_of_torch_in_double(height: int, width: int, weight: float, masked: bool) -> None:
    rgb, target = images(height, width)
    mask = torch.rand((height, width), generator=torch.Generator().manual_seed(5)) > 0.4 if masked else None
    own, exact = rgb.clone().requires_grad_(), rgb.double().requires_grad_()
    loss = photometric_loss(own, target, mask, weight)
    (3.0 * loss).backward()
    truth = torch_photometric_loss(exact, target.double(), mask, weight)
    (3.0 * truth).backward()
    assert float(loss.detach()) == pytest.approx(float(truth.detach()), rel=2e-6)
    assert float((own.grad - exact.grad).norm() / exact.grad.norm()) < 5e-6
    if mask is not None:
        assert float(own.grad[~mask].abs().max()) == 0.0


def test_the_torch_twin_is_the_papers_formula_by_hand() -> None:
    """One pixel far from the edge, the 11x11 window written out."""
    rgb, target = (t.double() for t in images(21, 21))
    at = torch.arange(11, dtype=torch.float64) - 5
    taps = torch.exp(-(at**2) / (2 * 1.5**2))
    window = torch.outer(taps, taps) / taps.sum() ** 2
    x, y = rgb[5:16, 5:16, 1], target[5:16, 5:16, 1]
    mx, my = (window * x).sum(), (window * y).sum()
    vx, vy, c = (window * x * x).sum() - mx**2, (window * y * y).sum() - my**2, (window * x * y).sum() - mx * my
    by_hand = (2 * mx * my + 1e-4) * (2 * c + 9e-4) / ((mx**2 + my**2 + 1e-4) * (vx + vy + 9e-4))
    from skyanchor.gaussians.losses import _ssim_map

    assert float(_ssim_map(rgb, target)[10, 10, 1]) == pytest.approx(float(by_hand), rel=1e-9)


def test_equal_images_score_perfectly() -> None:
    rgb, _ = images()
    assert float(photometric_loss(rgb, rgb)) == pytest.approx(0.0, abs=1e-6)
    assert float(ssim(rgb, rgb)) == pytest.approx(1.0, abs=1e-6)
    assert psnr(rgb, rgb) == math.inf


def test_the_loss_grows_with_noise_and_ssim_falls() -> None:
    losses = [float(photometric_loss(*images(noise=n))) for n in (0.02, 0.1, 0.3)]
    scores = [float(ssim(*images(noise=n))) for n in (0.02, 0.1, 0.3)]
    assert losses == sorted(losses)
    assert scores == sorted(scores, reverse=True)
    assert 0.9 < scores[0] < 1.0


def test_what_lies_outside_the_mask_does_not_matter() -> None:
    rgb, target = images()
    mask = torch.zeros(rgb.shape[:2], dtype=torch.bool)
    mask[10:50, 5:30] = True
    spoilt = torch.where(mask[..., None], rgb, 5.0)
    assert float(photometric_loss(rgb, target, mask)) == float(photometric_loss(spoilt, target, mask))
    assert psnr(rgb, target, mask) == psnr(spoilt, target, mask)
    assert float(photometric_loss(rgb, target, mask)) != pytest.approx(float(photometric_loss(rgb, target)), rel=1e-4)


def test_an_empty_mask_gives_zero_and_no_gradient() -> None:
    rgb, target = images()
    own = rgb.requires_grad_()
    loss = photometric_loss(own, target, torch.zeros(rgb.shape[:2], dtype=torch.bool))
    loss.backward()
    assert float(loss.detach()) == 0.0
    assert float(own.grad.abs().max()) == 0.0


def test_psnr_of_a_known_error() -> None:
    target = torch.full((8, 8, 3), 0.5)
    assert psnr(target + 0.1, target) == pytest.approx(20.0, abs=1e-4)
    assert psnr(target + 9.0, target) == pytest.approx(-20.0 * math.log10(0.5), abs=1e-4)


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="one thread only")
def test_the_same_bits_for_one_and_two_threads() -> None:
    rgb, target = images(100, 70)
    found = []
    before = numba.get_num_threads()
    try:
        for threads in (1, 2):
            numba.set_num_threads(threads)
            own = rgb.clone().requires_grad_()
            loss = photometric_loss(own, target)
            loss.backward()
            found.append((loss.detach(), own.grad))
    finally:
        numba.set_num_threads(before)
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])


def test_shapes_that_do_not_fit_are_refused() -> None:
    rgb, target = images()
    with pytest.raises(ValueError, match="mask"):
        photometric_loss(rgb, target[1:])


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton comes with torch for CUDA")
@pytest.mark.parametrize("masked", [False, True])
def test_triton_kernels_give_the_value_and_gradient_of_torch_in_double(masked: bool, tmp_path: Path) -> None:
    """In a process of its own, because Triton's interpreter, for machines without a GPU, is chosen on import."""
    script = f"""
import torch
from skyanchor.gaussians.cuda_loss import TritonLoss
from skyanchor.gaussians.losses import C1, C2, _taps, torch_photometric_loss
device = "cuda" if torch.cuda.is_available() else "cpu"
g = torch.Generator().manual_seed(0)
target = torch.rand((21, 190, 3), generator=g).to(device)
rgb = (target + 0.2 * torch.rand(target.shape, generator=g).to(device)).requires_grad_()
mask = (torch.rand((21, 190), generator=g) > 0.4).to(device) if {masked} else None
loss = TritonLoss.apply(rgb, target, mask, 0.2, _taps(device, torch.float32), C1, C2)
(3.0 * loss).backward()
exact = rgb.detach().double().requires_grad_()
truth = torch_photometric_loss(exact, target.double(), mask, 0.2)
(3.0 * truth).backward()
assert abs(float(loss.detach() / truth.detach()) - 1.0) < 2e-6
assert float((rgb.grad - exact.grad).norm() / exact.grad.norm()) < 5e-6
assert mask is None or float(rgb.grad[~mask].abs().max()) == 0.0
"""
    alone = {**os.environ, "TRITON_INTERPRET": "0" if torch.cuda.is_available() else "1"}
    subprocess.run([sys.executable, "-c", script], check=True, env=alone, cwd=tmp_path)
