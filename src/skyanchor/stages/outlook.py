"""What a run will take, told before it begins: an estimate from rates that were measured elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

from skyanchor.events import ANCHORS, SCENE, TRAJECTORY
from skyanchor.run import prepared as parts
from skyanchor.run.folder import read_finished
from skyanchor.run.worker import cores
from skyanchor.stages.scaffold import GeometryConfig, depth_megapixels
from skyanchor.stages.work import Work

MEGAPIXEL_S = (36.0, 48.0)
"""A megapixel of aerial depth, with the surface and the places that follow from it: seconds of a core, around yard and
mini town (40 and 45: 77 maps of 528x396 and 26 of 288x216, `--preset cpu`, both on two cores of an AMD EPYC: 323 and
36 s)."""
MEGAPIXEL_GPU_S = (2.1, 3.4)
"""The same with `--preset gpu`: seconds, yard (maps of 792x594) on one H200 with 16 cores, kernels compiled before and
compiled then (docs/stages.md)."""
GROUP_S = (6.2, 67.0)
"""An anchor group, its share of retries included: seconds of a core, mini town and yard on those two cores (2 groups in
6 s, 3 in 101 s)."""
FRAME_S = (0.12, 0.6)
"""A street frame of the trajectory: seconds of a core, mini town and yard on those two cores (40 frames of one submap
in 5 s, 156 of two in 47 s)."""
SCENE_S = (117.0, 247.0)
"""Gaussians from the air and the update, `--preset cpu`, whatever the size of the walk: seconds of two cores, mini
town, once with the machine to itself and once beside other work."""
SCENE_GPU_S = (175.0, 414.0)
"""The same with `--preset gpu`: seconds of one H200, 57 to 78 for 7 000 iterations from the air (yard), 8 to 24 ms for
each of the 14 000 of the update (mini town, yard; docs/gaussians.md, README)."""
CORES = 2
"""That `SCENE_S` was measured on."""


@dataclass(frozen=True)
class Load:
    """What is still to be done."""

    megapixels: float
    """Of aerial depth that is to be measured."""
    groups: int
    submaps: int
    frames: int
    scene: bool
    """Whether the street is added to the splats."""


@dataclass(frozen=True)
class Estimate:
    """Seconds that a run may take on this machine, from the kindest to the hardest of the measured scenes."""

    least_s: float
    most_s: float

    def __str__(self) -> str:
        """For people, no full stop."""
        return f"about {_spoken(self.least_s, self.most_s)}, estimated from other scenes and machines"


def estimate(load: Load, gpu: bool, workers: int | None = None) -> Estimate:
    """Work over the cores that share it; `workers` is this machine's number of cores without it."""
    found = []
    many = workers or cores()
    for k in range(2):
        depth = MEGAPIXEL_GPU_S[k] * load.megapixels if gpu else MEGAPIXEL_S[k] * load.megapixels / many
        groups = GROUP_S[k] * load.groups / max(1, min(many, load.groups))
        frames = FRAME_S[k] * load.frames / max(1, min(many, load.submaps))
        scene = SCENE_GPU_S[k] if gpu else SCENE_S[k] * CORES / many
        found.append(depth + groups + frames + (scene if load.scene else 0.0))
    return Estimate(*found)


def remaining(work: Work, upto: str, geometry: GeometryConfig) -> Load:
    """What a run still has to do up to a stage; `geometry` says how fine depth is measured where there is none."""
    done = {stage: read_finished(work.run.root / stage) is not None for stage in (ANCHORS, TRAJECTORY, SCENE)}
    asked = {
        ANCHORS: upto in (ANCHORS, TRAJECTORY, SCENE),
        TRAJECTORY: upto in (TRAJECTORY, SCENE),
        SCENE: upto == SCENE,
    }
    todo = {stage: asked[stage] and not done[stage] for stage in asked}
    ready = work.site.prepared.part(parts.SURFACE) is not None
    sequence = work.sequence
    return Load(
        0.0 if ready else depth_megapixels(work.scaffold, geometry),
        len(sequence.groups) if todo[ANCHORS] else 0,
        len(sequence.submaps),
        len(sequence.frames) if todo[TRAJECTORY] else 0,
        todo[SCENE],
    )


def _spoken(least: float, most: float) -> str:
    """4 to 9 minutes, 2 to 5 hours."""
    unit, word = (60.0, "min") if most < 2 * 3600 else (3600.0, "h")
    low, high = max(1, round(least / unit)), max(1, round(most / unit))
    return f"{high} {word}" if low == high else f"{low} to {high} {word}"
