"""SkyAnchor: put an unposed street video into a fixed aerial reconstruction and add the street to its splats.

with RunFolder(Path("run")) as run:
    run_trajectory(run, Inputs(Path("aerial"), Path("ground")), CPU, InProcess())
print(evaluate_run(Path("run"), Path("truth")).trajectory.ate_m)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from skyanchor.errors import BackendError, InputError, RecipeError, SkyAnchorError
from skyanchor.run.executor import InProcess, Processes
from skyanchor.run.folder import RunFolder
from skyanchor.types import Anchors, Camera, Pose, Refusal, Scaffold, Sequence, Trajectory

if TYPE_CHECKING:
    from skyanchor.evaluation.metrics import evaluate_run
    from skyanchor.pipeline import CPU, GPU, PAPER, Inputs, PipelineConfig, run_anchors, run_trajectory
    from skyanchor.scaffold import load_scaffold
    from skyanchor.sequence import load_sequence

__version__ = "0.1.0"

__all__ = [
    "CPU",
    "GPU",
    "PAPER",
    "Anchors",
    "BackendError",
    "Camera",
    "InProcess",
    "InputError",
    "Inputs",
    "PipelineConfig",
    "Pose",
    "Processes",
    "RecipeError",
    "Refusal",
    "RunFolder",
    "Scaffold",
    "Sequence",
    "SkyAnchorError",
    "Trajectory",
    "evaluate_run",
    "load_scaffold",
    "load_sequence",
    "run_anchors",
    "run_trajectory",
]

_HEAVY = ("skyanchor.pipeline", "skyanchor.scaffold", "skyanchor.sequence", "skyanchor.evaluation.metrics")
"""Where the names live that are imported when first used, so that `import skyanchor` stays light."""


def __getattr__(name: str) -> Any:
    """A public name whose module takes a while to import."""
    if name in __all__:
        return next(getattr(module, name) for module in map(import_module, _HEAVY) if hasattr(module, name))
    raise AttributeError(f"module 'skyanchor' has no attribute {name!r}")
