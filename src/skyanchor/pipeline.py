"""The whole method on one screen: scaffold + sequence -> dense aerial geometry -> anchors -> trajectory -> scene.

Stages take and return values; `stages` keeps what they return in the run folder, here they are composed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from skyanchor.anchors.config import AnchorConfig
from skyanchor.anchors.priors import local_priors
from skyanchor.backends.choices import check_all
from skyanchor.run import records
from skyanchor.run.executor import Executor
from skyanchor.run.folder import RunFolder, Stage
from skyanchor.scaffold import ScaffoldConfig, load_scaffold
from skyanchor.scaffold import training as scaffold_training
from skyanchor.sequence import SequenceConfig, SubmapConfig, load_sequence
from skyanchor.stages.anchors import anchors_stage
from skyanchor.stages.scaffold import GeometryConfig, geometry_stage
from skyanchor.stages.scene import SceneConfig, scene_stage
from skyanchor.stages.survey import Survey
from skyanchor.stages.trajectory import trajectory_stage
from skyanchor.stereo import StereoConfig, TorchStereo
from skyanchor.storage import files
from skyanchor.trajectory import TrajectoryConfig
from skyanchor.update import scene as scene_update
from skyanchor.update.ground_points import GroundPointConfig


@dataclass(frozen=True)
class Inputs:
    """What the user brings."""

    aerial: Path
    """Folder with sparse/ (or sparse/0) and images/, or the COLMAP model itself."""
    ground: Path
    """Folder of street photos, or a video."""
    images: Path | None = None
    """Folder of the aerial photos, where it is not found beside the model."""
    splats: Path | None = None
    """Aerial Gaussian model, a .ply of the INRIA convention."""


@dataclass(frozen=True)
class PipelineConfig:
    """The settings of every stage."""

    scaffold: ScaffoldConfig = field(default_factory=ScaffoldConfig)
    sequence: SequenceConfig = field(default_factory=SequenceConfig)
    geometry: GeometryConfig = field(default_factory=GeometryConfig)
    anchors: AnchorConfig = field(default_factory=AnchorConfig)
    trajectory: TrajectoryConfig = field(default_factory=TrajectoryConfig)
    scene: SceneConfig = field(default_factory=SceneConfig)


Preset: TypeAlias = Literal["cpu", "gpu", "paper"]

CPU = PipelineConfig()
GPU = PipelineConfig(
    geometry=GeometryConfig(stereo=StereoConfig(width=1600, backend=TorchStereo())),
    trajectory=TrajectoryConfig(device="cuda"),
    scene=SceneConfig(points=GroundPointConfig(stereo=StereoConfig(width=640, backend=TorchStereo()))),
)
PAPER = PipelineConfig(
    sequence=SequenceConfig(cut=SubmapConfig(join_boundaries=False)),
    scene=SceneConfig(aerial=scaffold_training.PAPER, update=scene_update.PAPER),
)
PRESETS: dict[Preset, PipelineConfig] = {"cpu": CPU, "gpu": GPU, "paper": PAPER}


def read_survey(run: RunFolder, inputs: Inputs, config: PipelineConfig) -> Survey:
    """The aerial model and the street frames; frames of a video are written to RUN/frames.

    InputError when the area that the walk is said to stay in has nothing to do with the model.
    """
    scaffold = load_scaffold(inputs.aerial, inputs.images, inputs.splats, config.scaffold)
    local_priors(config.anchors.prior.near, scaffold)
    return Survey(scaffold, load_sequence(inputs.ground, config.sequence, run.root / "frames"))


def check_backends(config: PipelineConfig) -> None:
    """BackendError before any work begins when a choice of stages 1 and 2, or the street's matcher, is not here."""
    check_all(config.geometry, config.anchors, config.trajectory.matcher)


def run_anchors(run: RunFolder, inputs: Inputs, config: PipelineConfig, executor: Executor) -> Stage:
    """Stages 1 and 2: groups of frames localised in the aerial model, or refused with a reason."""
    check_backends(config)
    survey = read_survey(run, inputs, config)
    geometry = geometry_stage(run, survey, config.geometry, executor)
    return anchors_stage(run, survey, geometry, config.anchors, executor)[0]


def run_trajectory(run: RunFolder, inputs: Inputs, config: PipelineConfig, executor: Executor) -> Stage:
    """Stages 1 to 3: a pose in the aerial frame, or a reason, for every street frame."""
    check_backends(config)
    check_all(config.trajectory)
    survey = read_survey(run, inputs, config)
    geometry = geometry_stage(run, survey, config.geometry, executor)
    localised, anchors = anchors_stage(run, survey, geometry, config.anchors, executor)
    return trajectory_stage(run, survey, localised, anchors, config.trajectory, executor)


def run_update(run: RunFolder, inputs: Inputs, config: PipelineConfig, executor: Executor) -> Stage:
    """All stages: the street added to the aerial splats, as one .ply and as a patch that can be taken off again."""
    check_backends(config)
    check_all(config.trajectory, config.scene)
    survey = read_survey(run, inputs, config)
    geometry = geometry_stage(run, survey, config.geometry, executor)
    localised, anchors = anchors_stage(run, survey, geometry, config.anchors, executor)
    posed = trajectory_stage(run, survey, localised, anchors, config.trajectory, executor)
    points = files.load(posed.path(records.POINTS_FILE), records.PointsRecord)
    trajectory = records.joined(records.load_trajectory(run.root), points)
    return scene_stage(run, survey, posed, trajectory, config.scene, executor)
