"""The words of a command: what cannot be is one line that names it, not a box with every option there is."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, is_dataclass
from importlib import import_module
from itertools import pairwise
from typing import Any, TypeAlias, get_type_hints

from skyanchor.cli.options import WITH_COMMAS
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


@dataclass(frozen=True)
class Typed:
    """What was typed after a verb, and what it is held against."""

    words: Sequence[str]
    known: Known
    options: object = None
    """The verb's function, or the dataclass of its everyday options."""

    def meant(self, odd: Sequence[str]) -> str:
        """An option with its value in one word, where the first of the odd words is a part of it; empty otherwise."""
        for name, values in _options(self.words):
            if odd[0] in values[1:] and name in with_commas(self.options):
                others = sum(word not in odd for word in values[1:])  # taken for what stands without an option
                return f"{name} {','.join(part.strip(',') for part in values[: len(values) - others])}"
        return ""


def with_commas(options: object) -> tuple[str, ...]:
    """The options of a verb's function, or of a dataclass, whose parts are one word with commas between them."""
    hints = {} if options is None else get_type_hints(options, include_extras=True)
    marked = (name for name, hint in hints.items() if WITH_COMMAS in getattr(hint, "__metadata__", ()))
    return tuple(f"--{name.replace('_', '-')}" for name in marked)


def refused_in_a_line(verb: str, typed: Typed) -> AbstractContextManager[None]:
    """A block in which words that cannot be parsed are a SkyAnchorError."""

    def refuse(event: Any) -> None:
        said = _said(event, typed)
        if said:
            raise SkyAnchorError(f"{said} `{verb} --help` says what there is.")

    return nullcontext() if parsing is None else parsing.on_parse_error(refuse)


def _said(event: Any, typed: Typed) -> str:
    """What is wrong with the words; empty where tyro may say it itself."""
    if isinstance(event, parsing.MissingArgs):
        odd = f"{_nothing_such(event.unrecognized_tokens, typed)} " if event.unrecognized_tokens else ""
        names = [_shown(one.arg) for one in event.missing_arguments]
        return f"{odd}{', '.join(names)} {'are' if len(names) > 1 else 'is'} missing."
    if isinstance(event, parsing.UnrecognizedArgs):
        return _nothing_such(event.tokens, typed)
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


def _nothing_such(words: Sequence[str], typed: Typed) -> str:
    """That the first of the words means nothing here, and what may be meant."""
    if meant := typed.meant(words):
        option = meant.partition(" ")[0]
        return f"{words[0]} says nothing here: {option} takes one word, with commas in it. Did you mean {meant}?"
    word, names = words[0].partition("=")[0], sorted(typed.known())
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
