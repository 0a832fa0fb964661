"""What every rasteriser promises, on scenes whose image is known in closed form."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from skyanchor.gaussians.rasteriser import CpuRasteriser, Rasteriser, SplatTensors
from skyanchor.geometry.cameras import pinhole
from skyanchor.types import Camera

C0 = 0.28209479177387814
CAMERA = pinhole(48, 32, 40.0, (24.5, 16.5))  # the principal point is the centre of pixel (24, 16)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("cpu"),
        pytest.param(
            "cuda",
            marks=[pytest.mark.cuda, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")],
        ),
    ],
)
def device(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def rasteriser(device: str) -> Rasteriser:
    if device == "cpu":
        return CpuRasteriser().load(device)
    from skyanchor.gaussians.gsplat_adapter import Gsplat

    return Gsplat().load(device)


def balls(
    device: str, depths: list[float], sigma: float, opacity: float, colours: list[tuple[float, float, float]]
) -> SplatTensors:
    """Isotropic Gaussians on the optical axis."""
    n = len(depths)
    means = torch.zeros((n, 3))
    means[:, 2] = torch.tensor(depths)
    fields = (
        means,
        torch.tensor([[1.0, 0.0, 0.0, 0.0]]).repeat(n, 1),
        torch.full((n, 3), math.log(sigma)),
        torch.full((n,), math.log(opacity / (1 - opacity))),
        ((torch.tensor(colours) - 0.5) / C0)[:, None, :],
    )
    return SplatTensors(*(f.to(device).requires_grad_() for f in fields))


def still(device: str) -> Tensor:
    return torch.eye(4, device=device)


def test_one_ball_is_a_round_gaussian_of_the_right_size(rasteriser: Rasteriser, device: str) -> None:
    """alpha(d) = o exp(-d² / 2 s²) with s² = (f sigma / z)² + 0.3, d pixels from the centre."""
    view = rasteriser.render(balls(device, [4.0], 0.2, 0.8, [(0.9, 0.5, 0.1)]), CAMERA, still(device))
    variance = (40.0 * 0.2 / 4.0) ** 2 + 0.3
    for d in range(4):
        expected = 0.8 * math.exp(-d * d / (2 * variance))
        for pixel in ((16, 24 + d), (16, 24 - d), (16 + d, 24), (16 - d, 24)):
            assert float(view.alpha[pixel].detach()) == pytest.approx(expected, abs=1e-5)
    assert view.rgb[16, 24].tolist() == pytest.approx([0.72, 0.4, 0.08], abs=1e-5)
    assert float(view.depth[16, 24].detach()) == pytest.approx(4.0, abs=1e-5)
    assert float(view.alpha[0, 0].detach()) == 0.0
    assert float(view.depth[0, 0].detach()) == 0.0
    assert math.sqrt(2 * math.log(255 * 0.8) * variance) <= float(view.radii[0]) < 3.33 * math.sqrt(variance) + 1.0


def test_the_nearer_ball_covers_the_farther_whatever_the_order(rasteriser: Rasteriser, device: str) -> None:
    for depths in ([2.0, 4.0], [4.0, 2.0]):
        near = depths.index(2.0)
        colours = [(0.0, 1.0, 0.0), (0.0, 1.0, 0.0)]
        colours[near] = (1.0, 0.0, 0.0)
        view = rasteriser.render(balls(device, depths, 0.5, 0.7, colours), CAMERA, still(device))
        assert view.rgb[16, 24].tolist() == pytest.approx([0.7, 0.21, 0.0], abs=1e-5)
        assert float(view.alpha[16, 24].detach()) == pytest.approx(0.91, abs=1e-5)
        assert float(view.depth[16, 24].detach()) == pytest.approx((0.7 * 2 + 0.21 * 4) / 0.91, abs=1e-4)


def test_the_background_shows_through(rasteriser: Rasteriser, device: str) -> None:
    background = torch.tensor([0.2, 0.4, 0.6], device=device)
    splats = balls(device, [4.0], 0.2, 0.8, [(0.0, 0.0, 0.0)])
    view = rasteriser.render(splats, CAMERA, still(device), background=background)
    assert view.rgb[0, 0].tolist() == pytest.approx([0.2, 0.4, 0.6], abs=1e-6)
    assert view.rgb[16, 24].tolist() == pytest.approx([0.04, 0.08, 0.12], abs=1e-5)


def test_what_is_not_in_view_is_not_visible(rasteriser: Rasteriser, device: str) -> None:
    splats = balls(device, [4.0, -4.0, 4.0], 0.2, 0.8, [(0.5, 0.5, 0.5)] * 3)
    with torch.no_grad():
        splats.means[2, 0] = 50.0
    view = rasteriser.render(splats, CAMERA, still(device))
    view.rgb.sum().backward()
    assert view.visible.tolist() == [True, False, False]
    assert float(splats.means.grad[1:].abs().sum()) == 0.0
    assert float(view.screen_gradients()[1:].abs().sum()) == 0.0


def test_the_screen_gradient_is_that_of_the_projected_mean(rasteriser: Rasteriser, device: str) -> None:
    """x_screen = f x / z + c, and for a small ball nothing else depends on x: dL/dx = f / z · dL/dx_screen."""
    splats = balls(device, [4.0], 0.2, 0.8, [(0.9, 0.9, 0.9)])
    view = rasteriser.render(splats, CAMERA, still(device))
    view.rgb[:, 25:].sum().backward()
    gradient = view.screen_gradients()
    assert gradient.shape == (1, 2)
    assert float(gradient[0, 0]) > 0.1  # moving right brings more of it into the right half
    assert float(splats.means.grad[0, 0]) == pytest.approx(10.0 * float(gradient[0, 0]), rel=2e-3)


def test_frozen_rows_get_no_gradient_and_the_others_keep_theirs(rasteriser: Rasteriser, device: str) -> None:
    found = []
    for frozen in (0, 1):
        splats = balls(device, [2.0, 4.0], 0.3, 0.6, [(0.9, 0.1, 0.1), (0.1, 0.9, 0.1)])
        view = rasteriser.render(splats, CAMERA, still(device), frozen=frozen)
        (view.rgb[..., 0].sum() + 0.1 * view.depth[10:20, 20:28].sum()).backward()
        found.append(splats)
    for name in ("means", "log_scales", "logit_opacities", "sh"):
        free, held = getattr(found[0], name).grad, getattr(found[1], name).grad
        torch.testing.assert_close(held[:1], free[:1], rtol=1e-4, atol=1e-5)
        assert float(held[1:].abs().sum()) == 0.0
    assert float(found[0].sh.grad[1:].abs().sum()) > 0.0


@pytest.mark.parametrize("entry", [(0, 3), (1, 3), (2, 3), (0, 2), (1, 0)])
def test_the_pose_gradient_is_the_difference_quotient(
    rasteriser: Rasteriser, device: str, entry: tuple[int, int]
) -> None:
    """Within 5 %: the quotient also sees the rim where alpha falls below 1/255, the gradient by definition does not."""
    splats = balls(device, [3.0, 5.0], 0.4, 0.7, [(0.9, 0.2, 0.3), (0.1, 0.8, 0.4)])
    with torch.no_grad():
        splats.means[:, :2] += torch.tensor([[0.3, -0.2], [-0.2, 0.1]], device=device)
    ramp = torch.linspace(-1, 1, 48, device=device) + torch.linspace(0.5, -0.5, 32, device=device)[:, None]

    def value(pose: Tensor) -> Tensor:
        view = rasteriser.render(splats, CAMERA, pose)
        return ((view.rgb.sum(-1) + view.alpha) * ramp).sum()

    pose = still(device).requires_grad_()
    value(pose).backward()
    step = torch.zeros_like(pose)
    step[entry] = 1e-2
    with torch.no_grad():
        quotient = (value(pose + step) - value(pose - step)) / 2e-2
    assert float(pose.grad[entry]) == pytest.approx(float(quotient), rel=0.05, abs=0.02 * float(pose.grad.abs().max()))


def test_gradient_descent_finds_a_colour_and_a_place(rasteriser: Rasteriser, device: str) -> None:
    truth = balls(device, [4.0], 0.3, 0.8, [(0.9, 0.2, 0.6)])
    target = rasteriser.render(truth, CAMERA, still(device)).rgb.detach()
    splats = balls(device, [4.0], 0.3, 0.8, [(0.5, 0.5, 0.5)])
    with torch.no_grad():
        splats.means[0, 0] = 0.15
    adam = torch.optim.Adam([splats.means, splats.sh], lr=0.1)
    for _ in range(60):
        adam.zero_grad()
        (rasteriser.render(splats, CAMERA, still(device)).rgb - target).square().sum().backward()
        adam.step()
    torch.testing.assert_close(splats.means[0, :2].detach(), truth.means[0, :2].detach(), atol=5e-3, rtol=0)
    torch.testing.assert_close(splats.sh.detach(), truth.sh.detach(), atol=0.05, rtol=0)


def test_a_camera_with_distortion_is_refused(rasteriser: Rasteriser, device: str) -> None:
    splats = balls(device, [4.0], 0.3, 0.8, [(0.9, 0.2, 0.6)])
    with pytest.raises(ValueError, match="PINHOLE"):
        rasteriser.render(splats, Camera("SIMPLE_RADIAL", 48, 32, (40.0, 24.0, 16.0, 0.1)), still(device))
