"""What lies where in a folder of stages, and whose folder it is: nothing of others is written over or lost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from skyanchor.errors import InputError, SkyAnchorError
from skyanchor.events import ANCHORS, CHANGES, MESH, SCAFFOLD, SCENE, TRAJECTORY
from skyanchor.run.memory import MEMORY
from skyanchor.run.recipe import Recipe, stands_on
from skyanchor.run.timing import TIMINGS
from skyanchor.storage import files, kinds

RECIPE = "recipe.json"
PROGRESS = "progress"
STATE = ".state"
SHARED = "shared"
LOCK = "lock"
DIGESTS = "digests.json"
"""In .state/: what is remembered of the contents of files."""
FRAMES = "frames"
"""In a run folder: frames of a video, upright copies of photos that are stored sideways."""
MARKS = ("lock", "*.lock", "inputs.json")
"""In .state/: any of these says whose folder it is."""
MADE = "made"
"""In .state/: what each finished stage consists of."""


@dataclass(frozen=True)
class Layout:
    """What is written to a folder of stages, by name."""

    stages: tuple[str, ...]
    """Their folders."""
    besides: tuple[str, ...]
    """Files and folders beside them."""
    sign: tuple[str, ...] = ()
    """What is there together in a folder of this kind alone."""


COMMON = (STATE, RECIPE, PROGRESS, "log.txt", TIMINGS, MEMORY)
"""Written to every such folder, or what would make it a stage itself."""
OF_A_RUN = Layout(
    (SCAFFOLD, ANCHORS, TRAJECTORY, SCENE, MESH, CHANGES),
    (
        *(*COMMON, "anchor_seconds.json", "trajectory_seconds.json", "scene_seconds.json"),
        *("runtime.json", "metrics.json"),
        *("report.html", "plots", FRAMES, "ablations", "ablations.json", "ablations.md"),
    ),
    kinds.SIGNS["a run folder"],
)
OF_A_SCAFFOLD = Layout(
    ("depth", "surface", "windows", "splats"), (*COMMON, "aerial.json", "model"), kinds.SIGNS["a prepared scaffold"]
)
KINDS = {"a run": OF_A_RUN, "a prepared scaffold": OF_A_SCAFFOLD}


def is_finished(folder: Path) -> bool:
    """Whether a stage's folder holds a complete result."""
    return (folder / RECIPE).is_file()


def held_recipe(folder: Path) -> Recipe | None:
    """The recipe of what lies in a stage's folder, finished or not; None when there is nothing."""
    path = next((path for path in (folder / RECIPE, folder / PROGRESS / RECIPE) if path.is_file()), None)
    try:
        return None if path is None else files.load(path, Recipe)
    except InputError as error:
        advice = "Move its folder away if it is yours, else delete it."
        raise InputError(folder / RECIPE, "does not say how a stage was made", advice) from error


# --- whose folder it is -------------------------------------------------------------------------------------------


def claim(root: Path, layout: Layout = OF_A_RUN) -> None:
    """Make a folder that stages may be written to, or take it as it is when it is one already.

    SkyAnchorError, with nothing changed, for a file, or for a folder of others with something in it that would be lost.
    """
    if root.is_symlink() and not root.exists():
        raise SkyAnchorError(f"{root} is a link that leads nowhere. Choose another folder.")
    if root.exists() and not root.is_dir():
        raise SkyAnchorError(f"{root} is a file. Choose another folder.")
    for kind, other in KINDS.items():
        if other != layout and all((root / name).exists() for name in other.sign):
            raise SkyAnchorError(f"{root} is {kind} already. Choose another folder.")
    files.make_folder(root)
    foreign = [root / name for name in layout.stages if _is_foreign(root / name)]
    if not is_ours(root):
        foreign += [root / name for name in layout.besides if holds_something(root / name)]
    if foreign:
        raise SkyAnchorError(f"{foreign[0]} was not made by skyanchor. Choose another run folder.")
    lock = files.make_folder(root / STATE) / LOCK
    with files.writing(lock):
        lock.touch()


def refuse_among(root: Path, walk: Path | None) -> None:
    """SkyAnchorError for a run in the very folder of its street photos: pictures of the run would lie beside them."""
    if walk is not None and root.resolve() in (walk.resolve(), (walk / "images").resolve()):
        raise SkyAnchorError(
            f"{root} holds the street photos, and pictures of the run would lie beside them. Choose another folder."
        )


def _is_foreign(folder: Path) -> bool:
    """Whether what has the name of a stage is none: neither one with a recipe nor one of several parts."""
    return holds_something(folder) and held_recipe(folder) is None and not is_ours(folder)


def holds_something(path: Path) -> bool:
    """Whether there is a file or a link at a path, or anywhere below it; empty folders are nothing."""
    return path.is_symlink() or path.is_file() or any(not found.is_dir() for found in path.rglob("*"))


def is_ours(root: Path) -> bool:
    """Whether a folder is a run or a prepared scaffold, finished or not: it has our state, or a stage in its place."""
    known = any(path.is_file() for mark in MARKS for path in (root / STATE).glob(mark))
    return known or any(folder.name == recipe.stage.rpartition("/")[2] for folder, recipe in _recipes(root.glob("*")))


def _recipes(folders: Iterable[Path]) -> Iterator[tuple[Path, Recipe]]:
    """The folders with a recipe that can be read, and their recipes."""
    for folder in folders:
        with suppress(InputError):
            recipe = held_recipe(folder)
            if recipe is not None:
                yield folder, recipe


def dependants(root: Path, part_of: str, stage: str) -> list[Path]:
    """Folders of stages that stand on `stage`, the furthest first: those alone that lie where their recipe belongs."""
    tops = [top for top in root.iterdir() if top.is_dir() and top.name != PROGRESS]
    below = [folder for top in tops if not top.is_symlink() for folder in top.iterdir() if folder.name != PROGRESS]
    found = [
        folder
        for folder, recipe in _recipes([*tops, *below])
        if recipe.stage == full_name(part_of, folder.relative_to(root).as_posix()) and stands_on(recipe, stage)
    ]
    return sorted(found, reverse=True)


def full_name(part_of: str, name: str) -> str:
    """A stage's name in recipes; `part_of` is the stage that it is a part of, or empty."""
    return f"{part_of}/{name}" if part_of else name


# --- what a stage consists of -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Listing:
    """.state/made/STAGE.json."""

    files: tuple[str, ...]
    """Names relative to the stage's folder."""


def listing(root: Path, stage: str) -> Path:
    """Where the names of a stage's files are kept."""
    return root / STATE / MADE / f"{stage}.json"


def keep_listing(root: Path, folder: Path) -> None:
    """Remember what a stage consists of, as it is finished."""
    made = sorted(name for name in _names_in(folder) if not name.startswith(f"{PROGRESS}/"))
    files.save(listing(root, folder.relative_to(root).as_posix()), Listing(tuple(made)))


def refuse_strangers(root: Path, folder: Path) -> None:
    """SkyAnchorError where a finished stage's folder holds what it was not finished with."""
    known = listing(root, folder.relative_to(root).as_posix())
    if folder.is_symlink() or not is_finished(folder) or not known.is_file():
        return
    strangers = sorted(_names_in(folder) - {RECIPE, *files.load(known, Listing).files})
    if strangers:
        where = folder / strangers[0]
        raise SkyAnchorError(f"{where} was not made by skyanchor and would be lost. Move it out of {folder} first.")


def _names_in(folder: Path) -> set[str]:
    """Names of all files below a folder, relative to it."""
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()}
