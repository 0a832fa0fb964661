"""Masks of what photos of earlier days show otherwise than the walk, as files beside the update's progress."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np

from skyanchor.changes import united
from skyanchor.events import SCENE, Note
from skyanchor.gaussians.split import Split
from skyanchor.photos import read_mask
from skyanchor.run.folder import Stage
from skyanchor.run.layout import PROGRESS
from skyanchor.scene.inputs import UpdateInputs
from skyanchor.scene.masks import masks_of
from skyanchor.scene.since import Since, otherwise
from skyanchor.storage import files
from skyanchor.types import Bools, View


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
        masks = masks_of(_deciding(views), place, one.depth)
        days.append(_masked_day(stage, f"{PROGRESS}/masks-{k}", views, masks))
    earlier = tuple(replace(one, views=day) for one, day in zip(inputs.earlier, days[1:], strict=True))
    return replace(inputs, aerial_views=days[0], earlier=earlier, vanished=gone, appeared=come)


def _days(inputs: UpdateInputs) -> tuple[Split, ...]:
    """The photos of the flight, then of each earlier walk."""
    return inputs.aerial_views, *(one.views for one in inputs.earlier)


def _deciding(views: Split) -> tuple[View, ...]:
    """Those that are not the test, each once."""
    return tuple({view.path: view for view in (*views.training, *views.validation)}.values())


def _masked_day(stage: Stage, place: str, views: Split, masks: Iterable[tuple[View, Bools]]) -> Split:
    """The views of a day, those that a mask is given for with a file of it; test views stay whole."""
    masked = {}
    for k, (view, use) in enumerate(masks):
        path = stage.path(f"{place}/{k}.png")
        _write_mask(path, view, use)
        masked[view.path] = replace(view, mask_path=path)
    if masked:
        told = f"pixels of {len(masked)} photos of earlier days show what is another way today: they take no part"
        stage.listen(Note(SCENE, told))
    training, validation = (
        tuple(masked.get(view.path, view) for view in part) for part in (views.training, views.validation)
    )
    return Split(training, validation, views.test)


def _write_mask(path: Path, view: View, use: Bools) -> None:
    """The mask (h, w) at the size of the photo, and what the user masked with it."""
    size = (view.camera.width, view.camera.height)
    mask = cv2.resize(use.astype(np.uint8), size, interpolation=cv2.INTER_NEAREST) > 0
    if view.mask_path is not None:
        mask &= read_mask(view.mask_path, *size)
    files.write_bytes(path, bytes(cv2.imencode(".png", mask.astype(np.uint8) * 255)[1]))
