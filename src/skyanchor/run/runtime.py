"""The paper's tables of time and memory from any run: seconds per step, the solver's share, the most memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from skyanchor.events import ANCHORS, SCENE, TRAJECTORY
from skyanchor.run.memory import Peak
from skyanchor.run.records import TrajectorySeconds
from skyanchor.run.results import Run
from skyanchor.trajectory.jobs import BOOTSTRAP, REFINEMENT, REGISTRATION

RUNTIME_FILE = "runtime.json"
SOLVER = "solver"
SOLVERS = (SOLVER, "anchors held")
"""Steps that solve, and do little else."""
ALL_SUBMAPS, BETWEEN = "all submaps together", "frames between keyframes"
PAPERS_NAMES = {
    "features": "feature extraction",
    "keyframes": "keyframe decision",
    "references": "3D-aware keyframe selection",
    "pnp": "PnP-RANSAC, the pose refined",
    "one-frame adjustment": "one-frame mini-BA",
    "tracks": "tracks of the anchored adjustment",
    "problem": "anchored adjustment, set up",
    SOLVER: "anchored adjustment, solver",
    "places": "candidate retrieval",
    "shape of the group": "local reconstruction",
    "adjustment": "fixed-aerial adjustment",
}
"""What the paper calls a step."""


@dataclass(frozen=True)
class StepTime:
    """One step of a stage over all its groups or submaps."""

    name: str
    seconds: float
    share: float
    """Of the work of the stage, 0..1."""
    each_s: float
    """Per group or per frame, seconds."""

    @property
    def in_the_paper(self) -> str:
        """What the paper calls it; empty where it has no such step."""
        return PAPERS_NAMES.get(self.name, "")


@dataclass(frozen=True)
class StageTime:
    """Where the time of a stage went."""

    stage: str
    wall_s: float | None
    """From its beginning to its end; None where it was not measured."""
    work_s: float
    """Of its steps, all processes together."""
    count: int
    """Groups or frames that the work is divided by."""
    unit: str
    steps: tuple[StepTime, ...]
    """The longest first."""
    solver_share: float | None
    """Of the work, 0..1; None where the solver has no step of its own."""
    phases: tuple[StepTime, ...] = ()
    """The same work by what the maps were at, as in the paper's table; none where that was not noted."""


@dataclass(frozen=True)
class Runtime:
    """runtime.json."""

    seconds: dict[str, float]
    """Wall time per stage."""
    memory: dict[str, Peak]
    """Most memory at a time per stage, of the machine and of the GPU."""
    stages: tuple[StageTime, ...]
    """Stages whose steps were measured."""


def runtime(run: Run) -> Runtime:
    """The tables of a run; a stage without measured steps has none."""
    seconds, stages = run.seconds, []
    looks = run.anchor_seconds
    if looks is not None and run.has(ANCHORS):
        groups = len(run.anchors.groups)
        stages.append(_stage(ANCHORS, seconds, (look.seconds for look in looks.looks), groups, "group"))
    spent = run.trajectory_seconds
    if spent is not None and run.has(TRAJECTORY):
        parts = [*(submap.seconds for submap in spent.submaps), without_submaps(spent.whole)]
        walk = _stage(TRAJECTORY, seconds, parts, len(run.names), "frame")
        stages.append(replace(walk, phases=_phases(spent, walk)))
    update = run.scene_seconds
    if update is not None and run.has(SCENE):
        stages.append(_stage(SCENE, seconds, [update.seconds], len(run.names), "frame"))
    return Runtime(seconds, run.memory, tuple(stages))


def without_submaps(whole: Mapping[str, float]) -> dict[str, float]:
    """What was done after the submaps, whose own steps are counted already."""
    return {name: seconds for name, seconds in whole.items() if name != "submaps"}


def _phases(spent: TrajectorySeconds, stage: StageTime) -> tuple[StepTime, ...]:
    """The work on the trajectory by what the maps were at: of each submap, then of all of them."""
    if not any(submap.phases for submap in spent.submaps):
        return ()
    after = without_submaps(spent.whole)
    between = after.get("resection", 0.0)
    together = {ALL_SUBMAPS: sum(s for step, s in after.items() if step not in ("total", "resection"))}
    ordered = dict.fromkeys((BOOTSTRAP, REGISTRATION, REFINEMENT), 0.0)
    total = _summed([ordered, *(submap.phases for submap in spent.submaps), together, {BETWEEN: between}])
    return tuple(_step(name, seconds, stage.work_s, stage.count) for name, seconds in total.items())


def _step(name: str, seconds: float, work_s: float, count: int) -> StepTime:
    return StepTime(name, seconds, seconds / work_s if work_s else 0.0, seconds / max(1, count))


def _summed(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Seconds per step over all parts, without their totals."""
    total: dict[str, float] = {}
    for part in parts:
        for step, seconds in part.items():
            if step != "total":
                total[step] = total.get(step, 0.0) + seconds
    return total


def _stage(
    name: str, wall: Mapping[str, float], parts: Iterable[Mapping[str, float]], count: int, unit: str
) -> StageTime:
    total = _summed(parts)
    work = sum(total.values())
    ordered = sorted(total.items(), key=lambda item: -item[1])
    steps = tuple(_step(step, seconds, work, count) for step, seconds in ordered)
    solver = sum(step.share for step in steps if step.name in SOLVERS) if SOLVER in total else None
    return StageTime(name, wall.get(name), work, count, unit, steps, solver)
