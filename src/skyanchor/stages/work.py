"""What every stage of a run is given: the user's data (`Work`), and the scaffold that it stands on (`Site`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from skyanchor.events import Listener, silent
from skyanchor.run.earlier import EarlierRun
from skyanchor.run.executor import Executor
from skyanchor.run.folder import Finished, RunFolder
from skyanchor.run.known_files import KnownFiles
from skyanchor.run.layout import STATE
from skyanchor.run.prepared import Prepared
from skyanchor.run.records import SEQUENCE_FILE
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
"""Folder in .state/ with keypoints of the street frames."""


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
