"""A run whose walk was located before: what later walks on the same flight take from it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from skyanchor.anchors.keyframes import Keyframe
from skyanchor.events import SCENE
from skyanchor.gaussians.split import split
from skyanchor.run.records import PATCH_FILE
from skyanchor.run.results import Run
from skyanchor.scene.earlier import EarlierViews
from skyanchor.scene.views import ground_views
from skyanchor.types import Support, View

HELD = (Support.ANCHORED, Support.KEYFRAME)
"""Frames that took part in the adjustment of their walk."""


@dataclass(frozen=True, eq=False)
class EarlierRun:
    """A run whose walk was located before, on the same flight."""

    name: str
    """Of its folder, with a number where two are called the same."""
    run: Run

    @property
    def keyframes(self) -> tuple[Keyframe, ...]:
        """The frames that its own adjustment rests on, in order."""
        record, sequence = self.run.trajectory_record, self.run.sequence
        found = []
        for posed in record.frames:
            if posed.support in HELD and posed.cam_from_world is not None:
                frame = sequence.frames[posed.frame]
                pose = posed.cam_from_world
                view = View(frame.name, frame.path, record.camera, pose, frame.mask_path, posed.frame)
                found.append(Keyframe(self.name, view, posed.sigma_m))
        return tuple(found)

    @property
    def views(self) -> EarlierViews:
        """All its frames that have a pose, as they take part in an update."""
        return EarlierViews(self.name, split(ground_views(self.run.sequence, self.run.trajectory)))

    @property
    def patch(self) -> Path | None:
        """What it did to the splats; None where it did not come to that."""
        return self.run.stage(SCENE).path(PATCH_FILE) if self.run.has(SCENE) else None
