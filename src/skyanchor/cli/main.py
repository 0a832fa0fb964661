"""The command line: parse, dispatch, say in one line what went wrong.

Exit codes: 0 done, 1 a mistake of ours, 2 a known error or wrong arguments, 3 nothing could be placed (runs.py),
130 and 143 stopped by Ctrl-C or SIGTERM. Imports of anything heavy happen inside the verbs, so that --help and
--version answer at once.
"""

from __future__ import annotations

import os
import shutil
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from inspect import signature
from pathlib import Path
from typing import TypeAlias

import tyro

import skyanchor
from skyanchor.bounds import checked
from skyanchor.cli import changes, dataset, looking, machine, merge, mesh, patch, scaffold, stopping, tiles, walk
from skyanchor.cli.help import asked_help
from skyanchor.cli.options import STAGE_VERBS
from skyanchor.cli.words import Typed, refuse_no_text, refuse_twice, refused_in_a_line
from skyanchor.errors import SkyAnchorError

DESCRIPTION = "Put an unposed street video into a fixed aerial reconstruction and add the street to its splats."
DEBUG = "SKYANCHOR_DEBUG"
"""Set to anything, tracebacks are shown as with --traceback."""
NARROWEST = 40
"""Columns that tables and helps have at least; in fewer than eight tyro's lines never end."""
LONGEST = 1200
"""Characters of the line that says how it ended."""
NUMBERS = {"NUMBA_NUM_THREADS": 1, "NUMBA_DISABLE_JIT": 0}
"""Variables of the environment that are whole numbers, and the least that they may be."""
MAY_BE_EMPTY = ("--aerial-prefix", "--ground-prefix")
"""Options of which an empty text means what they are without it."""

