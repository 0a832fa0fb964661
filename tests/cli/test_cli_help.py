"""The help of verbs that run stages: short, true to the parser, and all of it for those who ask."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields
from inspect import signature
from pathlib import Path

import pytest
import tyro

from skyanchor import pipeline
from skyanchor.cli import help as shown
from skyanchor.cli import main as command_line
from skyanchor.cli import runs
from skyanchor.cli.main import main
from skyanchor.cli.options import (
    EXAMPLES,
    GROUPS,
    PREPARATION_EXAMPLES,
    PREPARATION_GROUPS,
    STAGE_VERBS,
    Options,
    Preparation,
)

VALUES = {"X,Y,RADIUS": "1,2,3", "N": "1", "auto|cpu|gpu|paper": "cpu"}
"""What stands for a metavar; any word for the others."""


def _accepted(words: list[str], verb: str = "update") -> Options:
    """The everyday options as the real parser reads them."""
    read: list[Options] = []

    def keep(options: runs.Everyday, settings: runs.Settings = pipeline.CPU) -> int:
        read.append(options)
        return 0

    tyro.cli(keep, prog=verb, args=words, config=(tyro.conf.FlagCreatePairsOff,))
    return read[0]


def test_every_option_of_the_short_help_is_one_of_the_parser() -> None:
    options = re.findall(r"^  --([a-z-]+)(?: (\S+))?", shown.everyday("update"), re.M)
    own = [(name, metavar) for name, metavar in options if name not in ("help", "help-all", "traceback")]
    assert {name for name, _ in own} == {field.name for field in fields(Options)}
    words = [word for name, metavar in own for word in (f"--{name}", metavar and VALUES.get(metavar, "word")) if word]
    read = _accepted(words)
    assert read.near == "1,2,3" and read.redo and read.out == Path("word") and read.preset == "cpu"


def test_every_everyday_option_stands_in_one_group() -> None:
    listed = [name for names in GROUPS.values() for name in names]
    assert sorted(listed) == sorted(field.name for field in fields(Options))


def test_the_examples_are_accepted() -> None:
    for verb in STAGE_VERBS:
        for line in () if verb == "prepare" else EXAMPLES:
            _accepted(line.format(verb=verb).split()[2:], verb)
    for line in PREPARATION_EXAMPLES:
        read = tyro.cli(Preparation, args=line.split()[2:], config=(tyro.conf.FlagCreatePairsOff,))
        assert read.aerial == Path("survey/aerial") and read.out == Path("survey/scaffold")


def test_the_short_help_names_every_option_of_prepare_once() -> None:
    listed = [name for names in PREPARATION_GROUPS.values() for name in names]
    assert sorted(listed) == sorted(field.name for field in fields(Preparation))


def test_every_group_of_settings_is_a_stages_own() -> None:
    assert tuple(field.name for field in fields(pipeline.PipelineConfig)) == shown.SETTINGS
    assert set(shown.BEYOND) == set(STAGE_VERBS) == {step.verb for step in pipeline.STAGES}
    for name in shown.SETTINGS:
        assert f"--{name}." in shown.settings("update", name)


def test_one_thing_has_one_option() -> None:
    every = shown.everything("update")
    for name, option in (("sequence.camera", "camera"), ("scaffold.crs", "crs")):
        assert f"--{name}" not in every and f"  --{option} " in every
    assert "--sequence.cut" in every and "--scaffold.no-check-photos" in every and " sequence options" not in every
    for verb in ("anchors", "trajectory"):
        assert "--splats" not in shown.everyday(verb) and "--scene." not in shown.everything(verb)


@pytest.mark.parametrize("verb", STAGE_VERBS)
def test_the_short_help_fits_on_a_screen(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "--help"]) == 0
    out = capsys.readouterr().out
    assert out == shown.everyday(verb) and len(out.splitlines()) < 60
    assert max(map(len, out.splitlines())) <= 120 and "None" not in out
    assert out.count(f"\n  skyanchor {verb} ") == 2


def test_help_all_shows_the_stages_that_a_verb_reaches(capsys: pytest.CaptureFixture[str]) -> None:
    texts = {}
    for verb in STAGE_VERBS:
        assert main([verb, "--help-all"]) == 0
        texts[verb] = capsys.readouterr().out
        assert "{None}" not in texts[verb] and "--redo" in texts[verb]
    reached = {verb: {name for name in shown.SETTINGS if f"--{name}." in text} for verb, text in texts.items()}
    assert reached["update"] == set(shown.SETTINGS)
    assert reached["trajectory"] == set(shown.SETTINGS) - {"scene"}
    assert reached["anchors"] == set(shown.SETTINGS) - {"scene", "trajectory"}


def test_the_settings_of_a_part_and_of_a_choice(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["update", "--help", "anchors.verdict"]) == 0
    part = capsys.readouterr().out
    assert "--anchors.verdict.least-support" in part and "--anchors.refine" not in part
    for words in (["--help", "anchors.refine.matcher:light-glue"], ["anchors.refine.matcher:light-glue", "--help"]):
        assert main(["update", *words]) == 0
        assert "--anchors.refine.matcher.detector" in capsys.readouterr().out


VERBS: dict[tuple[str, ...], Callable[..., None]] = {
    **{(name,): verb for name, verb in command_line.OTHERS.items()},
    **{
        (group, name): verb
        for group, verbs in (
            ("scaffold", command_line.AERIAL), ("walk", command_line.WALKS), ("dataset", command_line.DATASETS),
            ("patch", command_line.PATCHES), ("tiles", command_line.TILES),
        )
        for name, verb in verbs.items()
    },
}  # fmt: skip
"""Verbs whose options are the parameters of a function."""


def _mentioned(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])--([a-z][a-z.-]*[a-z])", text))


@pytest.mark.parametrize("words", [words for words in VERBS if words != ("dataset", "run")], ids=" ".join)
def test_the_help_of_a_verb_names_only_options_that_it_has(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """Or names the verb that has the option, as in `update --onto`."""
    with pytest.raises(SystemExit):
        main([*words, "--help"])
    out = capsys.readouterr().out
    assert f"skyanchor {' '.join(words)}" in out
    own = {name.replace("_", "-") for name in signature(VERBS[words]).parameters}
    of_others = re.findall(r"`(\w+) --([a-z.-]+)`", " ".join(re.sub(r"[│╭╮╰╯─\n]", " ", out).split()))
    for verb, option in of_others:
        assert f"--{option}" in shown.everything(verb), (words, option)
    assert _mentioned(out) - own <= {"help", *(option for _, option in of_others)}, words


@pytest.mark.parametrize("verb", STAGE_VERBS)
def test_the_short_help_of_a_stage_names_only_options_that_it_has(verb: str) -> None:
    every = set(re.findall(r"(?:^|[ |])--([a-z][a-z.-]*[a-z])", shown.everything(verb), re.M))
    assert _mentioned(shown.everyday(verb)) - every <= {"help", "help-all", "traceback"}


@pytest.mark.parametrize("words", [("update", "nonsense"), ("anchors", "scene"), ("update", "anchors.nonsense")])
def test_settings_that_there_are_not(words: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([words[0], "--help", words[1]]) == 2
    assert f"skyanchor: {words[0]} has no settings {words[1]!r}" in capsys.readouterr().err


def test_one_word_for_one_thing_in_the_help_of_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    """An option of one name takes a value of one name; nothing is `None`, nor named by its type."""
    families = {"scaffold": command_line.AERIAL, "walk": command_line.WALKS, "patch": command_line.PATCHES}
    families |= {"dataset": command_line.DATASETS, "tiles": command_line.TILES}
    verbs = [
        *([family, verb] for family, those in families.items() for verb in those),
        *([v] for v in command_line.OTHERS),
    ]
    own = re.findall(r"^  --([a-z-]+) (\S+)", shown.everyday("update"), re.M)
    words: dict[str, set[str]] = {name: {metavar} for name, metavar in own}
    for verb in verbs:
        with pytest.raises(SystemExit):
            main([*verb, "--help"])
        said = capsys.readouterr().out
        assert "default: None" not in said and "{None}" not in said, verb
        for name, metavar in re.findall(r"^│ --([a-z-]+) (\S+)", said, re.M):
            assert metavar not in ("PATH", "STR"), (verb, name)
            if verb[0] != "dataset" and name not in ("out", "model", "preset"):
                words.setdefault(name, set()).add(metavar)
    assert [(name, those) for name, those in words.items() if len(those) > 1] == []
