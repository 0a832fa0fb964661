"""All that a training is made of besides its inputs."""

from __future__ import annotations

from dataclasses import dataclass

from skyanchor.gaussians.densify import GrowthStatistics, no_statistics
from skyanchor.gaussians.exposure import Exposures
from skyanchor.gaussians.parameters import Leaves, ParameterSet, without_moments


@dataclass(frozen=True, eq=False)
class TrainState:
    """Everything a training is made of besides its inputs. A step consumes its state: tensors are reused."""

    iteration: int
    """Steps taken."""
    sets: tuple[ParameterSet, ...]
    exposures: Exposures
    statistics: GrowthStatistics


def kept(state: TrainState) -> TrainState:
    """A state with the same numbers that later steps do not touch, to come back to and not to train on: no moments."""
    return TrainState(
        state.iteration,
        tuple(without_moments(one) for one in state.sets),
        Exposures(*(value.clone() for value in state.exposures.__dict__.values())),
        no_statistics(0, str(state.statistics.pull.device)),
    )


def finished(state: TrainState) -> TrainState:
    """The same state for drawing alone: what only training needs is let go."""
    sets = tuple(ParameterSet(Leaves(*(v.detach() for v in one.values)), None, None, one.owner) for one in state.sets)
    return TrainState(state.iteration, sets, state.exposures, no_statistics(0, str(state.statistics.pull.device)))
