"""The interpreter that workers are copied from ends when it is told to, also while it imports."""

from __future__ import annotations

import os
import signal
import time

import pytest

from skyanchor.run.nursery import Nursery


@pytest.mark.parametrize("after", [0.1, 0.2, 0.25, 0.3, 0.35, 0.4])
def test_it_ends_by_the_signal_while_it_imports(after: float, capfd: pytest.CaptureFixture[str]) -> None:
    nursery = Nursery("skyanchor.run.worker:serve", dict(os.environ))
    time.sleep(after)
    nursery.close()
    assert nursery.process.returncode in (0, -signal.SIGTERM)
    assert capfd.readouterr().err == ""
