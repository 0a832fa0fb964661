"""What a Python process needs that a test starts by itself."""

from __future__ import annotations

import os
import sys


def importing_what_pytest_does() -> dict[str, str]:
    """This process's environment, with its own import path for the child."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
