"""Kernels are compiled by a process of its own: the first run on a machine finds the digits of all later ones."""

from __future__ import annotations

import ast
import errno
import importlib
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numba
import pytest
from child_process import importing_what_pytest_does
from numba.core.caching import FunctionCache

import skyanchor
from skyanchor import compiled

KERNEL = """
import numpy as np
from numba import prange
from DECORATOR import njit
from skyanchor.stereo.stack_arrays import stack_floats

@njit(cache=True, fastmath=True, parallel=True)
def ratios(a, b, out):
    for r in prange(len(out)):
        x = stack_floats()
        s, t = np.float32(0.0), np.float32(0.0)
        for k in range(49):
            x[k] = a[r, k] - b[r, k]
        for k in range(49):
            s += x[k] * a[r, k]
            t += x[k] * x[k]
        out[r] = s / t

@njit(cache=True)
def double(a):
    return a + a
"""
"""The loops over the stack become vectors only when the kernel is optimised once more, as it is kept."""

ASK = """
import hashlib, numpy as np, small_kernels
a, b = np.random.default_rng(5).normal(size=(2, 5000, 49)).astype(np.float32)
out = np.zeros(5000, np.float32)
small_kernels.ratios(a, b, out)
print(hashlib.sha1(out.tobytes()).hexdigest(), len(small_kernels.ratios.stats.cache_misses))
"""


def _written(folder: Path, decorator: str = "skyanchor.compiled") -> Path:
    (folder / "small_kernels.py").write_text(KERNEL.replace("DECORATOR", decorator))
    return folder


def _start(folder: Path, code: str = ASK, **variables: str) -> subprocess.Popen[str]:
    environment = {**importing_what_pytest_does(), "NUMBA_CACHE_DIR": str(folder / "kept"), **variables}
    return subprocess.Popen(
        [sys.executable, "-c", code], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
    )


def _said(process: subprocess.Popen[str]) -> list[str]:
    out, _ = process.communicate()
    assert process.returncode == 0
    return out.split()


def test_the_first_process_finds_the_digits_of_later_ones(tmp_path: Path) -> None:
    first, later = (_said(_start(_written(tmp_path))) for _ in range(2))
    assert first == later and first[1] == "0"


def test_numbas_own_decorator_compiles_in_the_first_process(tmp_path: Path) -> None:
    """What the tests above and below would say without ours; whether digits differ is for the processor to say."""
    first, later = (_said(_start(_written(tmp_path, "numba"))) for _ in range(2))
    assert (first[1], later[1]) == ("1", "0")


def test_processes_that_begin_together_load_the_same_kernel(tmp_path: Path) -> None:
    _written(tmp_path)
    together = [_start(tmp_path) for _ in range(3)]
    said = [_said(one) for one in together]
    assert said == 3 * [_said(_start(tmp_path))] and said[0][1] == "0"
    assert len(list((tmp_path / "kept").rglob("*ratios*.nbc"))) == 1


def test_it_ends_with_the_process_that_asks(tmp_path: Path) -> None:
    more = "from skyanchor.compiled import _ELSEWHERE as it\nprint(it._process.pid, flush=True); input()"
    environment = {**importing_what_pytest_does(), "NUMBA_CACHE_DIR": str(tmp_path / "kept")}
    command = [sys.executable, "-c", ASK + more]
    with subprocess.Popen(
        command, cwd=_written(tmp_path), env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as asks:
        assert asks.stdout is not None
        asks.stdout.readline()
        pid = int(asks.stdout.readline())
        os.kill(pid, 0)
        asks.kill()
    assert _ended(pid)


def _ended(pid: int) -> bool:
    for _ in range(200):
        status = Path(f"/proc/{pid}/stat")
        if not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.05)
    return False


# --- in this process ----------------------------------------------------------------------------------------------


