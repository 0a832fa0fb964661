"""What the update hid because it vanished: places, figures, and the scene there before and after."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from PIL import Image

from skyanchor.changes import Change, ChangeConfig, ChangeKind, Region
from skyanchor.changes.objects import gathered
from skyanchor.changes.pictures import best_view, cut_out
from skyanchor.gaussians.devices import Engine
from skyanchor.gaussians.scoring import rendered_rgb
from skyanchor.gaussians.splats import Splats, to_tensors
from skyanchor.gaussians.views import targets
from skyanchor.photos import PhotoCache
from skyanchor.run.folder import Stage
from skyanchor.run.records import AFTER_FOLDER, BEFORE_FOLDER, VANISHED_FOLDER, VanishedRow
from skyanchor.scaffold import georeference
from skyanchor.scene.inputs import UpdateInputs
from skyanchor.scene.since import REACH
from skyanchor.storage import files
from skyanchor.types import Bools, Bytes, Floats, Georeference, View

MOST_PICTURES = 12
"""Places with pictures; the others have a row."""


@dataclass(frozen=True, eq=False)
class HiddenPlace:
    """A thing that is gone, and how much of it is hidden."""

    change: Change
    gaussians: int


def hidden_places(inputs: UpdateInputs, hidden: Bools, config: ChangeConfig) -> tuple[HiddenPlace, ...]:
    """The pieces of what vanished in which Gaussians are hidden, those with most of them first."""
    if inputs.vanished is None:
        return ()
    means, found = inputs.aerial.means[hidden], []
    for rows in gathered(inputs.vanished.cells, config.reach_cells):
        piece = Region(inputs.vanished.cells[rows], inputs.vanished.voxel_m)
        count = int(piece.holds(means, REACH).sum())
        if count:
            found.append(HiddenPlace(_vanished(piece), count))
    return tuple(sorted(found, key=lambda one: one.gaussians, reverse=True))


def _vanished(piece: Region) -> Change:
    low, high = (piece.voxel_m * edge for edge in (piece.cells.min(axis=0), piece.cells.max(axis=0) + 1.0))
    return Change(ChangeKind.VANISHED, piece.cells, low, high, 0, 0, 0.0)


def vanished_rows(places: Sequence[HiddenPlace], georef: Georeference) -> tuple[VanishedRow, ...]:
    """The places as they are kept, in the user's coordinates."""
    rows = []
    for number, one in enumerate(places, 1):
        on_earth = georeference.on_earth(one.change.centre[None], georef)
        centre = _three(one.change.centre + georeference.moved_by(georef))
        where = None if on_earth is None else _three(on_earth[0])
        rows.append(VanishedRow(number, centre, _three(one.change.size), where, one.gaussians))
    return tuple(rows)


def write_vanished(
    stage: Stage, places: Sequence[HiddenPlace], views: Sequence[View], before: Splats, after: Splats, width: int,
    engine: Engine,
) -> None:  # fmt: skip
    """vanished/{before,after}/NUMBER.jpg: each place as the splats show it in the walk's view that shows it best."""
    if not places:
        return
    sets = {BEFORE_FOLDER: to_tensors(before, engine.device), AFTER_FOLDER: to_tensors(after, engine.device)}
    for number, one, view in _best(places[:MOST_PICTURES], views):
        for target in targets(PhotoCache(64 << 20), [view], width):
            for folder, tensors in sets.items():
                rgb = rendered_rgb(tensors, target, engine)
                drawn = (255.0 * rgb).round().byte().cpu().numpy()
                shown = cut_out(one.change, drawn, target.camera, target.cam_from_world)
                files.write_bytes(stage.path(f"{VANISHED_FOLDER}/{folder}/{number}.jpg"), _jpeg(shown))


def _best(places: Sequence[HiddenPlace], views: Sequence[View]) -> Iterator[tuple[int, HiddenPlace, View]]:
    """The number of each place that a view shows, and that view."""
    for number, one in enumerate(places, 1):
        view = best_view(one.change, views)
        if view is not None:
            yield number, one, view


def _jpeg(pixels: Bytes) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=90)
    return buffer.getvalue()


def _three(values: Floats) -> tuple[float, float, float]:
    x, y, z = values.tolist()
    return x, y, z
