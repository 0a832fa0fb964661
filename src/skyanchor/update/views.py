"""Which views train and which judge: every 8th aerial photo and every 8th ground frame are held out."""

from __future__ import annotations

from dataclasses import dataclass

from skyanchor.gaussians.views import TrainingView, aerial_pool
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


def training_pools(
    aerial: tuple[View, ...], ground: tuple[View, ...], *, guard: bool, exposures: bool
) -> tuple[tuple[TrainingView, ...], ...]:
    """Ground views, each with an exposure of its own, and, as guard, the aerial views in a 1:1 mix."""
    street = tuple(TrainingView(view, exposure=k if exposures else None) for k, view in enumerate(ground))
    return (street, aerial_pool(aerial)) if guard else (street,)
