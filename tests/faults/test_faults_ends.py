"""Ends that nobody planned: signals to workers, full disks behind log and output, mistakes nobody knows."""

from __future__ import annotations

import errno
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from child_process import importing_what_pytest_does
from PIL import Image

from skyanchor.cli import stopping
from skyanchor.cli.main import main
from skyanchor.errors import SkyAnchorError
from skyanchor.events import Note
from skyanchor.report.progress import Standing, log_file


def test_a_worker_that_is_terminated_prints_nothing() -> None:
    """pycolmap prints the stack of its C++ when it gets SIGTERM."""
    worker = subprocess.Popen(
        [sys.executable, "-c", "from skyanchor.run.worker import serve; serve()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=importing_what_pytest_does(),
    )  # fmt: skip
    assert worker.stdin is not None and worker.stdout is not None and worker.stderr is not None
    worker.stdin.write(b'{"function": "skyanchor.run.worker:cores", "arguments": {}}\n')
    worker.stdin.flush()
    assert b"traceback" in worker.stdout.readline()  # it takes no listener: the answer says that it is at work
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(timeout=60) == -signal.SIGTERM
    assert worker.stderr.read() == b""
    for pipe in (worker.stdin, worker.stdout, worker.stderr):
        pipe.close()


def test_a_signal_while_libraries_are_imported_waits() -> None:
    """As the command begins, and though numpy has threads of its own that could take the signal."""
    script = (
        "import os, signal, sys\n"
        "from skyanchor.cli import __main__ as command\n"
        "sys.argv = ['skyanchor', '--version']\nsys.stdout = open(os.devnull, 'w')\n"
        "try:\n    command.run()\nexcept SystemExit:\n    pass\n"
        "sys.stdout = sys.__stdout__\nfrom skyanchor.cli import stopping\n"
        "class Early:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'pycolmap':\n            os.kill(os.getpid(), signal.SIGTERM)\n"
        "sys.meta_path.insert(0, Early())\n"
        "try:\n    with stopping.armed():\n        print('not reached')\n"
        "except stopping.Terminated as stop:\n    sys.exit(stopping.exit_code(stop))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env=importing_what_pytest_does() | {"OPENBLAS_NUM_THREADS": "4"},
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (143, "", "")


def test_a_log_that_cannot_grow_is_silent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "log.txt").symlink_to("/dev/full")
    with log_file(tmp_path) as listen:
        listen(Note("1-scaffold", "said"))
        logging.getLogger("skyanchor").error("unexpected error", exc_info=ValueError("x"))
    assert capsys.readouterr().err == ""


def test_a_mistake_whose_log_is_full_is_told_with_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "log.txt").symlink_to("/dev/full")
    with pytest.raises(stopping.UnexpectedError) as told, log_file(tmp_path), stopping.accounted(tmp_path, Standing()):
        raise ZeroDivisionError("nobody knows")
    said = stopping.said_of(told.value)
    assert "unexpected ZeroDivisionError: nobody knows" in said and "\n" not in said
    left = Path(said.split("report it with ")[1])
    assert "Traceback" in left.read_text() or "ZeroDivisionError" in left.read_text()
    left.unlink()


def test_a_mistake_that_no_file_can_hold_is_one_line_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tempfile.NamedTemporaryFile", full)
    assert stopping.said_of(ValueError("x" * 5000)).endswith(
        "x. This is a mistake of ours: please report it with what --traceback prints"
    )
    assert len(stopping.said_of(ValueError("x" * 5000))) < 500


@pytest.mark.parametrize(
    "mistake",
    [MemoryError(), OSError(errno.ENOSPC, "No space left on device"), OSError(errno.EFBIG, "File too large", "a.npz")],
)
def test_what_the_machine_refuses_is_no_mistake_of_ours(
    mistake: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> None:
        raise mistake

    with pytest.raises(SkyAnchorError), stopping.accounted(tmp_path, Standing()):
        fails()
    monkeypatch.setattr("skyanchor.cli.doctor.diagnose", fails)
    assert main(["doctor"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and said.startswith("skyanchor: ") and "mistake of ours" not in said


def test_output_that_nobody_can_take_is_told() -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "skyanchor.cli", "--version"],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=importing_what_pytest_does(),
        )  # fmt: skip
    assert ended.returncode == 2 and "Traceback" not in ended.stderr
    assert ended.stderr.splitlines()[-1].startswith("skyanchor: ") and "No space left" in ended.stderr, os.name


def test_ctrl_c_while_the_command_is_loaded_says_nothing() -> None:
    script = (
        "import os, signal, sys\n"
        "class Early:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'tyro':\n            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Early())\n"
        "from skyanchor.cli.__main__ import run\nsys.exit(run())\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script, "--version"],
        capture_output=True, text=True, check=False, env=importing_what_pytest_does(),
    )  # fmt: skip
    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.parametrize("closed", ["1", "2", "012"])
def test_streams_that_are_closed_lead_nowhere(closed: str, tmp_path: Path) -> None:
    """And are no file that is opened later: what is printed would be written into it."""
    script = (
        "import os, subprocess, sys\n"
        f"for number in map(int, {closed!r}):\n    os.close(number)\n"
        "os.execv(sys.executable, [sys.executable, '-m', 'skyanchor.cli', 'patch', 'list', sys.argv[1]])\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "none.ply")],
        capture_output=True,
        text=True,
        check=False,
        env=importing_what_pytest_does(),
    )
    assert ended.returncode == 2
    assert ended.stdout == "" and ("2" in closed or ended.stderr.startswith("skyanchor: ")), ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_terminal_of_one_column_shows_the_help(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "1")
    with pytest.raises(SystemExit):
        main(["patch", "--help"])
    assert "apply" in capsys.readouterr().out


def test_a_folder_that_is_gone_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert main(["walk", "check", str(tmp_path)]) == 2
    assert "the folder that this is called in is gone" in capsys.readouterr().err
    monkeypatch.chdir(tmp_path)


def test_memory_that_does_not_suffice_for_a_library_is_told() -> None:
    mistake = ImportError("libgomp.so.1: failed to map segment from shared object")
    assert "not enough memory" in str(stopping.of_the_machine(mistake))
    assert stopping.of_the_machine(ImportError("no module")) is None


def test_variables_that_limit_other_programs_are_set_aside(tmp_path: Path) -> None:
    (tmp_path / "walk").mkdir()
    for k in range(6):
        Image.effect_noise((96, 54), 40.0 + k).save(tmp_path / f"walk/{k}.png")
    odd = {"OPENCV_IO_MAX_IMAGE_PIXELS": "x", "OPENCV_IO_MAX_IMAGE_WIDTH": "10", "MPLBACKEND": "banana"}
    ended = subprocess.run(
        [sys.executable, "-m", "skyanchor.cli", "walk", "check", str(tmp_path / "walk")],
        capture_output=True,
        text=True,
        check=False,
        env=importing_what_pytest_does() | odd,
    )
    assert ended.returncode == 0, ended.stderr
