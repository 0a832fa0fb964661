"""What another program made, each verdict on a model with known errors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pycolmap
import pytest
from scipy.spatial.transform import Rotation

from skyanchor.cli.main import main
from skyanchor.errors import InputError
from skyanchor.evaluation.foreign import ForeignConfig, Outcome, score_foreign
from skyanchor.evaluation.tum import read_tum
from skyanchor.geometry import rigid, similarity
from skyanchor.geometry.colmap import to_rigid3d
from skyanchor.types import Pose, Similarity

AERIAL = [f"a{k:02}.jpg" for k in range(12)]
STREET = [f"g{k:02}.jpg" for k in range(20)]
FREE = Similarity(0.2, Rotation.from_euler("xyz", [20, -40, 100], degrees=True).as_matrix(), np.array([3.0, -8.0, 1.0]))
"""model_from_world of a program without a metric frame."""


def _flight() -> dict[str, Pose]:
    eyes = [np.array([k % 4 * 12.0, k // 4 * 15.0, 50.0 + k % 3]) for k in range(12)]
    return _looking(AERIAL, eyes, np.array([2.0, 3.0, -20.0]))


def _walk() -> dict[str, Pose]:
    eyes = [np.array([1.5 * k, 4.0 + 3.0 * np.sin(k / 4), 1.6]) for k in range(20)]
    return _looking(STREET, eyes, np.array([3.0, 1.0, 0.0]))


def _looking(names: list[str], eyes: list[np.ndarray], ahead: np.ndarray) -> dict[str, Pose]:
    up = np.array([0.0, 0.0, 1.0])
    return {name: rigid.look_at(eye, eye + ahead, up) for name, eye in zip(names, eyes, strict=True)}


def _write(folder: Path, poses: dict[str, Pose]) -> Path:
    model = pycolmap.Reconstruction()
    model.add_camera_with_trivial_rig(pycolmap.Camera.create_from_model_name(1, "PINHOLE", 500.0, 640, 480))
    for number, (name, pose) in enumerate(poses.items(), 1):
        image = pycolmap.Image(name=name, camera_id=1, image_id=number)
        model.add_image_with_trivial_frame(image, to_rigid3d(pose))
    folder.mkdir(parents=True)
    model.write(str(folder))
    return folder


def _free(poses: dict[str, Pose], prefix: str = "") -> dict[str, Pose]:
    return {prefix + name: similarity.transform_camera(FREE, pose) for name, pose in poses.items()}


def _shifted(poses: dict[str, Pose], metres: float) -> dict[str, Pose]:
    shift = np.array([0.0, 0.6, 0.8]) * metres
    return {n: rigid.from_centre(p.rotation, rigid.centre_in_world(p) + shift) for n, p in poses.items()}


@pytest.fixture
def known(tmp_path: Path) -> tuple[Path, Path]:
    """The aerial model and the truth on disk."""
    return _write(tmp_path / "aerial/sparse/0", _flight()).parents[1], _write(tmp_path / "truth", _walk())


def test_a_free_frame_is_laid_on_the_aerial_cameras(tmp_path: Path, known: tuple[Path, Path]) -> None:
    joint = _write(tmp_path / "joint", _free(_flight(), "air/") | _free(_shifted(_walk(), 0.25), "street/"))
    found = score_foreign(joint, *known, ForeignConfig()).best
    assert found.outcome is Outcome.OK and (found.aerial, found.aerial_total) == (12, 12)
    assert found.on_aerial.ate_m == pytest.approx(0.25, abs=1e-6) and found.on_aerial.registered == 20
    assert found.on_truth.ate_m == pytest.approx(0.0, abs=1e-6) and found.scale == pytest.approx(5.0)
    assert found.moved_m == pytest.approx(0.0, abs=1e-6) and found.off_m is not None and found.off_m > 10.0
    assert found.as_it_came.ate_m is not None and found.as_it_came.ate_m > 10.0


def test_an_extended_model_needs_no_similarity(tmp_path: Path, known: tuple[Path, Path]) -> None:
    found = score_foreign(_write(tmp_path / "m", _flight() | _shifted(_walk(), 0.4)), *known, ForeignConfig()).best
    assert found.outcome is Outcome.OK and found.off_m == pytest.approx(0.0, abs=1e-9)
    assert found.as_it_came.ate_m == pytest.approx(0.4) and found.on_aerial.ate_m == pytest.approx(0.4, abs=1e-6)


def test_half_the_frames_are_asked_for(tmp_path: Path, known: tuple[Path, Path]) -> None:
    some = [dict(list(_walk().items())[:count]) for count in (9, 10)]
    few, enough = (_write(tmp_path / f"m{k}", _free(_flight() | held)) for k, held in enumerate(some))
    score = score_foreign(few, *known, ForeignConfig()).best
    assert score.outcome is Outcome.TOO_FEW and score.on_aerial.registered == 9
    assert score_foreign(enough, *known, ForeignConfig()).best.outcome is Outcome.OK
    none = score_foreign(_write(tmp_path / "m2", _free(_flight())), *known, ForeignConfig()).best
    assert none.outcome is Outcome.TOO_FEW and none.on_aerial.ate_m is None


@pytest.mark.parametrize("kept", [0, 3])
def test_too_few_aerial_cameras_cannot_be_aligned(tmp_path: Path, known: tuple[Path, Path], kept: int) -> None:
    flight = dict(list(_flight().items())[:kept])
    found = score_foreign(_write(tmp_path / "m", _free(flight | _walk())), *known, ForeignConfig()).best
    assert found.outcome is Outcome.CANNOT_ALIGN and found.on_aerial.registered == 20
    assert (found.on_aerial.ate_m, found.on_aerial.rpe_t_m) == (None, None)
    assert found.on_aerial.rpe_r_deg == pytest.approx(0.0, abs=1e-5)
    assert found.on_truth.ate_m == pytest.approx(0.0, abs=1e-6)


def test_cameras_in_one_place_cannot_be_aligned(tmp_path: Path, known: tuple[Path, Path]) -> None:
    heap = {name: rigid.from_centre(pose.rotation, np.zeros(3)) for name, pose in _flight().items()}
    found = score_foreign(_write(tmp_path / "m", heap | _walk()), *known, ForeignConfig()).best
    assert found.outcome is Outcome.CANNOT_ALIGN and found.moved_m is None


def test_a_bent_flight_is_said(tmp_path: Path, known: tuple[Path, Path]) -> None:
    flight = _flight()
    bent = _shifted({name: flight[name] for name in AERIAL[::2]}, 1.0)
    path = _write(tmp_path / "m", flight | bent | _walk())
    found = score_foreign(path, *known, ForeignConfig()).best
    assert found.outcome is Outcome.MOVED_AERIAL and found.moved_m is not None and 0.2 < found.moved_m < 0.5
    assert found.as_it_came.ate_m == pytest.approx(0.0, abs=1e-9)
    assert score_foreign(path, *known, ForeignConfig(moved_m=0.6)).best.outcome is Outcome.OK


def test_of_several_models_the_one_that_can_be_aligned_counts(tmp_path: Path, known: tuple[Path, Path]) -> None:
    walk = list(_walk().items())
    _write(tmp_path / "sparse/0", _free(_flight() | dict(walk[:11])))
    _write(tmp_path / "sparse/1", _free(dict(walk[5:])))
    _write(tmp_path / "sparse/10", _free(_flight()))
    found = score_foreign(tmp_path, *known, ForeignConfig())
    assert [(m.aerial, m.as_it_came.registered) for m in found.models] == [(12, 11), (0, 15), (12, 0)]
    assert found.best is found.models[0] and found.best.outcome is Outcome.OK


def test_equal_file_names_need_prefixes(tmp_path: Path) -> None:
    flight, walk = ({f"{k:02}.jpg": p for k, p in enumerate(held.values())} for held in (_flight(), _walk()))
    aerial, truth = _write(tmp_path / "aerial", flight), _write(tmp_path / "truth", walk)
    both = {f"up/{n}": p for n, p in flight.items()} | {f"down/{n}": p for n, p in walk.items()}
    joint = _write(tmp_path / "joint", both)
    with pytest.raises(InputError, match="--aerial-prefix and --ground-prefix"):
        score_foreign(joint, aerial, truth, ForeignConfig())
    named = ForeignConfig(aerial_prefix="up/", ground_prefix="down/")
    found = score_foreign(joint, aerial, truth, named).best
    assert found.on_aerial.ate_m == pytest.approx(0.0, abs=1e-6) and found.aerial == 12


def test_a_name_that_may_be_of_either_kind_is_told(tmp_path: Path) -> None:
    """The walk alone under names that aerial photos have too: it must not be taken for the flight."""
    flight, walk = ({f"{k:02}.jpg": p for k, p in enumerate(held.values())} for held in (_flight(), _walk()))
    aerial, truth = _write(tmp_path / "aerial", flight), _write(tmp_path / "truth", walk)
    alone = _write(tmp_path / "alone", walk)
    with pytest.raises(InputError, match=r"00\.jpg that may be an aerial or a street photo"):
        score_foreign(alone, aerial, truth, ForeignConfig())
    found = score_foreign(alone, aerial, truth, ForeignConfig(aerial_prefix="none/")).best
    assert found.aerial == 0 and found.outcome is Outcome.CANNOT_ALIGN
    tum = _tum(tmp_path / "t.txt", [str(k) for k in range(len(walk))])
    held = score_foreign(tum, aerial, truth, ForeignConfig()).best
    assert held.aerial == 0 and held.aerial_total == 12 and held.outcome is Outcome.CANNOT_ALIGN


# --- TUM ----------------------------------------------------------------------------------------------------------


def _tum(path: Path, keys: list[str]) -> Path:
    lines = ["# a comment"]
    for key, pose in zip(keys, _free(_walk()).values(), strict=False):
        x, y, z, w = np.roll(rigid.quaternion_from_rotation(pose.rotation.T), -1)
        lines.append(" ".join(map(str, [key, *rigid.centre_in_world(pose), x, y, z, w])))
    path.write_text("\n".join(lines))
    return path


@pytest.mark.parametrize("keys", [STREET, [f"{k}.0" for k in range(20)], [n[:-4] for n in STREET]])
def test_a_walk_alone_is_measured_on_its_truth(tmp_path: Path, known: tuple[Path, Path], keys: list[str]) -> None:
    found = score_foreign(_tum(tmp_path / "t.txt", keys), *known, ForeignConfig()).best
    assert found.outcome is Outcome.CANNOT_ALIGN and found.on_truth.registered == 20
    assert found.on_truth.ate_m == pytest.approx(0.0, abs=1e-6)


def test_seconds_need_frames_per_second(tmp_path: Path) -> None:
    path = _tum(tmp_path / "t.txt", [f"{k / 30:.4f}" for k in range(20)])
    with pytest.raises(InputError, match=r"which photo 0\.0333 is"):
        read_tum(path, STREET)
    found = read_tum(path, STREET, 30.0)
    assert list(found) == STREET
    np.testing.assert_allclose(found["g07.jpg"].matrix, _free(_walk())["g07.jpg"].matrix, atol=1e-9)
    path.write_text("0 1 2 3")
    with pytest.raises(InputError, match="not TUM"):
        read_tum(path, STREET)


# --- the command --------------------------------------------------------------------------------------------------


def test_the_command_says_the_verdict(
    tmp_path: Path, known: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    _write(tmp_path / "m/0", _free(_flight() | _shifted(_walk(), 0.25)))
    _write(tmp_path / "m/1", _free(_walk()))
    words = ["evaluate", "--model", str(tmp_path / "m"), "--scaffold", str(known[0]), "--truth", str(known[1])]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "Verdict: ok." in out and "0.250" in out and "Sim(3) on the aerial cameras" in out
    assert "12 of 12 aerial cameras" in out and "all models" in out
    assert main([*words, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["best"]["outcome"] == "ok" and len(said["models"]) == 2
    assert said["best"]["on_aerial"]["ate_m"] == pytest.approx(0.25, abs=1e-6)
    alone = ["evaluate", "--model", str(known[1]), *words[3:]]
    assert main(alone) == 0
    out = capsys.readouterr().out
    assert "0 of 12 aerial cameras: a similarity takes 4" in out and "say so with --aerial-prefix" in out
    assert "Verdict: cannot align." in out


def test_what_is_missing_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in (
        (["--truth", "t"], "evaluate what? Name a run folder"),
        (["--truth", "t", "--scaffold", "a"], "evaluate what? Name a run folder, or give --model"),
        (["--truth", "t", "--model", "m"], "--model needs --scaffold"),
        (["run", "--truth", "t", "--model", "m"], "give one of them"),
        (["run", "--truth", "t", "--scaffold", "a"], "--scaffold says nothing without --model"),
        (["run", "--truth", "t", "--fps", "30"], "--fps says nothing without --model"),
        (["--truth", "t", "--model", "m", "--scaffold", "a", "--align"], "--align says nothing with --model"),
    ):
        assert main(["evaluate", *words]) == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "fps", "problem"),
    [
        ("1 0 0 0 0 0 0 0", None, "has a pose that is none"),
        ("1 nan 0 0 0 0 0 1", None, "has a pose that is none"),
        ("1 0 0 inf 0 0 0 1", 30.0, "has a pose that is none"),
        ("1 0 0 0 0 0 0 1e300", None, "has a pose that is none"),
        ("1e999 0 0 0 0 0 0 1", 30.0, "does not tell which photo 1e999 is"),
        ("0 0 0 0 0 0 0 1", None, "has more than one pose of"),
        ("1 0 0 0 0 0 0 \xfc", None, "is no text in UTF-8"),
    ],
)
def test_lines_that_are_no_pose_are_told(line: str, fps: float | None, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "walk.tum"
    path.write_bytes(f"0 0 0 0 0 0 0 1\n{line}\n".encode("latin-1"))
    with pytest.raises(InputError, match=rf"walk\.tum: {problem}"):
        read_tum(path, STREET, fps)
