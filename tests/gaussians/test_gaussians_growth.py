"""Growth: who is cloned, split, removed or moved, and that the picture survives it."""

from __future__ import annotations

import numpy as np
import torch
from gaussians_small_scene import CAMERA, engine, floor, poses

from skyanchor.gaussians import densify
from skyanchor.gaussians.densify import GrowthStatistics, McmcGrowth, SplitGrowth
from skyanchor.gaussians.parameters import ParameterSet, drawn, parameter_set
from skyanchor.gaussians.views import matrix


def dice(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def picture(parameters: ParameterSet) -> np.ndarray:
    with torch.no_grad():
        return engine().rasteriser.render(drawn([parameters], 1), CAMERA, matrix(poses(1)[0], "cpu")).rgb.numpy()


def mse(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.mean((a - b) ** 2))


def test_pulled_gaussians_are_cloned_when_small_and_split_when_large() -> None:
    parameters = parameter_set(floor(10), "cpu", frozen=False)
    parameters.values.log_scales.data[:] = np.log(0.05)
    parameters.values.log_scales.data[3, 1] = np.log(0.5)
    parameters.first.means[:] = 7.0
    pull = torch.zeros(10)
    pull[[3, 6]] = 1.0
    growth = SplitGrowth(gradient=0.5, large=0.01)
    after = densify.cloned_and_split(parameters, GrowthStatistics(pull, torch.ones(10)), growth, 10.0, dice())
    scales = after.values.log_scales.exp().detach()
    assert len(after) == 12  # + clone of 6, - 3, + its two halves
    assert torch.allclose(scales.amax(dim=1).sort().values[-2:], torch.tensor(0.5 / 1.6))
    assert int((after.values.means == parameters.values.means[6]).all(dim=1).sum()) == 2
    assert torch.equal(after.first.means[:9], torch.full((9, 3), 7.0))
    assert not after.first.means[9:].any()


def test_the_cap_leaves_room_for_the_hardest_pulled() -> None:
    parameters = parameter_set(floor(10), "cpu", frozen=False)
    pull = torch.arange(10.0)
    growth = SplitGrowth(gradient=0.5, large=1.0, most=12)
    after = densify.cloned_and_split(parameters, GrowthStatistics(pull, torch.ones(10)), growth, 10.0, dice())
    assert len(after) == 12
    assert torch.equal(after.values.means[10:].detach(), parameters.values.means[8:].detach())


def test_faint_and_huge_gaussians_are_pruned() -> None:
    parameters = parameter_set(floor(10), "cpu", frozen=False)
    parameters.values.logit_opacities.data[2] = -9.0
    parameters.values.log_scales.data[5, 0] = 3.0
    assert len(densify.pruned(parameters, 0.005, None)) == 9
    assert len(densify.pruned(parameters, 0.005, 5.0)) == 8


def test_relocation_keeps_the_picture_and_revives_the_dead() -> None:
    parameters = parameter_set(floor(200), "cpu", frozen=False)
    parameters.values.logit_opacities.data[:50] = -9.0
    before = picture(parameters)
    densify.relocate(parameters, 0.005, dice())
    opacity = parameters.values.logit_opacities.detach().sigmoid()
    assert float(opacity.min()) >= 0.005
    assert mse(before, picture(parameters)) < 1e-4
    assert mse(before, 0 * before) > 0.05


def test_multiplication_keeps_the_picture_and_the_cap() -> None:
    parameters = parameter_set(floor(200), "cpu", frozen=False)
    before = picture(parameters)
    more = densify.multiplied(parameters, McmcGrowth(rate=0.5, most=280), dice())
    assert len(more) == 280
    assert mse(before, picture(more)) < 1e-4
    naive = densify.rows_added(
        parameter_set(floor(200), "cpu", frozen=False),
        densify.Leaves(*(value.detach()[:80] for value in parameter_set(floor(200), "cpu", frozen=False).values)),
        torch.arange(80),
    )
    assert mse(before, picture(naive)) > 2 * mse(before, picture(more))


def test_noise_moves_only_the_faint() -> None:
    parameters = parameter_set(floor(20), "cpu", frozen=False)
    parameters.values.logit_opacities.data[:10] = -9.0
    before = parameters.values.means.detach().clone()
    densify.shake(parameters, 0.1, dice())
    moved = (parameters.values.means.detach() - before).norm(dim=1)
    assert float(moved[:10].min()) > 0
    assert float(moved[10:].max()) < 1e-6 * float(moved[:10].mean())
