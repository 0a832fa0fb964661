"""Gaussians of a gsplat trainer's checkpoint, read without unpickling code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from skyanchor.errors import InputError
from skyanchor.gaussians.ply_header import REST_COUNTS, TRAIN_ADVICE
from skyanchor.gaussians.splats import Splats
from skyanchor.storage import codec
from skyanchor.types import Floats

CHECKPOINTS = (".pt", ".pth", ".ckpt")
"""Endings of a gsplat trainer's files."""


def read_gsplat_checkpoint(path: Path, offset: Floats | None = None) -> Splats:
    """The Gaussians of a gsplat trainer's .pt (entry `splats`), read without unpickling code."""
    import pickle

    import torch

    try:
        stored = torch.load(path, map_location="cpu", weights_only=True)
        parts = {name: np.atleast_1d(value.detach().numpy()) for name, value in stored["splats"].items()}
        means, quats, scales = parts["means"], parts["quats"], parts["scales"]
        sh = np.concatenate([parts["sh0"], parts["shN"]], axis=1)
        opacities = parts["opacities"]
    except pickle.UnpicklingError:  # torch's own text ends in the advice to trust the file
        raise InputError(path, "is not a gsplat checkpoint (it holds more than tensors)", TRAIN_ADVICE) from None
    except codec.UNREADABLE as error:
        reason = str(error).split("\n")[0]
        raise InputError(path, f"is not a gsplat checkpoint ({reason})", TRAIN_ADVICE) from None
    _refuse_other_shapes(path, {"means": means, "quats": quats, "scales": scales, "opacities": opacities, "sh": sh})
    if offset is not None:
        means = means.astype(np.float64) - offset
    return Splats(
        means.astype(np.float32),
        quats.astype(np.float32),
        scales.astype(np.float32),
        opacities.reshape(-1).astype(np.float32),
        sh.astype(np.float32),
        np.zeros(len(means), np.int32),
    )


def _refuse_other_shapes(path: Path, parts: dict[str, npt.NDArray[Any]]) -> None:
    """Raise unless the arrays are those of one set of Gaussians."""
    count = len(parts["means"])
    bands: set[tuple[int, ...]] = {(rest // 3 + 1, 3) for rest in REST_COUNTS}
    wanted: dict[str, set[tuple[int, ...]]]
    wanted = {"means": {(3,)}, "quats": {(4,)}, "scales": {(3,)}, "opacities": {(), (1,)}, "sh": bands}
    for name, array in parts.items():
        if array.dtype.kind != "f" or array.shape[1:] not in wanted[name] or len(array) != count:
            problem = f"is no checkpoint of Gaussians ({name} is {array.dtype} of {array.shape})"
            raise InputError(path, problem, TRAIN_ADVICE)
