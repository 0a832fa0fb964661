"""A run whose disk is full again and again: told each time, no half file, in the end the bytes of a run with room."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest
from child_process import importing_what_pytest_does

SCRIPT = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]),) * 2)
from pathlib import Path
import killable
from skyanchor.run.executor import InProcess, Processes
from skyanchor.run.folder import RunFolder
from skyanchor.errors import SkyAnchorError
engine = Processes(workers=2, threads=1) if sys.argv[2] == "processes" else InProcess()
try:
    with RunFolder(Path(sys.argv[1])) as run:
        killable.second(run, killable.first(run, engine, {"units": killable.UNITS}))
except SkyAnchorError as told:
    print(told)
    sys.exit(2)
"""
ROOM = (0, 100, 700, 1_000, 1_500, 2_000, 1 << 20)
"""Bytes that a file may have: nothing, the lock, a recipe, ... everything."""


def _attempt(root: Path, engine: str, room: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, str(root), engine, str(room)],
        capture_output=True, text=True, check=False, env=importing_what_pytest_does(),
    )  # fmt: skip


def _results(root: Path) -> dict[str, bytes]:
    found = [path for path in root.rglob("*") if path.is_file() and ".state" not in path.parts]
    names = ("timings.json", "memory.json")
    return {str(path.relative_to(root)): path.read_bytes() for path in found if path.name not in names}


@pytest.mark.parametrize("engine", ["in-process", "processes"])
def test_a_full_disk_is_told_and_the_run_goes_on(tmp_path: Path, engine: str) -> None:
    roomy, full = tmp_path / "roomy", tmp_path / "full"
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    assert _attempt(roomy, "in-process", unlimited if unlimited > 0 else 1 << 40).returncode == 0
    refused = 0
    for room in ROOM:
        ended = _attempt(full, engine, room)
        assert ended.stderr == "" and ended.returncode in (0, 2), ended.stderr
        assert not list(full.rglob("*.tmp")), "a half file was left"
        if ended.returncode == 2:
            assert ended.stdout.count("\n") == 1 and "cannot be written (File too large)" in ended.stdout
            refused += 1
    assert refused >= 4 and _results(full) == _results(roomy)
