"""A prepared scaffold: everything that depends on the flight alone, made once, for any number of walks to stand on.

    SCAFFOLD/aerial.json          the flight: where its photos lie, how it was read, up and ground
    SCAFFOLD/model/               the COLMAP model as it came
    SCAFFOLD/depth/               dense depth of every photo, NAME.npz
    SCAFFOLD/surface/             surface.npz, ground.npz
    SCAFFOLD/windows/             windows.json and windows of large photos, NUMBER-WINDOW.jpg, where there are any
    SCAFFOLD/places/<camera>/     described places, one set per field of view of a street camera: vocabulary.npz,
                                  tiles/X_Y.npz for every square of the map
    SCAFFOLD/splats/              splats.ply: aerial Gaussians, where they were trained here

Each part is a stage of its own with a recipe. A finished part never changes; parts and tiles that are missing are
added by whoever needs them first. RUN/1-scaffold is such a folder. It may be moved: the photos are looked for where
they were, then where they would be had they moved along.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from skyanchor.errors import InputError
from skyanchor.events import SCAFFOLD, Listener
from skyanchor.run.folder import Finished, RunFolder, read_finished
from skyanchor.run.known_files import KnownFiles
from skyanchor.run.layout import LOCK, OF_A_SCAFFOLD, STATE
from skyanchor.run.locks import lock_to_read
from skyanchor.scaffold import ScaffoldConfig, load_scaffold
from skyanchor.scaffold.colmap_files import model_files
from skyanchor.scaffold.georeference import find_georef
from skyanchor.scaffold.photo_files import images_folder
from skyanchor.storage import files
from skyanchor.types import Floats, Plane, Scaffold, UpSource

AERIAL_FILE, MODEL = "aerial.json", "model"
DEPTH, SURFACE, WINDOWS, PLACES, SPLATS = "depth", "surface", "windows", "places", "splats"
"""The parts."""
SURFACE_FILE, GROUND_FILE, TILES, SPLATS_FILE = "surface.npz", "ground.npz", "tiles", "splats.ply"


@dataclass(frozen=True, eq=False)
class AerialRecord:
    """aerial.json."""

    images: Path
    """Folder of the photos, absolute."""
    images_from_here: Path
    """The same, seen from the scaffold's folder."""
    reading: ScaffoldConfig
    """How the model was read."""
    up: Floats
    up_source: UpSource
    ground: Plane
    splats: Path | None = None
    """Aerial Gaussians that came with the flight, absolute."""


@dataclass(frozen=True)
class Prepared:
    """A prepared scaffold on disk."""

    root: Path

    def scaffold(self, images: Path | None = None, splats: Path | None = None, check_photos: bool = False) -> Scaffold:
        """The aerial model as it was understood when it was prepared."""
        record = self.record
        reading = replace(record.reading, check_photos=check_photos)
        splats = splats or (record.splats if record.splats is not None and record.splats.is_file() else None)
        held = load_scaffold(self.root / MODEL, images or self._images(record), splats, reading)
        return replace(held, up=record.up, up_source=record.up_source, ground=record.ground)

    @property
    def begun(self) -> bool:
        """Whether there is such a scaffold at all."""
        return (self.root / AERIAL_FILE).is_file()

    @property
    def record(self) -> AerialRecord:
        """What aerial.json says."""
        return files.load(self.root / AERIAL_FILE, AerialRecord)

    def _images(self, record: AerialRecord) -> Path:
        """Where the photos are now."""
        for folder in (record.images, (self.root / record.images_from_here).resolve()):
            if folder.is_dir():
                return folder
        advice = "Give the folder they are in now with --images."
        raise InputError(self.root, f"was prepared from photos in {record.images}, which is not there", advice)

    def part(self, name: str) -> Finished | None:
        """A finished part; None where it is not there yet."""
        return read_finished(self.root / name)

    def needed(self, name: str) -> Finished:
        """A finished part; InputError where it is not there."""
        found = self.part(name)
        if found is None:
            advice = "Run `skyanchor prepare` once more with the same options: it goes on where it was."
            raise InputError(self.root, f"is not finished: it has no {name}", advice)
        return found

    @contextmanager
    def reading(self) -> Iterator[None]:
        """While inside, nobody can make the scaffold anew; others may read it and add to it."""
        handle = lock_to_read(self.root / STATE / LOCK)
        try:
            yield
        finally:
            if handle is not None:
                handle.close()

    def adding(self, name: str, listen: Listener, known: KnownFiles | None = None) -> RunFolder:
        """The folder, opened to add a part that is missing while others read the rest."""
        return RunFolder(self.root, False, listen, SCAFFOLD, f"{name}.lock", OF_A_SCAFFOLD, known)

    def making(self, redo: bool, listen: Listener, known: KnownFiles | None = None) -> RunFolder:
        """The folder, opened to make any part of it while nobody reads it."""
        return RunFolder(self.root, redo, listen, SCAFFOLD, layout=OF_A_SCAFFOLD, known=known)


def find_prepared(path: Path) -> Prepared | None:
    """The prepared scaffold at a path, or in a run folder at that path; None for a plain aerial model."""
    for folder in (path, path / SCAFFOLD):
        if Prepared(folder).begun:
            return Prepared(folder)
    return None


def write_aerial(root: Path, scaffold: Scaffold, reading: ScaffoldConfig) -> None:
    """aerial.json, and the model's files where they are not there yet."""
    source = scaffold.model_path
    assert source is not None, "a scaffold that was read from files"
    if not (root / MODEL).is_dir():
        files.write_through(root / MODEL, lambda draft: _copy_model(source, scaffold.root, draft))
    images = images_folder(scaffold).resolve()
    here = Path(os.path.relpath(images, root.resolve()))
    splats = None if scaffold.splats_path is None else scaffold.splats_path.resolve()
    record = AerialRecord(images, here, reading, scaffold.up, scaffold.up_source, scaffold.ground, splats)
    files.save(root / AERIAL_FILE, record)


def _copy_model(source: Path, given: Path, draft: Path) -> None:
    """The COLMAP files and the georeference that belongs to them."""
    files.make_folder(draft)
    for path in model_files(source):
        files.copy(path, draft / path.name)
    georef = find_georef(source, given, source.parent)
    if georef is not None:
        files.copy(georef, draft / georef.name)
