"""The manual against the program: every command is parsed by the real parser, quoted messages are ours."""

from __future__ import annotations

import argparse
import ast
import functools
import importlib
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from skyanchor.cli import dataset_runs, runs
from skyanchor.cli import main as command_line
from skyanchor.cli.main import main
from skyanchor.cli.options import STAGE_VERBS
from skyanchor.presets import CPU
from skyanchor.scaffold import training
from skyanchor.scene import config as update

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONVENTIONS.md", *sorted((ROOT / "docs").rglob("*.md"))]
VALUES = {"N": "3", "PX": "640", "...": "", "…": ""}
"""What stands for a placeholder that must be a number, or for what a page leaves out."""


def commands(text: str, start: str = "skyanchor ") -> list[str]:
    """What a page says to type: code that starts so, inline or in a block, without comments; continued lines joined."""
    text = text.replace("\\\n", " ")
    lines = [line for block in re.findall(r"```[a-z]*\n(.*?)```", text, re.S) for line in block.splitlines()]
    inline = re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", text, flags=re.S))
    found = [line.split("#")[0].strip() for line in lines] + [" ".join(one.split()) for one in inline]
    found = [line.removeprefix("python ") for line in found]
    return [line for line in found if line.startswith(start)]


def words_of(line: str) -> list[str]:
    """The words after the program, placeholders filled: `[--option VALUE]` is taken, of `a|b` the first."""
    plain = [VALUES.get(word, word.split("|")[0]) for word in shlex.split(re.sub(r"[\[\]]", " ", line))[1:]]
    return [word for word in plain if word]


@pytest.fixture
def parse_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The verbs as the command line knows them, doing nothing; a GPU seems to be there."""

    def idle(work: Callable[..., None]) -> Callable[..., None]:
        return functools.wraps(work)(lambda *_, **__: None)

    def verb(*_: object) -> Callable[..., int]:
        def command(options: runs.Everyday, settings: runs.Settings = CPU) -> int:
            runs.with_options(settings, options)
            return 0

        return command

    def preparing(*_: object) -> Callable[..., int]:
        def command(options: runs.Ahead, settings: runs.Settings = CPU) -> int:
            return 0

        return command

    def on_a_scene(*_: object) -> Callable[..., int]:
        def command(options: dataset_runs.OnScene, settings: runs.Settings = CPU) -> int:
            return 0

        return command

    for family in ("AERIAL", "WALKS", "DATASETS", "PATCHES", "TILES", "OTHERS"):
        monkeypatch.setattr(command_line, family, {k: idle(v) for k, v in getattr(command_line, family).items()})
    monkeypatch.setattr(runs, "verb", verb)
    monkeypatch.setattr(runs, "preparing", preparing)
    monkeypatch.setattr(dataset_runs, "on_a_scene", on_a_scene)
    monkeypatch.setattr(runs, "missing_for_cuda", lambda: None)
    monkeypatch.setattr(runs, "read_area", lambda path: ())


@pytest.mark.usefixtures("parse_only")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_is_parsed(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for line in commands(page.read_text()):
        words = words_of(line)
        if words[0].isupper():
            continue
        if not any(word.startswith("-") for word in words) and "..." not in line:  # a verb is named, not called
            words = [*words, "--help"] if len(words) <= 2 and words[-1].islower() else words
        try:
            code = main(words)
        except SystemExit as ended:
            code = int(ended.code or 0)
        assert code == 0, f"{line}: {capsys.readouterr().err}"


def test_a_command_with_a_wrong_option_is_noticed(parse_only: None) -> None:
    assert main(["update", "--out", "x", "--scafold", "y"]) == 2
    assert main(["update", "--out", "x", "--anchors.verdict.least-suport", "3"]) == 2
    assert main(["evaluate", "x"]) == 2


def parser_of(script: Path) -> argparse.ArgumentParser | None:
    """A benchmark's parser without its imports: the lines of its source that make one."""
    tree = ast.parse(script.read_text())
    held: dict[str, object] = {"argparse": argparse, "Path": Path, "__doc__": script.name}
    for node in ast.walk(tree):
        made = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "parser"
        if made or (isinstance(node, ast.Expr) and ast.unparse(node).startswith("parser.add_argument(")):
            exec(ast.unparse(node), held)
    parser = held.get("parser")
    assert parser is None or isinstance(parser, argparse.ArgumentParser)
    return parser


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_benchmark_is_called_with_options_it_has(page: Path) -> None:
    for line in commands(page.read_text(), "benchmarks/"):
        called = ".py " in line  # one without arguments is named, not called
        parser = parser_of(ROOT / line.split()[0]) if called else None
        if parser is not None:
            parser.exit_on_error = False
            try:
                parser.parse_args(words_of(line))
            except (SystemExit, argparse.ArgumentError) as error:
                raise AssertionError(f"{line}: {error}") from error


def test_the_parser_of_a_benchmark_is_found() -> None:
    parser = parser_of(ROOT / "benchmarks/scene_update.py")
    assert parser is not None and parser.parse_args(["yard", "--insertion", "3"]).insertion == 3


