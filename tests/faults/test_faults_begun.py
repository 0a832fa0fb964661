"""Nothing is begun, and nothing finished goes, before what a verb needs was looked at."""

from __future__ import annotations

import re
import shutil
import socket
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from gaussians_small_scene import floor
from sequence_fixture import write_photo, write_walk

from skyanchor.changes import ChangeConfig
from skyanchor.cli import runs as commands
from skyanchor.cli.main import main
from skyanchor.errors import BackendError, InputError, SkyAnchorError
from skyanchor.evaluation import ablate
from skyanchor.events import CHANGES, MESH, TRAJECTORY
from skyanchor.gaussians import ply, surfels
from skyanchor.meshing import MeshConfig
from skyanchor.reading import refuse_known_photos
from skyanchor.report.live import refuse_address
from skyanchor.run.executor import InProcess
from skyanchor.run.folder import Made, RunFolder
from skyanchor.scene import tiles
from skyanchor.scene.surfels import SurfelConfig
from skyanchor.sequence.depth_files import check_depth
from skyanchor.sequence.same_photos import refuse_same_photos, same_photos
from skyanchor.stages import changes, mesh
from skyanchor.types import Frame

PHOTOS = InputError("walk", "found its poses with other frames of the street", "Put them back.")


class _Held:
    """A run whose street photos are not those of its poses."""

    sequence: Any = None
    trajectory: Any = None

    def __init__(self, folder: RunFolder, root: Path) -> None:
        self.root, self._above = root, folder.stage(TRAJECTORY, "trajectory", {}, {})

    def stage(self, name: str) -> Any:
        return self._above


def _other_photos(*_: object) -> None:
    raise PHOTOS


def _run(stage: ModuleType, folder: RunFolder, root: Path) -> None:
    held: Any = _Held(folder, root)
    if stage is mesh:
        mesh.run(folder, held, mesh.StreetMeshConfig(), InProcess())
    else:
        other: Any = _Held(folder, root / "other")
        changes.run(folder, held, [other], changes.StreetChangesConfig(), InProcess())


@pytest.mark.parametrize(("stage", "name"), [(mesh, MESH), (changes, CHANGES)])
@pytest.mark.parametrize("redo", [False, True])
def test_a_stage_that_cannot_be_made_is_not_begun_and_replaces_none(
    stage: ModuleType, name: str, redo: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage, "ground_views", lambda *_: (1, 2, 3))
    monkeypatch.setattr(stage, "check_street_photos", _other_photos)
    monkeypatch.setattr(changes, "refuse_other_flights", lambda *_: None)
    with RunFolder(tmp_path / "run", redo) as folder:
        if redo:
            made = folder.stage(name, "made once", {"other": 1}, {})
            made.save("result.json", 1)
            made.finish()
        with pytest.raises(InputError, match="other frames"):
            _run(stage, folder, tmp_path / "run")
        assert (folder.root / name / "result.json").is_file() == redo
        assert (folder.root / name).exists() == redo


class _Moved(_Held):
    """A run whose street photos are not where they were."""

    def __init__(self, folder: RunFolder, root: Path, photos: Path) -> None:
        super().__init__(folder, root)
        frames = tuple(Frame(k, f"{k}.png", photos / f"{k}.png") for k in range(3))
        self.sequence = SimpleNamespace(frames=frames)


def _settings(stage: ModuleType, voxel: float) -> Any:
    if stage is mesh:
        return mesh.StreetMeshConfig(mesh=MeshConfig(voxel_m=voxel))
    return changes.StreetChangesConfig(changes=ChangeConfig(voxel_m=voxel))


