"""Everything that a run says, read from its folder: python examples/04_read_a_run.py RUN [TRUTH [PICTURE.png]]

RUN is a run folder; TRUTH a COLMAP model with true poses, where there is one; PICTURE gets the scene before and after
the update side by side. In a notebook, `run` alone in a cell draws verdict, map and anchor groups.
"""

from __future__ import annotations

import sys

import numpy as np
from PIL import Image

import skyanchor


def main(folder: str, truth: str | None = None, picture: str | None = None) -> None:
    run = skyanchor.open_run(folder)
    print(run)
    for group in run.anchors.groups:
        refusal = group.refusal
        told = f"{group.figures.support} places agree" if refusal is None else f"{refusal.reason}: {refusal.detail}"
        print(f"group {group.group.index}, frames {group.group.frames[0]} to {group.group.frames[-1]}: {told}")
    for name in list(run.poses)[:3]:
        centre = run.poses[name].inverse.translation
        print(f"{name} at {np.round(centre, 2)}, sigma {run.sigmas[name]:.3f} m")
    if run.has("3-trajectory"):
        print(len(run.points), "street points, mean colour", run.points.colors.mean(axis=0).round())
    if truth is not None:
        print(run.errors(truth))
    if run.has("4-scene"):
        print(len(run.splats()), "Gaussians")
        name = next(iter(run.poses))
        before, after = run.render(name, 320, before=True), run.render(name, 320)
        print(f"{name} drawn before and after: {(before != after).any(axis=2).mean():.0%} of the pixels differ")
        if picture is not None:
            Image.fromarray(np.hstack([before, after])).save(picture)


if __name__ == "__main__":
    if len(sys.argv) < 2 or "--help" in sys.argv:
        print(__doc__)
    else:
        main(*sys.argv[1:4])
