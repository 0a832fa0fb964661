"""The whole method on one screen: scaffold + sequence -> dense aerial geometry -> anchors -> trajectory -> scene.

Stages take and return values; `stages` keeps what they return in the run folder, here they are composed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from skyanchor.run_folder import RunFolder
from skyanchor.scaffold import ScaffoldConfig, load_scaffold
from skyanchor.sequence import SequenceConfig, load_sequence
from skyanchor.stages import GeometryConfig, Survey
from skyanchor.trajectory import TrajectoryConfig


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
    trajectory: TrajectoryConfig = field(default_factory=TrajectoryConfig)


def read_survey(run: RunFolder, inputs: Inputs, config: PipelineConfig) -> Survey:
    """The aerial model and the street frames; frames of a video are written to RUN/frames."""
    return Survey(
        load_scaffold(inputs.aerial, inputs.images, inputs.splats, config.scaffold),
        load_sequence(inputs.ground, config.sequence, run.root / "frames"),
    )
