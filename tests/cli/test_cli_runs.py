"""Verbs that run stages: remembered inputs, presets as defaults, known errors."""

from __future__ import annotations

import logging
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import tyro

from skyanchor import pipeline
from skyanchor.anchors.priors import Area, Near
from skyanchor.cli import kernels
from skyanchor.cli import runs as commands
from skyanchor.cli.main import main
from skyanchor.cli.runs import ChosenPreset
from skyanchor.errors import SkyAnchorError
from skyanchor.events import ANCHORS, Event
from skyanchor.geometry import cameras
from skyanchor.presets import SETTINGS_FILE, PipelineConfig
from skyanchor.run import records
from skyanchor.run.executor import Executor, InProcess, Processes, executor_of
from skyanchor.run.folder import RunFolder
from skyanchor.run.inputs import Inputs, remembered_commands
from skyanchor.run.layout import STATE
from skyanchor.scaffold import loading
from skyanchor.storage import codec, files
from skyanchor.types import AnchorGroup, AnchorPose, Anchors, Georeference, LocalisedGroup, Pose, Reason, Refusal

TYPED = "skyanchor update --out RUN"


class _Recorder:
    """Stands in for the stages and keeps what it was called with."""

    def __init__(self) -> None:
        self.calls: list[tuple[Inputs, PipelineConfig, Executor]] = []

    def __call__(self, run: RunFolder, inputs: Inputs, config: PipelineConfig, executor: Executor) -> None:
        self.calls.append((inputs, config, executor))


def _call(work: _Recorder, default: PipelineConfig, *arguments: str) -> None:
    command = commands.verb(work, ChosenPreset(default), TYPED)
    assert tyro.cli(command, args=list(arguments), config=(tyro.conf.FlagCreatePairsOff,)) == 0


def test_inputs_are_remembered(tmp_path: Path) -> None:
    work, run = _Recorder(), str(tmp_path / "run")
    _call(work, pipeline.CPU, "--out", run, "--scaffold", str(tmp_path / "a"), "--ground", str(tmp_path / "g"))
    _call(work, pipeline.CPU, "--out", run, "--ground", str(tmp_path / "other"))
    _call(work, pipeline.CPU, "--out", run)
    seen = [(call[0].aerial.name, call[0].ground.name) for call in work.calls]
    assert seen == [("a", "g"), ("a", "other"), ("a", "other")]
    _call(work, pipeline.CPU, "--out", run, "--onto", str(tmp_path / "june"), str(tmp_path / "july"))
    _call(work, pipeline.CPU, "--out", run)
    onto = [[path.name for path in call[0].onto] for call in work.calls]
    assert onto == [[], [], [], ["june", "july"], ["june", "july"]]
    assert (tmp_path / "run/log.txt").is_file() and remembered_commands(tmp_path / "run") == (TYPED,)


def test_the_first_time_needs_inputs(tmp_path: Path) -> None:
    with pytest.raises(SkyAnchorError, match="Give --scaffold and --ground the first time"):
        commands.remembered(tmp_path, None, tmp_path, None, None)


def test_settings_reach_the_stages(tmp_path: Path) -> None:
    work = _Recorder()
    given = ("--out", str(tmp_path / "run"), "--scaffold", "a", "--ground", "g", "--camera", "f=900", "--workers", "3")
    _call(work, pipeline.GPU, *given, "--trajectory.tail-window", "5")
    _, config, executor = work.calls[0]
    assert config.sequence.camera == "f=900" and config.trajectory.tail_window == 5
    assert config.geometry == pipeline.GPU.geometry and config.trajectory.device == "cuda"
    assert executor == Processes(3)
    _call(work, pipeline.CPU, "--out", str(tmp_path / "run"), "--workers", "1")
    assert work.calls[1][1] == pipeline.CPU and work.calls[1][2] == InProcess()
    _call(work, pipeline.CPU, "--out", str(tmp_path / "run"))
    assert work.calls[2][2] == executor_of(0)


def test_what_is_left_out_of_the_users_files_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with commands.told(tmp_path / "run"):
        logging.getLogger(loading.__name__).warning("3 points that lie nowhere were left out")
    assert "3 points that lie nowhere were left out" in capsys.readouterr().err


