"""Where a model's photos and masks are on disk, checked before anything relies on them."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from skyanchor.errors import InputError
from skyanchor.photos import photo_size
from skyanchor.types import Scaffold, View

MOST_LOOKED = 100_000
"""Files among which a photo that is missing is looked for."""
ADVICE = "Give the folder with --images; the names in the model are relative to it."


def find_images(root: Path, model: Path, names: list[str], images: Path | None = None) -> Path:
    """The folder that holds all named photos: the one given, else images/ beside or above the model."""
    if images is not None:
        if not images.is_dir():
            raise InputError(images, "is not a folder", "Give the folder with the model's photos.")
        folders = [images]
    else:
        places = [root, model, *list(model.parents)[:2]]
        folders = [folder for place in places for folder in (place / "images", place) if folder.is_dir()]
    for folder in folders:
        if (folder / names[0]).is_file() and not missing_photos(folder, names):
            return folder
    folder = min(folders, key=lambda f: len(missing_photos(f, names)), default=root / "images")
    missing = missing_photos(folder, names)
    many = f"is missing, with {len(missing) - 1} more of the model's {len(names)} photos" if len(missing) > 1 else None
    problem = many or f"is missing, one of the model's {len(names)} photos"
    raise InputError(folder / missing[0], problem, _where_else(folder, missing[0], len(missing) < len(names)))


def _where_else(folder: Path, name: str, some: bool) -> str:
    """What to do about a photo that is missing; `some` others of the model are there."""
    stem = Path(name).stem.casefold()
    below = islice(folder.rglob("*"), MOST_LOOKED) if folder.is_dir() else iter(())
    like = next((path for path in below if path.stem.casefold() == stem and path.is_file()), None)
    if like is None or "masks" in like.parts:
        return f"{ADVICE} Or take them out of the model, with colmap image_deleter." if some else ADVICE
    lies = like.relative_to(folder)
    if like.name == Path(name).name and not some:
        base = Path(str(like)[: -len(name)]) if str(like).endswith(f"/{name}") else like.parent
        return f"{lies} is there: give --images {base}."
    return f"{lies} is there: photos must have the names that the model gives them, folders, letters and endings alike."


def missing_photos(folder: Path, names: list[str]) -> list[str]:
    """Names without a file in the folder."""
    return [name for name in names if not (folder / name).is_file()]


def check_photos(views: tuple[View, ...]) -> None:
    """InputError for a photo that is unreadable, cut off, or of another size than its camera; masks likewise."""
    for view in views:
        expected = (view.camera.width, view.camera.height)
        for path in (view.path, view.mask_path):
            if path is not None and (size := photo_size(path)) != expected:
                raise InputError(
                    path,
                    f"is {size[0]}x{size[1]} but its camera says {expected[0]}x{expected[1]}",
                    "Give the photos that the model was made from, or rescale the model.",
                )


def images_folder(scaffold: Scaffold) -> Path:
    """The folder that the photos' names are relative to."""
    view = scaffold.views[0]
    return Path(str(view.path)[: -len(view.name)]) if str(view.path).endswith(view.name) else view.path.parent
