"""From stage results to the report's content: the verdict in a sentence, the map, the tables, the scene."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np

from skyanchor.anchors.priors import Prior
from skyanchor.gaussians.ply import splat_bytes
from skyanchor.gaussians.splats import Splats, concat, select
from skyanchor.geometry import rigid
from skyanchor.report import drawings
from skyanchor.report.advice import Known, explained
from skyanchor.report.content import (
    AIR_TABLE,
    STREET_TABLE,
    ChangeMark,
    Comparison,
    Curve,
    GroupRow,
    HiddenMark,
    MapCamera,
    MapContent,
    MapFrame,
    MapPlace,
    MatchPicture,
    MeshPictures,
    Provenance,
    RenderedView,
    Report,
    Scene3d,
    SubmapRow,
)
from skyanchor.report.map_place import downloads, map_place, prior_rings
from skyanchor.report.outcome import none_placed, placed
from skyanchor.report.scene_folder import SceneSplats
from skyanchor.report.still import from_the_air
from skyanchor.report.top_points import FromAbove
from skyanchor.run.runtime import StageTime
from skyanchor.sfm.uncertainty import centre_sigma_m
from skyanchor.types import (
    Anchors,
    Floats,
    Ints,
    LocalisedGroup,
    Overlap,
    Pose,
    PosedFrame,
    Scaffold,
    Support,
    View,
)

MOST_AERIAL_LOSS_DB = 0.3
"""Beyond this the verdict is not called good."""
MOST_SPLATS = 160_000
"""Splats in the page: 32 bytes each, 7 MB as text."""


@dataclass(frozen=True, eq=False)
class ReportInputs:
    """Stage results as values; what a run does not have yet is empty."""

    title: str
    scaffold: Scaffold
    names: tuple[str, ...]
    """Frame names in order."""
    above: FromAbove
    """What the map lies on."""
    anchors: Anchors
    frames: tuple[PosedFrame, ...] = ()
    submaps: tuple[SubmapRow, ...] = ()
    cuts: tuple[int, ...] = ()
    """Frames that begin a new stretch of the walk."""
    left_out: Mapping[int, str] = field(default_factory=dict)
    """Accepted groups that the trajectory did not use, and why."""
    warnings: tuple[str, ...] = ()
    figures: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    truth: Mapping[str, Pose] = field(default_factory=dict)
    """True cam_from_world by frame name, only to be drawn."""
    views: tuple[RenderedView, ...] = ()
    scores: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """PSNR before and after per view name."""
    matches: tuple[MatchPicture, ...] = ()
    curves: tuple[Curve, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    memory: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Most memory at a time per stage, bytes: of the machine, of the GPU."""
    steps: tuple[StageTime, ...] = ()
    made: Provenance = field(default_factory=Provenance)
    prior: tuple[Prior, ...] = ()
    """Where the user said that the walk was, in the scaffold's coordinates."""
    splats: SceneSplats | None = None
    street: tuple[View, ...] = ()
    known: Known = field(default_factory=Known)
    """What the user said, which is not advised again."""
    changes: tuple[ChangeMark, ...] = ()
    changed_since: str | None = None
    hidden: tuple[HiddenMark, ...] = ()
    mesh: MeshPictures | None = None


def build_report(inputs: ReportInputs) -> Report:
    """The content of the page."""
    sentence, status = verdict(inputs)
    return Report(
        title=inputs.title,
        verdict=sentence,
        status=status,
        map=map_content(inputs),
        groups=tuple(group_row(group, inputs) for group in inputs.anchors.groups),
        submaps=inputs.submaps,
        figures={key: dict(value) for key, value in inputs.figures.items()},
        reached="scene" if inputs.splats is not None else "trajectory" if inputs.frames else "anchors",
        frames=len(inputs.names),
        warnings=warnings(inputs),
        comparisons=tuple(comparison(view, inputs.scores) for view in inputs.views),
        matches=inputs.matches,
        curves=inputs.curves,
        seconds=dict(inputs.seconds),
        memory=dict(inputs.memory),
        steps=inputs.steps,
        made=inputs.made,
        downloads=downloads(inputs.title, _frames(inputs), inputs.names, inputs.scaffold.georef, inputs.cuts),
        scene=scene_content(inputs),
        changes=inputs.changes,
        changed_since=inputs.changed_since,
        hidden=inputs.hidden,
        mesh=inputs.mesh,
    )


