"""The command line: parse, dispatch. Known errors are one line on stderr and exit code 2.

Imports of anything heavy happen inside the verbs, so that --help and --version answer at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import TypeAlias

import tyro

import skyanchor
from skyanchor.cli import looking, machine, patch, scaffold
from skyanchor.errors import SkyAnchorError

DESCRIPTION = "Put an unposed street video into a fixed aerial reconstruction and add the street to its splats."

STAGES = {
    "update": "Do the whole job: anchors, trajectory, and the street added to the splats, with a report.",
    "trajectory": "Recover the pose of every street frame (stages 1 to 3).",
    "anchors": "Localise groups of street frames in the aerial model (stages 1 and 2).",
}
"""Verbs that run stages, and what they do."""
Verbs: TypeAlias = dict[str, Callable[..., None]]
AERIAL: Verbs = {"check": scaffold.check, "train": scaffold.train}
PATCHES: Verbs = {"apply": patch.apply, "remove": patch.remove, "list": patch.list_patches, "export": patch.export}
OTHERS: Verbs = {
    "view": looking.view,
    "report": looking.report,
    "evaluate": looking.evaluate,
    "ablate": looking.ablate,
    "masks": machine.masks,
    "town": machine.town,
    "doctor": machine.doctor,
    "weights": machine.weights,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb; the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given == ["--version"]:
        print(f"skyanchor {skyanchor.__version__}")
        return 0
    try:
        verbs(given).cli(
            prog="skyanchor",
            description=DESCRIPTION,
            args=given or ["--help"],
            config=(tyro.conf.FlagCreatePairsOff,),
        )
    except SkyAnchorError as error:
        print(f"skyanchor: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of our output, `head` perhaps, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def verbs(given: Sequence[str]) -> tyro.extras.SubcommandApp:
    """All verbs; the settings of the stages are imported only when the arguments begin with a verb that runs them."""
    app, aerial, updates = (tyro.extras.SubcommandApp() for _ in range(3))
    for name, what in STAGES.items():
        asked = bool(given) and given[0] == name
        app.command(name=name, help=what)(_stage_verb(name, given) if asked else _not_asked)
    app.command(aerial, name="scaffold", help="The aerial model: check it, train its Gaussians.")
    app.command(updates, name="patch", help="Updates of a .ply: apply, remove, list, export.")
    for name, work in AERIAL.items():
        aerial.command(name=name)(work)
    for name, work in PATCHES.items():
        updates.command(name=name)(work)
    for name, work in OTHERS.items():
        app.command(name=name)(work)
    return app


def _stage_verb(name: str, given: Sequence[str]) -> Callable[..., None]:
    """The verb with the defaults of the preset that the arguments name."""
    from skyanchor import pipeline
    from skyanchor.cli import runs

    words = " ".join(given).replace("=", " ").split()
    chosen = words[words.index("--preset") + 1] if "--preset" in words[:-1] else "cpu"
    default = next((config for preset, config in pipeline.PRESETS.items() if preset == chosen), pipeline.CPU)
    work = {"anchors": pipeline.run_anchors, "trajectory": pipeline.run_trajectory, "update": pipeline.run_update}
    return runs.verb(runs.reported(work[name]), default)


def _not_asked() -> None:
    """Stand in for a verb in the list of verbs."""


if __name__ == "__main__":
    sys.exit(main())
