"""Stage 4, the scene: street depth, aerial model, update, patch, pictures of the test views."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from skyanchor.ahead import made_ahead
from skyanchor.errors import NothingPlacedError, SkyAnchorError
from skyanchor.events import SCENE, Listener, Note
from skyanchor.gaussians import ply
from skyanchor.gaussians.devices import AnyRasteriser, Device, Engine, load_engine, rasteriser_of
from skyanchor.gaussians.ply import PlyBytes
from skyanchor.gaussians.splat_file import SplatFile
from skyanchor.gaussians.splats import Splats, concat, select
from skyanchor.gaussians.split import Split, split
from skyanchor.geometry import rigid
from skyanchor.run import prepared as parts
from skyanchor.run import records
from skyanchor.run.folder import Made, Stage
from skyanchor.run.layout import PROGRESS
from skyanchor.run.prepared import Prepared
from skyanchor.run.records import (
    PATCH_FILE,
    SCENE_FILE,
    TEST_FOLDER,
    UPDATED_PLY,
    UPDATED_SPLAT,
    SceneRecord,
    SceneSeconds,
)
from skyanchor.scaffold import frame_check, georeference, training
from skyanchor.scaffold.blocks import BlockConfig
from skyanchor.scaffold.training import AerialConfig
from skyanchor.scene import patch as patches
from skyanchor.scene.config import UpdateConfig, preset
from skyanchor.scene.contradicted import ContradictedConfig
from skyanchor.scene.ground_points import GroundPointConfig, ground_cloud
from skyanchor.scene.hiding import vanished_gaussians
from skyanchor.scene.inputs import UpdateInputs
from skyanchor.scene.patch_head import PatchSummary
from skyanchor.scene.reach import Reach, change_of_all, reach_of, sees, whole_reach
from skyanchor.scene.update import SceneUpdate, update_scene
from skyanchor.scene.views import ground_views
from skyanchor.stages.earlier import patch_digests, with_patches
from skyanchor.stages.masks import masked_inputs, without_contradicted
from skyanchor.stages.since import DEPTH_BYTES, differences_since
from skyanchor.stages.splats import splats_part
from skyanchor.stages.street_depth import StreetPlan, street_depth, typical_depth
from skyanchor.stages.vanished import HiddenPlace, hidden_places, vanished_rows, write_vanished
from skyanchor.stages.view_pictures import write_pictures
from skyanchor.stages.work import Work
from skyanchor.step_clock import StepClock
from skyanchor.stereo import DepthFolder, depth_path, load_depth
from skyanchor.storage import codec, files
from skyanchor.storage.codec import Json
from skyanchor.types import Cloud, Floats, Scaffold, Sequence, Trajectory, View

WHAT = "the street in the splats"
SAMPLED = 20_000
"""Points of the street by which the aerial photos that see it are found."""


@dataclass(frozen=True)
class SceneConfig:
    """Settings of the scene update."""

    points: GroundPointConfig = field(default_factory=GroundPointConfig)
    """Dense ground points."""
    contradicted: ContradictedConfig | None = field(default_factory=ContradictedConfig)
    """Pixels of street photos that neighbouring ones contradict (what moves, shadows that pass) neither train nor
    decide; None = all pixels count. Test views stay whole."""
    aerial: AerialConfig | None = None
    """Training of the aerial model where none is given; None = the device's preset."""
    blocks: BlockConfig = field(default_factory=BlockConfig)
    """Areas whose aerial Gaussians are trained one by one, for more than a GPU holds."""
    update: UpdateConfig | None = None
    """Insertion and refinement; None = the device's preset."""
    device: Device = "auto"
    """Where the Gaussians are trained."""

    def aerial_on(self, device: str) -> AerialConfig:
        """Training of the aerial model on a device."""
        given = self.aerial or training.preset(device)
        return replace(given, blocks=self.blocks) if self.blocks.side_m else given

    @property
    def implied(self) -> tuple[AnyRasteriser, ...]:
        """What draws on the device must be there."""
        return (rasteriser_of(self.device),)


@dataclass(frozen=True, eq=False)
class Base:
    """The aerial .ply that is patched, read once."""

    file: SplatFile
    held: PlyBytes

    @property
    def splats(self) -> Splats:
        """Its usable Gaussians in the local frame, each with its owner."""
        return replace(self.file.local(self.held), owner=patches.owners(self.held)[self.held.usable])


def resolved_update(config: SceneConfig) -> UpdateConfig:
    """The settings of the update, the device's preset where none were given."""
    return config.update or preset(load_engine(config.device).device)


