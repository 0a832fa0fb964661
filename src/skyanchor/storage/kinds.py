"""What a folder of ours is, where somebody gives it for photos or for a model."""

from __future__ import annotations

from pathlib import Path

SIGNS = {
    "a run folder": (".state/inputs.json",),
    "a prepared scaffold": ("aerial.json", "model"),
    "a folder of tiles of splats": ("tiles.json",),
}
"""What is there together in a folder of each kind alone."""


def kind_of(folder: Path) -> str:
    """What the folder is; empty for one that is none of ours."""
    return next((kind for kind, names in SIGNS.items() if all((folder / name).exists() for name in names)), "")
