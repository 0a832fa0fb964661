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
from skyanchor.run.layout import FRAMES
from skyanchor.run.results import VERB_AGAIN, Run
from skyanchor.scaffold.colmap_files import model_files
from skyanchor.storage import codec, digests
from skyanchor.types import Scaffold, Sequence

MOVED = (
    "Put them back, or run its last verb once more with the same options and --ground WALK, the place where they are "
    "now: nothing is done again."
)
"""What helps where the photos of a walk are not where they were."""


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
    """InputError when the street photos of a run are gone, or not those that its poses were found with.

    They are known to `run` from then on: what is made of them is not finished where they change meanwhile.
    """
    _refuse_gone(held)
    above = held.stage(TRAJECTORY).recipe.upstream
    made_from = next((recipe.inputs for recipe in above if recipe.stage == ANCHORS), {})
    found = ground_digests(run, held.sequence)
    changed = [name for name, digest in found.items() if made_from.get(name, digest) != digest]
    if changed:
        advice = "Put them back, or run it again with --redo."
        raise InputError(held.root, f"found its poses with other {' and '.join(changed)} of the street", advice)


def _refuse_gone(held: Run) -> None:
    """InputError that says how many street photos or masks of a run are not where they were, and what helps."""
    frames = held.sequence.frames
    given = {"street photos": [one.path for one in frames], "masks": [one.mask_path for one in frames if one.mask_path]}
    for what, paths in given.items():
        gone = [path for path in paths if not path.is_file()]
        if gone:
            problem = f"{len(gone)} of its {len(paths)} {what} are not there, {gone[0]} first"
            own = gone[0].parts[-3:-2] == (FRAMES,)
            raise InputError(held.root, problem, VERB_AGAIN if own else MOVED)


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
