"""HTML and SVG from values: whatever is not markup already is escaped."""

from __future__ import annotations

from html import escape


class Markup(str):
    """Text that is HTML already."""


def element(name: str, /, *children: object, **attributes: object) -> Markup:
    """One element; children that are None are left out, texts are escaped, tuples and lists are taken apart.

    `class_` is class, `data_group` is data-group; an attribute that is None or False is left out, True stands alone.
    """
    inside = joined(*children)
    held = "".join(_attribute(key, value) for key, value in attributes.items())
    return Markup(f"<{name}{held}>" if name in _VOID else f"<{name}{held}>{inside}</{name}>")


_VOID = ("img", "br", "input", "meta")


def joined(*children: object) -> Markup:
    """The children one after the other."""
    return Markup("".join(_child(child) for child in children))


def _child(child: object) -> str:
    if child is None:
        return ""
    if isinstance(child, Markup):
        return child
    if isinstance(child, tuple | list):
        return joined(*child)
    return escape(str(child))


def _attribute(key: str, value: object) -> str:
    name = key.rstrip("_").replace("_", "-")
    if value is None or value is False:
        return ""
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'
