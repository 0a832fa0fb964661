"""Surfels: planes, normals and terms against surfaces whose depth is known; the CUDA rasteriser where there is one."""

from __future__ import annotations

import numpy as np
import pytest

from skyanchor.errors import BackendError
from skyanchor.gaussians.rasteriser import SplatTensors, intrinsics
from skyanchor.gaussians.surfels import (
    GsplatSurfels,
    RenderedSurfels,
    SurfelTerms,
    bounded_depth,
    channels,
    distortion,
    normals_of_depth,
    plane_depth,
    plane_offsets,
    rays,
    steadied,
    surfel_normals,
)
from skyanchor.geometry.cameras import pinhole

torch = pytest.importorskip("torch")

CAMERA = pinhole(40, 30, 35.0)
SLOPE = torch.nn.functional.normalize(torch.tensor([0.3, -0.8, -0.5]), dim=0)
"""Normal of a plane 4 m away, towards the camera."""


def _slope_depth() -> torch.Tensor:
    """Depth of that plane: n . (z r) = -4."""
    return -4.0 / (rays(intrinsics(CAMERA), torch.zeros(30, 40, 3)) @ SLOPE)


def _view(normals: torch.Tensor, depth: torch.Tensor) -> RenderedSurfels:
    ones = torch.ones(30, 40)
    nothing = torch.zeros(1)
    return RenderedSurfels(
        torch.zeros(30, 40, 3), ones, depth, nothing, nothing, normals=normals, distortion=0.1 * ones
    )


def test_the_ray_meets_the_plane_not_the_centre() -> None:
    k = intrinsics(CAMERA)
    normals, alpha = SLOPE.expand(30, 40, 3), torch.full((30, 40), 0.7)
    far_off = torch.full((30, 40), 9.0)
    found = plane_depth(torch.full((30, 40), -4.0 * 0.7), 0.7 * normals, alpha, far_off, k)
    seen = (rays(k, normals) @ SLOPE) < -0.06
    assert seen.float().mean() > 0.9
    assert torch.allclose(found[seen], _slope_depth()[seen], rtol=1e-5)


def test_a_surface_seen_edge_on_has_the_depth_of_its_centres() -> None:
    along = torch.tensor([1.0, 0.0, 0.0]).expand(30, 40, 3)
    centres = torch.full((30, 40), 9.0)
    found = plane_depth(torch.full((30, 40), -1.0), along, torch.ones(30, 40), centres, intrinsics(CAMERA))
    assert bool((found[:, 20:] == 9.0).all())


def test_offsets_are_the_distance_of_the_plane_whichever_way_a_surfel_was_turned() -> None:
    turned = torch.tensor([[1.0, 0.0, 0.0, 0.0], [0.0, 2.0, 0.0, 0.0]])
    assert torch.allclose(surfel_normals(turned), torch.tensor([[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]]))
    cam_from_world = torch.eye(4)
    cam_from_world[2, 3] = 2.0
    found = plane_offsets(torch.tensor([[1.0, 2.0, 3.0], [0.0, 0.0, 3.0]]), turned, cam_from_world)
    assert torch.allclose(found, torch.tensor([-5.0, -5.0]))


def test_normals_of_depth_are_those_of_the_plane() -> None:
    found = normals_of_depth(_slope_depth(), intrinsics(CAMERA))
    assert torch.allclose(found[1:-1, 1:-1], SLOPE.expand(28, 38, 3), atol=1e-4)
    assert float(found[0].abs().max()) == 0.0


def test_terms_ask_for_normals_that_fit_the_depth_once_the_photos_had_their_say() -> None:
    terms, depth = SurfelTerms(normal_weight=1.0, distortion_weight=0.0, farthest_m=1e6), _slope_depth().abs()
    fits = terms.term(CAMERA, _view(SLOPE.expand(30, 40, 3), depth), 0.5)
    against = terms.term(CAMERA, _view(-SLOPE.expand(30, 40, 3), depth), 0.5)
    border = 1.0 - 28 * 38 / 1200
    assert float(fits) == pytest.approx(border, abs=1e-3)
    assert float(against) == pytest.approx(2.0 - border, abs=1e-3)
    assert float(terms.term(CAMERA, _view(-SLOPE.expand(30, 40, 3), depth), 0.1)) == 0.0


