"""A directory of stages that can be killed and resumed: a run, or a prepared scaffold.

    RUN/1-scaffold/  2-anchors/  3-trajectory/  4-scene/      results, recipe.json in each, written last
    RUN/<stage>/progress/                                     what an unfinished stage has so far
    RUN/timings.json  memory.json  *_seconds.json            seconds and memory, never compared
    RUN/log.txt  .state/                                      log, lock and digests, nor these
    RUN/.state/shared/                                        where it exists: what variants of a run make only once

A stage without recipe.json is unfinished. Its finished units are whole files and are kept; everything else is made
again. The same recipe skips a stage, another one is an error that names the difference, or replaces it under redo.
1-scaffold is such a directory itself, its stages are the parts of the scaffold, see `run.prepared`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Protocol, TypeVar

from skyanchor.errors import InputError, RecipeError, SkyAnchorError
from skyanchor.events import (
    Event,
    Listener,
    Progress,
    StageFinished,
    StageSkipped,
    StageStarted,
    silent,
)
from skyanchor.run.executor import Executor
from skyanchor.run.job import Job
from skyanchor.run.known_files import Digests, KnownFiles
from skyanchor.run.layout import (
    DIGESTS,
    LOCK,
    OF_A_RUN,
    PROGRESS,
    RECIPE,
    SHARED,
    STATE,
    Layout,
    claim,
    dependants,
    full_name,
    held_recipe,
    holds_something,
    is_finished,
    keep_listing,
    refuse_strangers,
)
from skyanchor.run.locks import lock_to_write
from skyanchor.run.memory import MemoryWatch
from skyanchor.run.recipe import Recipe, all_inputs, differences, in_short, settings_of, versions
from skyanchor.run.remembered import Remembered, remembered
from skyanchor.run.timing import Stopwatch
from skyanchor.storage import codec, files
from skyanchor.storage.codec import Json
from skyanchor.storage.digest_cache import DigestCache
from skyanchor.storage.digests import digest

T = TypeVar("T")

AGAIN = "What was made of it meanwhile is gone; the same command makes it again."
PUT_BACK = "Put it back, and the same command goes on; or keep it, and --redo makes again what stands on it."
"""What helps when an input of a stage changed, and when one did of what the stage stands on."""


class Made(Protocol):
    """What a stage can stand on: a complete one, made just now or long ago."""

    @property
    def recipe(self) -> Recipe:
        """How it was made."""
        ...

    def path(self, name: str) -> Path:
        """Where a result lies."""
        ...

    def load(self, name: str, kind: type[T]) -> T:
        """A result of type `kind`."""
        ...


@dataclass(frozen=True)
class Finished:
    """A complete stage on disk, to be read."""

    folder: Path
    recipe: Recipe

    def path(self, name: str) -> Path:
        """Where a result lies."""
        return self.folder / name

    def load(self, name: str, kind: type[T]) -> T:
        """A result of type `kind`."""
        return files.load(self.path(name), kind)


def read_finished(folder: Path) -> Finished | None:
    """The stage in a folder; None unless it is complete."""
    return Finished(folder, files.load(folder / RECIPE, Recipe)) if is_finished(folder) else None


class RunFolder:
    """The directory, locked for this process while it is open."""

    def __init__(
        self,
        root: Path,
        redo: bool = False,
        listen: Listener = silent,
        part_of: str = "",
        lock: str = LOCK,
        layout: Layout = OF_A_RUN,
        known: KnownFiles | None = None,
    ) -> None:
        """`part_of` is the stage that all stages here belong to, for events and recipes; `lock` names the lock file.

        A lock of another name than the usual one is waited for: it is held for one part of a folder that others read.
        `known` are the files that stages in other folders, which those here stand on, were made of.
        """
        self.root = root
        self.redo = redo
        self.listen = listen
        self.part_of = part_of
        self.layout = layout
        self._lock_name = lock
        self._lock: IO[str] | None = None
        self.watches: list[MemoryWatch] = []
        """Of the stages at work."""
        self.known = known if known is not None else KnownFiles()
        self.begun: list[Stage] = []
        """That were not done when they were opened."""
        self.before = Remembered({})
        """What the folder remembered when it was opened."""

    def __enter__(self) -> RunFolder:
        """Make the folder where it is not there, and lock it; SkyAnchorError when it is another's or in use."""
        claim(self.root, self.layout)
        state = self.root / STATE
        self._lock = lock_to_write(state / self._lock_name, wait=not self.alone)
        self._digests = Digests(DigestCache(state / DIGESTS), self.known)
        self.before = remembered(state)
        return self

    @property
    def alone(self) -> bool:
        """Whether nobody else works in any part of the folder."""
        return self._lock_name == LOCK

    def __exit__(self, *_: object) -> None:
        """Remove what unfinished stages made of inputs that have changed and half files of workers that were ended with
        a run that failed, and release the lock.
        """
        for stage in (stage for stage in self.begun if not stage.done):
            with suppress(SkyAnchorError):
                stage.refuse_changed()
            files.sweep(stage.folder)
        for watch in self.watches:
            watch.stop()
        if self._lock is not None:
            self._lock.close()

    def digest(self, inputs: Mapping[str, Path]) -> str:
        """One digest of the contents of named files."""
        return self._digests.digest(inputs)

    def refuse_changed(self, digests: Iterable[str], advice: str = AGAIN) -> None:
        """InputError when a file behind digests of inputs holds something else than when it was looked at first."""
        changed = self.known.changed(digests)
        if changed is not None:
            raise InputError(changed, "was changed while the run went on", advice)

    def stage(
        self, name: str, what: str, settings: object, inputs: Mapping[str, str], upstream: tuple[Made, ...] = ()
    ) -> Stage:
        """The stage's folder, done or to be done; RecipeError when it holds other work and redo is off."""
        stage = self._stage(name, settings, inputs, upstream)
        held = stage.held_recipe()
        if held is not None and held != stage.recipe:
            self._replace_or_refuse(stage, held)
            held = None
        if held is None:
            stage.begin()
        stage.open(what)
        return stage

    def would_make(
        self, name: str, settings: object, inputs: Mapping[str, str], upstream: tuple[Made, ...] = ()
    ) -> bool:
        """Whether `stage` would have anything to make: where not, what it is made of need not be there."""
        stage = self._stage(name, settings, inputs, upstream)
        return not stage.done or (self.redo and stage.held_recipe() != stage.recipe)

    def _stage(self, name: str, settings: object, inputs: Mapping[str, str], upstream: tuple[Made, ...]) -> Stage:
        above = tuple(made.recipe for made in upstream)
        recipe = Recipe(full_name(self.part_of, name), settings_of(settings), dict(inputs), above, versions())
        return Stage(self, name, recipe)

    def _replace_or_refuse(self, stage: Stage, held: Recipe) -> None:
        changes = in_short(differences(held, stage.recipe))
        if not self.redo:
            where = stage.folder
            raise RecipeError(f"{where} was made differently: {changes}. Use --redo to replace it, or another folder.")
        doomed = [*dependants(self.root, self.part_of, stage.recipe.stage), stage.folder]
        for folder in doomed:
            refuse_strangers(self.root, folder)
        for folder in doomed:
            files.remove(folder)


