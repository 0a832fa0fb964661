"""`skyanchor` with settings at the size of a small scene, for `faults.py`: `python fault_child.py VERB ...`."""

from __future__ import annotations

import sys
from dataclasses import replace

from skyanchor import pipeline
from skyanchor.cli.main import main
from skyanchor.pipeline import CPU, PipelineConfig
from skyanchor.scaffold import training
from skyanchor.scene import update as scene_update


def small() -> PipelineConfig:
    """Every stage as it is, with small pictures and few steps."""
    aerial = training.with_iterations(training.CPU, 60)
    aerial = replace(aerial, train=replace(aerial.train, width=96), seeds=replace(aerial.seeds, count=4000))
    insertion = replace(scene_update.CPU.insertion, iterations=60, width=96)
    update = replace(scene_update.CPU, insertion=insertion, joint=None)
    stereo = replace(CPU.scene.points.stereo, width=96)
    points = replace(CPU.scene.points, stereo=stereo)
    geometry = replace(CPU.geometry, stereo=replace(CPU.geometry.stereo, width=240))
    places = replace(CPU.anchors.places, nodes=replace(CPU.anchors.places.nodes, spacing=12.0))
    scene = replace(CPU.scene, aerial=aerial, update=update, points=points)
    return replace(CPU, scene=scene, geometry=geometry, anchors=replace(CPU.anchors, places=places))


if __name__ == "__main__":
    pipeline.PRESETS["cpu"] = small()
    sys.exit(main())
