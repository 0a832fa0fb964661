"""`skyanchor walk check` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sequence_fixture import write_walk
from survey_fixture import make_survey, write_survey

from skyanchor.cli.main import main


def test_a_table_with_an_estimate_and_warnings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_walk(tmp_path / "walk", 14)
    aerial = write_survey(tmp_path / "aerial", make_survey())
    assert main(["walk", "check", str(tmp_path / "walk"), "--scaffold", str(aerial), "--camera", "f=80"]) == 0
    out = capsys.readouterr().out
    for said in ("14 of 14 taken", "96x54", "80.0 px (given)", "% blurred", "anchor groups: 2", "estimated", "warning"):
        assert said in out
    assert "aerial photos prepared first" in out
    assert main(["walk", "check", str(tmp_path / "walk")]) == 0
    assert "on a prepared scaffold" in capsys.readouterr().out


def test_a_folder_among_the_photos_is_not_ignored_without_a_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_walk(tmp_path, 8)
    write_walk(tmp_path / "afternoon", 3)
    assert main(["walk", "check", str(tmp_path), "--camera", "f=80"]) == 0
    assert "3 photos in afternoon/ are passed over" in " ".join(capsys.readouterr().out.split())


def test_json_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_walk(tmp_path, 14)
    assert main(["walk", "check", str(tmp_path), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["frames"] == 14 and said["focal_from"] == "guess"


def test_what_is_no_walk_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["walk", "check", str(tmp_path / "none")]) == 2
    assert "none: does not exist. Give a folder of photos or a video file." in capsys.readouterr().err
