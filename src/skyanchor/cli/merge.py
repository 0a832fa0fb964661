"""`skyanchor merge`: the flight and all walks in one model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro


def merge(
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN ...")], /, out: Path
) -> None:
    """Write one COLMAP model of the flight and all walks, and a trajectory of each, in your coordinates.

    Args:
        runs: Run folders of walks on one aerial model, their trajectories finished.
        out: Folder to write: sparse/, trajectories/, and photos.txt, which says where each street photo lies.
    """
    from skyanchor.stages import merge as stage

    merged = stage.merge(runs, out)
    walks = ", ".join(merged.walks)
    print(f"{merged.photos} photos and {merged.points} points of {walks} beside the flight: {out / stage.MODEL}")
