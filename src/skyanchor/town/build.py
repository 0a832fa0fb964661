"""A town scene on disk, laid out as a user's data is: aerial model, street frames, and the truth apart."""

from __future__ import annotations

import json
import logging
import math
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from skyanchor.errors import InputError
from skyanchor.events import Listener, Progress, StageFinished, StageStarted, silent
from skyanchor.geometry import cameras
from skyanchor.storage import files
from skyanchor.town import routes, sensor
from skyanchor.town.presets import FlightPlan, TownPreset, WalkPlan
from skyanchor.town.routes import Shot
from skyanchor.types import Camera, Floats

if TYPE_CHECKING:
    from skyanchor.town.town import Epoch, Town

log = logging.getLogger(__name__)

TRUE_DEPTH = Path("truth/depth")
"""Of the street frames, below a walk."""
TRUE_CHANGES = Path("truth/changes.json")
"""What is another way than at the flight and at the first walk, below a walk."""
DEPTH_UNIT = 0.002
"""Metres per count of the depth PNGs of street frames and of flights up to `LOW_M` above the ground."""
LOW_M = 50.0
"""From there 16 bits reach all that a photo shows; those of higher flights count in so many times the unit."""


def build_town(out: Path, preset: TownPreset, seed: int | None = None, listen: Listener = silent) -> None:
    """Write the scene of a preset into the folder `out`, whole or not at all.

    The folder must be empty or absent. The same preset and seed give the same bytes with any number of threads.
    """
    if out.is_symlink() or out.is_file() or (out.is_dir() and any(out.iterdir())):
        raise InputError(out, "is not an empty folder", "Give a new or empty folder for the scene.")
    start = time.monotonic()
    used = preset.seed if seed is None else seed
    files.sweep_dead(out)
    listen(StageStarted("town", f"building the {preset.name} scene from seed {used}"))
    files.write_through(out, lambda draft: _write_scene(draft, preset, used, listen))
    listen(StageFinished("town", time.monotonic() - start))


def build_walks(
    out: Path, preset: TownPreset, seed: int | None = None, listen: Listener = silent, first: int | None = None
) -> None:
    """Write the walks of a preset alone, whole or not at all: the flight of the same town and seed is elsewhere.

    `first` takes only so many frames of each, from its start.
    """
    used = preset.seed if seed is None else seed
    scene = _plan(preset, used)
    kept = tuple(replace(walk, shots=walk.shots[:first]) for walk in scene.walks)
    files.sweep_dead(out)
    files.write_through(out, lambda draft: _write_walks(draft, replace(scene, walks=kept), used, listen))


def _write_walks(root: Path, scene: _Scene, seed: int, listen: Listener) -> None:
    for walk in scene.walks:
        _write_walk(root / walk.name, scene.town, walk, seed, listen)


@dataclass(frozen=True, eq=False)
class _Scene:
    """All that is known before the first photo."""

    town: Town
    aerial: list[Shot]
    walks: tuple[_Walk, ...]
    area: Floats


@dataclass(frozen=True, eq=False)
class _Walk:
    """One sequence of street frames."""

    name: str
    """Of its folder: ground, ground2, ..."""
    plan: WalkPlan
    epoch: Epoch
    shots: list[Shot]


def _plan(preset: TownPreset, seed: int) -> _Scene:
    from skyanchor.town.town import make_town

    weather = preset.weather
    if routes.bent(weather.carried) and weather.carried.readout_ms > 0.0:
        raise InputError("carried.readout_ms", "and distortion are not rendered together", "Choose one of them.")
    town = make_town(preset.streets, seed, weather)
    plans = _plans(preset)
    area = routes.covered_area([plan for plan, _ in plans], town.layout)
    walks = []
    for k, (plan, epoch) in enumerate(plans):
        name = "ground" if k == 0 else f"ground{k + 1}"
        shots = routes.walk_shots(plan, town.layout, name, np.random.default_rng([seed, 12 + k]))
        shots = routes.carried_shots(shots, weather.carried, np.random.default_rng([seed, 32, k]))
        walks.append(_Walk(name, plan, epoch, shots))
    flight = routes.flight_shots(preset.flight, town.layout, area, np.random.default_rng([seed, 11]))
    return _Scene(town, routes.flown(flight, weather.flight), tuple(walks), area)


def _plans(preset: TownPreset) -> list[tuple[WalkPlan, Epoch]]:
    """The walks and when they are taken."""
    from skyanchor.town.town import Epoch

    later = [(preset.later_walk, Epoch.LATER)] if preset.later_walk else []
    walks = [(preset.walk, Epoch.GROUND), *later, *((plan, Epoch.GROUND) for plan in preset.other_walks)]
    return [(routes.carried_plan(plan, preset.weather.carried), epoch) for plan, epoch in walks]


