"""`skyanchor` with settings at the size of a small scene, for `faults.py`: `python fault_child.py VERB ...`."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NoReturn

from skyanchor import pipeline
from skyanchor.cli.main import main
from skyanchor.pipeline import CPU, PipelineConfig
from skyanchor.scaffold import training
from skyanchor.scene import config as update_settings
from skyanchor.stages import changes, mesh


def small() -> PipelineConfig:
    """Every stage as it is, with small pictures and few steps."""
    aerial = training.with_iterations(training.CPU, 60)
    aerial = replace(aerial, train=replace(aerial.train, width=96), seeds=replace(aerial.seeds, count=4000))
    insertion = replace(update_settings.CPU.insertion, iterations=60, width=96)
    update = replace(update_settings.CPU, insertion=insertion, joint=None)
    stereo = replace(CPU.scene.points.stereo, width=96)
    points = replace(CPU.scene.points, stereo=stereo)
    geometry = replace(CPU.geometry, stereo=replace(CPU.geometry.stereo, width=240))
    places = replace(CPU.anchors.places, nodes=replace(CPU.anchors.places.nodes, spacing=12.0))
    scene = replace(CPU.scene, aerial=aerial, update=update, points=points)
    return replace(CPU, scene=scene, geometry=geometry, anchors=replace(CPU.anchors, places=places))


def make_small() -> None:
    """Let the commands of this process take small settings for what they are not told."""
    held = small()
    pipeline.PRESETS["cpu"] = held
    street = held.scene.points
    mesh.StreetMeshConfig = partial(mesh.StreetMeshConfig, points=street)  # type: ignore[misc,assignment]
    changes.StreetChangesConfig = partial(changes.StreetChangesConfig, points=street)  # type: ignore[misc,assignment]


def answer(words: Sequence[str], folder: Path, out: Path, err: Path) -> NoReturn:
    """Be the command, in a process that was copied for it, in a folder, its output in files."""
    os.setsid()
    os.chdir(folder)
    for number, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_CREAT | os.O_WRONLY), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    make_small()
    code = 1
    try:
        code = main(words)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    make_small()
    sys.exit(main())
