"""Stage 3: anchor-constrained trajectory recovery.

planning (who gets which anchors) -> submap (registration, localmap, keyframes, closure: one submap grown) -> assembly,
holding (all of them together) -> recover (the stage) -> export. Beside them: network (several walks together);
feedforward, feedforward_run, pseudo (from networks' reconstructions).

May touch: the foundation, backends, photos, matching, sfm, scaffold, feedforward.
"""

from skyanchor.feedforward.choices import AnyLocal, FreeFolder, Incremental, Vggt
from skyanchor.trajectory.closure import Closure
from skyanchor.trajectory.config import Ablation, TrajectoryConfig
from skyanchor.trajectory.jobs import SubmapJob, SubmapResult
from skyanchor.trajectory.recover import SubmapReport, TrajectoryReport, recover
from skyanchor.trajectory.source import FeatureSource, PhotoFeatures
from skyanchor.trajectory.submap import recover_submap

__all__ = [
    "Ablation",
    "AnyLocal",
    "Closure",
    "FeatureSource",
    "FreeFolder",
    "Incremental",
    "PhotoFeatures",
    "SubmapJob",
    "SubmapReport",
    "SubmapResult",
    "TrajectoryConfig",
    "TrajectoryReport",
    "Vggt",
    "recover",
    "recover_submap",
]