Verbs: TypeAlias = dict[str, Callable[..., None]]
AERIAL: Verbs = {"check": scaffold.check, "train": scaffold.train}
WALKS: Verbs = {"check": walk.check}
DATASETS: Verbs = {
    "horizongs": dataset.horizongs,
    "isprs": dataset.isprs,
    "alog": dataset.alog,
    "folder": dataset.folder,
    "run": dataset.run,
}
PATCHES: Verbs = {"apply": patch.apply, "remove": patch.remove, "list": patch.list_patches, "export": patch.export}
TILES: Verbs = {"cut": tiles.cut, "join": tiles.join, "list": tiles.list_tiles}
OTHERS: Verbs = {
    "view": looking.view,
    "report": looking.report,
    "evaluate": looking.evaluate,
    "ablate": looking.ablate,
    "mesh": mesh.mesh,
    "changes": changes.changes,
    "merge": merge.merge,
    "masks": machine.masks,
    "depth": machine.depth,
    "town": machine.town,
    "doctor": machine.doctor,
    "weights": machine.weights,
}
FAMILIES: dict[str, Verbs] = {
    "scaffold": AERIAL,
    "walk": WALKS,
    "dataset": DATASETS,
    "patch": PATCHES,
    "tiles": TILES,
}
"""Verbs of two words."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb; the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    shown = "--traceback" in given or bool(os.environ.get(DEBUG))
    try:
        code = dispatch([word for word in given if word != "--traceback"])
        sys.stdout.flush()
        return code
    except SkyAnchorError as error:
        return _ended(f"skyanchor: {error}", 2)
    except stopping.Stopped as stop:
        return _ended(str(stop), stop.code)
    except KeyboardInterrupt as stop:
        return _ended("Stopped.", stopping.exit_code(stop))
    except BrokenPipeError:  # the reader of our output, `head` perhaps, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as mistake:  # whatever it is, people get one line
        if (wrapped := stopping.stop_in(mistake)) is not None:
            return _ended("Stopped.", stopping.exit_code(wrapped))
        if shown:
            traceback.print_exception(mistake.__cause__ or mistake)
        known = stopping.of_the_machine(mistake)
        if known is not None:
            return _ended(f"skyanchor: {known}", 2)
        return _ended(f"skyanchor: {stopping.said_of(mistake)}", 1)


def _ended(text: str, code: int) -> int:
    with suppress(OSError):
        print(one_line(text), file=sys.stderr)
    with suppress(OSError):
        sys.stdout.flush()
    return code


def one_line(text: str) -> str:
    """The text in one line that a terminal can show, whatever names are in it: long ones lose their middle."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return shown if len(shown) <= LONGEST else f"{shown[: LONGEST // 2]} ... {shown[-LONGEST // 2 :]}"


def refuse_empty(words: Sequence[str]) -> None:
    """SkyAnchorError for a word that is empty: it would be taken for the folder that the command is called in."""
    for before, word in zip(["", *words], words, strict=False):
        name, said, value = word.partition("=")
        if word == "" and before not in MAY_BE_EMPTY:
            after = before or "skyanchor"
            raise SkyAnchorError(f"there is an empty word after {after}. Is a variable of your script not set?")
        if word.startswith("--") and said and value == "" and name not in MAY_BE_EMPTY:
            raise SkyAnchorError(f"{name} is empty. Is a variable of your script not set?")


def refuse_environment(variables: Mapping[str, str]) -> None:
    """SkyAnchorError for a variable that Numba, which compiles the kernels, ends with a traceback for."""
    for name, least in NUMBERS.items():
        text = variables.get(name, str(least))
        if not (text.isascii() and text.isdigit() and int(text) >= least):
            raise SkyAnchorError(f"{name}={text}: it must be a whole number, {least} at least. Unset the variable.")


def settle_environment() -> None:
    """Set aside what other programs are told by: memory says which photo is too large, and plots are files."""
    for name in [name for name in os.environ if name.startswith("OPENCV_IO_MAX_IMAGE_")]:
        del os.environ[name]
    os.environ["MPLBACKEND"] = "agg"
    if shutil.get_terminal_size().columns < NARROWEST:
        os.environ["COLUMNS"] = str(NARROWEST)


def refuse_nowhere() -> None:
    """SkyAnchorError where the folder that the command is called in is gone: no path that is given leads from it."""
    try:
        Path.cwd()
    except OSError as error:
        raise SkyAnchorError("the folder that this is called in is gone. Go to one that is there.") from error


def dispatch(given: list[str]) -> int:
    """Help, or the work of one verb; the exit code."""
    refuse_empty(given)
    refuse_no_text(given)
    refuse_twice(given)
    refuse_environment(os.environ)
    settle_environment()
    refuse_nowhere()
    if given == ["--version"]:
        print(f"skyanchor {skyanchor.__version__}")
        return 0
    if given[:2] == ["dataset", "run"] and not {"--help", "-h"} & set(given):
        with stopping.armed():
            from skyanchor.cli import dataset_runs

            return dataset_runs.parse_and_run(given[2:])
    if not given or not STAGE_VERBS.keys() & {given[0]}:
        return _other_verb(given)
    text = asked_help(given)
    if text is not None:
        print(text, end="")
        return 0
    with stopping.armed(), _workers_for(given):
        from skyanchor.cli import runs

        return runs.parse_and_run(given[0], given[1:])


def _workers_for(given: list[str]) -> AbstractContextManager[None]:
    """A block in which workers start at once, unless it is said how many or where."""
    if any(word.partition("=")[0] in ("--workers", "--engine") for word in given):
        return nullcontext()
    from skyanchor.run.pool import starting_early

    return starting_early()


def _other_verb(given: list[str]) -> int:
    """A verb that runs no stages, or the list of verbs."""
    words = given or ["--help"]
    config = (tyro.conf.FlagCreatePairsOff, tyro.conf.DisallowNone)
    if {"--help", "-h"} & set(words):
        verbs().cli(prog="skyanchor", description=DESCRIPTION, args=words, config=config)
    else:
        typed = Typed(words, lambda: _names_like(words), _function_of(words))
        with stopping.armed(), refused_in_a_line(_verb_of(words), typed):
            verbs().cli(prog="skyanchor", description=DESCRIPTION, args=words, config=config)
    return 0


def _verb_of(words: Sequence[str]) -> str:
    """The verb that the words name, as far as there is one."""
    known = (*STAGE_VERBS, *OTHERS, *FAMILIES)
    named = [word for word, there in zip(words, (known, FAMILIES.get(words[0], ())), strict=False) if word in there]
    return " ".join(("skyanchor", *named))


def _function_of(words: Sequence[str]) -> Callable[..., None] | None:
    """What does the work of the verb that the words name; None where they name none."""
    family = FAMILIES.get(words[0])
    return OTHERS.get(words[0]) if family is None else family.get(words[1]) if words[1:2] else None


def _names_like(words: Sequence[str]) -> Iterable[str]:
    """Verbs, where the first word is none, or the second none of its family; else the options of the verb."""
    family = FAMILIES.get(words[0])
    if family is not None and words[1:2] and words[1] not in family:
        return family
    verb = _function_of(words)
    names = () if verb is None else signature(verb).parameters
    return [f"--{name.replace('_', '-')}" for name in names] or (*STAGE_VERBS, *OTHERS, *FAMILIES)


def verbs() -> tyro.extras.SubcommandApp:
    """All verbs; those that run stages only stand in the list."""
    app, aerial, street, updates, squares, datasets = (tyro.extras.SubcommandApp() for _ in range(6))
    for name, what in STAGE_VERBS.items():
        app.command(name=name, help=what)(_elsewhere)
    app.command(aerial, name="scaffold", help="The aerial model: check it, train its Gaussians.")
    app.command(street, name="walk", help="The street photos or video: check them before a run.")
    app.command(updates, name="patch", help="Updates of a .ply or its tiles: apply, remove, list, export.")
    app.command(squares, name="tiles", help="A .ply as square tiles: cut, join, list.")
    app.command(datasets, name="dataset", help="The paper's public scenes: make ready, run, compare.")
    for name, work in DATASETS.items():
        datasets.command(name=name)(checked(work))
    for name, work in AERIAL.items():
        aerial.command(name=name)(checked(work))
    for name, work in WALKS.items():
        street.command(name=name)(checked(work))
    for name, work in PATCHES.items():
        updates.command(name=name)(checked(work))
    for name, work in TILES.items():
        squares.command(name=name)(checked(work))
    for name, work in OTHERS.items():
        app.command(name=name)(checked(work))
    return app


def _elsewhere() -> None:
    """Stand in for a verb that `runs` parses."""


if __name__ == "__main__":
    sys.exit(main())