def _write_scene(root: Path, preset: TownPreset, seed: int, listen: Listener) -> None:
    from skyanchor.town import photographing
    from skyanchor.town.photographing import Roll
    from skyanchor.town.town import Epoch

    preset = replace(preset, flight=routes.surveyed(preset.flight, preset.weather.flight))
    scene = _plan(preset, seed)
    eye = routes.flight_camera(preset.flight)
    mapping = sensor.survey_sensor(preset.flight.gain, preset.flight.noise)
    folder = root / "aerial" / "images"
    photographing.photograph(scene.town, Roll(eye, scene.aerial, Epoch.AERIAL, mapping), folder, seed, listen)
    shots = routes.delivered(scene.aerial, preset.weather.flight, np.random.default_rng([seed, 34]))
    figures = _write_aerial_model(root / "aerial" / "sparse", folder, eye, shots, listen)
    _write_depths(root / "truth_aerial_depth", scene, eye, preset, listen)
    _write_walks(root, scene, seed, listen)
    record = _record(preset, seed, scene, figures)
    files.write_bytes(root / "scene.json", (json.dumps(record, indent=2) + "\n").encode())
    files.write_bytes(root / "README.md", _readme(preset, scene, figures).encode())


def _write_aerial_model(
    folder: Path, images: Path, camera: Camera, shots: list[Shot], listen: Listener
) -> dict[str, float]:
    from skyanchor.town.tracks import TrackConfig, triangulated, write_model

    model = triangulated(images, camera, shots, TrackConfig(), listen)
    write_model(folder, model)
    return {
        "points": model.num_points3D(),
        "mean_track_length": model.compute_mean_track_length(),
        "mean_reprojection_error": model.compute_mean_reprojection_error(),
    }


def _write_walk(root: Path, town: Town, walk: _Walk, seed: int, listen: Listener) -> None:
    from skyanchor.town import photographing
    from skyanchor.town.photographing import Roll
    from skyanchor.town.town import Epoch
    from skyanchor.town.tracks import empty_model, write_model
    from skyanchor.town.turnover import TrueChanges, turnovers

    camera = routes.walk_camera(walk.plan, town.weather.carried)
    phone = sensor.handheld_sensor(walk.plan.gain, walk.plan.noise, 0.1 if walk.epoch == Epoch.GROUND else -0.08)
    roll = Roll(camera, walk.shots, walk.epoch, phone, walk.plan)
    photographing.photograph(town, roll, root / "images", seed, listen)
    write_model(root / "truth", empty_model(camera, walk.shots))
    since = (turnovers(town.things, epoch, walk.epoch) for epoch in (Epoch.AERIAL, Epoch.GROUND))
    files.save(root / TRUE_CHANGES, TrueChanges(*since))
    (root / TRUE_DEPTH).mkdir()

    def write(shot: Shot) -> None:
        _write_depth(root / TRUE_DEPTH, town, half_camera(camera), shot, walk.epoch)

    for done, _ in enumerate(photographing.side_by_side(write, walk.shots)):
        listen(Progress("town", f"{root.name} depth", done + 1, len(walk.shots)))


# --- truth ------------------------------------------------------------------------------------------------------


