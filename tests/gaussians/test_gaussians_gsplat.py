"""gsplat against the Numba rasteriser on a CUDA machine: same picture, same gradients, same frozen rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gaussians_small_scene import CAMERA, floor, poses

from skyanchor.gaussians.devices import Engine, load_engine
from skyanchor.gaussians.gsplat_adapter import missing_for_cuda
from skyanchor.gaussians.splats import to_tensors
from skyanchor.gaussians.views import matrix

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(missing_for_cuda() is not None, reason=missing_for_cuda() or "CUDA is there"),
]
NAMES = ("means", "quats", "log_scales", "logit_opacities", "sh")


def drawn(engine: Engine, frozen: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    splats = to_tensors(floor(degree=3), engine.device)
    for name in NAMES:
        getattr(splats, name).requires_grad_(True)
    background = torch.tensor([0.2, 0.5, 0.9], device=engine.device)
    view = engine.rasteriser.render(
        splats, CAMERA, matrix(poses(1)[0], engine.device), frozen=frozen, background=background
    )
    (view.rgb.square().sum() + view.alpha.sum() + 0.1 * view.depth.sum()).backward()
    gradients = {name: getattr(splats, name).grad.cpu().numpy() for name in NAMES}
    gradients["screen"] = view.screen_gradients().cpu().numpy()
    return view.rgb.detach().cpu().numpy(), gradients


@pytest.mark.parametrize("frozen", [0, 100])
def test_both_rasterisers_agree(frozen: int) -> None:
    (image, gradients), (other, others) = drawn(load_engine("cpu"), frozen), drawn(load_engine("cuda"), frozen)
    assert np.abs(image - other).max() < 1e-4
    for name, gradient in gradients.items():
        assert np.linalg.norm(gradient - others[name]) < 1e-3 * np.linalg.norm(gradient), name
        assert not others[name][len(gradient) - frozen :].any()