@pytest.mark.parametrize(("stage", "name"), [(mesh, MESH), (changes, CHANGES)])
@pytest.mark.parametrize("own", [False, True])
def test_a_stage_whose_photos_were_moved_stays(
    stage: ModuleType, name: str, own: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked for with other settings it is refused, with what helps; as it is it needs no photos."""
    monkeypatch.setattr(stage, "ground_views", lambda *_: (1, 2, 3))
    monkeypatch.setattr(changes, "refuse_other_flights", lambda *_: None)
    photos = tmp_path / "run/frames/images" if own else tmp_path / "walk"

    def again(voxel: float) -> Made:
        if stage is mesh:
            return mesh.run(folder, held, _settings(mesh, voxel), InProcess())
        return changes.run(folder, held, [other], _settings(changes, voxel), InProcess())

    with RunFolder(tmp_path / "run", redo=True) as folder:
        held: Any = _Moved(folder, tmp_path / "run", photos)
        other: Any = _Moved(folder, tmp_path / "other", photos)
        above = (held.stage(TRAJECTORY),) if stage is mesh else (held.stage(TRAJECTORY), other.stage(TRAJECTORY))
        made = folder.stage(name, "made once", _settings(stage, 0.05), {}, above)
        made.save("result.json", 1)
        made.finish()
        before = {path: path.read_bytes() for path in made.folder.rglob("*")}
        assert again(0.05).recipe == made.recipe
        with pytest.raises(InputError) as refused:
            again(0.5)
        assert {path: path.read_bytes() for path in made.folder.rglob("*")} == before
    said = f"{tmp_path / 'run'}: 3 of its 3 street photos are not there, {photos / '0.png'} first. "
    assert str(refused.value).startswith(said) and "\n" not in str(refused.value)
    assert ("--ground WALK" in str(refused.value)) is not own and "nothing is done again" in str(refused.value)


def test_a_mesh_stays_where_the_aerial_model_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mesh, "ground_views", lambda *_: (1, 2, 3))
    monkeypatch.setattr(mesh, "check_street_photos", lambda *_: None)

    def gone(_: object) -> None:
        raise InputError("aerial", "is not there", "Put it back.")

    monkeypatch.setattr(_Held, "trajectory", SimpleNamespace(points=()))
    monkeypatch.setattr(_Held, "scaffold", property(gone), raising=False)
    with RunFolder(tmp_path / "run", redo=True) as folder:
        made = folder.stage(MESH, "made once", {"other": 1}, {})
        made.finish()
        with pytest.raises(InputError, match="aerial: is not there"):
            _run(mesh, folder, tmp_path / "run")
        assert made.done


def test_surfels_without_a_gpu_begin_no_mesh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surfels, "missing_for_cuda", lambda: "there is none")
    with RunFolder(tmp_path / "run") as folder:
        held: Any = _Held(folder, tmp_path / "run")
        with pytest.raises(BackendError, match="there is none"):
            mesh.run(folder, held, mesh.StreetMeshConfig(surfels=SurfelConfig()), InProcess())
        assert not (folder.root / MESH).exists()


def test_a_list_of_nothing_is_not_taken_for_all() -> None:
    assert commands._words(None) == () and commands._words("a, b") == ("a", "b")
    for text in (",", " ", ", ,"):
        with pytest.raises(SkyAnchorError, match="names nothing"):
            commands._words(text)


def test_a_truth_of_other_frames_is_told_before_variants_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_shared(*_: object) -> None:
        raise InputError("truth", "shares no image name with the run", "Give the model of the same sequence.")

    monkeypatch.setattr(ablate, "true_poses", none_shared)
    monkeypatch.setattr(ablate.Run, "has", lambda *_: True)
    with RunFolder(tmp_path / "run") as run:
        subject: Any = ablate.Subject(run, None, None, None, tmp_path, work=_other_photos)  # type: ignore[arg-type]
        with pytest.raises(InputError, match="shares no image name"):
            ablate.ablate(subject, ablate.all_variants("anchors"))


def test_splats_are_not_cut_into_more_files_than_a_folder_bears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tiles, "MOST_TILES", 3)
    path = tmp_path / "splats.ply"
    ply.write_ply(path, floor(40))
    assert main(["tiles", "cut", str(path), "--out", str(tmp_path / "tiles"), "--size", "1e-3"]) == 2
    assert re.search(r"--size 0.001: would make \d+ tiles of 40 Gaussians", capsys.readouterr().err)
    assert [found.name for found in tmp_path.iterdir()] == ["splats.ply"]


def test_where_nothing_can_listen_is_told() -> None:
    for host in ("256.1.1.1", "198.51.100.7", "x" * 300, ""):
        with pytest.raises(SkyAnchorError, match="nothing can listen at"):
            refuse_address(host or "\0", 0)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        refuse_address("127.0.0.1", taken.getsockname()[1])


@pytest.mark.parametrize(
    ("name", "text"), [("NUMBA_NUM_THREADS", "0"), ("NUMBA_NUM_THREADS", "abc"), ("NUMBA_DISABLE_JIT", "x")]
)
def test_a_variable_that_ends_numba_is_named(
    name: str, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(name, text)
    assert main(["doctor"]) == 2
    assert capsys.readouterr().err.startswith(f"skyanchor: {name}={text}: it must be a whole number")
    monkeypatch.setenv(name, "1")
    assert main(["--version"]) == 0


def test_a_walk_of_photos_that_are_known_is_told(tmp_path: Path) -> None:
    walk = [write_walk(tmp_path / "walk", 6) / f"frame{k}.jpg" for k in range(1, 7)]
    copies = [Path(shutil.copy(path, tmp_path / f"copy{path.name}")) for path in walk]
    others = [write_walk(tmp_path / "others", 6, size=(90, 54)) / f"frame{k}.jpg" for k in range(1, 7)]
    for known in (walk, copies, [*others, *copies[:4]]):
        with pytest.raises(InputError, match=r"holds photos of the aerial model \([46] of 6, frame1.jpg among them\)"):
            refuse_same_photos(walk, known, tmp_path, "holds photos of the aerial model", "Give others.")
    refuse_same_photos(walk, [*others, *copies[:3], tmp_path / "gone.jpg"], tmp_path, "", "")
    for path in others:  # as large as a photo of the walk, and another one
        path.write_bytes(bytes(len(walk[0].read_bytes())))
    assert same_photos(walk, others) == []


def test_a_walk_that_stands_on_its_own_photos_is_told_so(tmp_path: Path) -> None:
    """It goes on: nothing of it is wrong, but what the two runs say of each other proves nothing."""
    walk = [write_walk(tmp_path / "walk", 6) / f"frame{k}.jpg" for k in range(1, 7)]
    others = [write_walk(tmp_path / "others", 6, size=(90, 54)) / f"frame{k}.jpg" for k in range(1, 7)]
    heard: list[Any] = []
    folder, site = SimpleNamespace(listen=heard.append), SimpleNamespace(scaffold=SimpleNamespace(views=()))
    own, before = ([SimpleNamespace(path=path) for path in paths] for paths in (walk, others))
    for frames, words in ((before, []), (own, ["6 of 6 photos of this walk are those of june"])):
        earlier = SimpleNamespace(run=SimpleNamespace(sequence=SimpleNamespace(frames=frames), root="june"))
        given: Any = (folder, SimpleNamespace(ground=tmp_path), SimpleNamespace(frames=own), site, (earlier,))
        refuse_known_photos(*given)
        assert [note.text.partition(",")[0] for note in heard if note.warning] == words


def test_depth_maps_that_are_not_there_are_told(tmp_path: Path) -> None:
    names = ["a.jpg", "b.jpg"]
    with pytest.raises(InputError, match="nothing: is no folder"):
        check_depth(tmp_path / "nothing", names)
    with pytest.raises(InputError, match="has no depth map of the walk's 2 photos"):
        check_depth(tmp_path, names)
    write_photo(tmp_path / "b.png")
    with pytest.raises(InputError, match=r"b.png: "):
        check_depth(tmp_path, names)
    np.save(tmp_path / "a.npy", np.ones((4, 6), np.float32))
    check_depth(tmp_path, names)