def test_where_the_walk_was_reaches_the_stages(tmp_path: Path) -> None:
    work, area = _Recorder(), tmp_path / "area.csv"
    area.write_text("0,0\n40,0\n40,30\n")
    given = ("--out", str(tmp_path / "run"), "--scaffold", "a", "--ground", "g")
    _call(work, pipeline.CPU, *given, "--within", str(area))
    _call(work, pipeline.CPU, *given, "--near", "120,-35,60")
    _call(work, pipeline.CPU, *given)
    priors = [config.anchors.prior.near for _, config, _ in work.calls]
    assert priors == [(Area((((0.0, 0.0), (40.0, 0.0), (40.0, 30.0)),)),), (Near(120.0, -35.0, 60.0),), ()]
    for _, config, _ in work.calls:
        assert codec.loads(PipelineConfig, codec.dumps(config)) == config
    with pytest.raises(SkyAnchorError, match="give one of them"):
        _call(work, pipeline.CPU, *given, "--within", str(area), "--near", "120,-35,60")
    with pytest.raises(SkyAnchorError, match="three numbers with commas"):
        _call(work, pipeline.CPU, *given, "--near", "120,-35")


@pytest.mark.parametrize("near", ["nan,1,60", "1,inf,60", "1,2,-60", "1,2,0", "1,2,nan"])
def test_a_circle_that_is_none_is_refused(near: str) -> None:
    with pytest.raises(SkyAnchorError, match="finite and the radius above 0"):
        commands.near_place(near)


def test_a_mistyped_option_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["update", "--out", str(tmp_path / "run"), "--ner", "1,2,3"]) == 2
    assert capsys.readouterr().err == (
        "skyanchor: there is no option --ner. Did you mean --near? `skyanchor update --help` names them.\n"
    )


def test_presets_differ_and_are_named() -> None:
    assert list(pipeline.PRESETS) == ["cpu", "gpu", "paper"]
    assert len({id(config) for config in pipeline.PRESETS.values()}) == 3
    assert pipeline.CPU != pipeline.GPU != pipeline.PAPER != pipeline.CPU


def test_the_preset_is_the_machines_own_unless_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert commands.asked_preset(["--out", "x"]) == "auto"
    assert commands.asked_preset(["--preset", "paper"]) == commands.asked_preset(["--preset=paper"]) == "paper"
    monkeypatch.setattr(commands, "missing_for_cuda", lambda: "gsplat is not installed: pip install it")
    assert commands.chosen_preset("auto") == ChosenPreset(pipeline.CPU, "cpu, because gsplat is not installed")
    assert commands.chosen_preset("gpu") == ChosenPreset(pipeline.GPU)
    assert pipeline.GPU.scene.device == pipeline.on_gpu(pipeline.PAPER).scene.device == "cuda"
    assert commands.chosen_preset("paper") == ChosenPreset(pipeline.PAPER)
    assert commands.chosen_preset("cpu").config.scene.device == "cpu", "a GPU that is there stays out of it"
    monkeypatch.setattr(commands, "missing_for_cuda", lambda: None)
    assert (
        commands.chosen_preset("auto").config is pipeline.GPU and "gpu, because" in commands.chosen_preset("auto").why
    )
    paper = commands.chosen_preset("paper").config
    assert paper.geometry == pipeline.GPU.geometry and paper.trajectory.device == "cuda"
    assert paper.scene.update == pipeline.PAPER.scene.update and paper.anchors == pipeline.PAPER.anchors


def test_the_gpu_preset_without_a_gpu_advises_the_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    assert main(["update", "--out", str(tmp_path / "run"), "--preset", "gpu"]) == 2
    assert "torch sees none here. Use --preset cpu." in capsys.readouterr().err


def _leave_anchors(root: Path, accepted: tuple[bool, ...]) -> None:
    """A finished anchor stage with groups of two frames."""
    pose = AnchorPose(0, Pose(np.eye(3), np.zeros(3)), np.eye(6))
    groups = tuple(
        LocalisedGroup(
            AnchorGroup(k, (2 * k, 2 * k + 1), (0,)),
            (pose,) if held else (),
            None if held else Refusal(Reason.NO_PLACE, "nothing found"),
        )
        for k, held in enumerate(accepted)
    )
    names = tuple(f"{k}.jpg" for k in range(2 * len(accepted)))
    record = records.AnchorsRecord(names, Georeference(np.zeros(3)), Anchors(groups, cameras.pinhole(64, 48, 60.0)))
    with RunFolder(root) as run:
        stage = run.stage(ANCHORS, "groups", {}, {})
        stage.save(records.ANCHORS_FILE, record)
        stage.finish()


