"""Packages are really imported; what is missing is told by name, at whatever depth."""

from __future__ import annotations

import sys
import threading
import types
from pathlib import Path

import pytest

from skyanchor.backends.packages import Package, imported, quietly
from skyanchor.errors import BackendError

OUTER = Package("outer-dist", "outer.part", "pip install outer-dist==1")


@pytest.fixture()
def outer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Writes a package whose module has the given text."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(text: str) -> None:
        (tmp_path / "outer").mkdir()
        (tmp_path / "outer" / "__init__.py").touch()
        (tmp_path / "outer" / "part.py").write_text(text)

    yield write
    for name in ("outer", "outer.part"):
        sys.modules.pop(name, None)


def test_a_module_is_given_without_its_chatter(outer, capsys: pytest.CaptureFixture[str]) -> None:
    outer("print('hello')\nimport warnings\nwarnings.warn('old')\nVALUE = 7")
    assert imported(OUTER).VALUE == 7
    assert capsys.readouterr().out == ""


def test_a_package_that_is_not_there() -> None:
    with pytest.raises(BackendError, match=r"^outer-dist is not installed\. Install it: pip install outer-dist==1$"):
        imported(OUTER)


TOLD = {
    "import inner_thing": "outer-dist is here, but inner_thing, which it needs, is not.* constraints.txt inner_thing$",
    "import numpy.unheard_of": "outer-dist needs another version of numpy, one with numpy.unheard_of",
    "from numpy import unheard_of": "outer-dist cannot be imported .cannot import name 'unheard_of'.*outer-dist==1",
    "import outer.gone": "outer-dist has no outer.gone. Install it: pip install outer-dist==1",
    "raise OSError('libGL.so: cannot open\\nmore')": "cannot be imported .libGL.so: cannot open.. Install it anew",
}


@pytest.mark.parametrize("text", TOLD)
def test_what_is_missing_below_is_told_in_one_line(text: str, outer) -> None:
    outer(text)
    with pytest.raises(BackendError, match=TOLD[text]) as told:
        imported(OUTER)
    assert "\n" not in str(told.value)


def test_modules_are_told_by_the_name_that_pip_knows(outer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    outer("import yaml")
    with pytest.raises(BackendError, match=r"pip install -c constraints\.txt pyyaml"):
        imported(OUTER)


def test_a_second_try_fails_as_the_first(outer, tmp_path: Path) -> None:
    """Python keeps the parts of a package whose start-up failed."""
    outer("VALUE = 7")
    (tmp_path / "outer" / "__init__.py").write_text("from .part import VALUE\nimport inner_thing")
    for _ in range(2):
        with pytest.raises(BackendError, match="inner_thing, which it needs, is not"):
            imported(OUTER)


def test_imports_in_two_threads_leave_the_output_where_it_was(outer) -> None:
    """As workers on threads load their networks; two that overlapped sent all later prints nowhere."""
    outer("import threads_of_the_test\nthreads_of_the_test.begun.set()\nthreads_of_the_test.first_is_over.wait(1.0)\n")
    events = types.ModuleType("threads_of_the_test")
    events.begun, events.first_is_over = threading.Event(), threading.Event()
    sys.modules[events.__name__] = events
    before = sys.stdout
    try:
        second = threading.Thread(target=imported, args=(OUTER,))
        with quietly():
            second.start()
            events.begun.wait(0.5)
        events.first_is_over.set()
        second.join()
        assert sys.stdout is before
    finally:
        sys.stdout = before
        del sys.modules[events.__name__]
