"""Which views train and which judge: every 8th aerial photo and every 8th ground frame are held out."""

from __future__ import annotations

from dataclasses import dataclass

from skyanchor.gaussians.views import TrainingView
from skyanchor.scaffold import training
from skyanchor.types import Sequence, Trajectory, View

HELD_OUT_EVERY = 8


@dataclass(frozen=True, eq=False)
class Split:
    """Views of one kind, split in two."""

    training: tuple[View, ...]
    held_out: tuple[View, ...]


def split(views: tuple[View, ...], every: int = HELD_OUT_EVERY) -> Split:
    """Views 0, every, 2 every ... are held out."""
    return Split(*training.split(views, every))


def ground_views(sequence: Sequence, trajectory: Trajectory) -> tuple[View, ...]:
    """The frames that have a pose, in order; `image_id` is the frame's index."""
    views = []
    for posed in trajectory.frames:
        if posed.cam_from_world is None:
            continue
        frame = sequence.frames[posed.frame]
        pose = posed.cam_from_world
        views.append(View(frame.name, frame.path, trajectory.camera, pose, frame.mask_path, posed.frame))
    return tuple(views)


def street_pool(ground: tuple[View, ...], *, exposures: bool) -> tuple[TrainingView, ...]:
    """Ground views, each with an exposure of its own where wanted."""
    return tuple(TrainingView(view, exposure=k if exposures else None) for k, view in enumerate(ground))
