"""The manual against the program: verbs and options exist, quoted messages are ours, links lead somewhere."""

from __future__ import annotations

import contextlib
import io
import re
from functools import cache
from pathlib import Path

import pytest

from skyanchor.cli.main import main

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
GROUPS = ("scaffold", "patch")
"""Verbs that have verbs of their own."""


def commands(text: str) -> list[str]:
    """What a page says to type: code that starts with skyanchor, inline or in a block, without comments."""
    lines = [line for block in re.findall(r"```[a-z]*\n(.*?)```", text, re.S) for line in block.splitlines()]
    inline = re.findall(r"`(skyanchor [^`]+)`", re.sub(r"```.*?```", "", text, flags=re.S))
    found = [line.split("#")[0].strip() for line in lines] + [" ".join(one.split()) for one in inline]
    return [line for line in found if line.startswith("skyanchor ")]


@cache
def help_of(verb: str) -> str:
    first, *rest = verb.split()
    first = "update" if first in ("anchors", "trajectory") else first  # they have the same options
    out = io.StringIO()
    with contextlib.redirect_stdout(out), pytest.raises(SystemExit):
        main([first, *rest, "--help"])
    return out.getvalue()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_exists_with_its_options(page: Path) -> None:
    for line in commands(page.read_text()):
        words = line.replace("=", " ").split()[1:]
        if words[0].startswith("-") or words[0].isupper():
            continue
        verb = " ".join(words[: 2 if words[0] in GROUPS else 1])
        choice = next((word for word in words if ":" in word and "." in word.split(":")[0]), "")
        behind = choice and f"--{choice.split(':')[0]}." in line
        text = help_of(verb) + (help_of(f"{verb} {choice}") if behind else "")
        for option in [word for word in words if word.startswith("--")]:
            assert re.search(rf"{re.escape(option)}\b", text), f"{line}: {verb} has no {option}"
        assert choice == "" or choice in help_of(verb), f"{line}: no choice {choice}"


def test_the_pages_do_name_commands() -> None:
    named = {line.split()[1] for page in PAGES for line in commands(page.read_text())}
    assert {"update", "anchors", "view", "report", "evaluate", "scaffold", "patch"} <= named
    assert commands("`skyanchor a --b`\n```\nskyanchor c  # d\nother\n```") == ["skyanchor c", "skyanchor a --b"]


def test_quoted_messages_are_ours() -> None:
    source = "".join(path.read_text() for path in (ROOT / "src/skyanchor").rglob("*.py"))
    spoken = re.sub(r"\{[^{}]*\}", "…", source)
    page = (ROOT / "docs/troubleshooting.md").read_text()
    quoted = re.findall(r"^\| `([^`]+)`", page, re.M)
    assert len(quoted) > 30
    for message in quoted:
        parts = [part.strip(" :.,()'") for part in re.split(r"…|\d+x\d+|\d+", message)]
        for part in [one for piece in parts for one in piece.split(". ") if len(one) > 5]:
            assert part in spoken or part in source, f"{message}: nowhere is said {part!r}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_pictures_are_there(page: Path) -> None:
    shown = re.sub(r"<!--.*?-->", "", page.read_text(), flags=re.S)
    for target in re.findall(r"\]\(([^)#]+)\)", shown):
        assert target.startswith("http") or (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_a_page_names_exist(page: Path) -> None:
    for name in re.findall(r"\b((?:benchmarks|examples|tests)/[\w/]+\.py)\b", page.read_text()):
        assert (ROOT / name).is_file(), name
