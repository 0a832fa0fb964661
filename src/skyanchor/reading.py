"""What a run reads before it begins: flight, walk and earlier runs; what is refused of them, and what is told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeAlias

from skyanchor.anchors.priors import local_priors
from skyanchor.errors import RecipeError
from skyanchor.events import ANCHORS, SCAFFOLD, SCENE, Listener, Note
from skyanchor.presets import PRESETS, PipelineConfig
from skyanchor.run import prepared as parts
from skyanchor.run.earlier import EarlierRun
from skyanchor.run.executor import Executor
from skyanchor.run.folder import RunFolder
from skyanchor.run.inputs import Inputs
from skyanchor.run.layout import FRAMES, STATE, held_recipe
from skyanchor.run.prepared import Prepared, find_prepared
from skyanchor.run.recipe import settings_of
from skyanchor.run.records import SEQUENCE_FILE
from skyanchor.scaffold import georeference, load_scaffold, warnings_of
from skyanchor.sequence import load_sequence, summary
from skyanchor.sequence.copies import Copies
from skyanchor.sequence.depth_files import check_depth
from skyanchor.sequence.same_photos import are_most, refuse_same_photos, same_photos
from skyanchor.stages import outlook, scaffold, scene
from skyanchor.stages.cuts import cut_where_photos_say
from skyanchor.stages.earlier import earlier_runs
from skyanchor.stages.scaffold import GeometryConfig
from skyanchor.stages.work import Site, Work
from skyanchor.storage import files
from skyanchor.types import Scaffold, Sequence

Earlier: TypeAlias = tuple[EarlierRun, ...]
"""Runs that a walk stands on."""


def read_work(folder: RunFolder, inputs: Inputs, config: PipelineConfig, executor: Executor, upto: str = SCENE) -> Work:
    """The user's data, read and checked for the stages up to one; frames of a video are written to RUN/frames.

    InputError when the area that the walk is said to stay in has nothing to do with the model.
    """
    site = read_site(folder, inputs, config, executor)
    if upto == SCENE:
        scene.check_given_splats(site.scaffold)
    earlier = earlier_runs(folder, inputs.onto, site)
    local_priors(config.anchors.prior.near, site.scaffold)
    sequence = read_walk(folder, inputs, config, site, earlier)
    sequence = cut_where_photos_say(folder, sequence, config.sequence, config.anchors.odometry, executor)
    files.save(folder.root / STATE / SEQUENCE_FILE, sequence)
    return Work(folder, site, sequence, executor, earlier)


def read_walk(folder: RunFolder, inputs: Inputs, config: PipelineConfig, site: Site, earlier: Earlier) -> Sequence:
    """The walk as it was given; where anything of it is refused, the frames in the run folder stay as they are."""
    with copies_for(folder) as copies:
        sequence = load_sequence(inputs.ground, config.sequence, copies, folder.listen)
        refuse_known_photos(folder, inputs, sequence, site, earlier)
        if config.anchors.local.depth is not None:
            check_depth(config.anchors.local.depth, [frame.name for frame in sequence.frames])
        return copies.put_in_place(sequence)


@contextmanager
def copies_for(folder: RunFolder) -> Iterator[Copies]:
    """Where photos are written that a run keeps of its walk: under redo beside those that results may stand on."""
    frames = folder.root / FRAMES
    if not folder.redo:
        yield Copies(frames, standing_frames(folder))
        return
    with files.drafts_of(frames) as drafts:
        yield Copies(frames, drafts=drafts)


def read_site(folder: RunFolder, inputs: Inputs, config: PipelineConfig, executor: Executor) -> Site:
    """The scaffold that the walk stands on: one that was prepared before, or one in the run folder."""
    prepared = find_prepared(inputs.aerial)
    if prepared is None:
        held = load_scaffold(inputs.aerial, inputs.images, inputs.splats, config.scaffold)
        tell_of_model(held, folder.listen)
        return Site(held, Prepared(folder.root / SCAFFOLD), executor, folder.listen, folder.redo, known=folder.known)
    check_prepared_as_asked(prepared, config.geometry)
    held = prepared.scaffold(inputs.images, inputs.splats, config.scaffold.check_photos)
    scaffold.check_photos_are_those(folder, prepared, held)
    held = replace(held, georef=georeference.named(held.georef, config.scaffold.crs, prepared.root))
    return Site(held, prepared, executor, folder.listen, given=True, known=folder.known)


def check_prepared_as_asked(prepared: Prepared, config: GeometryConfig) -> None:
    """RecipeError when settings of depth or windows were asked for that are neither a preset's nor the scaffold's."""
    held, windows = dict(prepared.needed(parts.DEPTH).recipe.settings), prepared.part(parts.WINDOWS)
    if windows is not None:
        held["windows"] = windows.recipe.settings
    changed = [name for name, value in settings_of(config).items() if name in held and held[name] != value]
    if changed and config not in [preset.geometry for preset in PRESETS.values()]:
        names = ", ".join(f"--geometry.{name}" for name in changed)
        raise RecipeError(f"{prepared.root} was prepared with another {names}. Leave it out, or prepare anew.")


def refuse_known_photos(folder: RunFolder, inputs: Inputs, walk: Sequence, site: Site, onto: Earlier) -> None:
    """InputError where the walk is the flight itself; told where it is that of a run which it would stand on."""
    photos = [frame.path for frame in walk.frames]
    whose, advice = "holds photos of the aerial model", "Give the street photos or the video of the walk."
    refuse_same_photos(photos, [view.path for view in site.scaffold.views], inputs.ground, whose, advice)
    for one in onto:
        same = same_photos(photos, [frame.path for frame in one.run.sequence.frames])
        if are_most(same, photos):
            text = f"{len(same)} of {len(photos)} photos of this walk are those of {one.run.root}, which it stands on"
            folder.listen(Note(SCAFFOLD, f"{text}: what they bear out of each other says nothing", warning=True))


def standing_frames(folder: RunFolder) -> tuple[str, ...] | None:
    """Names of the photos in RUN/frames that stages stand on; None where there is no stage, or under redo."""
    held = files.recall(folder.root / STATE / SEQUENCE_FILE, Sequence)
    if held is None or folder.redo or held_recipe(folder.root / ANCHORS) is None:
        return None
    return tuple(frame.name for frame in held.frames if frame.path.parts[-3:-1] == (FRAMES, "images"))


def tell_of_model(held: Scaffold, listen: Listener) -> None:
    """Tell the listener what looks wrong in an aerial model."""
    for warning in warnings_of(held):
        listen(Note(SCAFFOLD, warning, warning=True))


def tell_outlook(work: Work, config: PipelineConfig, upto: str) -> None:
    """Tell the listener what was understood of the walk and how long the run may take."""
    first, *warnings = summary.told(work.sequence)
    work.run.listen(Note("walk", first))
    for warning in warnings:
        work.run.listen(Note("walk", warning, warning=True))
    load = outlook.remaining(work, upto, config.geometry)
    if any((load.megapixels, load.groups, load.frames, load.scene)):
        work.run.listen(Note("walk", str(outlook.estimate(load, config.geometry.stereo.backend.takes_turns))))
