"""docs/backends.md names every choice there is, what it needs and how to get it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import get_args

import pytest

from skyanchor.backends import weights
from skyanchor.backends.names import forms, named
from skyanchor.backends.packages import Package
from skyanchor.cli.doctor import ROLES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/backends.md").read_text()
NAMED = {"Matchers": "matcher", "Descriptors": "place finding"}
NEEDS = {need for union in ROLES.values() for choice in named(union).values() for need in choice.needs}


@pytest.mark.parametrize("heading", NAMED)
def test_the_names_are_those_of_the_union(heading: str) -> None:
    told = re.search(rf"^{heading}: (.*?)\.$", PAGE, re.M | re.S)
    assert told is not None
    assert tuple(re.findall(r"`([^`]+)`", told[1])) == forms(ROLES[NAMED[heading]])


@pytest.mark.parametrize("role", ["matcher", "place finding"])
def test_every_choice_has_a_row(role: str) -> None:
    for kind in get_args(ROLES[role]):
        assert re.search(rf"^\|.*`{kind.__name__}[(`]", PAGE, re.M), kind


def test_every_need_is_named() -> None:
    asked = {need for role in NAMED.values() for choice in named(ROLES[role]).values() for need in choice.needs}
    for need in asked:
        assert need.name in PAGE, need


def test_the_list_of_weights_is_what_choices_need() -> None:
    """Published centres are needed by settings that are not the default."""
    asked = {need for need in NEEDS if isinstance(need, weights.Weights)}
    assert asked | {weights.ANYLOC_URBAN, weights.ANYLOC_AERIAL} == set(weights.KNOWN)


def test_versions_are_those_of_the_extras() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pinned = {*project["dependencies"], *(pin for pins in project["optional-dependencies"].values() for pin in pins)}
    for need in NEEDS:
        if isinstance(need, Package):
            for pin in re.findall(rf"{need.name}==[\d.]+", need.command):
                assert pin in pinned, pin
