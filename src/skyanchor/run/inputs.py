"""What the user brings to a run, remembered between calls."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

INPUTS_FILE = "inputs.json"
"""In .state/: what the run was made from."""


@dataclass(frozen=True)
class Inputs:
    """What the user brings."""

    aerial: Path
    """A prepared scaffold; or a folder with sparse/ (or sparse/0) and images/, or the COLMAP model itself."""
    ground: Path
    """Folder of street photos, or a video."""
    images: Path | None = None
    """Folder of the aerial photos, where it is not found beside the model."""
    splats: Path | None = None
    """Aerial Gaussian model, a .ply of the INRIA convention."""
