"""Where a growing set gets its Gaussians: the 3DGS rule (clone, split, prune, reset) or MCMC (relocate, add, noise).

A strategy is a frozen choice; what it has seen lives in `GrowthStatistics`, which the training state carries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from skyanchor.bounds import Count, CountOrNone, NotNegative, Share
from skyanchor.gaussians.parameters import (
    Leaves,
    ParameterSet,
    moments_cleared,
    rows_added,
    rows_kept,
    with_opacities_reset,
)

if TYPE_CHECKING:
    from torch import Generator, Tensor

    from skyanchor.gaussians.rasteriser import Rendered


@dataclass(frozen=True)
class SplitGrowth:
    """The 3DGS rule: Gaussians whose screen position is pulled hard are cloned when small and split when large."""

    start: CountOrNone = 500
    """First iteration that may grow."""
    stop: CountOrNone = 15_000
    """No growth from this iteration on."""
    every: Count = 100
    """Iterations between two rounds."""
    gradient: NotNegative = 2e-4
    """Mean screen gradient that asks for growth, in units of half the image."""
    large: NotNegative = 0.01
    """Fraction of the scene extent above which a Gaussian is split rather than cloned."""
    too_large: NotNegative = 0.1
    """Fraction of the scene extent above which a Gaussian is removed, after the first opacity reset."""
    least_opacity: Share = 0.005
    """Fainter Gaussians are removed."""
    reset_every: CountOrNone = 3_000
    """Iterations between two opacity resets; 0 = never."""
    most: CountOrNone = 3_000_000
    """Cap on the number of Gaussians in the growing set."""


@dataclass(frozen=True)
class McmcGrowth:
    """3DGS as Markov chain Monte Carlo: a budget, dead Gaussians moved to where opacity is, noise on the centres."""

    start: CountOrNone = 500
    """First iteration that may move or add Gaussians."""
    stop: CountOrNone = 25_000
    """No moves from this iteration on."""
    every: Count = 100
    """Iterations between two rounds."""
    most: CountOrNone = 1_000_000
    """Cap on the number of Gaussians in the growing set."""
    rate: NotNegative = 0.05
    """Growth per round, fraction."""
    least_opacity: Share = 0.005
    """Fainter Gaussians are dead."""
    noise: NotNegative = 5e5
    """Noise on the centres in units of their learning rate."""


AnyGrowth: TypeAlias = SplitGrowth | McmcGrowth


@dataclass(frozen=True, eq=False)
class GrowthStatistics:
    """What the views since the last round said about each Gaussian of the growing set; updated in place."""

    pull: Tensor
    """(N,), sum of screen gradient norms, units of half the image."""
    seen: Tensor
    """(N,), number of views."""


def no_statistics(count: int, device: str) -> GrowthStatistics:
    """Nothing seen yet."""
    import torch

    return GrowthStatistics(torch.zeros(count, device=device), torch.zeros(count, device=device))


def observe(statistics: GrowthStatistics, rendered: Rendered, width: int, height: int, weight: float = 1.0) -> None:
    """Add one rendered view, after its backward pass, in place; `weight` is what its loss was multiplied with."""
    import torch

    count = len(statistics.pull)
    visible = (rendered.radii[:count] > 0).to(statistics.seen.dtype)
    across, down = rendered.screen_gradients()[:count].unbind(dim=1)
    half = width / (2.0 * weight), height / (2.0 * weight)
    statistics.pull.add_(torch.hypot(across * half[0], down * half[1]) * visible)
    statistics.seen.add_(visible)


def grown(
    parameters: ParameterSet,
    statistics: GrowthStatistics,
    growth: AnyGrowth,
    *,
    iteration: int,
    extent: float,
    noise: float,
    generator: Generator,
) -> tuple[ParameterSet, GrowthStatistics]:
    """The set after what the strategy does at this iteration (from 1), and the statistics to go on with."""
    if isinstance(growth, McmcGrowth):
        return _grown_mcmc(parameters, statistics, growth, iteration, noise, generator)
    return _grown_by_splitting(parameters, statistics, growth, iteration, extent, generator)


# --- clone and split --------------------------------------------------------------------------------------------


def _grown_by_splitting(
    parameters: ParameterSet,
    statistics: GrowthStatistics,
    growth: SplitGrowth,
    iteration: int,
    extent: float,
    generator: Generator,
) -> tuple[ParameterSet, GrowthStatistics]:
    if iteration < growth.stop and iteration > growth.start and iteration % growth.every == 0:
        parameters = cloned_and_split(parameters, statistics, growth, extent, generator)
        was_reset = 0 < growth.reset_every < iteration
        parameters = pruned(parameters, growth.least_opacity, growth.too_large * extent if was_reset else None)
        statistics = no_statistics(len(parameters), str(parameters.values.means.device))
    if growth.reset_every and iteration < growth.stop and iteration % growth.reset_every == 0:
        parameters = with_opacities_reset(parameters, 2.0 * growth.least_opacity)
    return parameters, statistics


def cloned_and_split(
    parameters: ParameterSet, statistics: GrowthStatistics, growth: SplitGrowth, extent: float, generator: Generator
) -> ParameterSet:
    """The set with the pulled small Gaussians doubled and the pulled large ones replaced by two smaller ones each."""
    import torch

    pull = statistics.pull / statistics.seen.clamp(min=1.0)
    asking = _strongest(pull, growth.gradient, growth.most - len(parameters))
    large = parameters.values.log_scales.detach().exp().amax(dim=1) > growth.large * extent
    clones, splits = torch.nonzero(asking & ~large)[:, 0], torch.nonzero(asking & large)[:, 0]
    halves = [_half(parameters.values, splits, generator) for _ in range(2)]
    copies = Leaves(*(value.detach()[clones] for value in parameters.values))
    added = Leaves(*(torch.cat(parts) for parts in zip(copies, *halves, strict=True)))
    longer = rows_added(parameters, added, torch.cat([clones, splits, splits]))
    keep = torch.ones(len(longer), dtype=torch.bool, device=splits.device)
    keep[splits] = False
    return rows_kept(longer, keep)


def _strongest(pull: Tensor, least: float, room: int) -> Tensor:
    """Mask of the rows pulled harder than `least`, the hardest first when there is room for few."""
    import torch

    asking = pull > least
    if int(asking.sum()) <= room:
        return asking
    chosen = torch.zeros_like(asking)
    chosen[torch.topk(pull, max(room, 0)).indices] = True
    return chosen & asking


def _half(values: Leaves, rows: Tensor, generator: Generator) -> Leaves:
    """A Gaussian drawn from each of the rows, 1.6 times smaller."""
    import math

    import torch

    parts = [value.detach()[rows] for value in values]
    normal = torch.randn(len(rows), 3, generator=generator, device=rows.device)
    offset = torch.einsum("nij,nj->ni", rotations(parts[1]), parts[2].exp() * normal)
    return Leaves(parts[0] + offset, parts[1], parts[2] - math.log(1.6), *parts[3:])


def pruned(parameters: ParameterSet, least_opacity: float, largest_m: float | None) -> ParameterSet:
    """The set without its faint and, given a limit, without its huge Gaussians."""
    import math

    keep = parameters.values.logit_opacities.detach() > math.log(least_opacity / (1.0 - least_opacity))
    if largest_m is not None:
        keep &= parameters.values.log_scales.detach().amax(dim=1) < math.log(largest_m)
    return parameters if bool(keep.all()) else rows_kept(parameters, keep)


def rotations(quats: Tensor) -> Tensor:
    """Rotation matrices (N, 3, 3) of wxyz quaternions of any length."""
    import torch

    w, x, y, z = torch.nn.functional.normalize(quats, dim=1).unbind(1)
    rows = [
        1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
        2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
        2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
    ]  # fmt: skip
    return torch.stack(rows, dim=1).reshape(-1, 3, 3)


# --- Markov chain Monte Carlo -----------------------------------------------------------------------------------


def _grown_mcmc(
    parameters: ParameterSet,
    statistics: GrowthStatistics,
    growth: McmcGrowth,
    iteration: int,
    noise: float,
    generator: Generator,
) -> tuple[ParameterSet, GrowthStatistics]:
    if growth.start < iteration < growth.stop and iteration % growth.every == 0:
        relocate(parameters, growth.least_opacity, generator)
        parameters = multiplied(parameters, growth, generator)
        statistics = no_statistics(len(parameters), str(parameters.values.means.device))
    if growth.noise > 0 and iteration < growth.stop:
        shake(parameters, growth.noise * noise, generator)
    return parameters, statistics


def relocate(parameters: ParameterSet, least_opacity: float, generator: Generator) -> None:
    """Move every dead Gaussian onto a living one drawn by opacity; the pair looks like the one before. In place."""
    import torch

    opacity = parameters.values.logit_opacities.detach().sigmoid()
    dead = torch.nonzero(opacity <= least_opacity)[:, 0]
    living = torch.nonzero(opacity > least_opacity)[:, 0]
    if not len(dead) or not len(living):
        return
    sources = living[torch.multinomial(opacity[living], len(dead), replacement=True, generator=generator)]
    _share(parameters, sources)
    for value in parameters.values:
        value.data[dead] = value.data[sources]
    touched = torch.cat([dead, sources])
    moments_cleared(parameters.first, touched)
    moments_cleared(parameters.second, touched)


def multiplied(parameters: ParameterSet, growth: McmcGrowth, generator: Generator) -> ParameterSet:
    """The set with up to `rate` more Gaussians, each sharing the place of one drawn by opacity."""
    import torch

    wanted = min(growth.most, int((1.0 + growth.rate) * len(parameters))) - len(parameters)
    if wanted <= 0:
        return parameters
    opacity = parameters.values.logit_opacities.detach().sigmoid()
    sources = torch.multinomial(opacity, wanted, replacement=True, generator=generator)
    _share(parameters, sources)
    moments_cleared(parameters.first, sources)
    moments_cleared(parameters.second, sources)
    return rows_added(parameters, Leaves(*(value.detach()[sources] for value in parameters.values)), sources)


def _share(parameters: ParameterSet, sources: Tensor) -> None:
    """Thin out each source so that it and its copies together look as it did, in place.

    n Gaussians of opacity o' = 1 - (1 - o)^(1/n) at one place, with scales times o / Σ_k C(n, k) (-1)^(k-1) o'^k / √k.
    """
    import torch

    copies = torch.bincount(sources, minlength=len(parameters))[sources].clamp(max=50) + 1
    values = parameters.values
    opacity = values.logit_opacities.detach()[sources].double().sigmoid().clamp(max=1.0 - 1e-7)
    shared = 1.0 - (1.0 - opacity) ** (1.0 / copies)
    ratio = opacity / _spread(shared, copies)
    values.logit_opacities.data[sources] = torch.logit(shared.clamp(min=0.005, max=1.0 - 1e-7)).float()
    values.log_scales.data[sources] += ratio.log().float()[:, None]


def _spread(shared: Tensor, copies: Tensor) -> Tensor:
    """Σ_{k=1..n} C(n, k) (-1)^(k-1) o^k / √k for opacities o and counts n, (M,), float64."""
    import torch

    k = torch.arange(1, int(copies.max()) + 1, device=shared.device, dtype=torch.float64)
    n = copies.double()[:, None]
    log_binomial = torch.lgamma(n + 1) - torch.lgamma(k + 1) - torch.lgamma((n - k).clamp(min=0.0) + 1)
    terms = torch.exp(log_binomial + k * shared.log()[:, None]) / k.sqrt() * (1.0 - 2.0 * ((k - 1) % 2))
    return torch.where(k <= n, terms, torch.zeros_like(terms)).sum(dim=1)


def shake(parameters: ParameterSet, noise: float, generator: Generator) -> None:
    """Noise in the shape of each Gaussian on the centres of the faint ones, in place: Σ ε sigmoid(100 (0.005 - o))."""
    import torch

    values = parameters.values
    normal = torch.randn(len(parameters), 3, generator=generator, device=values.means.device)
    faint = torch.sigmoid(100.0 * (0.005 - values.logit_opacities.detach().sigmoid()))
    turn = rotations(values.quats.detach())
    half = turn * values.log_scales.detach().exp()[:, None, :]
    step = torch.einsum("nij,nkj,nk->ni", half, half, normal)
    values.means.data.add_(step * (faint * noise)[:, None])
