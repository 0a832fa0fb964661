"""The whole job from Python: python examples/06_whole_job.py AERIAL WALK OUT [TRUTH]

AERIAL is a COLMAP model with its images, WALK a folder of street photos or a video, TRUTH a model with true poses where
there is one. `skyanchor town TOWN --preset mini` makes all three.
"""

from __future__ import annotations

import sys
from pathlib import Path

import skyanchor
from skyanchor import PipelineConfig, Run


def whole_job(aerial: Path, walk: Path, out: Path, truth: Path | None, config: PipelineConfig) -> Run:
    prepared = skyanchor.prepare(aerial, out / "scaffold", config)  # once per flight
    run = skyanchor.localise(prepared.root, walk, out / "run", config)  # once per walk: where it was
    for group in run.anchors.groups:
        print(group.group.frames, "placed" if group.refusal is None else group.refusal.detail)
    run = skyanchor.recover(prepared.root, walk, out / "run", config)  # a pose for every frame
    print(len(run.poses), "of", len(run.names), "frames have a pose; focal length", run.camera.params[0])
    run = skyanchor.update(prepared.root, walk, out / "run", config)  # the street in the splats
    print(len(run.splats()), "Gaussians,", run.scene.added, "of them new")
    if truth is not None:
        print("ATE", skyanchor.evaluate(run, truth).trajectory.ate_m, "m")
    return skyanchor.open_run(out / "run")  # what another program, on another day, would do


def main() -> None:
    if len(sys.argv) < 4:
        print(__doc__)
        return
    aerial, walk, out = map(Path, sys.argv[1:4])
    print(whole_job(aerial, walk, out, Path(sys.argv[4]) if len(sys.argv) > 4 else None, skyanchor.CPU))


if __name__ == "__main__":
    main()
