"""The help of verbs that run stages: everyday options first, the settings of the stages for those who ask."""

from __future__ import annotations

import contextlib
import io
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import field, make_dataclass
from typing import Annotated, Any, get_type_hints

import tyro

from skyanchor.cli.options import (
    BEYOND,
    EXAMPLES,
    GROUPS,
    PREPARATION_EXAMPLES,
    PREPARATION_GROUPS,
    SAID_SHORTER,
    SETTINGS,
    STAGE_VERBS,
    UNUSED,
    Options,
    Preparation,
)
from skyanchor.errors import SkyAnchorError

WIDTH = 100


def asked_help(given: Sequence[str]) -> str | None:
    """The help that the arguments of a verb that runs stages ask for; None when they ask for none."""
    verb, *words = given
    if "--help-all" in words:
        return everything(verb)
    asked = next((word for word in ("--help", "-h") if word in words), None)
    if asked is None:
        return None
    choice = next((word for word in words if ":" in word and not word.startswith("-")), None)
    after = words[words.index(asked) + 1 :]
    group = choice or (after[0] if after else None)
    return everyday(verb) if group is None or group.startswith("-") else settings(verb, group)


# --- everyday ------------------------------------------------------------------------------------------------------


def everyday(verb: str) -> str:
    """The dozen options that people need, and two examples."""
    groups = ", ".join(name for name in SETTINGS if name not in BEYOND[verb])
    more = {
        "--help GROUP": f"The settings of one stage: {groups}. Also a part of one, e.g. anchors.verdict.",
        "--help-all": "Every setting of every stage.",
        "--traceback": "Show where an unexpected error came from.",
    }
    alone = verb == "prepare"
    options, shown = (Preparation, PREPARATION_GROUPS) if alone else (Options, GROUPS)
    words = "AERIAL --out SCAFFOLD" if alone else "--scaffold AERIAL --ground WALK --out RUN"
    parts = [
        f"usage: skyanchor {verb} {words} [OPTIONS]\n\n{STAGE_VERBS[verb]}",
        *("\n".join([title, *_lines(_shown(options, _used(verb, names)))]) for title, names in shown.items()),
        "\n".join(["More", *_lines(more.items())]),
        "\n".join(
            ["Examples", *(f"  {line.format(verb=verb)}" for line in (PREPARATION_EXAMPLES if alone else EXAMPLES))]
        ),
        "The same command goes on where it was stopped. Exit codes: 0 done, 1 a mistake of ours, 2 something for you\n"
        "to mend, 3 nothing could be placed, 130 and 143 stopped.",
    ]
    return "\n\n".join(parts) + "\n"


def _used(verb: str, names: Sequence[str]) -> list[str]:
    return [name for name in names if name not in UNUSED.get(verb, ())]


def _shown(options: type, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each option as it is written, and what it says."""
    hints = get_type_hints(options, include_extras=True)
    for name in names:
        said = next(part for part in hints[name].__metadata__ if hasattr(part, "metavar"))
        positional = tyro.conf.Positional in hints[name].__metadata__ or name == "aerial"
        flag = "" if positional else f"--{name.replace('_', '-')} "
        yield f"{flag}{said.metavar or ''}".rstrip(), said.help


def _lines(options: Any) -> Iterator[str]:
    for option, what in options:
        first, *rest = textwrap.wrap(what, WIDTH - 28)
        yield f"  {option:25s} {first}" if len(option) <= 25 else f"  {option}\n{'':28s}{first}"
        yield from (f"{'':28s}{line}" for line in rest)


# --- settings ------------------------------------------------------------------------------------------------------


def everything(verb: str) -> str:
    """The everyday options and all settings of the stages that a verb runs."""
    names = [name for name in SETTINGS if name not in BEYOND[verb]]
    return "\n".join([everyday(verb), *(settings(verb, name) for name in names)])


def settings(verb: str, group: str) -> str:
    """The settings of a stage or of a part of one, e.g. `anchors.verdict`, or those behind a choice of a backend."""
    path, _, choice = group.partition(":")
    default: Any = _default()
    kind: Any = None
    for name in path.replace("-", "_").split("."):
        kind = None if name in BEYOND[verb] else get_type_hints(type(default)).get(name)
        if kind is None:
            known = ", ".join(name for name in SETTINGS if name not in BEYOND[verb])
            raise SkyAnchorError(f"{verb} has no settings {group!r}. Give one of {known}, or a part of one.")
        default = getattr(default, name)
    named = Annotated[kind, tyro.conf.arg(name=path)]
    part = make_dataclass("Settings", [("part", named, field(default_factory=lambda: default))])
    words = [*([group] if choice else []), "--help"]
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        tyro.cli(part, prog=f"skyanchor {verb}", args=words, config=(tyro.conf.FlagCreatePairsOff,))
    blocks = "\n".join(map(_plain, out.getvalue().splitlines())).split("\n\n")
    own = [_less(block) for block in blocks if not block.startswith("usage:") and "-h, --help" not in block]
    return "\n\n".join([f"skyanchor {verb}: the settings {group}", *filter(None, own)]) + "\n"


def _less(block: str) -> str:
    """A block of settings without those that have an everyday option; empty where none is left."""
    less = block
    for name in SAID_SHORTER:
        less = re.sub(rf"^  --{re.escape(name)} .*\n(?:   .*\n?)*", "", less, flags=re.M)
    return less if less == block or re.search(r"^  --[a-z]", less, re.M) else ""


def _default() -> object:
    from skyanchor.presets import CPU

    return CPU


def _plain(line: str) -> str:
    """A line of tyro's help without the words that say an option may be left out."""
    return line.replace("{None}|", "").replace("(default: None)", "").rstrip()
