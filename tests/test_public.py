"""The public names exist, and importing the package is light."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import skyanchor


def test_every_public_name_is_there() -> None:
    assert 15 <= len(skyanchor.__all__) <= 30
    for name in skyanchor.__all__:
        assert getattr(skyanchor, name) is not None
    for verb in ("prepare", "localise", "recover", "update", "evaluate", "open_run"):
        assert callable(getattr(skyanchor, verb)) and callable(getattr(skyanchor, verb)), "the second look too"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = skyanchor.nothing


def test_an_engine_that_is_not_there_is_named_before_anything_is_read(tmp_path: Path) -> None:
    for verb in (skyanchor.localise, skyanchor.recover, skyanchor.update):
        with pytest.raises(skyanchor.SkyAnchorError, match="no engine steam: processes, ray"):
            verb(tmp_path / "aerial", tmp_path / "walk", tmp_path / "run", engine="steam")
    with pytest.raises(skyanchor.SkyAnchorError, match="no engine steam"):
        skyanchor.prepare(tmp_path / "aerial", tmp_path / "scaffold", engine="steam")
    assert not list(tmp_path.iterdir())


def test_the_import_is_light() -> None:
    script = "import sys, skyanchor; print(*(m for m in ('torch', 'numba', 'pycolmap', 'cv2') if m in sys.modules))"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert found.strip() == ""


def test_compressing_goes_on_after_pycolmap_is_imported() -> None:
    """Where pycolmap comes before zlib, compressing ends in a spoilt heap; workers import it first of all."""
    script = (
        "import skyanchor, sys\nassert 'zlib' in sys.modules and 'numpy' not in sys.modules\n"
        "import pycolmap, zlib\n"
        "for k in range(20):\n    squeezed = zlib.compressobj()\n"
        "    squeezed = squeezed.compress(bytes(range(256)) * 4000) + squeezed.flush()\n"
        "assert zlib.decompress(squeezed) == bytes(range(256)) * 4000\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


@pytest.mark.parametrize(("given", "read"), [(None, "PASSIVE"), ("active", "ACTIVE")])
def test_threads_that_wait_leave_the_cores_to_others(given: str | None, read: str) -> None:
    own = {key: value for key, value in os.environ.items() if key != "OMP_WAIT_POLICY"}
    own |= {"OMP_DISPLAY_ENV": "true"} | ({} if given is None else {"OMP_WAIT_POLICY": given})
    done = subprocess.run(
        [sys.executable, "-c", "import skyanchor, torch"], capture_output=True, text=True, check=True, env=own
    )
    if "OMP_WAIT_POLICY" not in done.stderr:
        pytest.skip("this torch has another thread pool")
    assert f"OMP_WAIT_POLICY = '{read}'" in done.stderr
