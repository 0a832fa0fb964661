"""The words of a command: what cannot be is one line that names it, not a box with every option there is."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields, is_dataclass
from importlib import import_module
from itertools import pairwise
from typing import Any, TypeAlias

from skyanchor.errors import SkyAnchorError

NEEDED = (
    "on_parse_error",
    "MissingArgs",
    "UnrecognizedArgs",
    "InvalidChoice",
    "BadValue",
    "InstantiationFailure",
    "MissingSubcommand",
)
"""Names of tyro that it does not promise."""


def parsing_of_tyro() -> Any:
    """The part of tyro that tells what is wrong with words; None where it lacks any of that: its boxes are shown."""
    try:
        part = import_module("tyro._errors")
    except ImportError:
        return None
    return part if all(hasattr(part, name) for name in NEEDED) else None


parsing = parsing_of_tyro()
Known: TypeAlias = Callable[[], Iterable[str]]
"""Words that could have been meant; asked for only when one is wrong."""
NO_NUMBER = {
    r"invalid literal for int\(\) with base 10: (.*)": "that is no whole number",
    r"could not convert string to float: (.*)": "that is no number",
}
"""What Python says of a text that is no number, and in words."""


def refused_in_a_line(verb: str, known: Known) -> AbstractContextManager[None]:
    """A block in which words that cannot be parsed are a SkyAnchorError."""

    def refuse(event: Any) -> None:
        said = _said(event, known)
        if said:
            raise SkyAnchorError(f"{said} `{verb} --help` says what there is.")

    return nullcontext() if parsing is None else parsing.on_parse_error(refuse)


def _said(event: Any, known: Known) -> str:
    """What is wrong with the words; empty where tyro may say it itself."""
    if isinstance(event, parsing.MissingArgs):
        odd = f"{_nothing_such(event.unrecognized_tokens, known)} " if event.unrecognized_tokens else ""
        names = [_shown(one.arg) for one in event.missing_arguments]
        return f"{odd}{', '.join(names)} {'are' if len(names) > 1 else 'is'} missing."
    if isinstance(event, parsing.UnrecognizedArgs):
        return _nothing_such(event.tokens, known)
    if isinstance(event, parsing.InvalidChoice):
        return f"{event.argument.display_name()} {event.value}: there are {', '.join(event.choices)}."
    if isinstance(event, parsing.BadValue) and event.reason == "too_few_values":
        return f"{_shown(event.argument)}: a value is missing."
    if isinstance(event, parsing.InstantiationFailure) and event.argument is not None:
        return f"{event.argument.display_name()} {_in_words(event.message, event.argument)}."
    if isinstance(event, parsing.MissingSubcommand):
        return f"which? There are {', '.join(event.subcommand_spec.parser_from_name)}."
    return ""


def _shown(argument: Any) -> str:
    """An option and what belongs after it, or what stands without one."""
    metavar = str(argument.lowered.metavar)
    return metavar if argument.is_positional() else f"{argument.lowered.name_or_flags[0]} {metavar}"


def _nothing_such(words: Sequence[str], known: Known) -> str:
    """That the first of the words means nothing here, and what may be meant."""
    word, names = words[0].partition("=")[0], sorted(known())
    if ":" in word and not word.startswith("-"):
        return f"{word} is no choice, or one for the same thing stands before it."
    if word in names:
        return f"{word} stands after a choice: what is chosen with a colon comes last."
    near = difflib.get_close_matches(word, names, 1, 0.75)
    return f"{word} says nothing here.{f' Did you mean {near[0]}?' if near else ''}"


def _in_words(text: str, argument: Any) -> str:
    """What is wrong with a value, for people."""
    for said, words in NO_NUMBER.items():
        if found := re.search(said, text):
            return f"{found[1]}: {words}"
    return f"takes {argument.lowered.metavar}"


def names_of(settings: object, above: str = "--") -> Iterator[str]:
    """The option of every setting in a tree of dataclasses, e.g. --geometry.stereo.width."""
    if not is_dataclass(settings):
        return
    for field in fields(settings):
        name = f"{above}{field.name.replace('_', '-')}"
        yield name
        yield from names_of(getattr(settings, field.name), f"{name}.")


def refuse_twice(words: Sequence[str]) -> None:
    """SkyAnchorError for an option that is given twice with different values, of which one would be passed over."""
    given: dict[str, list[str]] = {}
    for name, values in _options(words):
        if given.setdefault(name, values) != values:
            both = " and ".join(" ".join(some) for some in (given[name], values))
            raise SkyAnchorError(f"{name} is given twice, with {both}. Give it once, with all that belongs to it.")


def refuse_no_text(words: Sequence[str]) -> None:
    """SkyAnchorError for a word of bytes that are no UTF-8: what a run remembers is text."""
    odd = [word for word in words if any("\ud800" <= letter <= "\udfff" for letter in word)]
    if odd:
        raise SkyAnchorError(f"{odd[0]} is no text in UTF-8. Rename it, or give another name.")


def _options(words: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Every option and the words up to the next one."""
    starts = [k for k, word in enumerate(words) if word.startswith("--") and len(word) > 2]
    for start, end in pairwise([*starts, len(words)]):
        name, said, value = words[start].partition("=")
        yield name.replace("_", "-"), ([value] if said else []) + list(words[start + 1 : end])
