"""Masks as files beside the update's progress: of what photos of earlier days show otherwise than the walk, and of what
single photos of the walk show otherwise than their neighbours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np

from skyanchor.changes import united
from skyanchor.events import SCENE, Note
from skyanchor.gaussians.split import Split
from skyanchor.geometry import cameras
from skyanchor.photos import read_mask
from skyanchor.run.folder import Stage
from skyanchor.run.layout import PROGRESS
from skyanchor.scene.contradicted import ContradictedConfig, uses
from skyanchor.scene.ground_points import GroundPointConfig
from skyanchor.scene.inputs import UpdateInputs
from skyanchor.scene.masks import masks_of
from skyanchor.scene.since import Since, otherwise
from skyanchor.storage import files
from skyanchor.types import Bools, DepthMap, View


def masked_inputs(stage: Stage, inputs: UpdateInputs, since: tuple[Since, ...]) -> UpdateInputs:
    """What is gone and what has come, and the photos of the days before without the pixels that show it otherwise.

    `since` is of the flight, then of each earlier walk. What is another way since a walk may be so since the flight;
    what the depth of the flight alone speaks for is doubted, and its photos stay whole.
    """
    flight, *walks = since
    inputs = replace(inputs, doubted=flight.gone)
    if not walks:
        return inputs
    gone, come = united([one.gone for one in walks]), united([one.come for one in walks])
    places = [united([gone, come]), *(otherwise(one) for one in walks)]
    days = []
    for k, (views, place, one) in enumerate(zip(_days(inputs), places, since, strict=True)):
        masks = masks_of(deciding(views), place, one.depth)
        day, shares = masked(stage.path(f"{PROGRESS}/masks-{k}"), views, masks)
        if shares:
            told = f"pixels of {len(shares)} photos of earlier days show what is another way today: they take no part"
            stage.listen(Note(SCENE, told))
        days.append(day)
    earlier = tuple(replace(one, views=day) for one, day in zip(inputs.earlier, days[1:], strict=True))
    return replace(inputs, aerial_views=days[0], earlier=earlier, vanished=gone, appeared=come)


def without_contradicted(
    stage: Stage, views: Split, maps: Sequence[DepthMap], points: GroundPointConfig, config: ContradictedConfig | None
) -> tuple[Split, float]:
    """The street photos without what their neighbours contradict, and which share of their pixels that is."""
    if config is None or not maps:
        return views, 0.0
    every = deciding(views)
    tolerance = points.consistency.tolerance_px / cameras.focal_px(maps[0].camera)
    masks = uses(every, maps, views.training, tolerance, config)
    found, shares = masked(stage.path(f"{PROGRESS}/contradicted"), views, masks)
    share = sum(shares.values()) / len(every)
    if shares:
        told = f"{share:.1%} of the pixels of the street photos, in {len(shares)} of {len(every)}, are contradicted by"
        stage.listen(Note(SCENE, f"{told} neighbours (what moves, shadows that pass): they take no part"))
    return found, share


def _days(inputs: UpdateInputs) -> tuple[Split, ...]:
    """The photos of the flight, then of each earlier walk."""
    return inputs.aerial_views, *(one.views for one in inputs.earlier)


def deciding(views: Split) -> tuple[View, ...]:
    """Those that are not the test, each once."""
    return tuple({view.path: view for view in (*views.training, *views.validation)}.values())


def masked(folder: Path, views: Split, masks: Iterable[tuple[View, Bools]]) -> tuple[Split, dict[Path, float]]:
    """The views, those that a mask is given for with a file of it, and which share of their pixels it leaves out.

    Test views stay whole.
    """
    held, shares = {}, {}
    for k, (view, use) in enumerate(masks):
        path = folder / f"{k}.png"
        _write_mask(path, view, use)
        held[view.path], shares[view.path] = replace(view, mask_path=path), 1.0 - float(use.mean())
    training, validation = (
        tuple(held.get(view.path, view) for view in part) for part in (views.training, views.validation)
    )
    return Split(training, validation, views.test), shares


def _write_mask(path: Path, view: View, use: Bools) -> None:
    """The mask (h, w) at the size of the photo, and what the user masked with it."""
    size = (view.camera.width, view.camera.height)
    mask = cv2.resize(use.astype(np.uint8), size, interpolation=cv2.INTER_NEAREST) > 0
    if view.mask_path is not None:
        mask &= read_mask(view.mask_path, *size)
    files.write_bytes(path, bytes(cv2.imencode(".png", mask.astype(np.uint8) * 255)[1]))
