"""`skyanchor dataset run`: its options are the stages' own settings, so this is imported only when it is asked for."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, TypeAlias

import tyro

from skyanchor import bounds, pipeline
from skyanchor.cli.options import SAID_BY_THE_SCENE, SceneRun
from skyanchor.cli.runs import ChosenPreset, Settings, asked_preset, chosen_preset, refuse_unknown
from skyanchor.cli.tables import print_rows
from skyanchor.cli.words import Typed, names_of, refused_in_a_line
from skyanchor.errors import SkyAnchorError
from skyanchor.evaluation.perceptual import find_weights
from skyanchor.evaluation.protocol import Rows, Wanted, run_protocol
from skyanchor.events import Note
from skyanchor.report.progress import display
from skyanchor.run.executor import executor_of
from skyanchor.storage import codec

OnScene: TypeAlias = Annotated[SceneRun, tyro.conf.arg(name="")]


def parse_and_run(words: Sequence[str]) -> int:
    """Run the protocol with the arguments after the verb; the exit code."""
    refuse_unknown("dataset run", words, SceneRun)
    for name in SAID_BY_THE_SCENE:
        if any(word.startswith((f"--{name}.", f"--{name}=")) or word == f"--{name}" for word in words):
            raise SkyAnchorError(f"--{name}: the scene says that itself. Leave it out, or make the scene otherwise.")
    preset = chosen_preset(asked_preset(words, "paper"))
    with refused_in_a_line("skyanchor dataset run", Typed(words, lambda: names_of(preset.config), SceneRun)):
        return tyro.cli(
            bounds.checked(on_a_scene(preset, shlex.join(["skyanchor", "dataset", "run", *words]))),
            prog="skyanchor dataset run",
            args=list(words),
            config=(tyro.conf.FlagCreatePairsOff,),
        )


def on_a_scene(preset: ChosenPreset, typed: str) -> Callable[..., int]:
    """The command, with a preset's settings as defaults; it returns the exit code."""

    def command(options: OnScene, settings: Settings = preset.config) -> int:
        """Run the paper's protocol on a scene."""
        rows = measured(options, settings, preset.why, typed)
        if options.json:
            print(codec.dumps(rows), end="")
        else:
            print_rows(rows)
        return 0

    return command


def measured(options: SceneRun, settings: pipeline.PipelineConfig, why: str, typed: str) -> Rows:
    """The scene's row beside the paper's."""
    weights = find_weights()
    lpips = weights.load() if weights is not None else None
    stage = next(step.name for step in pipeline.STAGES if step.verb == options.upto)
    engine = executor_of(options.workers, options.engine)
    with display(sys.stderr) as listen:
        if why:
            listen(Note("preset", why))
        wanted = Wanted(settings, engine, stage, lpips, options.redo, typed)
        return run_protocol(options.scene, options.out, wanted, listen)
