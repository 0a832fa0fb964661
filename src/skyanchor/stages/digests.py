"""Digests of what the user brought, as the recipes of the stages hold them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from skyanchor.errors import InputError
from skyanchor.events import ANCHORS, TRAJECTORY
from skyanchor.feedforward import AnyLocal, FreeFolder
from skyanchor.run.folder import RunFolder
from skyanchor.run.results import Run
from skyanchor.scaffold.colmap_files import model_files
from skyanchor.storage import codec, digests
from skyanchor.types import Scaffold, Sequence


def aerial_digests(run: RunFolder, scaffold: Scaffold) -> dict[str, str]:
    """Of the model's files, photos and masks."""
    model = scaffold.model_path or scaffold.root
    return {
        "model": run.digest({path.name: path for path in model_files(model)}),
        "photos": run.digest({view.name: view.path for view in scaffold.views}),
        "masks": run.digest({view.name: view.mask_path for view in scaffold.views if view.mask_path is not None}),
    }


class Digesting(Protocol):
    """What takes digests of files and knows them from then on."""

    def digest(self, inputs: Mapping[str, Path]) -> str:
        """One digest of the contents of named files."""
        ...


def ground_digests(run: Digesting, sequence: Sequence) -> dict[str, str]:
    """Of the frames and their masks."""
    return {
        "frames": run.digest({frame.name: frame.path for frame in sequence.frames}),
        "masks": run.digest({frame.name: frame.mask_path for frame in sequence.frames if frame.mask_path is not None}),
    }


def check_street_photos(run: Digesting, held: Run) -> None:
    """InputError when the street photos of a run are not those that its poses were found with.

    They are known to `run` from then on: what is made of them is not finished where they change meanwhile.
    """
    above = held.stage(TRAJECTORY).recipe.upstream
    made_from = next((recipe.inputs for recipe in above if recipe.stage == ANCHORS), {})
    found = ground_digests(run, held.sequence)
    changed = [name for name, digest in found.items() if made_from.get(name, digest) != digest]
    if changed:
        advice = "Put them back, or run it again with --redo."
        raise InputError(held.root, f"found its poses with other {' and '.join(changed)} of the street", advice)


def free_digests(run: RunFolder, choice: AnyLocal) -> dict[str, str]:
    """Digest of a folder made elsewhere, where shapes come from one."""
    if not isinstance(choice, FreeFolder):
        return {}
    choice.check()
    found = [path for path in sorted(choice.folder.rglob("*")) if path.is_file()]
    return {"free": run.digest({path.relative_to(choice.folder).as_posix(): path for path in found})}


def value_digest(value: object) -> str:
    """Of a value's JSON form."""
    return digests.digest(json.dumps(codec.to_json(value)).encode())
