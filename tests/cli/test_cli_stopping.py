"""Ends before the end: Ctrl-C, SIGTERM, mistakes of ours. One line, an exit code, no workers left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from skyanchor.cli import stopping
from skyanchor.cli.main import main
from skyanchor.report.progress import Standing

SCRIPT = Path(__file__).parents[1] / "support/slow_stage.py"


def _started(kind: str, run: Path, workers: str = "2", *more: str) -> subprocess.Popen[str]:
    words = ["--out", str(run), "--scaffold", "a", "--ground", "g", "--preset", "cpu", "--workers", workers, *more]
    environment = {name: value for name, value in os.environ.items() if name != "SKYANCHOR_DEBUG"}
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), kind, *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, env=environment,
    )  # fmt: skip


def _children(pid: int) -> list[int]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(word) for word in found.stdout.split()]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stopped_run_says_where_it_stands_and_leaves_no_workers(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    process = _started("slow", tmp_path / "run")
    assert process.stderr is not None
    said = next(line for line in process.stderr if "3/7" in line)
    (nursery,) = _children(process.pid)
    workers = [nursery, *_children(nursery)]
    os.killpg(process.pid, number)
    rest = process.stderr.read()
    assert process.wait(timeout=60) == code, said + rest
    assert rest == "Stopped in stage 2, 3 of 7 done; the same command goes on.\n"
    assert len(workers) == 3 and not any(Path(f"/proc/{pid}").exists() for pid in workers)
    assert "Stopped in stage 2, 3 of 7 done" in (tmp_path / "run/log.txt").read_text()


def test_pycolmap_does_not_keep_sigterm_for_itself() -> None:
    script = (
        "import os, signal, sys\nfrom skyanchor.cli import stopping\n"
        "with stopping.armed():\n    import pycolmap\n"
        "    try:\n        os.kill(os.getpid(), signal.SIGTERM)\n"
        "    except stopping.Terminated as stop:\n        sys.exit(stopping.exit_code(stop))\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (143, "")


def test_the_second_signal_ends_the_process_at_once() -> None:
    script = (
        "import os, signal\nfrom skyanchor.cli import stopping\n"
        "with stopping.armed():\n    try:\n        os.kill(os.getpid(), signal.SIGINT)\n"
        "    except KeyboardInterrupt:\n        os.kill(os.getpid(), signal.SIGINT)\n"
        "        print('still here')\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (-signal.SIGINT, "")


def test_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with stopping.armed():
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before


def test_a_signal_that_compiled_code_wraps_is_a_stop_like_any_other(tmp_path: Path) -> None:
    """Numba: "CPUDispatcher(<function splat ...>) returned a result with an exception set"."""

    def ended_by(mistake: Exception, cause: BaseException | None) -> BaseException:
        standing = Standing()
        with pytest.raises(BaseException) as found, stopping.accounted(tmp_path, standing):
            raise mistake from cause
        return found.value

    for stop, code in ((KeyboardInterrupt(), 130), (stopping.Terminated(), 143)):
        end = ended_by(SystemError("returned a result with an exception set"), stop)
        assert isinstance(end, stopping.Stopped) and end.code == code and "the same command goes on" in str(end)
    assert isinstance(ended_by(SystemError("bad call"), ValueError("ours")), stopping.UnexpectedError)
    assert isinstance(ended_by(ValueError("ours"), KeyboardInterrupt()), stopping.UnexpectedError)


def test_a_mistake_of_ours_is_one_line_and_its_traceback_is_in_the_log(tmp_path: Path) -> None:
    process = _started("failing", tmp_path / "run", "1")
    _, said = process.communicate(timeout=120)
    log = tmp_path / "run/log.txt"
    assert process.returncode == 1
    *before, last = said.splitlines()
    assert {line.partition(":")[0] for line in before} - {"kernels"} == {"view"}  # compiled here before, or not
    assert last == (
        "skyanchor: unexpected ZeroDivisionError: the last line of it. "
        f"This is a mistake of ours: please report it with {log}"
    )
    assert "Traceback" in log.read_text() and "slow_stage.py" in log.read_text()


def test_the_traceback_is_shown_to_those_who_ask(tmp_path: Path) -> None:
    process = _started("failing", tmp_path / "run", "1", "--traceback")
    _, said = process.communicate(timeout=120)
    assert process.returncode == 1 and "Traceback" in said and said.splitlines()[-1].startswith("skyanchor: unexpected")


def test_a_verb_without_a_run_folder_leaves_its_traceback_in_a_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> None:
        raise KeyError("nobody")

    monkeypatch.setattr("skyanchor.cli.doctor.diagnose", fails)
    assert main(["doctor"]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "unexpected KeyError" in said
    left = Path(said.split("report it with ")[1].strip())
    assert "Traceback" in left.read_text()
    left.unlink()


def test_a_full_disk_is_a_known_error(tmp_path: Path) -> None:
    with (
        pytest.raises(stopping.SkyAnchorError, match="No space left on device"),
        stopping.accounted(tmp_path, stopping.Standing()),
    ):
        raise OSError(28, "No space left on device")


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are told of in /proc")
def test_no_thread_of_a_library_takes_a_signal_that_is_held_back() -> None:
    """pycolmap answers SIGTERM with a stack while it is imported: the only thread that could take it holds it back."""
    script = (
        "import signal, sys\nfrom pathlib import Path\nassert 'numpy' not in sys.modules\n"
        "from skyanchor.cli import __main__ as command\n"
        "assert 'numpy' not in sys.modules, 'its threads would be there before the command'\n"
        "sys.argv = ['skyanchor', '--version']\n"
        "try:\n    command.run()\nexcept SystemExit:\n    pass\n"
        "import numpy\n"
        "bit = 1 << (signal.SIGTERM - 1)\n"
        "def deaf(task):\n"
        "    line = next(l for l in (task / 'status').read_text().splitlines() if l.startswith('SigBlk'))\n"
        "    return bool(int(line.split()[1], 16) & bit)\n"
        "import os\n"
        "for task in Path('/proc/self/task').iterdir():\n"
        "    print('own' if int(task.name) == os.getpid() else 'other', deaf(task))\n"
    )
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "4"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith(("own", "other"))]
    assert "own False" in lines and "other True" in lines and "other False" not in lines, lines
