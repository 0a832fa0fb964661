"""What the live viewer shows, as values: splats in layers that are switched apart, cameras, the walk."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from skyanchor.gaussians.splats import Owners, Splats, select
from skyanchor.types import Bools, Bytes, Floats, Floats32, View


@dataclass(frozen=True, eq=False)
class LiveScene:
    """Everything to be shown; any part may be missing while a run goes on."""

    before: Splats | None
    """The set that the patch is made for; its owners tell aerial rows (0) from those of earlier sequences."""
    after: Splats | None
    """The patched set: the same rows first, then those of the newest sequence."""
    changed: Bools
    """(N,), rows of `before` that the patch moves or hides."""
    hidden: Bools
    """(N,), rows of `before` that the patch hides."""
    aerial: tuple[View, ...]
    ground: tuple[View, ...]
    up: Floats
    sequences: tuple[str, ...] = ()
    """Names of the ground sequences in the splats, first added first."""
    training: Splats | None = None
    """Street Gaussians of an update that is still going on."""
    points: Floats | None = None
    """(M, 3), sparse aerial points, shown until there are splats."""
    point_colors: Bytes | None = None


class Kind(Enum):
    """Layers that have a switch of their own."""

    AERIAL = "aerial"
    GROUND = "ground"
    HIDDEN = "hidden"


@dataclass(frozen=True, eq=False)
class Layer:
    """A set of splats that is switched as one."""

    name: str
    kind: Kind
    splats: Splats
    patched: bool | None
    """True: seen with the patch on; False: with it off; None: always."""
    owner: int = 0


def owners_by_patches(count: int, added: tuple[int, ...]) -> Owners:
    """(count,), 0 for aerial rows, then 1, 2, … for the rows that each patch added at the end."""
    aerial = count - sum(added)
    return np.repeat(np.arange(len(added) + 1, dtype=np.int32), [aerial, *added])


def layers(scene: LiveScene) -> tuple[Layer, ...]:
    """The scene's splats in the parts that are switched apart, empty ones left out."""
    if scene.before is None:
        return ()
    if scene.after is None:
        parts = _kept(scene.before, np.zeros(len(scene.before), np.bool_))
        if scene.training is not None:
            newest = int(scene.before.owner.max(initial=0)) + 1
            parts.append(Layer("ground, in training", Kind.GROUND, scene.training, True, newest))
    else:
        parts = [*_kept(scene.before, scene.changed), *_patched(scene, scene.before, scene.after)]
    return tuple(part for part in parts if len(part.splats))


def _kept(before: Splats, changed: Bools) -> list[Layer]:
    """Rows that the patch leaves alone: the aerial ones, and those of every earlier sequence."""
    owners = np.unique(before.owner)
    parts = {int(owner): select(before, ~changed & (before.owner == owner)) for owner in owners}
    return [
        Layer("aerial" if owner == 0 else f"ground {owner}", Kind.GROUND if owner else Kind.AERIAL, part, None, owner)
        for owner, part in parts.items()
    ]


def _patched(scene: LiveScene, before: Splats, after: Splats) -> list[Layer]:
    """Rows that differ with the patch on and off."""
    count = len(before)
    refined = np.concatenate([scene.changed & ~scene.hidden, np.zeros(len(after) - count, np.bool_)])
    street = select(after, np.arange(count, len(after)))
    newest = int(after.owner[-1]) if len(street) else 0
    return [
        Layer("before the patch", Kind.AERIAL, select(before, scene.changed & ~scene.hidden), False),
        Layer("hidden by the patch", Kind.AERIAL, select(before, scene.hidden), False),
        Layer("hidden, in red", Kind.HIDDEN, select(before, scene.hidden), True),
        Layer("refined by the patch", Kind.AERIAL, select(after, refined), True),
        Layer(f"ground {newest}", Kind.GROUND, street, True, newest),
    ]


def is_visible(layer: Layer, switched_on: frozenset[Kind], patch_on: bool, until: int, newest: int) -> bool:
    """Whether a layer is seen when the sequences up to `until` are; the patch is the newest one's."""
    patched = patch_on and until >= newest
    return (
        layer.kind in switched_on
        and (layer.patched is None or layer.patched == patched)
        and (layer.owner <= until or layer.owner == 0)
    )


def covariances(splats: Splats) -> Floats32:
    """(N, 3, 3), R diag(σ²) Rᵀ."""
    q = splats.quats / np.linalg.norm(splats.quats, axis=1, keepdims=True)
    w, x, y, z = q.T
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    rotation = np.moveaxis(np.array(rows), 2, 0)
    scaled = rotation * np.exp(splats.log_scales)[:, None, :]
    return np.asarray(scaled @ scaled.transpose(0, 2, 1), np.float32)
