"""A run directory that can be killed and resumed: one folder per stage, each with the recipe that made it.

    RUN/1-scaffold/  2-anchors/  3-trajectory/  4-scene/      results, recipe.json in each, written last
    RUN/<stage>/progress/                                     what an unfinished stage has so far
    RUN/timings.json  anchor_seconds.json  log.txt  .state/   seconds, log, lock and digests: never compared
    RUN/.state/shared/                                        where it exists: what variants of a run make only once

A stage without recipe.json is unfinished. Its finished units are whole files and are kept; everything else is made
again. The same recipe skips a stage, another one is an error that names the difference, or replaces it under redo.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import IO, Any, TypeVar

from skyanchor.errors import RecipeError, SkyAnchorError
from skyanchor.events import Listener, Progress, StageFinished, StageSkipped, StageStarted, silent
from skyanchor.run.executor import Executor, Job
from skyanchor.storage import codec, files
from skyanchor.storage.codec import Json

T = TypeVar("T")

RECIPE = "recipe.json"
PROGRESS = "progress"
TIMINGS = "timings.json"
STATE = ".state"
SHARED = "shared"

PACKAGES = ("skyanchor", "numpy", "pycolmap", "opencv-python-headless", "torch", "numba", "poselib")
"""Whose versions may change a result's bytes."""


@dataclass(frozen=True)
class Recipe:
    """Everything a stage's result depends on."""

    stage: str
    settings: dict[str, Any]
    inputs: dict[str, str]
    """Name of an input -> digest of its contents."""
    upstream: tuple[Recipe, ...]
    versions: dict[str, str]


class RunFolder:
    """The run directory, locked for this process while it is open."""

    def __init__(self, root: Path, redo: bool = False, listen: Listener = silent) -> None:
        self.root = root
        self.redo = redo
        self.listen = listen
        self._lock: IO[str] | None = None

    def __enter__(self) -> RunFolder:
        """Make the folder where it is not there, and lock it; SkyAnchorError when another process holds it."""
        state = self.root / STATE
        state.mkdir(parents=True, exist_ok=True)
        self._lock = _locked(state / "lock")
        files.sweep(self.root)
        self._digests = files.DigestCache(state / "digests.json")
        return self

    def __exit__(self, *_: object) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.close()

    def digest(self, inputs: Mapping[str, Path]) -> str:
        """One digest of the contents of named files."""
        return self._digests.digest(inputs)

    def stage(
        self, name: str, what: str, settings: object, inputs: Mapping[str, str], upstream: tuple[Stage, ...] = ()
    ) -> Stage:
        """The stage's folder, done or to be done; RecipeError when it holds other work and redo is off."""
        above = tuple(stage.recipe for stage in upstream)
        recipe = Recipe(name, _settings(settings), dict(inputs), above, versions())
        stage = Stage(self, recipe)
        held = stage.held_recipe()
        if held is not None and held != recipe:
            self._replace_or_refuse(stage, held, recipe)
            held = None
        if held is None:
            stage.begin()
        stage.open(what)
        return stage

    def _replace_or_refuse(self, stage: Stage, held: Recipe, wanted: Recipe) -> None:
        changes = "; ".join(differences(held, wanted))
        if not self.redo:
            where = stage.folder
            raise RecipeError(f"{where} was made differently: {changes}. Use --redo to replace it, or another folder.")
        for name in [*_dependants(self.root, wanted.stage), wanted.stage]:
            files.remove(self.root / name)


