"""The settings of all stages, the presets that people start from, and another matcher in some of their roles."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from skyanchor.anchors.config import AnchorConfig, PaperSupportConfig
from skyanchor.anchors.paper_route.mixed import MixedConfig
from skyanchor.errors import BackendError
from skyanchor.matching import AnyMatcher, AnySparse, Sift, VerifyConfig, XFeat
from skyanchor.run.layout import STATE
from skyanchor.scaffold import ScaffoldConfig
from skyanchor.scaffold import training as scaffold_training
from skyanchor.scene import config as update_settings
from skyanchor.scene.ground_points import GroundPointConfig
from skyanchor.sequence import SequenceConfig, SubmapConfig
from skyanchor.stages.scaffold import GeometryConfig
from skyanchor.stages.scene import SceneConfig
from skyanchor.stereo import RefineConfig, StereoConfig, TritonStereo
from skyanchor.storage import files
from skyanchor.trajectory import TrajectoryConfig
from skyanchor.trajectory.config import AdjustConfig


@dataclass(frozen=True)
class PipelineConfig:
    """The settings of every stage."""

    scaffold: ScaffoldConfig = field(default_factory=ScaffoldConfig)
    sequence: SequenceConfig = field(default_factory=SequenceConfig)
    geometry: GeometryConfig = field(default_factory=GeometryConfig)
    anchors: AnchorConfig = field(default_factory=AnchorConfig)
    trajectory: TrajectoryConfig = field(default_factory=TrajectoryConfig)
    scene: SceneConfig = field(default_factory=SceneConfig)


SETTINGS_FILE = "settings.json"
"""In .state/: the settings that a run was last started with."""


def read_settings(run: Path) -> PipelineConfig | None:
    """The settings that a run was last started with; None where it does not say so, or as another version did."""
    return files.recall(run / STATE / SETTINGS_FILE, PipelineConfig)


Preset: TypeAlias = Literal["cpu", "gpu", "paper"]

CPU = PipelineConfig(scene=SceneConfig(device="cpu"))
GPU_STEREO = StereoConfig(refine=RefineConfig(tried_sources=5), backend=TritonStereo())


def on_gpu(config: PipelineConfig) -> PipelineConfig:
    """The same settings with depth, descriptors, street depth and Gaussians on CUDA."""
    return replace(
        config,
        geometry=GeometryConfig(sample_m=0.1, stereo=GPU_STEREO),
        trajectory=replace(config.trajectory, device="cuda"),
        scene=replace(config.scene, device="cuda", points=GroundPointConfig(stereo=replace(GPU_STEREO, width=640))),
    )


GPU = on_gpu(CPU)
PAPER = PipelineConfig(
    sequence=SequenceConfig(cut=SubmapConfig(join_boundaries=False)),
    anchors=AnchorConfig(
        ground_matcher=Sift(keypoints=6000),
        paper=PaperSupportConfig(matcher=XFeat(keypoints=6000)),
        mixed=MixedConfig(orientations=False),
    ),
    trajectory=TrajectoryConfig(
        matcher=Sift(keypoints=6000),
        verify=VerifyConfig(1.0, 0.999999, (100, 50_000), least_ratio=0.2, estimator="magsac"),
        adjust=AdjustConfig(registration_iterations=300, final_rounds=1),
        loop_pairs=0,
        last_adjustment=False,
        hold=None,
    ),
    scene=SceneConfig(contradicted=None, aerial=scaffold_training.PAPER, update=update_settings.PAPER),
)
"""The paper's settings but for the anchors' route, which needs weights that are not ours to give: docs/paper.md."""
PRESETS: dict[Preset, PipelineConfig] = {"cpu": CPU, "gpu": GPU, "paper": PAPER}


Role: TypeAlias = Literal["cross-view", "trajectory", "groups", "steps"]
"""What a matcher is asked for: street frames with the aerial model, frames of the walk, frames of an anchor group,
each frame with the next for dead reckoning."""


def with_matcher(config: PipelineConfig, matcher: AnyMatcher, *roles: Role) -> PipelineConfig:
    """The settings with another matcher, just as it is given, in the roles named; without any, in all it can take.

    Any matcher can take "cross-view" (with bridge views, and with the aerial photos where these are matched); there is
    then no last look with another. Sparse ones can take the others, where matches are joined into tracks. BackendError
    for the rest.
    """
    possible = _roles(matcher)
    refused = [role for role in roles if role not in possible]
    if refused:
        can = " and ".join(possible)
        raise BackendError(f"{type(matcher).__name__} cannot serve {' or '.join(refused)}. Ask it for {can}")
    for role in roles or possible:
        config = _in_role(config, matcher, role)
    return config


def _roles(matcher: AnyMatcher) -> tuple[Role, ...]:
    sparse: tuple[Role, ...] = ("trajectory", "groups", "steps")
    return ("cross-view", *sparse) if isinstance(matcher, get_args(AnySparse)) else ("cross-view",)


def _in_role(config: PipelineConfig, matcher: AnyMatcher, role: Role) -> PipelineConfig:
    anchors = config.anchors
    if role == "trajectory":
        assert isinstance(matcher, get_args(AnySparse))
        return replace(config, trajectory=replace(config.trajectory, matcher=matcher))
    if role == "groups":
        assert isinstance(matcher, get_args(AnySparse))
        return replace(config, anchors=replace(anchors, ground_matcher=matcher))
    if role == "steps":
        assert isinstance(matcher, get_args(AnySparse))
        return replace(config, anchors=replace(anchors, odometry=replace(anchors.odometry, matcher=matcher)))
    refine, paper = replace(anchors.refine, matcher=matcher, last=None), replace(anchors.paper, matcher=matcher)
    return replace(config, anchors=replace(anchors, refine=refine, paper=paper))
