"""What a case of `faults.py` is, how it calls the command, and what it holds the answer against.

A case is a name and a function of a `Bench`: a folder of its own, a scene that all cases share, and the command in a
process of its own. It returns what is not as promised, an empty text when all is. `told(...)` holds the usual promise:
one line that says what is wrong and what to do, its exit code, no traceback, no half file.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SUPPORT = ROOT / "tests/support"
"""Of the tests: the street of paper, a scene that a whole run of small settings takes a minute for."""
CHILD = Path(__file__).with_name("fault_child.py")
FRAMES = 14
CAMERA = "PINHOLE,230,230,160,90"
HANGS_S = 900.0
"""A command that takes longer hangs, seconds."""
REFUSED_S = 300.0
"""The same for one that has only to refuse."""
MEASURING = "depth measured"
"""What the command says when the work of hours begins."""
OURS = "This is a mistake of ours"


class NotTriedError(Exception):
    """A case that this machine cannot try; says why."""


@dataclass(frozen=True)
class Ended:
    """How a command came to its end."""

    code: int
    out: str
    err: str
    seconds: float

    @property
    def last(self) -> str:
        """The last line that it said."""
        return ([*self.out.splitlines(), *self.err.splitlines()] or [""])[-1]


@dataclass(frozen=True, eq=False)
class Bench:
    """Where a case works."""

    folder: Path
    """Its own, empty at first."""
    shared: Path
    """Of all cases: the scene and runs that none of them changes."""

    @property
    def scene(self) -> Path:
        """A street of paper: aerial/, ground/ with 14 photos; not to be changed."""
        path = self.shared / "scene"
        if not path.is_dir():
            sys.path.insert(0, str(SUPPORT))
            import paper_street

            draft = self.shared / "scene.part"
            shutil.rmtree(draft, ignore_errors=True)
            paper_street.write_scene(draft, FRAMES)
            draft.rename(path)
        return path

    def own_scene(self) -> Path:
        """A copy of the scene that the case may change."""
        return shutil.copytree(self.scene, self.folder / "scene")

    def whole_run(self) -> Path:
        """A run with all four stages on the shared scene, made once; not to be changed."""
        path = self.shared / "whole"
        if not (path / "report.html").is_file():
            ended = self.call(*self.update_words(path))
            assert ended.code == 0, ended.err
        return path

    def update_words(self, out: Path, *more: str, scene: Path | None = None) -> tuple[str, ...]:
        """The command that makes a whole run."""
        given = scene or self.scene
        words = ("update", "--scaffold", str(given / "aerial"), "--ground", str(given / "ground"), "--out", str(out))
        return (*words, "--camera", CAMERA, "--preset", "cpu", *(more or ("--workers", "1")))

    def start(self, *words: str, given: Start | None = None) -> subprocess.Popen[str]:
        """The command at work, with settings as small as the scene."""
        given = given or Start()
        limits = () if given.file_bytes is None else ("prlimit", f"--fsize={given.file_bytes}")
        environment = {name: value for name, value in os.environ.items() if name != "SKYANCHOR_DEBUG"}
        environment |= {"OMP_NUM_THREADS": "1", **given.environment}
        return subprocess.Popen(
            [*limits, sys.executable, str(CHILD), *words], cwd=self.folder, env=environment, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip

    def call(self, *words: str, given: Start | None = None) -> Ended:
        """The command at its end."""
        start = time.monotonic()
        return ended(self.start(*words, given=given), start)

    def ask(self, *words: str) -> Ended:
        """The same for a command that should soon refuse, in a copy of this process, which has it imported."""
        import fault_child  # what the copies share

        start, said = time.monotonic(), [self.folder / f".{name}" for name in ("out", "err")]
        copy = os.fork()
        if copy == 0:
            fault_child.answer(words, self.folder, *said)
        code = _waited(copy, said[1])
        texts = [path.read_text(errors="replace") for path in said]
        for path in said:
            path.unlink()
        return Ended(code, *texts, time.monotonic() - start)


@dataclass(frozen=True)
class Start:
    """What a command finds when it starts."""

    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables besides the usual ones."""
    file_bytes: int | None = None
    """Largest file that it may write."""


@dataclass(frozen=True)
class Case:
    """One thing that goes wrong."""

    name: str
    work: Callable[[Bench], str]
    """What is not as promised; empty when all is."""


def _waited(copy: int, err: Path) -> int:
    """The exit code of a child; one that hangs, or begins to measure depth, is killed with all that it started."""
    end = time.monotonic() + REFUSED_S
    while time.monotonic() < end:
        done, status = os.waitpid(copy, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if err.is_file() and MEASURING in err.read_text(errors="replace"):
            break
        time.sleep(0.05)
    os.killpg(copy, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1])


def ended(process: subprocess.Popen[str], start: float) -> Ended:
    """How it ended; one that hangs is killed with all that it started, and its code is that of SIGKILL."""
    try:
        out, err = process.communicate(timeout=HANGS_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
    return Ended(process.returncode, out, err, time.monotonic() - start)


# --- promises -----------------------------------------------------------------------------------------------------


def told(answer: Ended, *needed: str, code: int = 2) -> str:
    """Empty when a known problem was told in one line that holds the words `needed`."""
    wanted = [f"no {word!r} in it" for word in needed if word.lower() not in answer.last.lower()]
    if answer.code != code:
        return f"exit code {answer.code}, not {code}"
    if "Traceback" in answer.err or "Error:" in answer.last or OURS in answer.err:
        return "a traceback, or called a mistake of ours"
    if not answer.last.startswith("skyanchor: "):
        return "the last line is not the message"
    return ", ".join(wanted)


def nothing_left(folder: Path) -> str:
    """Empty when no half file of an interrupted write lies below the folder."""
    found = list(folder.rglob(".*.tmp"))
    return f"{found[0].name} was left" if found else ""


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder by its name, for comparison."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


MEASURED = ("timings.json", "memory.json", "anchor_seconds.json", "trajectory_seconds.json", "scene_seconds.json")
MEASURED += ("runtime.json", "log.txt", "report.html", "aerial.json")
"""Names that hold seconds or paths: never the same twice."""


def results(run: Path) -> dict[str, bytes]:
    """What a run found: its files without seconds, log and state."""
    kept = {name: data for name, data in contents(run).items() if ".state" not in Path(name).parts}
    return {name: data for name, data in kept.items() if Path(name).name not in MEASURED}


def differences(run: Path, other: Path) -> str:
    """Empty when two runs found the same, byte for byte."""
    here, there = results(run), results(other)
    odd = [name for name in sorted(here.keys() | there.keys()) if here.get(name) != there.get(name)]
    return f"{len(odd)} files differ, {odd[0]} first" if odd else ""