def run(work: Work, config: SceneConfig, above: Made) -> Made:
    """The updated splats, the patch that makes them from the aerial .ply, and the figures from air and street."""
    trajectory = records.read_trajectory(above)
    if len(split(ground_views(work.sequence, trajectory)).training) < 2:
        raise NothingPlacedError("fewer than two street frames have a pose: there is nothing to add to the scene")
    engine = load_engine(config.device)
    settings = {
        "points": config.points,
        "contradicted": config.contradicted,
        "update": config.update or preset(engine.device),
        "device": engine.device,
    }
    given = frame_check.given_splats(work.scaffold)
    earlier = tuple(one for one in work.earlier if one.in_scene)
    if given is not None:
        inputs = {"splats": work.run.digest({given.path.name: given.path}), **patch_digests(work.run, earlier)}
        stage = work.run.stage(SCENE, WHAT, settings, inputs, (above,))
    else:
        trained = splats_part(work.site, engine, config.aerial_on(engine.device))
        stage = work.run.stage(SCENE, WHAT, settings, patch_digests(work.run, earlier), (above, trained))
    if not stage.done:
        base = _read_base(given or SplatFile(trained.path(parts.SPLATS_FILE)), stage.listen)
        if given is not None:
            _refuse_other_frame(base, work.scaffold, engine)
        base = replace(base, held=with_patches(base.held, earlier))
        _update(stage, replace(work, earlier=earlier), base, trajectory, config, engine)
    return stage


def check_given_splats(scaffold: Scaffold) -> None:
    """InputError, before any work, when the Gaussians that came with the model cannot be patched."""
    if scaffold.splats_path is not None:
        ply.check_splats(scaffold.splats_path)


def _update(stage: Stage, work: Work, base: Base, trajectory: Trajectory, config: SceneConfig, engine: Engine) -> None:
    settings = config.update or preset(engine.device)
    views = split(ground_views(work.sequence, trajectory))
    plan, clock = StreetPlan(views.training, trajectory.points, work.scaffold.up, config.points), StepClock()
    with clock.step("street depth"):
        maps = list(made_ahead(load_depth, street_depth(stage, plan, work.executor).values()))
    with clock.step("what neighbours contradict"):
        views, contradicted = without_contradicted(stage, views, maps, config.points, config.contradicted)
    with clock.step("street points"):
        cloud = ground_cloud(maps, views.training, config.points)
    with clock.step("what vanished"):
        aerial = _aerial_depth(work.site.prepared, work.scaffold, cloud)
        since = differences_since(stage, work, views.training, maps, aerial, config.points, settings)
    splats, flight, earlier = base.splats, work.scaffold.views, tuple(one.views for one in work.earlier)
    walks = (views, *(one.views for one in earlier))
    reach = taking_part(stage.listen, splats, flight, walks, cloud, settings)
    inputs = UpdateInputs(
        select(splats, reach.rows), reach.views, views, cloud,
        trajectory.points, trajectory.point_colors, tuple(maps), work.scaffold.up, typical_depth(maps),
        aerial, int(patches.owners(base.held).max()) + 1,
        earlier, flight=rigid.centres_in_world([view.cam_from_world for view in flight]),
    )  # fmt: skip
    if since:
        with clock.step("what vanished"):
            inputs = masked_inputs(stage, inputs, since)
    update = update_scene(inputs, settings, engine, stage.listen, stage.path(PROGRESS), clock)
    whole = change_of_all(update.change, splats, reach)
    _write(stage, work, base, inputs, update, whole, engine, settings, clock, contradicted)


def taking_part(
    listen: Listener, splats: Splats, flight: tuple[View, ...], walks: tuple[Split, ...], cloud: Cloud,
    config: UpdateConfig,
) -> Reach:  # fmt: skip
    """What of the aerial model the walk is about, or all of it if so asked; told where it is a part."""
    if not config.in_reach:
        return whole_reach(splats, flight)
    street = tuple(view for walk in walks for view in (*walk.training, *walk.validation, *walk.test))
    reach = reach_of(splats, flight, street, _some(cloud))
    count = sum(map(len, (reach.views.training, reach.views.validation, reach.views.test)))
    if count < len(flight):
        told = f"{count} of {len(flight)} aerial photos see the walk: they guard and judge the update"
        listen(Note(SCENE, f"{told}, with {len(reach.rows)} of {len(splats)} Gaussians"))
    return reach


def _aerial_depth(prepared: Prepared, scaffold: Scaffold, cloud: Cloud) -> DepthFolder:
    """The confirmed depth of the aerial photos that see some of the street."""
    folder, some = prepared.needed(parts.DEPTH).folder, _some(cloud)
    names = [view.name for view in scaffold.views if depth_path(folder, view.name).is_file() and sees(view, some)]
    return DepthFolder(folder, tuple(names), DEPTH_BYTES)