def test_the_pages_do_name_commands() -> None:
    named = {line.split()[1] for page in PAGES for line in commands(page.read_text())}
    assert {"update", "anchors", "view", "report", "evaluate", "scaffold", "patch"} <= named
    assert commands("`skyanchor a --b`\n```\nskyanchor c  # d\nother\n```") == ["skyanchor c", "skyanchor a --b"]
    assert words_of("skyanchor c [--d N] e|f") == ["c", "--d", "3", "e"]
    assert set(STAGE_VERBS) <= named


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


def headings(page: Path) -> set[str]:
    """Names by which a link can reach the headings of a page: lower case, punctuation gone, words joined by hyphens."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    plain = [re.sub(r"[^\w\s-]", "", heading.strip().lower()) for heading in re.findall(r"^#+ (.*)$", text, re.M)]
    return {heading.replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=lambda page: page.name)
def test_links_lead_to_headings_that_are_there(page: Path) -> None:
    for target, heading in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text()):
        assert heading in headings(page.parent / target if target else page), f"{target}#{heading}"


def test_headings_are_named_as_links_name_them(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# A: b, `c`\n```\n# none\n```\n## Of 2-3\n")
    assert headings(tmp_path / "a.md") == {"a-b-c", "of-2-3"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_a_page_names_exist(page: Path) -> None:
    for name in re.findall(r"\b((?:benchmarks|examples|tests)/[\w/]+\.py)\b", page.read_text()):
        assert (ROOT / name).is_file(), name


def test_every_hop_of_the_architecture_page_is_one_file_that_exists() -> None:
    lines = (ROOT / "docs/architecture.md").read_text().splitlines()
    hops = [re.findall(r"`([\w/]+\.py)`", line) for line in lines if re.match(r"\d+\. ", line)]
    assert len(hops) > 20 and all(len(hop) == 1 for hop in hops)
    for (name,) in hops:
        assert (ROOT / "src/skyanchor" / name).is_file(), name


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_presets_are_described_as_they_are(device: str) -> None:
    air, street = training.preset(device), update.preset(device)
    assert street.joint is not None
    steps = [f"{n:,}".replace(",", " ") for n in (street.insertion.iterations, street.joint.iterations)]
    first = f"{air.train.iterations:,}".replace(",", " ")
    said = f"{first} iterations from the air, then {steps[0]} + {steps[1]} with the street"
    assert said in (ROOT / "docs/commands.md").read_text()


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("measured")


def test_the_readme_says_what_the_results_say(measured: ModuleType) -> None:
    assert measured.written(check=True)


@pytest.mark.parametrize("page", ["Makefile", "docs/tutorial.md"])
def test_the_demo_is_offered_with_the_time_that_it_took(measured: ModuleType, page: str) -> None:
    demo = measured.all_kept()["demo"]
    took = [sum(one.figures[f"{step}, s"] for step in ("set-up", "town", "job")) / 60 for one in demo.draws]
    said = re.findall(r"(\d+) to (\d+) minutes", (ROOT / page).read_text())
    assert said and all(int(low) <= min(took) and max(took) <= int(high) for low, high in said)


def test_a_readme_that_says_something_else_is_noticed(
    measured: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = importlib.import_module("kept")
    made = kept.Made("python benchmarks/whole_job.py", "abc1234", "2 cores", "2026-11-16")
    air = {"air before, dB": 31.0, "air after, dB": 31.5}
    draws = [
        kept.Outcome("yard", {"seconds": 60.0 * k, "ATE, m": 0.01 * k, "street after, dB": 30.0 + k} | air)
        for k in (1, 2, 4)
    ]
    kept.write_lines(tmp_path / "gpu.jsonl", made, draws)
    monkeypatch.setattr(measured, "RESULTS", tmp_path)
    monkeypatch.setattr(measured, "ROOT", tmp_path)
    steps = {"set-up, s": 58.0, "town, s": 61.0, "job, s": 121.0, "trajectory ATE, m": 0.02}
    steps |= {"street before, dB": 8.0, "street after, dB": 27.0, "air before, dB": 26.0, "air gained, dB": 0.0}
    longer = {**steps, "job, s": 239.0}
    kept.write_lines(tmp_path / "demo.jsonl", made, [kept.Outcome("a", steps), kept.Outcome("b", longer)])
    phrase = "<!-- measured: demo -->9 minutes<!-- end -->"
    (tmp_path / "README.md").write_text(f"before {phrase}\n{measured.BEGIN}\n| 2.1 min |\n{measured.END}\nafter\n")
    with pytest.raises(SystemExit, match="something else"):
        measured.written(check=True)
    measured.written(check=False)
    assert measured.written(check=True)
    text = (tmp_path / "README.md").read_text()
    said = "3 to 5 minutes after 1 minute for its set-up"
    assert text.startswith(f"before <!-- measured: demo -->{said}<!-- end -->\n") and text.endswith("\nafter\n")
    assert "2.0 min (1.0 to 4.0); ATE 0.020 m (0.010 to 0.040); street 32.0 dB (31.0 to 34.0), air 0.50 dB" in text
    assert "2026-11-16, 2 cores, abc1234" in text