def verdict(inputs: ReportInputs) -> tuple[str, str]:
    """One sentence, and good, partial or refused."""
    groups = inputs.anchors.groups
    accepted = sum(group.accepted for group in groups)
    if not accepted:
        return none_placed(groups, inputs.known), "refused"
    text = placed(groups, inputs.frames, len(inputs.left_out))
    if not inputs.frames:
        return f"{text}.", "good" if accepted == len(groups) else "partial"
    posed = [frame for frame in inputs.frames if frame.cam_from_world is not None]
    whole = accepted == len(groups) and not inputs.left_out and len(posed) == len(inputs.frames)
    whole = whole and aerial_loss_db(inputs.figures) <= MOST_AERIAL_LOSS_DB
    return f"{text}.{_rendered(inputs.figures)}", "good" if whole else "partial"


def warnings(inputs: ReportInputs) -> tuple[str, ...]:
    """What a person should know besides the verdict."""
    loss = aerial_loss_db(inputs.figures)
    lost = f"The update cost held-out aerial photos {loss:.1f} dB: the view from above got worse."
    return (*inputs.warnings, lost) if loss > MOST_AERIAL_LOSS_DB else inputs.warnings


def aerial_loss_db(figures: Mapping[str, Mapping[str, float]]) -> float:
    """What the update cost held-out aerial views; 0 before there is one."""
    air = figures.get(AIR_TABLE)
    return 0.0 if air is None else air["psnr before"] - air["psnr after"]


def _rendered(figures: Mapping[str, Mapping[str, float]]) -> str:
    """A sentence on held-out views; empty before the scene was updated."""
    street, air = figures.get(STREET_TABLE), figures.get(AIR_TABLE)
    if street is None or air is None:
        return ""
    change, kept = _moved(street), _moved(air)
    told = "likeness of the drawn scene to photos that took no part in the work (PSNR, 25 dB is good)"
    return f" The {told} {change} on the street and {kept} from the air."


def _moved(table: Mapping[str, float]) -> str:
    """Went from 8.0 to 27.2 dB, or stayed at 26.4 dB."""
    before, after = (f"{table[f'psnr {when}']:.1f}" for when in ("before", "after"))
    return f"went from {before} to {after} dB" if before != after else f"stayed at {after} dB"


# --- map ----------------------------------------------------------------------------------------------------------


def map_content(inputs: ReportInputs) -> MapContent:
    """The top view with aerial cameras, walk and truth."""
    axes = drawings.horizontal_axes(inputs.scaffold.up)
    cameras = [(view.name, axes @ rigid.centre_in_world(view.cam_from_world)) for view in inputs.scaffold.views]
    truth = [axes @ rigid.centre_in_world(inputs.truth[name]) for name in inputs.names if name in inputs.truth]
    return MapContent(
        inputs.above.picture,
        inputs.above.extent,
        tuple(MapCamera(name, float(xy[0]), float(xy[1])) for name, xy in cameras),
        tuple(_map_frame(frame, inputs.names, axes) for frame in _frames(inputs)),
        tuple((float(xy[0]), float(xy[1])) for xy in truth),
        prior_rings(inputs.prior),
        _place(inputs),
        inputs.cuts,
    )


def _place(inputs: ReportInputs) -> MapPlace:
    """Around the aerial cameras, at the height of the ground."""
    scaffold = inputs.scaffold
    centres = rigid.centres_in_world([view.cam_from_world for view in scaffold.views])
    above = centres.mean(axis=0) if len(centres) else np.zeros(3)
    down = scaffold.ground.normal @ above - scaffold.ground.offset
    return map_place(scaffold.georef, scaffold.up, above - down * scaffold.ground.normal)


def _frames(inputs: ReportInputs) -> tuple[PosedFrame, ...]:
    """The trajectory, or before there is one the anchors alone."""
    if inputs.frames:
        return inputs.frames
    found = [pose for group in inputs.anchors.groups for pose in group.poses]
    return tuple(
        PosedFrame(pose.frame, Support.ANCHORED, pose.cam_from_world, 0, centre_sigma_m(pose.covariance))
        for pose in sorted(found, key=lambda pose: pose.frame)
    )


def _map_frame(frame: PosedFrame, names: Sequence[str], axes: Floats) -> MapFrame:
    xy = np.full(2, np.nan) if frame.cam_from_world is None else axes @ rigid.centre_in_world(frame.cam_from_world)
    reason = "" if frame.refusal is None else frame.refusal.detail
    support = frame.support.value
    return MapFrame(frame.frame, names[frame.frame], float(xy[0]), float(xy[1]), support, frame.sigma_m, reason)