def _some(cloud: Cloud) -> Floats:
    """(N, 3), points spread over the street."""
    return np.asarray(cloud.points[:: max(1, len(cloud.points) // SAMPLED)], np.float64)


# --- aerial model -------------------------------------------------------------------------------------------------


def _read_base(file: SplatFile, listen: Listener) -> Base:
    base = Base(file, ply.read_bytes(file.path))
    if unusable := int((~base.held.usable).sum()):
        told = f"{unusable} Gaussians of {file.path.name} have values that are not finite: they stay as they are"
        listen(Note(SCENE, told, warning=True))
    return base


def _refuse_other_frame(base: Base, scaffold: Scaffold, engine: Engine) -> None:
    """Raise where the Gaussians that a user brought do not show the aerial photos."""
    verdict = frame_check.check_frame(base.splats, scaffold, engine)
    if not verdict.fits:
        raise SkyAnchorError(
            f"{base.file.path} is not in the frame of the aerial model ({verdict}). "
            "Run `skyanchor scaffold check --fix-frame` and use the .ply it writes."
        )


# --- results ------------------------------------------------------------------------------------------------------


def _write(
    stage: Stage, work: Work, base: Base, inputs: UpdateInputs, update: SceneUpdate, whole: patches.Change,
    engine: Engine, config: UpdateConfig, clock: StepClock, contradicted: float,
) -> None:  # fmt: skip
    """Everything that the stage leaves: the patch on a thread of its own, beside the pictures."""
    file, name = base.file, _patch_name(base.held, work.sequence)
    with ThreadPoolExecutor(1) as beside:
        writing = beside.submit(_write_patch, stage, base, name, whole)
        with clock.step("pictures"):
            final, places = _visible(update.change), _hidden_places(inputs, update, config)
            write_pictures(stage.path(TEST_FOLDER), inputs, update, final, engine, config)
            street = (*inputs.ground_views.training, *inputs.ground_views.validation)
            write_vanished(stage, places, street, inputs.aerial, final, config.insertion.width, engine)
            ply.write_splat(stage.path(UPDATED_SPLAT), _visible(whole))
        with clock.step("patch"):
            facts = writing.result()
    files.save(work.run.root / records.SCENE_SECONDS_FILE, SceneSeconds(clock.with_total))
    stage.save(
        SCENE_FILE,
        SceneRecord(
            file.at(Path(file.path.name)), update.before, update.after, update.start, update.curves,
            update.rolled_back, len(whole.aerial), facts.added, facts.changed, facts.hidden, update.end,
            update.left_out, int((vanished_gaussians(inputs) & update.change.hidden).sum()),
            vanished_rows(places, work.scaffold.georef), contradicted,
        ),
    )  # fmt: skip
    georeference.write_georef(stage.folder, work.scaffold.georef, work.scaffold.up)
    figures = {"aerial_psnr": update.after.aerial_psnr, "ground_psnr": update.after.ground_psnr}
    counts = f"{facts.added} Gaussians added, {facts.changed} moved, {facts.hidden} hidden"
    stage.listen(Note(SCENE, counts))
    stage.finish(figures)


def _hidden_places(inputs: UpdateInputs, update: SceneUpdate, config: UpdateConfig) -> tuple[HiddenPlace, ...]:
    """What vanished and was hidden, place by place; none where that is not looked for."""
    return () if config.vanished is None else hidden_places(inputs, update.change.hidden, config.vanished)


def _write_patch(stage: Stage, base: Base, name: str, whole: patches.Change) -> PatchSummary:
    """The patch and the file after it, written; what the patch does."""
    file = base.file
    change = replace(whole, aerial=file.in_file(whole.aerial), ground=file.in_file(whole.ground))
    recipe: Json = codec.to_json(stage.recipe)
    made, data = patches.made_patch(base.held, name, change, codec.dumps(recipe))
    patches.save_patch(stage.path(PATCH_FILE), made)
    files.write_bytes(stage.path(UPDATED_PLY), data)
    return patches.summary(made)


def _patch_name(base: PlyBytes, sequence: Sequence) -> str:
    """The sequence's folder name, with a number where the file already holds a patch of that name."""
    name = sequence.root.parent.name if sequence.root.name == "images" else sequence.root.name
    taken = {facts.name for facts in patches.applied_patches(base)}
    return next(one for one in (name, *(f"{name}-{k}" for k in range(2, 1000))) if one not in taken)


def _visible(change: patches.Change) -> Splats:
    """What is drawn after the update, local frame."""
    return concat([select(change.aerial, ~change.hidden), change.ground])