def test_what_lies_beyond_the_crop_is_not_asked_for_anything() -> None:
    terms = SurfelTerms(farthest_m=1.0)
    assert float(terms.term(CAMERA, _view(SLOPE.expand(30, 40, 3), _slope_depth()), 0.5)) == 0.0
    near = SurfelTerms(normal_weight=0.0, distortion_weight=2.0, farthest_m=1e6)
    assert float(near.term(CAMERA, _view(SLOPE.expand(30, 40, 3), _slope_depth().abs()), 0.5)) == pytest.approx(0.2)


def test_a_pixel_without_a_number_spoils_no_gradient() -> None:
    """Depth and normals of an edge-on surfel may be none: what is beside it, and every other surfel, goes on."""
    depth, normals = _slope_depth().abs().requires_grad_(True), SLOPE.repeat(30, 40, 1).requires_grad_(True)
    spoilt = torch.zeros(30, 40)
    spoilt[10, 12], spoilt[20, 5] = torch.nan, torch.inf
    terms = SurfelTerms(normal_weight=1.0, farthest_m=1e6)
    loss = terms.term(CAMERA, _view(normals + spoilt[..., None], depth + spoilt), 0.5)
    loss.backward()
    assert bool(loss.isfinite()) and bool(depth.grad.isfinite().all()) and bool(normals.grad.isfinite().all())
    assert float(normals.grad[15, 15].norm()) > 0 and float(normals.grad[10, 12].norm()) == 0


def test_gradients_that_are_no_numbers_come_back_as_zeros() -> None:
    means = torch.ones(2, 3, requires_grad=True)
    quats, logits, sh = torch.ones(2, 4), torch.ones(2), torch.ones(2, 1, 3)
    held = steadied(SplatTensors(means, quats, means.detach(), logits, sh))
    (held.means * torch.tensor([[1.0], [torch.nan]])).sum().backward()
    assert means.grad.tolist() == [[1.0] * 3, [0.0] * 3]


def test_what_is_drawn_fills_the_channels_of_the_kernel() -> None:
    """Eight with gsplat's own depth: what it would pad is memory that nobody set."""
    z = torch.tensor([2.0, 5.0, 400.0])
    found = channels(torch.rand(3, 3), torch.ones(3), z)
    assert found.shape == (3, 7)
    assert torch.allclose(found[:, 4], bounded_depth(z)) and torch.allclose(found[:, 5], bounded_depth(z) ** 2)
    assert bool(found.isfinite().all())


def test_distortion_is_the_spread_of_depth_and_the_sky_does_not_outweigh_the_street() -> None:
    weights = torch.tensor([0.5, 0.3, 0.1])

    def spread(*depths: float) -> float:
        m = bounded_depth(torch.tensor(depths))
        return float(distortion(weights.sum(), (weights * m).sum(), (weights * m * m).sum()))

    m = bounded_depth(torch.tensor([4.0, 5.0, 9.0]))
    pairs = sum(weights[i] * weights[j] * (m[i] - m[j]) ** 2 for i in range(3) for j in range(i))
    assert spread(4.0, 5.0, 9.0) == pytest.approx(float(pairs), abs=1e-6)
    assert spread(5.0, 5.0, 5.0) == pytest.approx(0.0, abs=1e-6)
    assert spread(5.0, 5.0, 1e4) < 3.0 * spread(5.0, 5.0, 20.0)


def test_without_a_gpu_the_other_way_is_named() -> None:
    with pytest.raises(BackendError, match="mesh the measured depth"):
        GsplatSurfels().load("cpu")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_a_wall_of_surfels_has_its_own_depth() -> None:
    across, down = torch.meshgrid(torch.linspace(-4, 4, 80), torch.linspace(-3, 3, 60), indexing="xy")
    count = across.numel()
    wall = SplatTensors(
        torch.stack([across.ravel(), down.ravel(), torch.full((count,), 5.0)], dim=1).cuda(),
        torch.tensor([[1.0, 0.0, 0.0, 0.0]]).repeat(count, 1).cuda(),
        torch.full((count, 3), float(np.log(0.08))).cuda(),
        torch.full((count,), 3.0).cuda(),
        torch.zeros(count, 1, 3).cuda(),
    )
    rendered = GsplatSurfels().load("cuda").render(wall, CAMERA, torch.eye(4).cuda())
    assert isinstance(rendered, RenderedSurfels)
    inner = rendered.depth[5:-5, 5:-5].cpu()
    assert float((inner - 5.0).abs().max()) < 0.01
    assert float((rendered.normals[15, 20].cpu() - torch.tensor([0.0, 0.0, -1.0])).abs().max()) < 0.05
    assert float(rendered.distortion[5:-5, 5:-5].max()) < 1e-4
