"""What photos show of the Gaussians, and which aerial ones the update hides."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from skyanchor.changes import Region
from skyanchor.events import SCENE, Listener, Note, silent
from skyanchor.gaussians.splats import Splats, rows_of, to_tensors
from skyanchor.gaussians.split import Split
from skyanchor.gaussians.views import matrix, targets
from skyanchor.scene.floaters import FloaterConfig, floaters, free_space_opinions
from skyanchor.scene.inputs import UpdateInputs
from skyanchor.scene.scoring import Judge, losses
from skyanchor.scene.since import REACH
from skyanchor.types import Bools, Floats, View

LEAST_SHOWN = 1.0
"""Pixels: what street views show less of is not theirs to refine."""


def hidden_floaters(
    inputs: UpdateInputs, config: FloaterConfig | None, judge: Judge, listen: Listener = silent
) -> Bools:
    """(N,), aerial Gaussians in verified free space, as many as the judge's guarded views can do without.

    What vanished goes first, which photos of earlier days are masked for, then those that aerial views show least.
    Training views may judge too: they are the first to miss what was fitted to them.
    """
    hidden = np.zeros(len(inputs.aerial), np.bool_)
    if config is None or not inputs.depth:
        return hidden
    gone, doubted = vanished_gaussians(inputs), _gaussians_in(inputs.doubted, inputs)
    free = floaters(free_space_opinions(inputs.aerial.means, inputs.depth, config), config)
    found = np.flatnonzero(gone | doubted | free)
    if not len(found):
        return hidden
    weight = shown_weights(inputs.aerial, inputs.aerial_views.training, judge)[found]
    order = found[np.lexsort([weight, ~gone[found]])]
    tensors = to_tensors(inputs.aerial, judge.engine.device)
    whole = judge.guarded(tensors)

    def loss(count: int) -> float:
        kept = np.ones(len(inputs.aerial), np.bool_)
        kept[order[:count]] = False
        return max(losses(whole, judge.guarded(rows_of(tensors, kept))))

    count = most_within(len(order), loss, config.most_aerial_loss_db)
    hidden[order[:count]] = True
    listen(Note(SCENE, f"{count} of {len(order)} aerial Gaussians in verified free space hidden"))
    if gone.any():
        told = f"{(gone & hidden).sum()} of {gone.sum()} Gaussians of what vanished since an earlier walk"
        listen(Note(SCENE, f"{told} are hidden"))
    return hidden


def vanished_gaussians(inputs: UpdateInputs) -> Bools:
    """(N,), Gaussians of the scene that show what is gone."""
    return _gaussians_in(inputs.vanished, inputs)


def _gaussians_in(region: Region | None, inputs: UpdateInputs) -> Bools:
    """(N,), Gaussians of the scene that lie in a region, none without one."""
    if region is None:
        return np.zeros(len(inputs.aerial), np.bool_)
    return region.holds(inputs.aerial.means, REACH)


def most_within(total: int, loss: Callable[[int], float], limit: float, halvings: int = 6) -> int:
    """The largest count that loses at most `limit`, to total / 2^halvings; `loss` grows with the count."""
    if loss(total) <= limit:
        return total
    low, high = 0, total
    for _ in range(halvings):
        middle = (low + high) // 2
        low, high = (middle, high) if loss(middle) <= limit else (low, middle)
    return low


def shown_weights(splats: Splats, views: Sequence[View], judge: Judge) -> Floats:
    """(N,), how much the views show of each Gaussian: Σ over pixels of its blending weight.

    A pixel is Σ w c, so its derivative by a Gaussian's colour is that weight. Pictures are half the judge's width.
    """
    tensors = to_tensors(splats, judge.engine.device)
    tensors.sh.requires_grad_(True)
    for target in targets(judge.photos, views, max(64, judge.width // 2)):
        pose = matrix(target.cam_from_world, judge.engine.device)
        judge.engine.rasteriser.render(tensors, target.camera, pose).rgb.sum().backward()
    assert tensors.sh.grad is not None
    return tensors.sh.grad[:, 0].sum(dim=-1).cpu().numpy().astype(np.float64)


def seen_by(splats: Splats, views: Split, judge: Judge) -> Bools:
    """(N,), Gaussians that the ground training views show: with the weight of a pixel in all of them together.

    What stands behind a house is in the picture, but not seen: its gradients are next to nothing, and Adam would make
    whole steps of them.
    """
    return shown_weights(splats, views.training, judge) >= LEAST_SHOWN


def spread(views: tuple[View, ...], most: int) -> tuple[View, ...]:
    """At most so many of the views, evenly from first to last."""
    rows = np.unique(np.linspace(0, len(views) - 1, min(most, len(views))).round().astype(np.int64))
    return tuple(views[row] for row in rows)
