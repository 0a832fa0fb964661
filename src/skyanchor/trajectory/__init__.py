"""Stage 3: anchor-constrained trajectory recovery.

recover is the whole stage. In the order of the work:

- planning: which submap gets which anchors. jobs: what one submap is given and returns.
- submap: one of them. keyframes, bootstrap, growth (frame by frame, each by registration), closing (at the next
  anchors, by closure) are its parts; localmap and submap_state are what they work on.
- assembly, holding: all submaps together. export: the trajectory for other programs.

Beside them: source (keypoints and matches); network (several walks together); feedforward, feedforward_run, pseudo
(from reconstructions of a network).

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