class Stage:
    """One stage's folder: units that are cached as they are finished, and the recipe that ends it."""

    def __init__(self, run: RunFolder, recipe: Recipe) -> None:
        self.run = run
        self.recipe = recipe
        self.folder = run.root / recipe.stage
        self._clock = Stopwatch(run.root / TIMINGS, recipe.stage)

    @property
    def done(self) -> bool:
        """Whether the result is complete."""
        return (self.folder / RECIPE).is_file()

    def path(self, name: str) -> Path:
        """Where a result of this stage lies."""
        return self.folder / name

    def held_recipe(self) -> Recipe | None:
        """The recipe of what lies in the folder, finished or not; None when there is nothing."""
        for path in (self.folder / RECIPE, self.folder / PROGRESS / RECIPE):
            if path.is_file():
                return files.load(path, Recipe)
        if self.folder.is_dir():
            raise SkyAnchorError(f"{self.folder} was not made by skyanchor. Choose another run folder.")
        return None

    def begin(self) -> None:
        """An empty folder for this recipe."""
        self._clock.reset()
        files.write_through(self.folder, lambda draft: files.save(draft / PROGRESS / RECIPE, self.recipe))

    def open(self, what: str) -> None:
        """Tell the listener, and clear what a finished stage no longer needs."""
        if self.done:
            files.remove(self.folder / PROGRESS)
            self.run.listen(StageSkipped(self.recipe.stage))
        else:
            self.run.listen(StageStarted(self.recipe.stage, what))

    def save(self, name: str, value: object) -> None:
        """Write a value as one whole file, .json or .npz."""
        files.save(self.path(name), value)
        self._clock.mark()

    def load(self, name: str, kind: type[T]) -> T:
        """The value that `save` wrote."""
        return files.load(self.path(name), kind)

    def cached(self, name: str, kind: type[T], make: Callable[[], T], basis: object = None) -> T:
        """The saved value, made and saved first where it is not there yet; for `basis` see `produce`."""
        if not self.path(name).is_file() and not self._borrowed(name, basis):
            files.save(self.path(name), make())
            self._lend(name, basis)
        return self.load(name, kind)

    def produce(self, step: str, jobs: Mapping[str, Job], executor: Executor, basis: object = None) -> list[Path]:
        """The files that the jobs write, in the order of the jobs; jobs whose file is there are not run.

        A job is called with `out`, the path of its file, besides its arguments, and writes it whole. `basis` is what of
        the settings the files depend on: variants of a run that agree on it share them and do not count their seconds.
        """
        missing = {name: job for name, job in jobs.items() if not self.path(name).is_file()}
        missing = {name: job for name, job in missing.items() if not self._borrowed(name, basis)}
        names = list(missing)
        ready = _counter(len(jobs) - len(missing))
        self.run.listen(Progress(self.recipe.stage, step, len(jobs) - len(missing), len(jobs)))

        def tell(index: int, result: Json) -> None:
            self._lend(names[index], basis)
            self.run.listen(Progress(self.recipe.stage, step, next(ready), len(jobs)))

        calls = [Job(job.function, {**job.arguments, "out": str(self.path(name))}) for name, job in missing.items()]
        executor.run(calls, self.run.listen, tell)
        return [self.path(name) for name in jobs]

    def _shared(self, name: str, basis: object) -> Path | None:
        """Where variants of this run share a file; None where nothing is shared."""
        folder = self.run.root / STATE / SHARED
        if basis is None or not folder.is_dir():
            return None
        given = (self.recipe.stage, self.recipe.inputs, self.recipe.upstream, self.recipe.versions, basis)
        return folder / files.digest(codec.dumps(given).encode()) / name

    def _borrowed(self, name: str, basis: object) -> bool:
        """Whether another variant had the file; it is here as well then."""
        shared = self._shared(name, basis)
        if shared is None or not shared.is_file():
            return False
        files.link(shared, self.path(name))
        return True

    def _lend(self, name: str, basis: object) -> None:
        """Let other variants have the file that was made just now, and count its seconds if it is this one's alone."""
        shared = self._shared(name, basis)
        if shared is None:
            self._clock.mark()
            return
        files.link(self.path(name), shared)
        self._clock.skip()

    def finish(self, figures: Mapping[str, float] | None = None) -> None:
        """Declare the result complete: everything to the disk, then the recipe, then the progress away."""
        files.sync_tree(self.folder)
        files.save(self.folder / RECIPE, self.recipe)
        files.remove(self.folder / PROGRESS)
        self.run.listen(StageFinished(self.recipe.stage, self._clock.mark(), dict(figures or {})))


@dataclass
class Stopwatch:
    """Seconds of work on a stage over all attempts, kept in a file of their own so that results stay comparable."""

    path: Path
    stage: str
    _since: float = field(default_factory=time.monotonic)

    def reset(self) -> None:
        """Start from zero."""
        self._write(0.0)

    def mark(self) -> float:
        """Seconds so far, the time since the last mark included."""
        now = time.monotonic()
        total = timings(self.path.parent).get(self.stage, 0.0) + now - self._since
        self._since = now
        self._write(total)
        return total

    def skip(self) -> None:
        """Leave out the time since the last mark."""
        self._since = time.monotonic()

    def _write(self, seconds: float) -> None:
        known = {**timings(self.path.parent), self.stage: round(seconds, 3)}
        files.write_bytes(self.path, codec.dumps(dict(sorted(known.items()))).encode())


def timings(root: Path) -> dict[str, float]:
    """Seconds of work per stage of a run folder."""
    path = root / TIMINGS
    return codec.loads(dict[str, float], path.read_text()) if path.is_file() else {}


def _settings(value: object) -> dict[str, Any]:
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


def _dependants(root: Path, stage: str) -> list[str]:
    """Finished or begun stages that stand on `stage`, the furthest first."""
    found = []
    for path in sorted(root.glob(f"*/{RECIPE}")) + sorted(root.glob(f"*/{PROGRESS}/{RECIPE}")):
        recipe = files.load(path, Recipe)
        if stage in _ancestors(recipe):
            found.append(recipe.stage)
    return sorted(set(found), reverse=True)


def _ancestors(recipe: Recipe) -> set[str]:
    return {above.stage for above in recipe.upstream}.union(*(_ancestors(above) for above in recipe.upstream))


def _counter(start: int) -> Iterator[int]:
    while True:
        start += 1
        yield start


def _locked(path: Path) -> IO[str]:
    """The lock file, held until it is closed or the process ends."""
    handle = path.open("a+")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        handle.seek(0)
        owner = handle.read().strip() or "unknown"
        handle.close()
        raise SkyAnchorError(f"{path.parent.parent} is in use by process {owner}. Wait for it, or stop it.") from error
    handle.truncate(0)
    handle.write(f"{os.getpid()}\n")
    handle.flush()
    return handle
