"""A finished run for those who study it: what its files say, its errors, its pictures, and itself in a notebook.

run = skyanchor.open_run("run")
print(run, run.errors("truth").position_m)
pixels = run.render("frame_0001.jpg", 640)
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from skyanchor.errors import InputError
from skyanchor.evaluation.metrics import run_errors
from skyanchor.evaluation.poses import PoseErrors
from skyanchor.events import ANCHORS, SCENE
from skyanchor.gaussians.ply import read_bytes
from skyanchor.gaussians.splats import Splats
from skyanchor.geometry import cameras
from skyanchor.report.notebook import run_html
from skyanchor.report.still import drawn
from skyanchor.run import results
from skyanchor.scene.patch import before_last, visible
from skyanchor.types import Bytes, Pose


def open_run(path: Path | str) -> Run:
    """The run in a folder; InputError for a folder that is none."""
    return Run(results.open_run(path).root)


class Run(results.Run):
    """The one reader of a run, with what is computed from it."""

    def errors(self, truth: Path | str) -> PoseErrors:
        """Error of every frame against a COLMAP model with true poses, by name, and their RMS; nothing is aligned."""
        return run_errors(self, Path(truth))

    def render(self, where: str | int | Pose, size: int = 640, *, before: bool = False) -> Bytes:
        """(H, W, 3), what the splats show to the street camera without its distortion, `size` pixels wide.

        `where` is a frame, by name or by number, or a cam_from_world of your own. `before` leaves the update out. The
        colours are the splats' own: no photo's exposure is applied.
        """
        camera = cameras.undistorted(cameras.scaled(self.camera, size))
        return drawn(self._before if before else self._after, camera, self._pose(where))

    def _pose(self, where: str | int | Pose) -> Pose:
        if isinstance(where, Pose):
            return where
        if isinstance(where, int) and not 0 <= where < len(self.names):
            raise InputError(self.root, f"has no frame {where}", f"Its frames are 0 to {len(self.names) - 1}.")
        name = self.names[where] if isinstance(where, int) else where
        if name not in self.poses:
            raise InputError(self.root, f"has no pose of {name}", "Name a frame of `run.poses`, or give a Pose.")
        return self.poses[name]

    @cached_property
    def _before(self) -> Splats:
        if self.has(SCENE):
            return visible(self.updated.local(before_last(read_bytes(self.updated.path), self.patch)))
        base = self.base
        if base is None:
            raise InputError(self.root, "has no aerial splats yet", "Run `skyanchor update` or `skyanchor prepare`.")
        return visible(base.read())

    @cached_property
    def _after(self) -> Splats:
        if not self.has(SCENE):
            advice = "Run `skyanchor update`, or draw what was there before it with before=True."
            raise InputError(self.root, f"has no finished {SCENE}", advice)
        return visible(self.updated.read())

    def _repr_html_(self) -> str | None:
        """Verdict, map and groups for a notebook; None, so that the text is shown, before there are anchors."""
        return self._html if self.has(ANCHORS) else None

    @cached_property
    def _html(self) -> str:
        return run_html(self)
