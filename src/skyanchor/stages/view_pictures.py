"""Pictures of the test views beside their photos: as the aerial model drew them, and as the updated one does."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

from PIL import Image

from skyanchor.ahead import made_ahead
from skyanchor.gaussians import exposure
from skyanchor.gaussians.devices import Engine
from skyanchor.gaussians.scoring import rendered_rgb
from skyanchor.gaussians.splats import Splats, to_tensors
from skyanchor.gaussians.views import targets
from skyanchor.photos import PhotoCache
from skyanchor.scene.config import UpdateConfig
from skyanchor.scene.inputs import UpdateInputs
from skyanchor.scene.scoring import borrowed_exposure
from skyanchor.scene.update import SceneUpdate
from skyanchor.storage import files
from skyanchor.storage.names import names_for
from skyanchor.types import Bytes, View


def write_pictures(
    folder: Path, inputs: UpdateInputs, update: SceneUpdate, final: Splats, engine: Engine, config: UpdateConfig
) -> None:
    """test/{aerial,ground}/{photo,before,render}/*.png of the test views, packed beside the drawing."""
    for _ in made_ahead(lambda picture: _save_png(*picture), _pictures(folder, inputs, update, final, engine, config)):
        pass


def _pictures(
    folder: Path, inputs: UpdateInputs, update: SceneUpdate, final: Splats, engine: Engine, config: UpdateConfig
) -> Iterator[tuple[Path, Bytes]]:
    """Where each picture belongs, and its pixels."""
    import torch

    sets = {"before": to_tensors(inputs.aerial, engine.device), "render": to_tensors(final, engine.device)}
    maps = torch.tensor(update.exposures, dtype=torch.float32, device=engine.device)
    for kind, views in (("aerial", inputs.aerial_views), ("ground", inputs.ground_views)):
        photos = targets(PhotoCache(64 << 20), views.test, config.insertion.width)
        for view, png, target in zip(views.test, picture_names(views.test), photos, strict=True):
            yield folder / kind / "photo" / png, target.pixels
            for name, tensors in sets.items():
                rgb = rendered_rgb(tensors, target, engine)
                if kind == "ground" and name == "render" and len(maps):
                    rgb = exposure.exposed(rgb, borrowed_exposure(view, views.training, maps)).clamp(0.0, 1.0)
                yield folder / kind / name / png, (255.0 * rgb).round().byte().cpu().numpy()


def picture_names(views: tuple[View, ...]) -> tuple[str, ...]:
    """Names of the views' pictures in one folder, each its own."""
    flat = [view.name.replace("/", "_") for view in views]
    names = names_for(flat, ".png")
    return tuple(f"{k}_{name}" if names.count(name) > 1 else name for k, name in enumerate(names))


def _save_png(path: Path, pixels: Bytes) -> None:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="PNG")
    files.write_bytes(path, buffer.getvalue())
