"""Names of choices on the command line follow from their classes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, get_args

import pytest
from tyro._strings import hyphen_separated_from_camel_case

from skyanchor.backends.names import choice_named, forms, kebab, name_of, named
from skyanchor.cli.doctor import ROLES
from skyanchor.errors import SkyAnchorError


@dataclass(frozen=True)
class Plain:
    size: int = 3


@dataclass(frozen=True)
class TwoWays:
    named_by: ClassVar[tuple[str, ...]] = ("how", "many")
    how: Literal["up", "down"] = "up"
    many: Literal[1, 2] = 2
    other: Literal["a", "b"] = "a"


@dataclass(frozen=True)
class Yours:
    named_by: ClassVar[tuple[str, ...]] = ("folder", "entry")
    folder: Path
    entry: str


@dataclass(frozen=True)
class Given:
    named_by: ClassVar[tuple[str, ...]] = ("name",)
    name: str = "x"


Some = Plain | TwoWays | Yours | Given


def test_values_of_closed_fields_make_names() -> None:
    found = named(Some)
    two = ["two-ways-up-1", "two-ways-up-2", "two-ways-down-1", "two-ways-down-2"]
    assert list(found) == ["plain", *two, "given:x"]
    assert found["two-ways-down-1"] == TwoWays("down", 1) and found["given:x"] == Given()
    assert forms(Some) == ("plain", *two, "yours:FOLDER:ENTRY", "given:NAME")


def test_names_are_read_without_their_hyphens() -> None:
    for text in ("two-ways-down-1", "twoways-down-1", "TwoWays-down-1"):
        assert choice_named(Some, text, "--some") == TwoWays("down", 1)
    assert choice_named(Some, "yours:a/b:c:main", "--some") == Yours(Path("a/b:c"), "main")
    assert choice_named(Some, "given:Any-Thing", "--some") == Given("Any-Thing")
    for wrong in ("two-ways", "yours", "yours:only", "given:", "else"):
        with pytest.raises(SkyAnchorError, match=f"--some {wrong}: there are plain, two-ways-up-1"):
            choice_named(Some, wrong, "--some")


@pytest.mark.parametrize("role", ROLES)
def test_names_are_those_of_the_subcommands_and_lead_back(role: str) -> None:
    kinds = get_args(ROLES[role])
    assert [kebab(kind) for kind in kinds] == [hyphen_separated_from_camel_case(kind.__name__) for kind in kinds]
    found = named(ROLES[role])
    assert {type(choice) for choice in found.values()} <= set(kinds)
    for name, choice in found.items():
        assert name_of(choice) == name and choice_named(ROLES[role], name, "--x") == choice


def test_every_name_that_was_once_a_registry_is_still_read() -> None:
    for text in ("sift", "xfeat", "xfeat-star", "lighterglue", "lightglue-aliked", "lightglue-disk"):
        assert choice_named(ROLES["matcher"], text, "--matchers")
    for text in ("scene-vlad", "anyloc-l", "anyloc-b", "anyloc-s", "megaloc", "salad"):
        assert choice_named(ROLES["place finding"], text, "--descriptors")
