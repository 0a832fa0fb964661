"""The tree is the pipeline: imports point down only, nothing prints but the command line, nothing is pickled."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import skyanchor

ROOT = Path(skyanchor.__file__).parent

LAYERS = (
    ("types", "errors", "events", "step_clock", "ahead", "compiled"),
    ("storage", "geometry", "bounds"),
    ("backends",),
    ("photos",),
    ("matching", "stereo", "gaussians"),
    ("sfm", "bridges", "meshing", "changes"),
    ("scaffold", "sequence"),
    ("feedforward",),
    ("anchors",),
    ("trajectory",),
    ("scene",),
    ("run",),
    ("stages",),
    ("presets",),
    ("reading",),
    ("pipeline",),
    ("evaluation", "town"),
    ("report",),
    ("opened",),
    ("api",),
    ("cli",),
)
"""From the bottom up; modules of one layer do not import each other."""

FOUNDATION = frozenset(LAYERS[0] + LAYERS[1])
"""What the docstrings of packages above `backends` do not name one by one."""

RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
FILES = sorted(ROOT.rglob("*.py"))


def _part(path: Path) -> str:
    """The top-level module or package that a file belongs to."""
    relative = path.relative_to(ROOT)
    return relative.parts[0].removesuffix(".py")


def _imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of every import of our own code, those inside functions included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports are absolute"
            yield node.lineno, node.module or ""
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_down(path: Path) -> None:
    here = _part(path)
    if here == "__init__":
        return
    assert here in RANK, f"{here} has no place in LAYERS"
    for line, name in _imports(ast.parse(path.read_text())):
        parts = name.split(".")
        if parts[0] != "skyanchor" or len(parts) < 2 or parts[1] not in RANK or parts[1] == here:
            continue
        assert RANK[parts[1]] < RANK[here], f"{path.name}:{line} imports {name}, which is not below {here}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_only_the_command_line_prints_and_nothing_is_pickled(path: Path) -> None:
    """A file of foreign weights may be read by an unpickler that finds no classes but those it lists."""
    tree = ast.parse(path.read_text())
    listed = any(isinstance(node, ast.FunctionDef) and node.name == "find_class" for node in ast.walk(tree))
    allowed = {"UnpicklingError", "Unpickler"} if listed else {"UnpicklingError"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            assert path.parent.name == "cli", f"{path.name}:{node.lineno} prints"
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "pickle":
            assert node.attr in allowed, f"{path.name}:{node.lineno} pickles"
        if isinstance(node, ast.ExceptHandler):
            assert node.type is not None, f"{path.name}:{node.lineno} has a bare except"


@pytest.mark.parametrize(
    "package", sorted(path.parent for path in ROOT.glob("*/__init__.py")), ids=lambda path: path.name
)
def test_the_docstring_of_a_package_says_what_it_may_touch(package: Path) -> None:
    said = re.search(
        r"May touch: (.*?)\.(\s|$)", ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or "", re.S
    )
    assert said is not None, f"{package.name} does not say"
    allowed = set(" ".join(said[1].split()).split(", "))
    if allowed == {"whatever stands below it"}:
        return
    if "the foundation" in allowed:
        allowed |= FOUNDATION
    for path in package.rglob("*.py"):
        used = {
            name.split(".")[1] for _, name in _imports(ast.parse(path.read_text())) if name.startswith("skyanchor.")
        }
        beyond = (used & set(RANK)) - allowed - {package.name}
        assert not beyond, f"{path.name} imports {beyond}, which {package.name}/__init__.py does not name"


def test_the_layers_name_what_exists() -> None:
    found = {_part(path) for path in FILES} - {"__init__"}
    assert found <= set(RANK)


def test_a_wrong_direction_would_be_seen() -> None:
    tree = ast.parse("def f():\n    from skyanchor import cli\n    import skyanchor.pipeline")
    assert [name for _, name in _imports(tree)] == ["skyanchor", "skyanchor.cli", "skyanchor.pipeline"]
    assert RANK["cli"] > RANK["pipeline"] > RANK["types"]
