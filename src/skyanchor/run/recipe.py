"""What a stage's result depends on, and how two such lists differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from skyanchor.storage import codec
from skyanchor.storage.codec import Json

PACKAGES = ("skyanchor", "numpy", "pycolmap", "opencv-python-headless", "torch", "numba", "poselib")
"""Whose versions may change a result's bytes."""
SAID = 6
"""Differences that a message names one by one."""


@dataclass(frozen=True)
class Recipe:
    """Everything a stage's result depends on."""

    stage: str
    settings: dict[str, Any]
    inputs: dict[str, str]
    """Name of an input -> digest of its contents."""
    upstream: tuple[Recipe, ...]
    versions: dict[str, str]


def settings_of(value: object) -> dict[str, Any]:
    """Settings as a recipe names them."""
    document = codec.to_json(value)
    return document if isinstance(document, dict) else {"value": document}


def versions() -> dict[str, str]:
    """Versions of the packages that may change a result's bytes."""
    installed = {package: _version(package) for package in PACKAGES}
    return {package: version for package, version in installed.items() if version is not None}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def differences(held: Recipe, wanted: Recipe) -> list[str]:
    """One phrase per value that differs, the own settings first."""
    old, new = dict(_leaves("", codec.to_json(held))), dict(_leaves("", codec.to_json(wanted)))
    return [
        f"{key} was {old.get(key, 'absent')}, now {new.get(key, 'absent')}"
        for key in [*new, *(key for key in old if key not in new)]
        if old.get(key, "absent") != new.get(key, "absent")
    ]


def in_short(phrases: list[str]) -> str:
    """The first few in one line, and how many more there are."""
    more = len(phrases) - SAID
    return "; ".join([*phrases[:SAID], *([f"and {more} more"] if more > 0 else [])])


def _leaves(prefix: str, document: Json) -> Iterator[tuple[str, str]]:
    if isinstance(document, dict):
        for key, value in document.items():
            yield from _leaves(f"{prefix}.{key}".lstrip("."), value)
    elif isinstance(document, list) and any(isinstance(item, dict) for item in document):
        for index, value in enumerate(document):
            name = value.get("stage", index) if isinstance(value, dict) else index
            yield from _leaves(f"{prefix}.{name}", value)
    else:
        yield prefix, str(document)


def all_inputs(recipe: Recipe) -> set[str]:
    """Digests of whatever was brought to a stage and to all that it stands on."""
    return set(recipe.inputs.values()).union(*map(all_inputs, recipe.upstream))


def stands_on(recipe: Recipe, stage: str) -> bool:
    """Whether the recipe's stage was made from `stage`, over whatever stages between."""
    return any(above.stage == stage or stands_on(above, stage) for above in recipe.upstream)
