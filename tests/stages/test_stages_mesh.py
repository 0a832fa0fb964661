"""The mesh stage: tiles, files, and that what is there is not made again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cv2
import numpy as np
import pytest
from ball_world import CAMERA, CENTRE, RADIUS, ball_map, eyes

from skyanchor.errors import NothingPlacedError
from skyanchor.events import MESH, Event, StageSkipped, silent
from skyanchor.meshing import MeshConfig
from skyanchor.meshing.mesh import read_ply
from skyanchor.run.executor import InProcess
from skyanchor.run.folder import Finished, RunFolder
from skyanchor.run.recipe import Recipe
from skyanchor.run.records import MESH_RECORD, MeshRecord
from skyanchor.stages import mesh as stage
from skyanchor.stages.mesh import StreetMeshConfig, beside, tiles
from skyanchor.stereo import save_depth
from skyanchor.types import Frame, Georeference, PosedFrame, Support

OFFSET = np.array([500_000.0, 5_000_000.0, 40.0])


@pytest.fixture
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A run whose street frames look at a ball before a wall; its depth is exact."""
    maps = [ball_map(eye) for eye in eyes()]
    frames, posed, paths = [], [], []
    for k, one in enumerate(maps):
        photo = tmp_path / f"{k}.png"
        cv2.imwrite(str(photo), np.full((90, 120, 3), (40, 120, 200), np.uint8))
        frames.append(Frame(k, photo.name, photo))
        posed.append(PosedFrame(k, Support.ANCHORED, one.cam_from_world, 0, 0.0))
        paths.append(tmp_path / f"depth-{k}.npz")
        save_depth(paths[-1], replace(one, name=photo.name))
    monkeypatch.setattr(stage, "street_depth", lambda *_: {path.name: path for path in paths})
    return SimpleNamespace(
        stage=lambda name: Finished(tmp_path / name, Recipe(name, {}, {}, (), {})),
        sequence=SimpleNamespace(frames=tuple(frames)),
        trajectory=SimpleNamespace(frames=tuple(posed), camera=CAMERA, points=np.zeros((0, 3))),
        scaffold=SimpleNamespace(georef=Georeference(OFFSET), up=np.array([0.0, 0.0, 1.0])),
    )


def test_the_mesh_of_a_run_lies_on_the_surfaces_in_the_users_coordinates(held: Any, tmp_path: Path) -> None:
    told: list[Event] = []
    with RunFolder(tmp_path / "run", listen=told.append) as folder:
        made = stage.run(folder, held, StreetMeshConfig(), InProcess())
        record = made.load(MESH_RECORD, MeshRecord)
        whole = read_ply(made.path("mesh.ply"))
        again = stage.run(folder, held, StreetMeshConfig(), InProcess())
    points = whole.vertices - OFFSET
    errors = np.minimum(np.abs(np.linalg.norm(points - CENTRE, axis=1) - RADIUS), np.abs(points[:, 1] - 6.0))
    assert np.median(errors) < 0.003
    assert record.faces == len(whole) > 5_000 and 40.0 < record.area_m2 < 80.0
    assert [len(read_ply(made.path(f"mesh-{k}.ply"))) for k in (1, 2)] == list(record.coarser)
    assert record.coarser[1] < record.coarser[0] < record.faces
    assert made.path("mesh.glb").stat().st_size > 10_000 and made.path("georef.json").is_file()
    assert again.path("mesh.ply") == made.path("mesh.ply") and StageSkipped(MESH) in told


def test_a_walk_without_poses_has_no_mesh(held: Any, tmp_path: Path) -> None:
    held.trajectory.frames = ()
    with (
        RunFolder(tmp_path / "run", listen=silent) as folder,
        pytest.raises(NothingPlacedError, match="nothing to mesh"),
    ):
        stage.run(folder, held, StreetMeshConfig(), InProcess())


@pytest.mark.parametrize("mesh", [MeshConfig(farthest_m=0.2), MeshConfig(least_views=100)])
def test_a_mesh_without_a_triangle_is_told(held: Any, mesh: MeshConfig, tmp_path: Path) -> None:
    with (
        RunFolder(tmp_path / "run", listen=silent) as folder,
        pytest.raises(NothingPlacedError, match=rf"within {mesh.farthest_m:g} m: there is nothing to mesh\. Try"),
    ):
        stage.run(folder, held, StreetMeshConfig(mesh=mesh), InProcess())
    assert not list(tmp_path.rglob("mesh.ply"))


def test_the_cameras_beside_a_view_are_the_three_before_and_after_it() -> None:
    views: list[Any] = [SimpleNamespace(cam_from_world=k) for k in range(9)]
    assert beside(views, 4) == (1, 2, 3, 5, 6, 7)
    assert beside(views, 0) == (1, 2, 3)


def test_tiles_hold_the_blocks_that_enough_maps_reach_and_name_those_maps() -> None:
    near = [np.array([[0, 0, 0], [1, 0, 0]]), np.array([[0, 0, 0], [-1, 0, 0]]), np.array([[-1, 0, 0], [40, 0, 0]])]
    found = tiles(near, least_views=2)
    assert {name: blocks.tolist() for name, (blocks, _) in found.items()} == {
        "0_0_0": [[0, 0, 0]],
        "-1_0_0": [[-1, 0, 0]],
    }
    assert found["0_0_0"][1] == (0, 1) and found["-1_0_0"][1] == (1, 2)
