"""The scene stage of a run folder as the report shows it: held-out pictures, curves, splats, figures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from skyanchor.evaluation.images import psnr
from skyanchor.gaussians.splats import Splats, concat
from skyanchor.photos import read_pixels
from skyanchor.report.content import AIR_TABLE, STREET_TABLE, Curve, RenderedView
from skyanchor.report.live_folder import live_scene
from skyanchor.report.live_scene import Kind, layers
from skyanchor.run.records import SceneRecord
from skyanchor.run.results import Run
from skyanchor.scene.scoring import WalkQuality
from skyanchor.types import View

MOST_VIEWS = 4
"""Pictures of one kind in the page."""
WORDS = {"ground": "street photo", "aerial": "aerial photo"}


@dataclass(frozen=True, eq=False)
class SceneSplats:
    """What is drawn before and after the update."""

    kept: Splats
    """What the update left alone."""
    before: Splats
    """What it changed or hid, as it was."""
    after: Splats
    """The same as it is, and what was added."""


@dataclass(frozen=True, eq=False)
class ScenePart:
    """What the scene stage adds to the report."""

    views: tuple[RenderedView, ...] = ()
    scores: dict[str, tuple[float, float]] | None = None
    curves: tuple[Curve, ...] = ()
    splats: SceneSplats | None = None
    street: tuple[View, ...] = ()


def scene_part(run: Run) -> ScenePart:
    """The scene's part of the report; empty before the stage is done."""
    held_out = run.held_out
    if held_out is None:
        return ScenePart()
    record = run.scene
    views = tuple(view for kind in ("ground", "aerial") for view in _views(held_out / kind, kind))
    scores = {view.name: (psnr(view.before, view.photo), psnr(view.after, view.photo)) for view in views}
    return ScenePart(views, scores, phase_curves(record), _splats(run), _street(run))


def held_back(record: SceneRecord) -> tuple[str, ...]:
    """Warnings where the joint refinement was undone, or new Gaussians were left out."""
    whom = " or of an earlier walk" if record.start.earlier else ""
    undone = f"The joint refinement cost too much from the air{whom} and was undone."
    most = "All" if record.added == 0 else f"{record.left_out} of {record.left_out + record.added}"
    fewer = f"{most} new Gaussians were left out: with them the update cost too much from the air{whom}."
    return ((undone,) if record.rolled_back else ()) + ((fewer,) if record.left_out else ())


def _views(folder: Path, kind: str) -> list[RenderedView]:
    """A few held-out views, evenly chosen."""
    names = sorted(path.name for path in (folder / "photo").glob("*.png"))
    chosen = names[:: max(1, len(names) // MOST_VIEWS)][:MOST_VIEWS]
    pictures = [[read_pixels(folder / part / name) for part in ("photo", "before", "render")] for name in chosen]
    return [
        RenderedView(f"{WORDS[kind]} {name[:-4]}", kind, *three) for name, three in zip(chosen, pictures, strict=True)
    ]


def phase_curves(record: SceneRecord) -> tuple[Curve, ...]:
    """The phases one after the other, of the validation views."""
    before, ends = 0.0, {point.phase: float(point.iteration) for point in record.curves}
    begins: dict[str, float] = {}
    for phase, end in ends.items():
        begins[phase], before = before, before + end
    x = tuple(begins[point.phase] + point.iteration for point in record.curves)
    ground = tuple(point.quality.ground_psnr for point in record.curves)
    aerial = tuple(point.quality.aerial_psnr for point in record.curves)
    start = (0.0, *x)
    walks = tuple(
        Curve(f"earlier walk {walk.name}", start, (walk.psnr, *(p.quality.earlier[k].psnr for p in record.curves)))
        for k, walk in enumerate(record.start.earlier)
    )
    return (
        Curve("street photos", start, (record.start.ground_psnr, *ground)),
        Curve("aerial photos", start, (record.start.aerial_psnr, *aerial)),
        *walks,
    )


def scene_figures(record: SceneRecord) -> dict[str, dict[str, float]]:
    """Held-out views before and after, and what the update did, by heading."""

    def table(name: str) -> dict[str, float]:
        before, after = record.before, record.after
        return {
            "psnr before": getattr(before, f"{name}_psnr"),
            "psnr after": getattr(after, f"{name}_psnr"),
            "ssim before": getattr(before, f"{name}_ssim"),
            "ssim after": getattr(after, f"{name}_ssim"),
        }

    counts: dict[str, float] = {
        "aerial Gaussians": record.aerial,
        "added": record.added,
        "moved": record.moved,
        "hidden": record.hidden,
        "hidden, of what vanished": record.hidden_vanished,
        "left out": record.left_out,
        "contradicted pixels of street photos, %": 100.0 * record.contradicted,
    }
    walks = {f"render of the earlier walk {before.name}": _of_walk(before, after) for before, after in _walks(record)}
    return {STREET_TABLE: table("ground"), AIR_TABLE: table("aerial"), **walks, "splats": counts}


def _walks(record: SceneRecord) -> list[tuple[WalkQuality, WalkQuality]]:
    """The held-out photos of each earlier walk before and after the update."""
    return list(zip(record.before.earlier, record.after.earlier, strict=True))


def _of_walk(before: WalkQuality, after: WalkQuality) -> dict[str, float]:
    held = {"psnr before": before.psnr, "psnr after": after.psnr}
    return {**held, "ssim before": before.ssim, "ssim after": after.ssim}


def _splats(run: Run) -> SceneSplats:
    parts = layers(live_scene(run))

    def of(patched: bool | None) -> Splats:
        return concat([one.splats for one in parts if one.patched is patched and one.kind is not Kind.HIDDEN])

    return SceneSplats(of(None), of(False), of(True))


def _street(run: Run) -> tuple[View, ...]:
    """The posed frames; only their poses are used."""
    return tuple(View(name, Path(name), run.camera, pose) for name, pose in run.poses.items())
