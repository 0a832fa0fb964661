"""Choices by the names that the command line has for them, derived from the unions.

A choice is called as its class in kebab-case, the word that a subcommand has too: `light-glue`. Fields that a class
lists in `named_by` follow: each value of a closed one makes a name of its own (`light-glue-disk`), open ones are the
user's (`vismatch:NAME`). Hyphens and capitals do not count when a name is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import MISSING, fields
from itertools import product
from typing import Any, Literal, get_args, get_origin, get_type_hints

from skyanchor.errors import SkyAnchorError


def kebab(kind: type) -> str:
    """The class's name as a word of the command line: XFeatStar is x-feat-star."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", kind.__name__).lower()


def named(union: Any) -> dict[str, Any]:
    """Choices of a union by name, with default settings; those without defaults are left out."""
    return {name: choice for kind in get_args(union) for name, choice in _variants(kind)}


def forms(union: Any) -> tuple[str, ...]:
    """What can be said: the names, and the forms of those that the user completes."""
    closed = [name for name in named(union) if ":" not in name]
    return (*closed, *(_form(kind) for kind in get_args(union) if _is_open(kind)))


def choice_named(union: Any, text: str, option: str) -> Any:
    """The choice that a name of the command line means; SkyAnchorError with all names where there is none."""
    for name, choice in named(union).items():
        if _plain(name) == _plain(text):
            return choice
    head, _, rest = text.partition(":")
    for kind in get_args(union):
        if rest and _is_open(kind) and _plain(kebab(kind)) == _plain(head):
            given = rest.rsplit(":", len(kind.named_by) - 1)
            if len(given) == len(kind.named_by):
                hints = get_type_hints(kind)
                return kind(**{field: hints[field](value) for field, value in zip(kind.named_by, given, strict=True)})
    raise SkyAnchorError(f"{option} {text}: there are {', '.join(forms(union))}")


def name_of(choice: Any) -> str:
    """What the choice is called."""
    values = [str(getattr(choice, field)) for field in _named_by(type(choice))]
    return (":" if _is_open(type(choice)) else "-").join([kebab(type(choice)), *values])


def _variants(kind: Any) -> Iterator[tuple[str, Any]]:
    """The choices of one class that can be made without the user."""
    if any(field.default is MISSING and field.default_factory is MISSING for field in fields(kind)):
        return
    if _is_open(kind):
        yield name_of(kind()), kind()
        return
    hints = get_type_hints(kind)
    for values in product(*(get_args(hints[field]) for field in _named_by(kind))):
        choice = kind(**dict(zip(_named_by(kind), values, strict=True)))
        yield name_of(choice), choice


def _named_by(kind: Any) -> tuple[str, ...]:
    return getattr(kind, "named_by", ())


def _is_open(kind: Any) -> bool:
    """Whether the user completes the name."""
    hints = get_type_hints(kind)
    return any(get_origin(hints[field]) is not Literal for field in _named_by(kind))


def _form(kind: Any) -> str:
    return ":".join([kebab(kind), *(field.upper() for field in _named_by(kind))])


def _plain(name: str) -> str:
    head, colon, rest = name.partition(":")
    return head.replace("-", "").lower() + colon + rest
