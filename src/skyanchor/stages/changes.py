"""What changed since earlier walks, on request: depth of both, contradictions, pictures, a map."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image

from skyanchor.changes import Change, ChangeConfig, Day, find_changes
from skyanchor.changes.pictures import best_view, cut_out
from skyanchor.errors import InputError, NothingPlacedError
from skyanchor.events import CHANGES, TRAJECTORY, Note
from skyanchor.photos import PhotoCache
from skyanchor.run.earlier import refuse_twice
from skyanchor.run.executor import Executor
from skyanchor.run.folder import PROGRESS, Made, RunFolder, Stage
from skyanchor.run.records import (
    AFTER_FOLDER,
    BEFORE_FOLDER,
    CHANGED_CELLS,
    CHANGES_FILE,
    CHANGES_GEOJSON,
    ChangedCells,
    ChangeRow,
    ChangesRecord,
)
from skyanchor.run.results import Run
from skyanchor.scaffold import georeference
from skyanchor.scene.ground_points import GroundPointConfig
from skyanchor.scene.since import walk_day
from skyanchor.scene.views import ground_views
from skyanchor.stages.digests import check_street_photos
from skyanchor.stages.street_depth import StreetPlan, street_depth
from skyanchor.stereo import load_depth
from skyanchor.storage import files
from skyanchor.types import Floats, View

WHAT = "what changed in the street"
WIDTH = 1600
"""Of the photos that pictures are cut out of, at most, pixels."""


@dataclass(frozen=True)
class StreetChangesConfig:
    """Settings of the search for changes."""

    points: GroundPointConfig = field(default_factory=GroundPointConfig)
    """How the street is measured."""
    changes: ChangeConfig = field(default_factory=ChangeConfig)
    """What counts as a change."""


def run(folder: RunFolder, held: Run, earlier: Sequence[Run], config: StreetChangesConfig, executor: Executor) -> Made:
    """The changes of a run whose trajectory is finished, since earlier runs on the same flight, the newest first."""
    if not earlier:
        advice = "Give --since RUN1, a run of an earlier walk on the same aerial model."
        raise InputError(held.root, "stands on no earlier walk to compare it with", advice)
    refuse_twice((held, *earlier))
    above = (held.stage(TRAJECTORY), *(run.stage(TRAJECTORY) for run in earlier))
    refuse_other_flights(held, earlier)
    if folder.would_make(CHANGES, config, {}, above):
        _refuse_unready(folder, (held, *earlier))
    stage = folder.stage(CHANGES, WHAT, config, {}, above)
    if not stage.done:
        walks = [ground_views(one.sequence, one.trajectory) for one in (held, *earlier)]
        days = [
            _day(stage, one, walk, config, executor, f"{PROGRESS}/{k}")
            for k, (one, walk) in enumerate(zip((held, *earlier), walks, strict=True))
        ]
        found = find_changes(days[1:], days[0], config.changes)
        before = [view for walk in walks[1:] for view in walk]
        _write(stage, held, earlier, found, (before, walks[0]), config.changes)
    return stage


def _refuse_unready(folder: RunFolder, runs: Sequence[Run]) -> None:
    """SkyAnchorError, before what was found earlier goes or a comparison is begun, where none can be made."""
    if min(len(ground_views(one.sequence, one.trajectory)) for one in runs) < 2:
        raise NothingPlacedError("fewer than two street frames have a pose: there is nothing to compare")
    for one in runs:
        check_street_photos(folder, one)


def refuse_other_flights(held: Run, earlier: Sequence[Run]) -> None:
    """InputError for an earlier run that does not stand on the same aerial model."""
    names = {view.name for view in held.scaffold.views}
    for one in earlier:
        moved = georeference.moved_by(one.scaffold.georef) - georeference.moved_by(held.scaffold.georef)
        if {view.name for view in one.scaffold.views} != names or np.any(moved != 0.0):
            advice = "Compare runs whose --scaffold was the same."
            raise InputError(one.root, f"stands on another aerial model than {held.root}", advice)


# --- days ---------------------------------------------------------------------------------------------------------


def _day(
    stage: Stage, held: Run, views: tuple[View, ...], config: StreetChangesConfig, executor: Executor, place: str
) -> Day:
    """The depth of a walk with its photos."""
    plan = StreetPlan(views, held.trajectory.points, held.scaffold.up, config.points)
    maps = [load_depth(path) for path in street_depth(stage, plan, executor, place).values()]
    return walk_day(maps, views, config.changes)


# --- results ------------------------------------------------------------------------------------------------------


def _write(
    stage: Stage, held: Run, earlier: Sequence[Run], found: Sequence[Change],
    views: tuple[Sequence[View], Sequence[View]], config: ChangeConfig,
) -> None:  # fmt: skip
    """changes.json, cells.npz, pictures before and after, and changes.geojson where the place is known."""
    georef = held.scaffold.georef
    rows = []
    for number, one in enumerate(found, 1):
        after = best_view(one, views[1])
        before = best_view(one, views[0], after)
        _save_picture(stage.path(f"{BEFORE_FOLDER}/{number}.jpg"), one, before)
        _save_picture(stage.path(f"{AFTER_FOLDER}/{number}.jpg"), one, after)
        on_earth = georeference.on_earth(one.centre[None], georef)
        rows.append(
            ChangeRow(
                number, one.kind, _three(one.centre + georeference.moved_by(georef)), _three(one.size),
                None if on_earth is None else _three(on_earth[0]), round(one.confidence, 3), one.views_before,
                one.views_after, before.name if before else "", after.name if after else "",
            )
        )  # fmt: skip
    record = ChangesRecord(tuple(str(run.root.resolve()) for run in earlier), config.voxel_m, tuple(rows))
    stage.save(CHANGES_FILE, record)
    counts = [len(one.cells) for one in found]
    cells = np.concatenate([one.cells for one in found]) if found else np.zeros((0, 3), np.int64)
    stage.save(CHANGED_CELLS, ChangedCells(cells, np.repeat(np.arange(1, len(found) + 1), counts)))
    text = geojson_text(record)
    if text is not None:
        files.write_bytes(stage.path(CHANGES_GEOJSON), text.encode())
    stage.listen(Note(CHANGES, said(record)))
    stage.finish({"changes": len(found)})


def said(record: ChangesRecord) -> str:
    """How many changes of each kind, for people."""
    kinds = [row.how.value for row in record.changes]
    told = [f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds)]
    return f"{len(kinds)} changes: {', '.join(told)}" if kinds else "nothing changed"


def geojson_text(record: ChangesRecord) -> str | None:
    """A point per change in longitude, latitude, height (RFC 7946); None when the place is not known."""
    if any(row.place is None for row in record.changes):
        return None
    features = []
    for row in record.changes:
        assert row.place is not None
        latitude, longitude, height = row.place
        where = [round(longitude, 9), round(latitude, 9), round(height, 3)]
        told = {
            "number": row.number, "kind": row.how.value, "size_m": [round(side, 2) for side in row.size],
            "confidence": row.confidence, "views_before": row.views_before, "views_after": row.views_after,
            "photo_before": row.photo_before, "photo_after": row.photo_after,
        }  # fmt: skip
        geometry = {"type": "Point", "coordinates": where}
        features.append({"type": "Feature", "geometry": geometry, "properties": told})
    return json.dumps({"type": "FeatureCollection", "features": features}, indent=1) + "\n"


def _save_picture(path: Path, change: Change, view: View | None) -> None:
    if view is None:
        return
    photo, camera = PhotoCache(64 << 20).photo(view.name, view.path, view.camera, min(WIDTH, view.camera.width))
    buffer = io.BytesIO()
    Image.fromarray(cut_out(change, photo.pixels, camera, view.cam_from_world)).save(buffer, "JPEG", quality=90)
    files.write_bytes(path, buffer.getvalue())


def _three(values: Floats) -> tuple[float, float, float]:
    x, y, z = values.tolist()
    return x, y, z
