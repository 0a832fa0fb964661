"""The splat set: one frozen value for every Gaussian model, aerial, ground or merged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from skyanchor.gaussians.harmonics import band_rotations
from skyanchor.geometry import rigid
from skyanchor.types import Bools, Floats32, Ints, Similarity

if TYPE_CHECKING:
    from torch import Tensor

    from skyanchor.gaussians.rasteriser import SplatTensors

Owners: TypeAlias = npt.NDArray[np.int32]

AERIAL = 0
"""Owner of the scaffold's Gaussians; k >= 1 is ground sequence k."""


@dataclass(frozen=True, eq=False)
class Splats:
    """N Gaussians of one SH degree, in the frame of the model they belong to."""

    means: Floats32
    """(N, 3), metres."""
    quats: Floats32
    """(N, 4), wxyz, any length but zero."""
    log_scales: Floats32
    """(N, 3), log of the standard deviations in metres."""
    logit_opacities: Floats32
    """(N,)."""
    sh: Floats32
    """(N, K, 3), K = (degree + 1)², degree 0 to 3."""
    owner: Owners
    """(N,), 0 = aerial, k = ground sequence k."""

    def __len__(self) -> int:
        """Number of Gaussians."""
        return len(self.means)

    @property
    def sh_degree(self) -> int:
        """Degree of the spherical harmonics."""
        return round(self.sh.shape[1] ** 0.5) - 1


def empty(sh_degree: int = 3) -> Splats:
    """No Gaussians."""
    count = (sh_degree + 1) ** 2
    means, quats, log_scales, logits, sh = (
        np.zeros(shape, np.float32) for shape in ((0, 3), (0, 4), (0, 3), (0,), (0, count, 3))
    )
    return Splats(means, quats, log_scales, logits, sh, np.zeros(0, np.int32))


def owned(splats: Splats, owner: int) -> Splats:
    """The same Gaussians, all of one owner."""
    return replace(splats, owner=np.full(len(splats), owner, np.int32))


def select(splats: Splats, rows: Bools | Ints | slice) -> Splats:
    """The given rows, by mask, index or slice."""
    return Splats(
        splats.means[rows],
        splats.quats[rows],
        splats.log_scales[rows],
        splats.logit_opacities[rows],
        splats.sh[rows],
        splats.owner[rows],
    )


def with_sh_degree(splats: Splats, degree: int) -> Splats:
    """The same Gaussians with zero bands added, or bands above `degree` cut off."""
    count = (degree + 1) ** 2
    if splats.sh.shape[1] == count:
        return splats
    kept = splats.sh[:, :count]
    padding = np.zeros((len(splats), count - kept.shape[1], 3), np.float32)
    return replace(splats, sh=np.concatenate([kept, padding], axis=1))


def concat(parts: Sequence[Splats]) -> Splats:
    """All Gaussians of the parts in order, at the highest of their SH degrees."""
    if not parts:
        return empty()
    degree = max(part.sh_degree for part in parts)
    same = [with_sh_degree(part, degree) for part in parts]
    return Splats(
        np.concatenate([part.means for part in same]),
        np.concatenate([part.quats for part in same]),
        np.concatenate([part.log_scales for part in same]),
        np.concatenate([part.logit_opacities for part in same]),
        np.concatenate([part.sh for part in same]),
        np.concatenate([part.owner for part in same]),
    )


def transformed(splats: Splats, b_from_a: Similarity) -> Splats:
    """The Gaussians of frame a in frame b, view-dependent colour included; owners kept.

    x_b = s R x_a + t, q_b = q_R q_a, log σ_b = log σ_a + log s, and each SH band turned with R.
    """
    moved = b_from_a.scale * (splats.means.astype(np.float64) @ b_from_a.rotation.T) + b_from_a.translation
    turned = _quaternion_product(rigid.quaternion_from_rotation(b_from_a.rotation), splats.quats.astype(np.float64))
    sh = splats.sh.astype(np.float64)
    for band, turn in enumerate(band_rotations(b_from_a.rotation, splats.sh_degree), start=1):
        rows = slice(band * band, (band + 1) ** 2)
        sh[:, rows] = np.einsum("kj,njc->nkc", turn, sh[:, rows])
    return Splats(
        moved.astype(np.float32),
        turned.astype(np.float32),
        (splats.log_scales + np.log(b_from_a.scale)).astype(np.float32),
        splats.logit_opacities,
        sh.astype(np.float32),
        splats.owner,
    )


def _quaternion_product(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Hamilton product a b of wxyz quaternions, (4,) and (N, 4) -> (N, 4)."""
    w, x, y, z = a
    left = np.array([[w, -x, -y, -z], [x, w, -z, y], [y, z, w, -x], [z, -y, x, w]])
    return b @ left.T


def to_tensors(splats: Splats, device: str = "cpu") -> SplatTensors:
    """The same numbers as torch tensors on a device; owners stay behind."""
    import torch

    from skyanchor.gaussians.rasteriser import SplatTensors

    arrays = (splats.means, splats.quats, splats.log_scales, splats.logit_opacities, splats.sh)
    return SplatTensors(*(torch.tensor(array, device=device) for array in arrays))


def rows_of(tensors: SplatTensors, kept: Bools) -> SplatTensors:
    """The Gaussians of a mask (N,), where the tensors are."""
    import torch

    from skyanchor.gaussians.rasteriser import SplatTensors

    rows = torch.from_numpy(np.flatnonzero(kept)).to(tensors.means.device)
    fields = (tensors.means, tensors.quats, tensors.log_scales, tensors.logit_opacities, tensors.sh)
    return SplatTensors(*(field[rows] for field in fields))


def from_tensors(tensors: SplatTensors, owner: Owners | int = AERIAL) -> Splats:
    """A splat set with copies of the tensors' numbers."""
    owners = np.broadcast_to(np.asarray(owner, np.int32), (len(tensors.means),)).copy()
    return Splats(
        _array(tensors.means),
        _array(tensors.quats),
        _array(tensors.log_scales),
        _array(tensors.logit_opacities),
        _array(tensors.sh),
        owners,
    )


def _array(tensor: Tensor) -> Floats32:
    return np.array(tensor.detach().cpu().numpy(), np.float32)
