"""The stage that finds changes: files, pictures, places on Earth, and that what is there is not made again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cv2
import numpy as np
import pytest
from street_days import BOX, CAMERA, CONFIG, street_day

from skyanchor.changes import ChangeKind, Day
from skyanchor.errors import InputError
from skyanchor.events import CHANGES, Event, StageSkipped
from skyanchor.run.executor import InProcess
from skyanchor.run.folder import Finished, RunFolder
from skyanchor.run.recipe import Recipe
from skyanchor.run.records import CHANGED_CELLS, CHANGES_FILE, ChangedCells, ChangesRecord
from skyanchor.stages import changes as stage
from skyanchor.stages.changes import StreetChangesConfig
from skyanchor.stereo import save_depth
from skyanchor.types import Frame, Georeference, PosedFrame, Support

OFFSET = np.array([500_000.0, 5_000_000.0, 40.0])
SETTINGS = StreetChangesConfig(changes=CONFIG)


def run_of(day: Day, root: Path) -> Any:
    """A run whose street frames are the photos of a day; its depth is exact."""
    root.mkdir()
    frames, posed = [], []
    for k, (one, photo) in enumerate(zip(day.maps, day.photos, strict=True)):
        path = root / f"{k}.png"
        cv2.imwrite(str(path), photo)
        frames.append(Frame(k, path.name, path))
        posed.append(PosedFrame(k, Support.ANCHORED, one.cam_from_world, 0, 0.0))
        save_depth(root / f"{k}.npz", replace(one, name=path.name))
    return SimpleNamespace(
        root=root,
        stage=lambda name: Finished(root / name, Recipe(name, {}, {"walk": root.name}, (), {})),
        sequence=SimpleNamespace(frames=tuple(frames)),
        trajectory=SimpleNamespace(frames=tuple(posed), camera=CAMERA, points=np.zeros((0, 3))),
        scaffold=SimpleNamespace(
            georef=Georeference(OFFSET, "EPSG:32633"), up=np.array([0.0, 0.0, 1.0]), views=(SimpleNamespace(name="a"),)
        ),
    )


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """A walk, and a later one after the box was taken away."""
    earlier, later = run_of(street_day(BOX), tmp_path / "one"), run_of(street_day(light=0.7), tmp_path / "two")
    depth = {run.sequence.frames[0].path: run.root for run in (earlier, later)}

    def measured(_: object, plan: Any, *__: object) -> dict[str, Path]:
        return {f"{k}.npz": depth[plan.views[0].path] / f"{k}.npz" for k in range(len(plan.views))}

    monkeypatch.setattr(stage, "street_depth", measured)
    return earlier, later


def test_what_vanished_is_on_the_map_with_its_pictures(runs: tuple[Any, Any], tmp_path: Path) -> None:
    earlier, later = runs
    told: list[Event] = []
    with RunFolder(tmp_path / "run", listen=told.append) as folder:
        made = stage.run(folder, later, [earlier], SETTINGS, InProcess())
        stage.run(folder, later, [earlier], SETTINGS, InProcess())
    record = made.load(CHANGES_FILE, ChangesRecord)
    (row,) = record.changes
    assert row.how == ChangeKind.VANISHED and record.since == (str(earlier.root),)
    assert np.all(np.abs(np.array(row.centre) - OFFSET - (BOX[0] + BOX[1]) / 2) < 0.4)
    assert row.place is not None and 45.0 < row.place[0] < 45.3 and 14.9 < row.place[1] < 15.1
    (feature,) = json.loads(made.path("changes.geojson").read_text())["features"]
    assert feature["properties"]["kind"] == "vanished" and feature["geometry"]["coordinates"][0] == round(
        row.place[1], 9
    )
    held = made.load(CHANGED_CELLS, ChangedCells)
    places = CONFIG.voxel_m * (held.cells + 0.5)
    assert set(held.number.tolist()) == {1} and np.all((places > BOX[0] - 0.2) & (places < BOX[1] + 0.2))
    shown = [cv2.imread(str(made.path(f"{day}/1.jpg"))) for day in ("before", "after")]
    assert all(picture is not None and min(picture.shape[:2]) >= 30 for picture in shown)
    assert StageSkipped(CHANGES) in told


def test_a_run_on_another_flight_is_refused(runs: tuple[Any, Any], tmp_path: Path) -> None:
    earlier, later = runs
    earlier.scaffold.views = (SimpleNamespace(name="b"),)
    with RunFolder(tmp_path / "run") as folder, pytest.raises(InputError, match="another aerial model"):
        stage.run(folder, later, [earlier], SETTINGS, InProcess())


def test_a_run_is_compared_with_others_and_once(runs: tuple[Any, Any], tmp_path: Path) -> None:
    earlier, later = runs
    with RunFolder(tmp_path / "run") as folder:
        for since in ([later], [earlier, earlier]):
            with pytest.raises(InputError, match="is given twice"):
                stage.run(folder, later, since, SETTINGS, InProcess())


def test_without_an_earlier_walk_there_is_nothing_to_compare(runs: tuple[Any, Any], tmp_path: Path) -> None:
    with RunFolder(tmp_path / "run") as folder, pytest.raises(InputError, match="no earlier walk"):
        stage.run(folder, runs[1], [], SETTINGS, InProcess())
