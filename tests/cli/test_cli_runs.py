"""Verbs that run stages: remembered inputs, presets as defaults, known errors."""

from __future__ import annotations

from pathlib import Path

import pytest
import tyro

from skyanchor import pipeline
from skyanchor.anchors.priors import Area, Near
from skyanchor.cli import runs as commands
from skyanchor.cli.main import main
from skyanchor.errors import SkyAnchorError
from skyanchor.pipeline import Inputs, PipelineConfig
from skyanchor.run.executor import Executor, InProcess, Processes, executor_of
from skyanchor.run.folder import RunFolder
from skyanchor.storage import codec


class _Recorder:
    """Stands in for the stages and keeps what it was called with."""

    def __init__(self) -> None:
        self.calls: list[tuple[Inputs, PipelineConfig, Executor]] = []

    def __call__(self, run: RunFolder, inputs: Inputs, config: PipelineConfig, executor: Executor) -> None:
        self.calls.append((inputs, config, executor))


def _call(work: _Recorder, default: PipelineConfig, *arguments: str) -> None:
    tyro.cli(commands.verb(work, default), args=list(arguments), config=(tyro.conf.FlagCreatePairsOff,))


def test_inputs_are_remembered(tmp_path: Path) -> None:
    work, run = _Recorder(), str(tmp_path / "run")
    _call(work, pipeline.CPU, "--out", run, "--scaffold", str(tmp_path / "a"), "--ground", str(tmp_path / "g"))
    _call(work, pipeline.CPU, "--out", run, "--ground", str(tmp_path / "other"))
    _call(work, pipeline.CPU, "--out", run)
    seen = [(call[0].aerial.name, call[0].ground.name) for call in work.calls]
    assert seen == [("a", "g"), ("a", "other"), ("a", "other")]
    assert (tmp_path / "run/log.txt").is_file()


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


def test_presets_differ_and_are_named() -> None:
    assert list(pipeline.PRESETS) == ["cpu", "gpu", "paper"]
    assert len({id(config) for config in pipeline.PRESETS.values()}) == 3
    assert pipeline.CPU != pipeline.GPU != pipeline.PAPER != pipeline.CPU


def test_the_command_line_runs_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    places = ["--out", str(tmp_path / "run"), "--scaffold", str(tmp_path / "none"), "--ground", str(tmp_path)]
    assert main(["trajectory", *places, "--preset", "paper"]) == 2
    assert "none: does not exist" in capsys.readouterr().err
