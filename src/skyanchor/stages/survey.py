"""What the stages share: the user's data, where the work is done, and digests of what it is made of."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from skyanchor.errors import InputError
from skyanchor.events import ANCHORS, TRAJECTORY, Listener, silent
from skyanchor.feedforward import AnyLocal, FreeFolder
from skyanchor.run.earlier import EarlierRun
from skyanchor.run.executor import Executor
from skyanchor.run.folder import Finished, RunFolder
from skyanchor.run.known_files import KnownFiles
from skyanchor.run.layout import STATE
from skyanchor.run.prepared import Prepared
from skyanchor.run.records import SEQUENCE_FILE
from skyanchor.run.results import Run
from skyanchor.scaffold.colmap_files import model_files
from skyanchor.storage import codec, files
from skyanchor.types import Scaffold, Sequence


@dataclass(frozen=True, eq=False)
class Site:
    """The scaffold that stages stand on: the aerial model, and the folder of what was prepared from it."""

    scaffold: Scaffold
    prepared: Prepared
    executor: Executor
    listen: Listener = silent
    redo: bool = False
    """Replace parts that were made with other settings."""
    given: bool = False
    """The folder was prepared before and is shared: finished parts are taken as they are, missing ones are added."""
    known: KnownFiles = field(default_factory=KnownFiles)
    """What the scaffold and whatever stands on it are made of."""

    @contextmanager
    def adding(self, part: str) -> Iterator[RunFolder]:
        """The scaffold's folder, opened to make a part of it."""
        held, shared = self.prepared, (self.listen, self.known)
        with held.adding(part, *shared) if self.given else held.making(self.redo, *shared) as folder:
            yield folder

    def held(self, part: str) -> Finished | None:
        """A part that is taken as it is; None where it is to be made, or compared with what is asked for."""
        return self.prepared.part(part) if self.given else None


FEATURES = "features"
"""Folder in .state/."""


@dataclass(frozen=True, eq=False)
class Work:
    """What every stage of a run is given."""

    run: RunFolder
    """Open."""
    site: Site
    sequence: Sequence
    executor: Executor
    earlier: tuple[EarlierRun, ...] = ()
    """Runs of walks that were located before, in order."""

    @property
    def scaffold(self) -> Scaffold:
        """The aerial model."""
        return self.site.scaffold

    @property
    def names(self) -> tuple[str, ...]:
        """Frame names in order."""
        return tuple(frame.name for frame in self.sequence.frames)

    @property
    def sequence_file(self) -> Path:
        """Where the jobs find the street frames."""
        return self.run.root / STATE / SEQUENCE_FILE

    @property
    def features(self) -> Path:
        """Where all stages keep keypoints of the street frames."""
        return kept_features(self.run)


def kept_features(run: RunFolder) -> Path:
    """Where a run keeps keypoints of its street frames."""
    return run.root / STATE / FEATURES


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
    return files.digest(json.dumps(codec.to_json(value)).encode())
