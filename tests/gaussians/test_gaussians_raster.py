"""The Numba rasteriser against its dense float64 twin: images, every gradient, frozen rows, odd inputs."""

from __future__ import annotations

import numba
import pytest
import torch
from gaussians_dense_twin import cam_from_world, camera, leaves, render, street, take, tensors
from torch import Tensor

from skyanchor.errors import BackendError
from skyanchor.gaussians.rasteriser import CpuRasteriser, Rasteriser, Rendered, SplatTensors
from skyanchor.types import Camera

BACKGROUND = torch.tensor([0.2, 0.5, 0.1])
NAMES = ("means", "quats", "log_scales", "logit_opacities", "sh")


@pytest.fixture(scope="module")
def rasteriser() -> Rasteriser:
    return CpuRasteriser().load("cpu")


def relative(a: Tensor, b: Tensor) -> float:
    return float((a.double() - b.double()).norm() / b.double().norm())


def weights(cam: Camera, seed: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    g = torch.Generator().manual_seed(seed)
    shape = (cam.height, cam.width)
    rgb, alpha, depth = (torch.randn(s, generator=g) for s in ((*shape, 3), shape, shape))
    return rgb, alpha, 0.1 * depth


def score(view: object, w: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    """A scalar that uses every pixel of every output."""
    images = (view.rgb, view.alpha, view.depth)  # type: ignore[attr-defined]
    return sum((image * k.to(image.dtype)).sum() for image, k in zip(images, w, strict=True))


def gradients(
    rasteriser: Rasteriser, splats: SplatTensors, cam: Camera, pose: Tensor, **options: object
) -> tuple[SplatTensors, Rendered]:
    own = leaves(splats)
    view = rasteriser.render(own, cam, pose, background=BACKGROUND, **options)
    score(view, weights(cam)).backward()
    return own, view


@pytest.mark.parametrize(("n", "width", "height", "degree", "size"), [(180, 50, 37, 3, 0.25), (60, 33, 20, 1, 0.6)])
def test_images_and_all_gradients_are_those_of_the_twin(
    rasteriser: Rasteriser, n: int, width: int, height: int, degree: int, size: float
) -> None:
    splats, cam = street(n, seed=n, size=size), camera(width, height)
    own, exact = leaves(splats), leaves(splats, torch.float64)
    pose, exact_pose = cam_from_world().requires_grad_(), cam_from_world().double().requires_grad_()
    shift = torch.zeros((n, 2), dtype=torch.float64, requires_grad=True)
    view = rasteriser.render(own, cam, pose, background=BACKGROUND, sh_degree=degree)
    twin = render(exact, cam, exact_pose, background=BACKGROUND.double(), degree=degree, shift=shift)
    assert 0.3 < float(twin.alpha.detach().mean()) < 0.9995
    for a, b, bound in ((view.rgb, twin.rgb, 1e-5), (view.alpha, twin.alpha, 1e-5), (view.depth, twin.depth, 1e-4)):
        assert float((a - b).detach().abs().max()) < bound
    score(view, weights(cam)).backward()
    score(twin, weights(cam)).backward()
    for name, a, b in zip(NAMES, tensors(own), tensors(exact), strict=True):
        assert relative(a.grad, b.grad) < 2e-5, name
    assert relative(pose.grad, exact_pose.grad) < 1e-4
    assert relative(view.screen_gradients(), shift.grad) < 2e-5


def test_each_output_alone_has_the_twins_gradient(rasteriser: Rasteriser) -> None:
    splats, cam, pose = street(40, seed=3), camera(24, 18), cam_from_world()
    for part in ("rgb", "alpha", "depth"):
        own, exact = leaves(splats), leaves(splats, torch.float64)
        getattr(rasteriser.render(own, cam, pose), part).square().sum().backward()
        getattr(render(exact, cam, pose.double()), part).square().sum().backward()
        for name, a, b in zip(NAMES[:4], tensors(own), tensors(exact), strict=False):
            assert relative(a.grad, b.grad) < 1e-4, (part, name)


def test_frozen_rows_change_nothing_but_their_own_gradient(rasteriser: Rasteriser) -> None:
    splats, cam, pose = street(200, seed=5), camera(48, 32), cam_from_world()
    full, full_view = gradients(rasteriser, splats, cam, pose)
    part, part_view = gradients(rasteriser, splats, cam, pose, frozen=120)
    assert torch.equal(full_view.rgb, part_view.rgb)
    for a, b in zip(tensors(full), tensors(part), strict=True):
        assert relative(b.grad[:80], a.grad[:80]) < 1e-5
        assert float(a.grad[80:].abs().max()) > 0.0
        assert float(b.grad[80:].abs().max()) == 0.0
    assert relative(part_view.screen_gradients()[:80], full_view.screen_gradients()[:80]) < 1e-5
    assert float(part_view.screen_gradients()[80:].abs().max()) == 0.0


def test_frozen_rows_still_pull_on_the_pose(rasteriser: Rasteriser) -> None:
    splats, cam = street(200, seed=5), camera(48, 32)
    found = []
    for frozen in (0, 120, 200):
        pose = cam_from_world().requires_grad_()
        own, view = gradients(rasteriser, splats, cam, pose, frozen=frozen)
        assert float(own.means.grad[200 - frozen :].abs().sum()) == 0.0
        assert float(view.screen_gradients()[200 - frozen :].abs().sum()) == 0.0
        found.append(pose.grad)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def test_the_pose_alone_can_be_optimised(rasteriser: Rasteriser) -> None:
    splats, cam = street(80, seed=8), camera(40, 30)
    pose = cam_from_world().requires_grad_()
    score(rasteriser.render(splats, cam, pose, frozen=80), weights(cam)).backward()
    exact = cam_from_world().double().requires_grad_()
    double = SplatTensors(*(t.double() for t in tensors(splats)))
    score(render(double, cam, exact), weights(cam)).backward()
    assert relative(pose.grad, exact.grad) < 1e-4


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="one thread only")
def test_the_same_bits_for_one_and_two_threads(rasteriser: Rasteriser) -> None:
    splats, cam = street(3000, seed=2, size=0.1), camera(100, 75)
    found = []
    before = numba.get_num_threads()
    try:
        for threads in (1, 2):
            numba.set_num_threads(threads)
            pose = cam_from_world().requires_grad_()
            own, view = gradients(rasteriser, splats, cam, pose)
            grads = [t.grad for t in tensors(own)]
            found.append([view.rgb, view.alpha, view.depth, view.radii, pose.grad, view.screen.grad, *grads])
    finally:
        numba.set_num_threads(before)
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


@pytest.mark.parametrize("kind", ["empty", "behind", "beside", "invisible"])
def test_nothing_to_draw_gives_the_background_and_no_gradient(rasteriser: Rasteriser, kind: str) -> None:
    splats, cam = street(0 if kind == "empty" else 20, seed=1, size=0.05), camera(20, 17)
    splats.means[:, 2] = -2.0 if kind == "behind" else 4.0
    splats.means[:, 0] += 100.0 if kind == "beside" else 0.0
    splats.logit_opacities[:] = -9.0 if kind == "invisible" else 1.0
    pose = cam_from_world().requires_grad_()
    own, view = gradients(rasteriser, splats, cam, pose)
    assert torch.equal(view.rgb, BACKGROUND.expand(17, 20, 3))
    assert float(view.alpha.detach().abs().max()) == 0.0
    assert float(view.depth.detach().abs().max()) == 0.0
    assert not bool(view.visible.any())
    assert all(float(t.grad.abs().sum()) == 0.0 for t in tensors(own))
    assert float(pose.grad.abs().sum()) == 0.0


def test_a_huge_splat_fills_the_image(rasteriser: Rasteriser) -> None:
    splats, cam = street(1, seed=1), camera(40, 30)
    splats.means[:] = torch.tensor([0.0, 0.0, 5.0])
    splats.log_scales[:] = 7.0
    splats.logit_opacities[:] = 1.0
    own, view = gradients(rasteriser, splats, cam, cam_from_world())
    assert float((view.alpha - torch.sigmoid(torch.tensor(1.0))).detach().abs().max()) < 1e-3
    assert all(bool(torch.isfinite(t.grad).all()) for t in tensors(own))


def test_rows_that_are_not_finite_are_not_drawn_and_do_no_harm(rasteriser: Rasteriser) -> None:
    splats, cam, pose = street(60, seed=4), camera(40, 30), cam_from_world()
    good, _ = gradients(rasteriser, take(splats, torch.arange(50)), cam, pose)
    broken = leaves(splats)
    with torch.no_grad():
        broken.means[50:52] = torch.nan
        broken.means[52] = torch.inf
        broken.quats[53:55] = 0.0
        broken.log_scales[55] = 80.0
        broken.log_scales[56:58] = torch.nan
        broken.logit_opacities[58:] = torch.nan
    view = rasteriser.render(broken, cam, pose, background=BACKGROUND)
    score(view, weights(cam)).backward()
    assert not bool(view.visible[50:].any())
    for a, b in zip(tensors(broken), tensors(good), strict=True):
        assert torch.equal(a.grad[:50], b.grad)
        assert float(a.grad[50:].abs().sum()) == 0.0


def test_a_lower_sh_degree_uses_and_trains_the_lower_bands_only(rasteriser: Rasteriser) -> None:
    splats, cam, pose = street(100, seed=6), camera(40, 30), cam_from_world()
    own, view = gradients(rasteriser, splats, cam, pose, sh_degree=1)
    cut = SplatTensors(*tensors(splats)[:4], splats.sh[:, :4].contiguous())
    assert torch.equal(view.rgb, rasteriser.render(cut, cam, pose, background=BACKGROUND).rgb)
    assert float(own.sh.grad[:, :4].abs().sum()) > 0.0
    assert float(own.sh.grad[:, 4:].abs().sum()) == 0.0


def test_backward_after_an_optimisers_step_is_refused(rasteriser: Rasteriser) -> None:
    own = leaves(street(30, seed=1))
    view = rasteriser.render(own, camera(20, 15), cam_from_world())
    with torch.no_grad():
        own.means.add_(0.1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        view.rgb.sum().backward()


def test_no_gradient_is_prepared_without_need(rasteriser: Rasteriser) -> None:
    with torch.no_grad():
        view = rasteriser.render(leaves(street(30, seed=1)), camera(20, 15), cam_from_world())
    assert not view.rgb.requires_grad
    with pytest.raises(ValueError, match="call backward first"):
        view.screen_gradients()


def test_wrong_inputs_are_refused_with_a_reason(rasteriser: Rasteriser) -> None:
    splats, cam, pose = street(10, seed=1), camera(20, 15), cam_from_world()
    with pytest.raises(BackendError, match="gsplat"):
        CpuRasteriser().load("cuda")
    with pytest.raises(ValueError, match="PINHOLE"):
        rasteriser.render(splats, Camera("SIMPLE_RADIAL", 20, 15, (20.0, 10.0, 7.5, 0.1)), pose)
    with pytest.raises(ValueError, match="float32"):
        rasteriser.render(splats, cam, pose.double())
    with pytest.raises(ValueError, match="frozen"):
        rasteriser.render(splats, cam, pose, frozen=11)
    with pytest.raises(ValueError, match="SH coefficients"):
        rasteriser.render(SplatTensors(*tensors(splats)[:4], splats.sh[:, :5].contiguous()), cam, pose)