def half_camera(camera: Camera) -> Camera:
    """The camera of the depth PNGs: the photo's, halved."""
    return cameras.scaled(camera, camera.width // 2)


def depth_unit(flight: FlightPlan) -> float:
    """Metres per count of the depth PNGs of a flight."""
    return DEPTH_UNIT * max(1, math.ceil(flight.altitude / LOW_M))


def _write_depths(folder: Path, scene: _Scene, camera: Camera, preset: TownPreset, listen: Listener) -> None:
    """True depth of photos spread over the flight, 16-bit PNG; 0 = none or too far."""
    from skyanchor.town.town import Epoch

    folder.mkdir(parents=True)
    count, unit = min(preset.depth_photos, len(scene.aerial)), depth_unit(preset.flight)
    chosen = np.unique(np.linspace(0, len(scene.aerial) - 1, count).round().astype(int))
    for done, k in enumerate(chosen.tolist()):
        _write_depth(folder, scene.town, half_camera(camera), scene.aerial[k], Epoch.AERIAL, unit)
        listen(Progress("town", "aerial depth", done + 1, len(chosen)))


def _write_depth(folder: Path, town: Town, camera: Camera, shot: Shot, epoch: Epoch, unit: float = DEPTH_UNIT) -> None:
    """True depth of one shot, 16-bit PNG, which says its unit where that is not the usual one."""
    from skyanchor.town.rendering import render_depth

    counts = np.round(render_depth(town, camera, shot.cam_from_world, epoch) / unit)
    counts = np.where(counts > 65535, 0, counts).astype(np.uint16)
    said = PngInfo()
    if unit != DEPTH_UNIT:
        said.add_text("unit_m", f"{unit:g}")
    # Pillow, because OpenCV's PNG writer aborts the process when pycolmap was imported before it
    Image.fromarray(counts).save(folder / Path(shot.name).with_suffix(".png").name, pnginfo=said)


# --- words ------------------------------------------------------------------------------------------------------


def _camera_record(camera: Camera) -> dict[str, object]:
    return {"model": camera.model, "size": [camera.width, camera.height], "params": list(camera.params)}


def _record(preset: TownPreset, seed: int, scene: _Scene, figures: dict[str, float]) -> dict[str, object]:
    eye = routes.flight_camera(preset.flight)
    sequences: dict[str, object] = {}
    for walk in scene.walks:
        camera = _camera_record(routes.walk_camera(walk.plan, preset.weather.carried))
        length = _way(walk.plan, scene)
        sequences[walk.name] = {
            "images": len(walk.shots), "camera": camera, "length": length, "eye_height": walk.plan.eye_height
        }  # fmt: skip
    slope = preset.streets.slope
    return {
        "name": preset.name,
        "note": "images are renders of a procedural town, not photographs; poses are exact",
        "provenance": "skyanchor.town",
        "licence": "Apache-2.0",
        "seed": seed,
        "units": "metre",
        "axes": "x east, y north, z up",
        "up": [0.0, 0.0, 1.0],
        "ground_plane": {"normal": [-slope[0], -slope[1], 1.0], "offset": 0.0, "note": "roads; pavements lie above"},
        "sequences": sequences,
        "aerial": {
            "images": len(scene.aerial),
            "camera": _camera_record(eye),
            "altitude": preset.flight.altitude,
            "ground_sample_distance": preset.flight.altitude / preset.flight.focal,
            **figures,
        },
        "truth_aerial_depth": {"camera": _camera_record(half_camera(eye)), "unit": depth_unit(preset.flight)},
        "preset": asdict(preset),
    }


def _way(plan: WalkPlan, scene: _Scene) -> float:
    points, _ = routes.walk_line(plan, scene.town.layout)
    return float(np.linalg.norm(np.diff(points, axis=0), axis=1).sum())


def _readme(preset: TownPreset, scene: _Scene, figures: dict[str, float]) -> str:
    flight, half = preset.flight, half_camera(routes.flight_camera(preset.flight))
    unit = depth_unit(flight)
    lines = [
        f"# Scene `{preset.name}`",
        "",
        "A procedural town. **These are renders, not photographs.** Poses are exact. Street frames have another",
        "exposure, white balance, noise and vignetting than the aerial photos; some cars and street furniture come and",
        "go between the flight, the walk and the later walk, which was taken in hazier light.",
        "",
        f"- `aerial/images`: {len(scene.aerial)} five-camera photos (nadir and four 45 degree obliques), "
        f"{flight.width}x{flight.height}, {flight.altitude:.0f} m above ground",
        "- `aerial/sparse`: COLMAP model (bin): exact poses, PINHOLE camera, "
        f"{figures['points']:.0f} points from SIFT tracks triangulated at these poses",
    ]
    for walk in scene.walks:
        plan = walk.plan
        lines += [
            f"- `{walk.name}/images`: {plan.frames} street-level frames, {plan.width}x{plan.height}, "
            f"{_way(plan, scene):.0f} m walk, camera {plan.eye_height} m above ground",
            f"- `{walk.name}/truth`: COLMAP model (bin) with the exact poses and intrinsics of those frames; "
            "for scoring only; `truth/depth`: their exact depth, as that of the aerial photos; `truth/changes.json`: "
            "boxes of what came, went or got another look since the flight and since the first walk",
        ]
    lines += [
        f"- `truth_aerial_depth`: exact depth of aerial photos for scoring: 16-bit PNG, {half.width}x{half.height} "
        f"(the photo's camera halved), depth along the optical axis in units of {1000.0 * unit:g} mm, 0 = none or "
        f"beyond {65535 * unit:.0f} m; the PNGs say other units than 2 mm as the text `unit_m`",
        "- `scene.json`: settings and frame (metres, z up)",
        "",
    ]
    return "\n".join(lines)