def group_row(group: LocalisedGroup, inputs: ReportInputs) -> GroupRow:
    """The group's verdict; a refused group is put where the trajectory says its frames are, if it says so."""
    axes = drawings.horizontal_axes(inputs.scaffold.up)
    poses = [pose.cam_from_world for pose in group.poses]
    if not poses:
        inside = [frame for frame in inputs.frames if frame.frame in group.group.frames]
        poses = [frame.cam_from_world for frame in inside if frame.cam_from_world is not None]
    xy = axes @ rigid.centres_in_world(poses).mean(axis=0) if poses else np.full(2, np.nan)
    refusal = group.refusal
    advice = None if refusal is None else explained(refusal.reason, inputs.known)
    return GroupRow(
        index=group.group.index,
        first_frame=group.group.frames[0],
        last_frame=group.group.frames[-1],
        accepted=group.accepted,
        reason="" if refusal is None else refusal.reason,
        detail="" if refusal is None else refusal.detail,
        x=float(xy[0]),
        y=float(xy[1]),
        sigma_m=max((centre_sigma_m(pose.covariance) for pose in group.poses), default=float("nan")),
        figures=_printed(group),
        attempts=tuple(f"{attempt.reason.replace('-', ' ')}: {attempt.detail}" for attempt in group.attempts),
        meaning="" if advice is None else advice.meaning,
        remedy="" if advice is None else advice.remedy,
        left_out=inputs.left_out.get(group.group.index, ""),
    )


def _printed(group: LocalisedGroup) -> dict[str, float]:
    """What was measured at the group's place, else what its refusal tells."""
    if group.figures.support == 0 and group.refusal is not None:
        return dict(group.refusal.figures)
    beside = {} if group.overlap is None else overlap_figures(group.overlap)
    return {name: value for name, value in (asdict(group.figures) | beside).items() if not np.isnan(value)}


def overlap_figures(overlap: Overlap) -> dict[str, float]:
    """What earlier walks say of a group, by the names that the page has for it."""
    numbers = {name: float(value) for name, value in asdict(overlap).items() if name != "walks"}
    return {f"overlap_{name}": value for name, value in numbers.items()}


# --- pictures and scene -------------------------------------------------------------------------------------------


def comparison(view: RenderedView, scores: Mapping[str, tuple[float, float]]) -> Comparison:
    """The view's four pictures and its two scores."""
    before, after = scores.get(view.name, (float("nan"), float("nan")))
    pictures = (view.photo, view.before, view.after, drawings.error_map(view.photo, view.after))
    photo, first, second, error = (drawings.data_uri(pixels) for pixels in pictures)
    return Comparison(view.name, view.kind, photo, first, second, error, before, after)


def scene_content(inputs: ReportInputs) -> Scene3d | None:
    """The interactive scene, thinned to the most visible splats."""
    if inputs.splats is None:
        return None
    held = inputs.splats
    parts = (held.kept, held.before, held.after)
    shown, counts = thinned(parts, MOST_SPLATS)
    seen = rigid.centres_in_world([view.cam_from_world for view in inputs.street or inputs.scaffold.views])
    return Scene3d(
        base64.b64encode(splat_bytes(shown)).decode(),
        counts,
        len(held.kept) + len(held.after),
        drawings.data_uri(from_the_air(concat([held.kept, held.after]), seen, inputs.scaffold.up)),
        (float(inputs.scaffold.up[0]), float(inputs.scaffold.up[1]), float(inputs.scaffold.up[2])),
        tuple(_ray(view.cam_from_world) for view in inputs.street),
        tuple(_ray(view.cam_from_world) for view in inputs.scaffold.views),
    )


def thinned(parts: tuple[Splats, Splats, Splats], most: int) -> tuple[Splats, tuple[int, int, int]]:
    """At most `most` splats of the parts together, in their order, and how many of each part.

    Those with the largest opacity times area.
    """
    splats, sizes = concat(parts), [len(part) for part in parts]
    rows = np.arange(len(splats)) if len(splats) <= most else _most_visible(splats, most)
    counts = np.diff(np.searchsorted(rows, [0, *np.cumsum(sizes)])).tolist()
    return select(splats, rows), (counts[0], counts[1], counts[2])


def _most_visible(splats: Splats, most: int) -> Ints:
    """(most,), ascending rows."""
    opacity = 1.0 / (1.0 + np.exp(-splats.logit_opacities.astype(np.float64)))
    largest = np.sort(splats.log_scales.astype(np.float64), axis=1)[:, 1:].sum(axis=1)
    rows = np.argsort(-opacity * np.exp(largest), kind="stable")[:most]
    return np.sort(rows)


def _ray(cam_from_world: Pose) -> tuple[float, ...]:
    """Centre and forward direction, six numbers."""
    centre = rigid.centre_in_world(cam_from_world)
    return tuple(float(value) for value in (*centre, *cam_from_world.rotation[2]))