def test_a_number_over_zero_does_not_end_the_run() -> None:
    """By numba's own choice it raises, whatever is done with it then."""
    ours, numbas = compiled.njit()(lambda a, b: a / b), numba.njit(lambda a, b: a / b)
    assert ours(1.0, 0.0) == float("inf") and ours(0.0, 0.0) != ours(0.0, 0.0)
    with pytest.raises(ZeroDivisionError):
        numbas(1.0, 0.0)


@pytest.mark.parametrize(
    ("before", "after"),
    [({}, {"error_model": "python"}), ({"fastmath": True}, {"fastmath": {"nnan", "ninf"}})],
)
def test_kernels_compiled_otherwise_are_other_kernels(before: dict[str, Any], after: dict[str, Any]) -> None:
    """The cache looks at the file that a kernel stands in, and how it is compiled may be said elsewhere."""

    def keys() -> list[tuple[Any, ...]]:
        made = [compiled.njit(cache=True, **options)(_kernel) for options in (before, after, before)]
        return [one._cache._index_key((numba.float64,), numba.njit(_kernel).targetctx.codegen()) for one in made]

    first, other, again = keys()
    assert first == again != other


def _kernel(a: float) -> float:
    return a


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of kernels, never seen before, with a compiling process of its own."""
    monkeypatch.syspath_prepend(str(_written(tmp_path)))
    monkeypatch.delitem(sys.modules, "small_kernels", raising=False)
    monkeypatch.setattr(compiled, "_ELSEWHERE", compiled._Compiler())
    monkeypatch.setattr(compiled, "_told", set())
    yield importlib.import_module("small_kernels")
    sys.modules.pop("small_kernels", None)


def test_one_that_was_killed_is_started_again(small: Any) -> None:
    assert small.double(1) == 2
    killed = compiled._ELSEWHERE._process
    assert killed is not None
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    assert small.double(1.5) == 3.0 and small.double(1j) == 2j
    assert not small.double.stats.cache_misses


def test_a_mistake_in_a_kernel_is_told_here_and_others_are_still_compiled_elsewhere(small: Any) -> None:
    with pytest.raises(numba.TypingError):
        small.double({"a": 1})
    assert small.double(2) == 4
    assert sum(small.double.stats.cache_hits.values()) == 1


def test_where_no_process_can_be_started_it_says_so_and_goes_on(
    small: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with caplog.at_level(logging.WARNING):
        assert small.double(2) == 4 and small.double(2.5) == 5.0
    assert [record.message for record in caplog.records] == [
        f"no other process could compile kernels: {compiled.MAY_DIFFER}"
    ]


def test_where_nothing_can_be_kept_it_says_so_once_and_goes_on(
    small: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(numba.config, "CACHE_LOCATOR_CLASSES", "UserProvidedCacheLocator")
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    with caplog.at_level(logging.WARNING):
        kernels = [compiled.njit(cache=True)(small.double.py_func) for _ in range(2)]
        assert [kernel(3) for kernel in kernels] == [6, 6]
    assert len(caplog.records) == 1 and "kernels cannot be kept (cannot cache function 'double'" in caplog.text


def test_a_full_disk_does_not_end_the_run(
    small: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(FunctionCache, "save_overload", full)
    monkeypatch.setattr(compiled._Compiler, "compile", lambda *_: False)
    with caplog.at_level(logging.WARNING):
        assert small.double(2) == 4 and small.double(2.5) == 5.0
    assert len(caplog.records) == 1 and "No space left on device" in caplog.text


def test_no_kernel_is_compiled_by_numbas_own_decorator() -> None:
    folder = Path(skyanchor.__file__).parent
    for path in set(folder.rglob("*.py")) - {folder / "compiled.py"}:
        for node in ast.walk(ast.parse(path.read_text())):
            names = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.ImportFrom) and node.module == "numba"
                else []
            )
            names += (
                [node.attr] if isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("nb", "numba") else []
            )
            assert not {"njit", "jit", "vectorize", "guvectorize"} & set(names), f"{path.name}:{node.lineno}"
