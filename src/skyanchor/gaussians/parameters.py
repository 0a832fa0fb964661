"""Gaussians in training: leaf tensors, their learning rates and their Adam moments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from skyanchor.bounds import NotNegative
from skyanchor.gaussians.splats import Owners, Splats, from_tensors

if TYPE_CHECKING:
    from torch import Tensor

    from skyanchor.gaussians.rasteriser import SplatTensors

ADAM_BETAS = (0.9, 0.999)
ADAM_EPSILON = 1e-15
"""Gradients of one pixel in a large photo are tiny: the usual 1e-8 would damp them."""


@dataclass(frozen=True)
class Rates:
    """Learning rates of one set of Gaussians, per Adam step."""

    means: NotNegative = 1.6e-4
    """First step of the centres, fraction of the scene extent."""
    means_last: NotNegative = 1.6e-6
    """Last step of the centres, fraction of the scene extent; log-linear in between."""
    quats: NotNegative = 1e-3
    """Quaternion units."""
    log_scales: NotNegative = 5e-3
    """Natural log of metres."""
    logit_opacities: NotNegative = 5e-2
    """Logit units."""
    sh_dc: NotNegative = 2.5e-3
    """Band 0 coefficients."""
    sh_rest: NotNegative = 1.25e-4
    """Bands 1 to 3."""

    def scaled(self, factor: float) -> Rates:
        """All rates times a factor."""
        return Rates(*(factor * value for value in self.__dict__.values()))


QUICK = Rates(
    means=6.4e-4, means_last=6.4e-6, quats=1e-2, log_scales=2.5e-2, logit_opacities=0.2, sh_dc=7.5e-3, sh_rest=1e-3
)
"""For a training of hundreds of steps from dense seeds: three of the usual steps in one."""

BRISK = Rates(
    means=3.2e-4, means_last=3.2e-6, quats=3e-3, log_scales=1.1e-2, logit_opacities=0.1, sh_dc=4.3e-3, sh_rest=3.5e-4
)
"""For a training of thousands of steps from dense seeds: between the usual rates and `QUICK`."""


class Leaves(NamedTuple):
    """One tensor per kind of parameter, N rows each."""

    means: Tensor
    quats: Tensor
    log_scales: Tensor
    logit_opacities: Tensor
    sh_dc: Tensor
    """(N, 1, 3)."""
    sh_rest: Tensor
    """(N, K - 1, 3)."""


@dataclass(frozen=True, eq=False)
class ParameterSet:
    """N Gaussians in training; the tensors are updated in place, rows are edited by making a new set."""

    values: Leaves
    first: Leaves | None
    """Adam's running mean of the gradients; None for a frozen set."""
    second: Leaves | None
    """Adam's running mean of the squared gradients."""
    owner: Owners

    def __len__(self) -> int:
        """Number of Gaussians."""
        return len(self.values.means)

    @property
    def frozen(self) -> bool:
        """Whether the set is drawn but never changed."""
        return self.first is None


def parameter_set(splats: Splats, device: str, *, frozen: bool) -> ParameterSet:
    """The splats as leaves on a device, with zero moments unless frozen."""
    import torch

    arrays = (splats.means, splats.quats, splats.log_scales, splats.logit_opacities, splats.sh[:, :1], splats.sh[:, 1:])
    values = Leaves(*(torch.tensor(np.ascontiguousarray(array), device=device) for array in arrays))
    if frozen:
        return ParameterSet(values, None, None, splats.owner)
    for value in values:
        value.requires_grad_(True)
    zeros = [Leaves(*(torch.zeros_like(value, requires_grad=False) for value in values)) for _ in range(2)]
    return ParameterSet(values, zeros[0], zeros[1], splats.owner)


def splats_of(parameters: ParameterSet) -> Splats:
    """The current Gaussians as a value of their own."""
    return from_tensors(drawn([parameters]), parameters.owner)


def drawn(sets: Sequence[ParameterSet], sh_degree: int = 3) -> SplatTensors:
    """All sets one after the other as the rasteriser wants them; the first with its bands up to `sh_degree`.

    Only the first set grows its bands step by step. The others come trained: cutting their bands would show other
    colours than they have, and the first set would learn to make up for it.
    """
    from skyanchor.gaussians.rasteriser import SplatTensors

    rests = [(sh_degree + 1) ** 2 - 1, *(one.values.sh_rest.shape[1] for one in sets[1:])]
    harmonics = [
        _joined([one.values.sh_dc, one.values.sh_rest[:, :rest]], dim=1) for one, rest in zip(sets, rests, strict=True)
    ]
    return SplatTensors(
        _joined([one.values.means for one in sets]),
        _joined([one.values.quats for one in sets]),
        _joined([one.values.log_scales for one in sets]),
        _joined([one.values.logit_opacities for one in sets]),
        _joined(_same_bands(harmonics)),
        constant=sum(len(one) for one in sets if one.frozen),
    )


def _same_bands(harmonics: Sequence[Tensor]) -> list[Tensor]:
    """The tensors (N, K, 3) padded with zeros to the largest K among those with rows."""
    from torch.nn.functional import pad

    most = max((sh.shape[1] for sh in harmonics if len(sh)), default=1)
    return [pad(sh, (0, 0, 0, most - sh.shape[1])) if sh.shape[1] < most else sh[:, :most] for sh in harmonics]


