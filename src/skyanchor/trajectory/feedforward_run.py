"""Stage 3 by a feed-forward choice: passes of the network over each submap, then the same anchors and adjustment."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from time import perf_counter
from typing import TypeAlias

from skyanchor.events import TRAJECTORY, Listener, Note, Progress, silent
from skyanchor.feedforward.choices import FreeFolder, Vggt
from skyanchor.feedforward.free_frames import FreeFrames, read_free_frames
from skyanchor.photos import read_frame
from skyanchor.trajectory.config import TrajectoryConfig
from skyanchor.trajectory.feedforward import FeedForwardConfig, Laid, SequencePhotos, recover_feedforward
from skyanchor.trajectory.planning import accepted_anchors, joined_submaps
from skyanchor.trajectory.recover import SubmapReport, TrajectoryReport, trajectory_figures
from skyanchor.types import Anchors, Scaffold, Sequence, Trajectory

Keep: TypeAlias = Callable[[str, Callable[[], FreeFrames]], FreeFrames]
"""The free frames of a name, made by the function where they are not kept yet."""


def recover_free(
    scaffold: Scaffold,
    sequence: Sequence,
    anchors: Anchors,
    config: TrajectoryConfig,
    listen: Listener = silent,
    keep: Keep | None = None,
) -> tuple[Trajectory, TrajectoryReport]:
    """A pose or a reason for every frame from the feed-forward choice of `config.local`; anchors stay to the bit."""
    started = perf_counter()
    assert isinstance(config.local, Vggt | FreeFolder)
    if isinstance(config.local, FreeFolder):
        free: tuple[FreeFrames, ...] = (read_free_frames(config.local.folder, sequence),)
    else:
        free = reconstruct(sequence, anchors, config.local, config, listen, keep or _not_kept)
    settings = FeedForwardConfig(trajectory=config)
    trajectory, laid = recover_feedforward(sequence, anchors, free, settings, SequencePhotos(sequence))
    seconds = {"total": perf_counter() - started}
    report = free_report(trajectory, laid, scaffold, seconds)
    for text in report.warnings:
        listen(Note(TRAJECTORY, text, warning=True))
    return trajectory, report


def _not_kept(name: str, make: Callable[[], FreeFrames]) -> FreeFrames:
    return make()


# --- passes -------------------------------------------------------------------------------------------------------


def reconstruct(
    sequence: Sequence, anchors: Anchors, choice: Vggt, config: TrajectoryConfig, listen: Listener, keep: Keep
) -> tuple[FreeFrames, ...]:
    """The network's view of every submap with anchors, pass by pass."""
    held = accepted_anchors(anchors)
    planned = [
        part
        for submap in joined_submaps(sequence, held, config.merge_refused)
        for part in passes(submap.frames, tuple(f for f in submap.frames if f in held), choice.most_frames)
    ]
    found = []
    for k, frames in enumerate(planned):
        listen(Progress(TRAJECTORY, "feed-forward passes", k, len(planned)))

        def run(frames: tuple[int, ...] = frames) -> FreeFrames:
            photos = [read_frame(sequence, frame) for frame in frames]
            return choice.load(config.device).reconstruct(frames, photos)

        found.append(keep(f"free-{frames[0]}-{frames[-1]}-{k}", run))
    listen(Progress(TRAJECTORY, "feed-forward passes", len(planned), len(planned)))
    return tuple(found)


def passes(frames: tuple[int, ...], anchors: tuple[int, ...], most: int) -> tuple[tuple[int, ...], ...]:
    """Interleaved parts of a submap's frames, at most `most` each, all with the anchors; none without anchors.

    Each part spans the whole submap between its anchors, so each has a similarity of its own to the world.
    """
    free = [frame for frame in frames if frame not in anchors]
    if not anchors:
        return ()
    count = max(1, ceil(len(free) / max(1, most - len(anchors))))
    return tuple(tuple(sorted((*anchors, *free[k::count]))) for k in range(count))


# --- report -------------------------------------------------------------------------------------------------------


def free_report(
    trajectory: Trajectory, laid: tuple[Laid, ...], scaffold: Scaffold, seconds: dict[str, float]
) -> TrajectoryReport:
    """The figures beside a feed-forward trajectory: how each part was laid on its anchors."""
    submaps = tuple(
        SubmapReport(
            one.submap.index,
            min(one.poses),
            max(one.poses),
            len(one.anchored),
            len(one.poses),
            len(one.poses),
            {"residual_m": one.residual_m, "scale": one.world_from_free.scale},
            {},
        )
        for one in laid
    )
    reasons = {f.refusal.detail for f in trajectory.frames if f.refusal is not None}
    return TrajectoryReport(
        submaps, (), (), tuple(sorted(reasons)), trajectory_figures(trajectory, scaffold), seconds
    )  # fmt: skip
