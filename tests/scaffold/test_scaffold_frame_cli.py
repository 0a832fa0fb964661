"""`scaffold check --splats`: fits, lies elsewhere, is repaired on request, or belongs to another place."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from skyanchor.cli import scaffold as cli
from skyanchor.errors import InputError
from skyanchor.gaussians.ply import read_ply, write_ply
from skyanchor.gaussians.seeding import splats_from_points
from skyanchor.scaffold import frame_check
from skyanchor.scaffold.frame_check import FrameFix, FrameVerdict
from skyanchor.types import Georeference, Reason, Refusal, Similarity

FITS = FrameVerdict(True, 0.9, 0.1, 25.0, 0.01)
ELSEWHERE = FrameVerdict(False, 0.1, 0.1, 9.0, float("nan"))
MOVE = Similarity(2.0, np.eye(3), np.array([1.0, 2.0, 3.0]))


@pytest.fixture
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    path = tmp_path / "aerial.ply"
    write_ply(path, splats_from_points(np.eye(3), np.zeros((3, 3), np.uint8), sh_degree=0))
    monkeypatch.setattr("skyanchor.gaussians.devices.load_engine", lambda device: None)
    return SimpleNamespace(splats_path=path, georef=Georeference(np.array([100.0, 0.0, 0.0])))


def answers(monkeypatch: pytest.MonkeyPatch, verdict: FrameVerdict, fix: FrameFix | Refusal | None = None) -> None:
    monkeypatch.setattr(frame_check, "check_frame", lambda *_: verdict)
    monkeypatch.setattr(frame_check, "fix_frame", lambda *_: fix)


def test_splats_in_the_frame_pass(held: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, FITS)
    cli._check_splats(held, None)


def test_without_consent_it_stops_and_says_by_how_much(held: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, ELSEWHERE, FrameFix(MOVE, "points", ELSEWHERE, FITS))
    with pytest.raises(InputError, match=r"another frame: scale 2\.00000.*--fix-frame"):
        cli._check_splats(held, None)


def test_with_consent_it_is_written_repaired(
    held: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(monkeypatch, ELSEWHERE, FrameFix(MOVE, "points", ELSEWHERE, FITS))
    cli._check_splats(held, tmp_path / "fixed.ply")
    expected = 2.0 * np.eye(3) + MOVE.translation + np.array([100.0, 0.0, 0.0])
    np.testing.assert_allclose(read_ply(tmp_path / "fixed.ply").means, expected, atol=1e-4)


def test_a_model_of_another_place_is_refused(held: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, ELSEWHERE, Refusal(Reason.NO_COMMON_FRAME, "no similarity makes the splats fit", {}))
    with pytest.raises(InputError, match="Is it a model of this flight"):
        cli._check_splats(held, None)