def _joined(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Concatenation; the only tensor itself where the others are empty."""
    import torch

    filled = [tensor for tensor in tensors if tensor.shape[dim]]
    if len(filled) == 1:
        return filled[0]
    return torch.cat(list(tensors), dim=dim)


def means_rate(rates: Rates, progress: float, extent: float) -> float:
    """Metres per step at progress 0..1: extent * first^(1-p) * last^p."""
    return float(extent * rates.means ** (1.0 - progress) * rates.means_last**progress)


def adam_step(
    parameters: ParameterSet, rates: Rates, *, step: int, progress: float, extent: float, shown: Tensor | None = None
) -> None:
    """Move a set along its gradients, in place, and drop the gradients. `step` counts from 1.

    With `shown` (N,) the other rows rest, their moments too.
    """
    if parameters.first is None or parameters.second is None or not len(parameters):
        return
    moving = means_rate(rates, progress, extent)
    speeds = (moving, rates.quats, rates.log_scales, rates.logit_opacities, rates.sh_dc, rates.sh_rest)
    count = _count(step, parameters.values.means)
    for value, first, second, speed in zip(parameters.values, parameters.first, parameters.second, speeds, strict=True):
        if value.grad is None or not value.numel():
            continue
        if shown is None:
            fused_adam(value, value.grad, first, second, count, speed)
        else:
            _moved_where(shown, value, value.grad, first, second, speed, step)
        value.grad = None


def fused_adam(value: Tensor, gradient: Tensor, first: Tensor, second: Tensor, count: Tensor, rate: float) -> None:
    """One Adam step, in place, by the kernel of `torch.optim.Adam(fused=True)`; `count` is the step's number from 1.

    The kernel alone: torch's function around it launches two more for every tensor, to count its steps.
    """
    import torch

    torch._fused_adam_(
        [value.detach()], [gradient], [first], [second], [], [count],
        lr=rate, beta1=ADAM_BETAS[0], beta2=ADAM_BETAS[1], weight_decay=0.0, eps=ADAM_EPSILON,
        amsgrad=False, maximize=False,
    )  # fmt: skip


def _moved_where(
    shown: Tensor, value: Tensor, gradient: Tensor, first: Tensor, second: Tensor, rate: float, step: int
) -> None:
    """One Adam step of the rows in `shown`, in place; the correction for the first steps is that of the whole set."""
    import math

    beta1, beta2 = ADAM_BETAS
    rate *= math.sqrt(1.0 - beta2**step) / (1.0 - beta1**step)
    held = value.detach()
    if held.is_cuda:
        from gsplat.cuda._wrapper import adam

        adam(held, gradient.contiguous(), first, second, shown, rate, beta1, beta2, ADAM_EPSILON)
        return
    rows = shown.nonzero()[:, 0]
    mean = first[rows].lerp(gradient[rows], 1.0 - beta1)
    square = beta2 * second[rows] + (1.0 - beta2) * gradient[rows].square()
    held[rows] -= rate * mean / (square.sqrt() + ADAM_EPSILON)
    first[rows], second[rows] = mean, square


def _count(step: int, like: Tensor) -> Tensor:
    """The number of an Adam step as its kernel wants it."""
    import torch

    return torch.full((), step, dtype=torch.float32, device=like.device)


def without_moments(parameters: ParameterSet) -> ParameterSet:
    """A frozen set with the same numbers; those of a set that is frozen already are shared."""
    if parameters.frozen:
        return parameters
    values = Leaves(*(value.detach().clone() for value in parameters.values))
    return ParameterSet(values, None, None, parameters.owner)


# --- editing rows -----------------------------------------------------------------------------------------------


def rows_kept(parameters: ParameterSet, rows: Tensor) -> ParameterSet:
    """The rows selected by mask or index, moments included."""
    chosen = rows.cpu().numpy()
    return ParameterSet(
        _leaves([value.detach()[rows] for value in parameters.values], grad=not parameters.frozen),
        None if parameters.first is None else Leaves(*(moment[rows] for moment in parameters.first)),
        None if parameters.second is None else Leaves(*(moment[rows] for moment in parameters.second)),
        parameters.owner[chosen],
    )


def rows_added(parameters: ParameterSet, added: Leaves, parents: Tensor) -> ParameterSet:
    """The set with new rows at its end: zero moments, owner of the parent row."""
    import torch

    def longer(old: Leaves | None) -> Leaves | None:
        if old is None:
            return None
        return Leaves(*(torch.cat([a, torch.zeros_like(b)]) for a, b in zip(old, added, strict=True)))

    values = [torch.cat([old.detach(), new]) for old, new in zip(parameters.values, added, strict=True)]
    owner = np.concatenate([parameters.owner, parameters.owner[parents.cpu().numpy()]])
    grown = _leaves(values, grad=not parameters.frozen)
    return ParameterSet(grown, longer(parameters.first), longer(parameters.second), owner)


def moments_cleared(moments: Leaves | None, rows: Tensor) -> None:
    """Forget the gradients of some rows, in place."""
    for moment in moments or ():
        moment[rows] = 0.0


def with_opacities_reset(parameters: ParameterSet, highest: float) -> ParameterSet:
    """All opacities at most `highest`, their moments forgotten."""
    if parameters.first is None or parameters.second is None:
        return parameters
    values = parameters.values
    lowered = values.logit_opacities.detach().clamp(max=float(np.log(highest / (1.0 - highest))))
    parameters.first.logit_opacities.zero_()
    parameters.second.logit_opacities.zero_()
    return replace(parameters, values=values._replace(logit_opacities=lowered.requires_grad_(True)))


def _leaves(tensors: Sequence[Tensor], *, grad: bool) -> Leaves:
    return Leaves(*(tensor.detach().requires_grad_(grad) for tensor in tensors))