def test_nothing_placed_is_said_with_an_exit_code_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _leave_anchors(tmp_path / "none", (False, False))
    assert commands.said_of_the_groups(tmp_path / "none") == 3
    out = capsys.readouterr().out
    assert out.startswith("None of the 2 anchor groups could be placed") and "Try --near" in out
    near = replace(pipeline.CPU.anchors, prior=replace(pipeline.CPU.anchors.prior, near=(Near(0.0, 0.0, 9.0),)))
    files.save(tmp_path / "none" / STATE / SETTINGS_FILE, replace(pipeline.CPU, anchors=near))
    assert commands.said_of_the_groups(tmp_path / "none") == 3
    assert "--near" not in capsys.readouterr().out


def test_a_refused_stretch_is_named_and_the_run_is_good(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _leave_anchors(tmp_path / "part", (True, False))
    assert commands.said_of_the_groups(tmp_path / "part") == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(
        "1 of 2 anchor groups were placed in the aerial model, 1 photo in all; 95 % of the positions"
    )
    assert second.startswith("Photos 2 to 3 (2.jpg to 3.jpg) were refused: no place of the aerial model looks like")
    _leave_anchors(tmp_path / "all", (True, True))
    assert commands.said_of_the_groups(tmp_path / "all") == 0
    said = capsys.readouterr().out
    assert said.startswith("2 of 2 anchor groups were placed in the aerial model, 2 photos in all; 95 %")
    assert said.count("\n") == 1


def test_the_command_line_runs_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    places = ["--out", str(tmp_path / "run"), "--scaffold", str(tmp_path / "none"), "--ground", str(tmp_path)]
    assert main(["trajectory", *places, "--preset", "paper"]) == 2
    assert "none: does not exist" in capsys.readouterr().err


def test_the_first_run_says_that_kernels_are_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    heard: list[Event] = []
    kernels.announce(heard.append)
    assert heard == [kernels.COMPILING]
    (tmp_path / "cache/stereo_1").mkdir(parents=True)
    (tmp_path / "cache/stereo_1/sweep_kernels.sweep-12.py27.nbi").touch()
    assert not kernels.compiled("stereo")
    tag = f"py{sys.version_info.major}{sys.version_info.minor}"
    (tmp_path / f"cache/stereo_1/sweep_kernels.sweep-12.{tag}.nbi").touch()
    kernels.announce(heard.append)
    assert kernels.compiled("stereo") and len(heard) == 1


def test_the_first_town_says_so_too_and_a_run_after_it_for_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("skyanchor.town.build_town", lambda *_: None)
    assert main(["town", str(tmp_path / "town")]) == 0
    assert capsys.readouterr().err == "kernels: compiling, once per machine: nothing is said for about a minute\n"
    (tmp_path / "cache/town_1").mkdir(parents=True)
    tag = f"py{sys.version_info.major}{sys.version_info.minor}"
    (tmp_path / f"cache/town_1/ray_kernels.nearest-160.{tag}.nbi").touch()
    assert main(["town", str(tmp_path / "town")]) == 0
    assert capsys.readouterr().err == ""
    assert not kernels.compiled("stereo")


def test_every_verb_knows_how_many_stages_it_runs() -> None:
    assert [commands.stages_of(verb) for verb in ("prepare", "anchors", "trajectory", "update")] == [1, 2, 3, 4]


def test_the_map_of_the_aerial_model_reaches_the_stages(tmp_path: Path) -> None:
    work, given = _Recorder(), ("--out", str(tmp_path / "run"), "--scaffold", "a", "--ground", "g")
    _call(work, pipeline.CPU, *given, "--crs", "EPSG:25832")
    _call(work, pipeline.CPU, *given)
    assert [config.scaffold.crs for _, config, _ in work.calls] == ["EPSG:25832", None]
