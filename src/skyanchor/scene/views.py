"""The street frames as views, and how they take part in the training."""

from __future__ import annotations

from skyanchor.gaussians.views import TrainingView
from skyanchor.types import Sequence, Trajectory, View


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
