"""`skyanchor merge`: the flight and all walks in one model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from skyanchor.cli.options import Folder


def merge(
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN ...")],
    /,
    out: Folder,
    adjust: bool = False,
) -> None:
    """Write one COLMAP model of the flight and all walks, and a trajectory of each, in your coordinates.

    Args:
        runs: Run folders of walks on one aerial model, their trajectories finished.
        out: Folder to write: sparse/, trajectories/, and photos.txt, which says where each street photo lies.
        adjust: Adjust all walks together first, the flight constant: where they see the same, each gains what the
            flight says of the others. The runs themselves stay as they are; network.json tells what moved.
    """
    from skyanchor.stages import merge as stage
    from skyanchor.trajectory.network import NetworkConfig

    merged = stage.merge(runs, out, NetworkConfig() if adjust else None)
    for one in merged.network:
        told = f"{one.ties} ties, moved by {one.moved_m:.3f} m" if one.ties else "no other walk sees what it sees: kept"
        against = (
            f"; {one.contradictions} pairs of frames contradict each other: left out" if one.contradictions else ""
        )
        print(f"{one.name}: {told}; sigma {one.sigma_before_m:.3f} -> {one.sigma_after_m:.3f} m{against}")
    walks = ", ".join(merged.walks)
    print(f"{merged.photos} photos and {merged.points} points of {walks} beside the flight: {out / stage.MODEL}")
