"""Windows of large aerial photos, which street-level views are painted from: a part of a scaffold that has such."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from skyanchor.events import Listener
from skyanchor.photos import load_photo
from skyanchor.run import prepared as parts
from skyanchor.run.folder import Finished
from skyanchor.run.job import Job
from skyanchor.run.layout import PROGRESS
from skyanchor.scaffold.windows import (
    Box,
    Cut,
    WindowConfig,
    boxes,
    cut_camera,
    cuts_of,
    window_camera,
    with_windows,
)
from skyanchor.stages.digests import aerial_digests
from skyanchor.stages.job_files import SCAFFOLD_FILE
from skyanchor.stages.work import Site
from skyanchor.storage import codec, files
from skyanchor.storage.codec import Json
from skyanchor.types import Bytes, Scaffold, View

WINDOWS_FILE = "windows.json"
JPEG = [cv2.IMWRITE_JPEG_QUALITY, 95, cv2.IMWRITE_JPEG_SAMPLING_FACTOR, cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444]
"""Hardly compressed, colours as fine as the rest."""


@dataclass(frozen=True)
class Windows:
    """windows.json."""

    cuts: tuple[Cut, ...]
    masked: tuple[int, ...]
    """Photos with a mask, by index: their windows have masks beside them."""


def windows_part(site: Site, config: WindowConfig) -> None:
    """The windows of photos that are too large to be painted from whole; nothing where there are no such photos."""
    if site.held(parts.WINDOWS) is not None:
        return
    cuts = cuts_of(site.scaffold, config)
    if not cuts and site.prepared.part(parts.WINDOWS) is None:
        return
    with site.adding(parts.WINDOWS) as folder:
        what = f"windows of {len(cuts)} large aerial photos"
        stage = folder.stage(parts.WINDOWS, what, config, aerial_digests(folder, site.scaffold))
        if stage.done:
            return
        stage.save(f"{PROGRESS}/{SCAFFOLD_FILE}", site.scaffold)
        shared = {"scaffold": stage.path(f"{PROGRESS}/{SCAFFOLD_FILE}"), "folder": stage.folder}
        work = {f"{PROGRESS}/{cut.photo}.json": Job.of(cut_photo_job, cut=cut, **shared) for cut in cuts}
        stage.produce("large photos cut", work, site.executor)
        masked = tuple(cut.photo for cut in cuts if site.scaffold.views[cut.photo].mask_path is not None)
        stage.save(WINDOWS_FILE, Windows(cuts, masked))
        stage.finish({"photos": len(cuts), "windows": sum(cut.columns * cut.rows for cut in cuts)})


def painted_from(site: Site) -> Scaffold:
    """The scaffold with the views that street-level views are painted from: photos, or their windows."""
    part = site.prepared.part(parts.WINDOWS)
    return site.scaffold if part is None else windowed(site.scaffold, part)


def windows_under(site: Site) -> tuple[Finished, ...]:
    """The part, for stages that stand on it; none where no photo was cut."""
    part = site.prepared.part(parts.WINDOWS)
    return () if part is None else (part,)


def windowed(scaffold: Scaffold, part: Finished) -> Scaffold:
    """The scaffold with the windows that were made of its photos."""
    held = part.load(WINDOWS_FILE, Windows)
    masked = set(held.masked)
    return with_windows(
        scaffold,
        {cut.photo: _views(scaffold.views[cut.photo], cut, part.folder, cut.photo in masked) for cut in held.cuts},
    )


def _views(view: View, cut: Cut, folder: Path, masked: bool) -> tuple[View, ...]:
    """The windows of a photo, row by row."""
    camera = cut_camera(view, cut)
    return tuple(
        View(
            f"{view.name}#{number}",
            folder / _file(cut, number, ".jpg"),
            window_camera(camera, box),
            view.cam_from_world,
            folder / _file(cut, number, ".png") if masked else None,
            view.image_id,
        )
        for number, box in enumerate(boxes(camera, cut))
    )


def _file(cut: Cut, number: int, suffix: str) -> str:
    return f"{cut.photo}-{number}{suffix}"


def cut_photo_job(out: str, scaffold: str, cut: Json, folder: str, listen: Listener) -> None:
    """Write the windows of one photo to a folder, and then a file that says so."""
    how = codec.from_json(Cut, cut)
    view = files.load(Path(scaffold), Scaffold).views[how.photo]
    photo, camera = load_photo(view.name, view.path, view.camera, how.width, view.mask_path)
    for number, box in enumerate(boxes(camera, how)):
        files.write_bytes(Path(folder) / _file(how, number, ".jpg"), _encoded(".jpg", _part(photo.pixels, box)))
        if photo.mask is not None:
            white = _part(photo.mask.astype(np.uint8) * 255, box)  # where it counts
            files.write_bytes(Path(folder) / _file(how, number, ".png"), _encoded(".png", white))
    files.save(Path(out), how)


def _part(pixels: Bytes, box: Box) -> Bytes:
    return np.ascontiguousarray(pixels[box.top : box.bottom, box.left : box.right])


def _encoded(suffix: str, pixels: Bytes) -> bytes:
    """A picture's file; RGB or grey."""
    swapped = pixels[..., ::-1] if pixels.ndim == 3 else pixels
    done, data = cv2.imencode(suffix, swapped, JPEG if suffix == ".jpg" else [])
    assert done, "OpenCV writes JPEG and PNG of any size in memory"
    return data.tobytes()