class Stage:
    """One stage's folder: units that are cached as they are finished, and the recipe that ends it."""

    def __init__(self, run: RunFolder, name: str, recipe: Recipe) -> None:
        self.run = run
        self.recipe = recipe
        self.folder = run.root / name
        self.label = run.part_of or name
        self._clock = Stopwatch(run.root, name)
        self._memory = MemoryWatch(run.root, name)
        self.grows = False
        """Whether others use what is finished of it, and add to it, before it is whole."""
        self._made: set[Path] = set()
        """Files that jobs were given to make, and folders of what other variants may have had meanwhile."""

    @property
    def done(self) -> bool:
        """Whether the result is complete."""
        return is_finished(self.folder)

    def path(self, name: str) -> Path:
        """Where a result of this stage lies."""
        return self.folder / name

    def listen(self, event: Event) -> None:
        """Hand the event on; the time up to it counts even when the stage is killed later."""
        self._clock.glance()
        if isinstance(event, Progress):
            self._memory.at(event.step)
        self.run.listen(event)

    def held_recipe(self) -> Recipe | None:
        """The recipe of what lies in the folder, finished or not; None when there is nothing."""
        held = held_recipe(self.folder)
        if holds_something(self.folder) and (held is None or held.stage != self.recipe.stage):
            raise SkyAnchorError(f"{self.folder} was not made by skyanchor. Choose another run folder.")
        return held

    def begin(self) -> None:
        """An empty folder for this recipe."""
        files.sweep_drafts(self.folder)
        self._clock.reset()
        files.write_through(self.folder, lambda draft: files.save(draft / PROGRESS / RECIPE, self.recipe))

    def open(self, what: str) -> None:
        """Tell the listener, and clear what a finished stage no longer needs."""
        if self.done:
            files.remove(self.folder / PROGRESS)
            self.run.listen(StageSkipped(self.label))
        else:
            self._sweep()
            self.run.begun.append(self)
            self.run.listen(StageStarted(self.label, what))
            self._memory.start()
            self.run.watches.append(self._memory)

    def _sweep(self) -> None:
        """Remove what interrupted writes left here, and beside it where nobody else may be writing."""
        files.sweep(self.folder)
        if self.run.alone:
            files.sweep(self.run.root / STATE)
            for name in self.run.layout.besides:
                files.sweep_drafts(self.run.root / name)

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
        self._made |= {self.path(name) for name in missing}
        ready = _counter(len(jobs) - len(missing))
        self._memory.at(step)
        self.run.listen(Progress(self.label, step, len(jobs) - len(missing), len(jobs)))

        def tell(index: int, result: Json) -> None:
            self._lend(names[index], basis)
            self.run.listen(Progress(self.label, step, next(ready), len(jobs)))

        outs = {name: {**job.arguments, "out": str(self.path(name))} for name, job in missing.items()}
        calls = [replace(job, arguments=outs[name]) for name, job in missing.items()]
        executor.run(calls, self.listen, tell)
        return [self.path(name) for name in jobs]

    def _shared(self, name: str, basis: object) -> Path | None:
        """Where variants of this run share a file; None where nothing is shared."""
        shared = basis is not None and (self.run.root / STATE / SHARED).is_dir()
        return self._shelf(basis) / name if shared else None

    def _shelf(self, basis: object) -> Path:
        """Folder of the files that variants share who agree on `basis`."""
        given = (self.recipe.stage, self.recipe.inputs, self.recipe.upstream, self.recipe.versions, basis)
        return self.run.root / STATE / SHARED / digest(codec.dumps(given).encode())

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
        self._made.add(self._shelf(basis))
        self._clock.skip()

    def finish(self, figures: Mapping[str, float] | None = None) -> None:
        """Declare the result complete: everything to the disk, then the recipe, then the progress away.

        InputError when an input is not what it was, see `refuse_changed`.
        """
        self._memory.stop()
        self.refuse_changed()
        self._sync()
        keep_listing(self.run.root, self.folder)
        files.save(self.folder / RECIPE, self.recipe)
        files.remove(self.folder / PROGRESS)
        self.run.listen(StageFinished(self.label, self._clock.mark(), dict(figures or {})))

    def refuse_changed(self) -> None:
        """InputError when an input, of this stage or of any that it stands on, holds something else than at first.

        Then nothing that may have been made of it stays.
        """
        above = {digest for recipe in self.recipe.upstream for digest in all_inputs(recipe)}
        if self.run.known.changed({*above, *self.recipe.inputs.values()}) is None:
            return
        for path in self._made if self.grows else (*self._made, self.folder):
            files.remove(path)
        self.run.refuse_changed(above, PUT_BACK)
        self.run.refuse_changed(self.recipe.inputs.values())

    def _sync(self) -> None:
        """Everything but the progress, which goes, to the disk."""
        for item in self.folder.iterdir():
            if item.name != PROGRESS:
                files.sync_tree(item)
        files.sync_folder(self.folder)


def _counter(start: int) -> Iterator[int]:
    while True:
        start += 1
        yield start
