"""A training on disk: one .npz written whole or not at all, read back bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from skyanchor.gaussians.densify import GrowthStatistics
from skyanchor.gaussians.exposure import Exposures
from skyanchor.gaussians.parameters import Leaves, ParameterSet, splats_of
from skyanchor.gaussians.splats import Splats
from skyanchor.gaussians.train_state import TrainState
from skyanchor.storage import codec, files

if TYPE_CHECKING:
    from torch import Tensor

Arrays = dict[str, npt.NDArray[Any]]


@dataclass
class Behind:
    """Writes on one thread, in the order they were asked for, while the training goes on.

    What a disk refuses is raised by a later call, or at the end of the block.
    """

    _thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="checkpoints"))
    _asked: list[Future[None]] = field(default_factory=list)

    def __enter__(self) -> Behind:
        """Ready to write."""
        return self

    def __exit__(self, *_: object) -> None:
        """Wait until all is on the disk."""
        try:
            self.wait()
        finally:
            self._thread.shutdown()

    def do(self, write: Callable[[], None]) -> None:
        """Call the function on the thread, after what was asked for before."""
        while self._asked and self._asked[0].done():
            self._asked.pop(0).result()
        self._asked.append(self._thread.submit(write))

    def wait(self) -> None:
        """Until nothing is under way."""
        while self._asked:
            self._asked.pop(0).result()

    def write_checkpoint(self, path: Path, state: TrainState, fingerprint: str) -> None:
        """As the function, of the state as it is now; no two are held in memory."""
        self.wait()
        arrays = checkpoint_arrays(state, fingerprint)
        self.do(lambda: files.write_arrays(path, arrays))


def write_checkpoint(path: Path, state: TrainState, fingerprint: str) -> None:
    """Put the state where `read_checkpoint` finds it; an older one stays until the new one is complete."""
    files.write_arrays(path, checkpoint_arrays(state, fingerprint))


def checkpoint_arrays(state: TrainState, fingerprint: str) -> Arrays:
    """A copy of the state as it is stored."""
    arrays: Arrays = {"iteration": np.array(state.iteration), "fingerprint": np.array(fingerprint)}
    for k, one in enumerate(state.sets):
        arrays[f"set{k}.owner"] = one.owner
        for kind, leaves in (("value", one.values), ("first", one.first), ("second", one.second)):
            arrays |= {} if leaves is None else {f"set{k}.{kind}.{i}": _array(leaf) for i, leaf in enumerate(leaves)}
    exposures, statistics = state.exposures, state.statistics
    for name in ("maps", "first", "second", "visits"):
        arrays[f"exposure.{name}"] = _array(getattr(exposures, name))
    arrays |= {"growth.pull": _array(statistics.pull), "growth.seen": _array(statistics.seen)}
    return arrays


def read_checkpoint(path: Path, fingerprint: str, device: str) -> TrainState | None:
    """The state of a checkpoint; None when it belongs to another training or cannot be read."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            if str(stored["fingerprint"]) != fingerprint:
                return None
            return _state(stored, device)
    except codec.UNREADABLE:
        return None


def checkpoint_splats(path: Path) -> tuple[Splats, ...]:
    """The sets of Gaussians in a checkpoint as they are now, for people to look at; empty when it cannot be read."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            count = sum(name.endswith(".owner") for name in stored)
            return tuple(splats_of(_set(stored, k, "cpu")) for k in range(count))
    except codec.UNREADABLE:
        return ()


def _state(stored: Mapping[str, npt.NDArray[Any]], device: str) -> TrainState:
    count = sum(name.endswith(".owner") for name in stored)
    exposures = (_tensor(stored[f"exposure.{name}"], device) for name in ("maps", "first", "second", "visits"))
    return TrainState(
        int(stored["iteration"]),
        tuple(_set(stored, k, device) for k in range(count)),
        Exposures(*exposures),
        GrowthStatistics(_tensor(stored["growth.pull"], device), _tensor(stored["growth.seen"], device)),
    )


def _set(stored: Mapping[str, npt.NDArray[Any]], k: int, device: str) -> ParameterSet:
    frozen = f"set{k}.first.0" not in stored
    first, second = (None if frozen else _leaves(stored, f"set{k}.{kind}", device) for kind in ("first", "second"))
    values = _leaves(stored, f"set{k}.value", device)
    if not frozen:
        values = Leaves(*(value.requires_grad_(True) for value in values))
    return ParameterSet(values, first, second, stored[f"set{k}.owner"])


def _leaves(stored: Mapping[str, npt.NDArray[Any]], prefix: str, device: str) -> Leaves:
    return Leaves(*(_tensor(stored[f"{prefix}.{i}"], device) for i in range(len(Leaves._fields))))


def _tensor(array: npt.NDArray[Any], device: str) -> Tensor:
    import torch

    return torch.tensor(array, device=device)


def _array(tensor: Tensor) -> npt.NDArray[Any]:
    """The numbers as they are now: later steps do not touch them."""
    held = tensor.detach().cpu().numpy()
    return held.copy() if tensor.device.type == "cpu" else held
