"""SkyAnchor: put an unposed street video into a fixed aerial reconstruction and add the street to its splats.

import skyanchor

skyanchor.prepare("aerial", "scaffold")                  # once per flight
run = skyanchor.recover("scaffold", "walk", "run")       # once per walk
print(run.poses["frame_0001.jpg"], skyanchor.evaluate(run, "truth").trajectory.ate_m)
"""

from __future__ import annotations

import os
import zlib  # before pycolmap: imported after it, it calls into a copy of its own and spoils the heap
from importlib import import_module
from typing import TYPE_CHECKING, Any

from skyanchor.errors import BackendError, InputError, RecipeError, SkyAnchorError

if TYPE_CHECKING:
    from skyanchor.api import evaluate, localise, merge, prepare, recover, update
    from skyanchor.opened import Run, open_run
    from skyanchor.presets import CPU, GPU, PAPER, PipelineConfig, with_matcher
    from skyanchor.run.metrics import Metrics
    from skyanchor.run.prepared import Prepared
    from skyanchor.types import Anchors, Camera, Pose, Refusal, Scaffold, Sequence, Trajectory

__version__ = "0.1.0"

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # read once, when torch and numba load their thread pools
"""Threads of one pool sleep while those of the other work: spinning, they take each other's cores."""

__all__ = [
    "CPU",
    "GPU",
    "PAPER",
    "Anchors",
    "BackendError",
    "Camera",
    "InputError",
    "Metrics",
    "PipelineConfig",
    "Pose",
    "Prepared",
    "RecipeError",
    "Refusal",
    "Run",
    "Scaffold",
    "Sequence",
    "SkyAnchorError",
    "Trajectory",
    "evaluate",
    "localise",
    "merge",
    "open_run",
    "prepare",
    "recover",
    "update",
    "with_matcher",
]

_HEAVY = (
    "skyanchor.types",
    "skyanchor.api",
    "skyanchor.opened",
    "skyanchor.pipeline",
    "skyanchor.run.prepared",
    "skyanchor.run.metrics",
)
"""Where the names live that are imported when first used, so that `import skyanchor` stays light."""


def __getattr__(name: str) -> Any:
    """A public name whose module takes a while to import."""
    if name in __all__:
        return next(getattr(module, name) for module in map(import_module, _HEAVY) if hasattr(module, name))
    raise AttributeError(f"module 'skyanchor' has no attribute {name!r}")
