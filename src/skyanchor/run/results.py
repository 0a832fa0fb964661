"""The one reader of a run: what its finished stages say, whoever asks.

run = skyanchor.open_run("run")
run.anchors.groups[0].accepted, run.poses["frame_0001.jpg"], run.depth("aerial_07.jpg").depth, len(run.splats())

What needs more than the files (errors, renders, a page in a notebook) is in `skyanchor.opened`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from skyanchor.errors import InputError
from skyanchor.events import ANCHORS, CHANGES, MESH, SCAFFOLD, SCENE, TRAJECTORY
from skyanchor.gaussians.splat_file import SplatFile
from skyanchor.gaussians.splats import Splats
from skyanchor.meshing.mesh import Mesh, read_ply
from skyanchor.run import prepared as parts
from skyanchor.run import records
from skyanchor.run.folder import Finished, read_finished
from skyanchor.run.inputs import INPUTS_FILE, Inputs
from skyanchor.run.layout import FRAMES, STATE, is_finished
from skyanchor.run.memory import Peak, peaks
from skyanchor.run.metrics import METRICS_FILE, Metrics
from skyanchor.run.prepared import Prepared, find_prepared
from skyanchor.run.records import (
    AnchorSeconds,
    AnchorsRecord,
    ChangesRecord,
    MeshRecord,
    SceneRecord,
    SceneSeconds,
    TrajectoryRecord,
    TrajectorySeconds,
)
from skyanchor.run.timing import timings
from skyanchor.scaffold import ScaffoldConfig, load_scaffold
from skyanchor.scaffold.frame_check import given_splats
from skyanchor.scaffold.georeference import moved_by
from skyanchor.scene.patch import Patch, load_patch, visible
from skyanchor.sequence.loading import find_photos
from skyanchor.sfm.uncertainty import centre_sigma_m, position_sigma_m, radius_95_m
from skyanchor.stereo import depth_path, load_depth
from skyanchor.storage import files
from skyanchor.types import Anchors, Bytes, Camera, DepthMap, Floats, Pose, Scaffold, Sequence, Trajectory

VERB_AGAIN = "Run its last verb once more with the same options: nothing is done again."
"""What helps where something of .state/ is missing or spoiled."""


def open_run(path: Path | str) -> Run:
    """The run in a folder; InputError for a folder that is none."""
    root = Path(path)
    if not (root / STATE / INPUTS_FILE).is_file():
        advice = "Give the --out folder of `skyanchor anchors`, `trajectory` or `update`."
        raise InputError(root, "is no run folder", advice)
    return Run(root)


@dataclass(frozen=True, eq=False)
class Points:
    """Sparse points of the street."""

    points: Floats
    """(M, 3), metres, local frame."""
    colors: Bytes
    """(M, 3), RGB."""

    def __len__(self) -> int:
        """How many."""
        return len(self.points)


class Run:
    """A run folder, read when asked for. Stages that are not finished say nothing: asking for them is an InputError."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def __repr__(self) -> str:
        """The folder, its finished stages, and in a line each what they found."""
        return "\n".join([f"Run({str(self.root)!r})", *(f"  {name:<7} {text}" for name, text in self._lines())])

    def _lines(self) -> Iterator[tuple[str, str]]:
        finished = [stage for stage in (SCAFFOLD, ANCHORS, TRAJECTORY, SCENE) if self.has(stage)]
        yield "stages", ", ".join(finished) or "nothing finished"
        if not self.has(ANCHORS):
            return
        groups = self.anchors.groups
        yield "groups", f"{sum(group.accepted for group in groups)} of {len(groups)} accepted"
        yield "frames", f"{len(self.poses)} of {len(self.names)} with a pose"
        sigmas = list(self.sigmas.values())
        if sigmas:
            yield "sigma", f"{position_sigma_m(sigmas):.3f} m per axis; 95 % within {radius_95_m(sigmas):.3f} m"
        if self.has(SCENE):
            yield "splats", f"{self.scene.aerial} aerial, {self.scene.added} of the street"

    def has(self, stage: str) -> bool:
        """Whether a stage is complete."""
        if stage == SCAFFOLD:
            return self.prepared.part(parts.SURFACE) is not None
        return is_finished(self.root / stage)

    def stage(self, name: str) -> Finished:
        """A complete stage; InputError when it is not there."""
        found = read_finished(self.root / name)
        if found is None:
            raise InputError(self.root, f"has no finished {name}", "Run the verb that ends with it first.")
        return found

    # --- what it was made from ------------------------------------------------------------------------------------

    @cached_property
    def inputs(self) -> Inputs:
        """The data that the run was started with."""
        return files.load(self.root / STATE / INPUTS_FILE, Inputs, VERB_AGAIN)

    @cached_property
    def prepared(self) -> Prepared:
        """The prepared scaffold that the run stands on."""
        return find_prepared(self.inputs.aerial) or Prepared(self.root / SCAFFOLD)

    @cached_property
    def scaffold(self) -> Scaffold:
        """The aerial model with the up and the ground that the stages stand on, local frame."""
        inputs = self.inputs
        if self.prepared.begun:
            return self.prepared.scaffold(inputs.images, inputs.splats)
        return load_scaffold(inputs.aerial, inputs.images, inputs.splats, ScaffoldConfig(check_photos=False))

    @property
    def has_sequence(self) -> bool:
        """Whether the run says how its walk was read."""
        return (self.root / STATE / records.SEQUENCE_FILE).is_file()

    @cached_property
    def sequence(self) -> Sequence:
        """The street frames as they were read."""
        return files.load(self.root / STATE / records.SEQUENCE_FILE, Sequence, VERB_AGAIN)

    @cached_property
    def photos(self) -> dict[str, Path]:
        """Paths of the street photos by name: frames of a video and upright copies lie in the run folder."""
        copies, ground = self.root / FRAMES, self.inputs.ground
        source = copies if (copies / "images").is_dir() else ground
        return {photo.name: photo for photo in find_photos(source)[1]} if source.is_dir() else {}

    # --- what it found --------------------------------------------------------------------------------------------

    @cached_property
    def anchors_record(self) -> AnchorsRecord:
        """anchors.json."""
        return self.stage(ANCHORS).load(records.ANCHORS_FILE, AnchorsRecord)

    @property
    def anchors(self) -> Anchors:
        """The verdict on every anchor group."""
        return self.anchors_record.anchors

    @cached_property
    def trajectory_record(self) -> TrajectoryRecord:
        """trajectory.json."""
        return self.stage(TRAJECTORY).load(records.TRAJECTORY_FILE, TrajectoryRecord)

    @cached_property
    def trajectory(self) -> Trajectory:
        """A pose or a reason for every frame, and the ground points behind them."""
        return records.read_trajectory(self.stage(TRAJECTORY))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the street frames; `frame` numbers are positions in it."""
        return self.anchors_record.names

    @property
    def poses(self) -> dict[str, Pose]:
        """cam_from_world of the street frames that have one, by name: of the trajectory, else of the anchors."""
        if self.has(TRAJECTORY):
            return records.trajectory_poses(self.trajectory_record)
        return records.anchor_poses(self.anchors_record)

    @property
    def sigmas(self) -> dict[str, float]:
        """Standard deviation of each frame's centre along its worst axis, metres, by name; frames as in `poses`.

        The shift that all frames share is included.
        """
        if self.has(TRAJECTORY):
            record = self.trajectory_record
            return {record.names[f.frame]: f.sigma_m for f in record.frames if f.cam_from_world is not None}
        found = [pose for group in self.anchors.groups for pose in group.poses]
        return {self.names[pose.frame]: centre_sigma_m(pose.covariance) for pose in found}

    @property
    def points(self) -> Points:
        """The sparse street points behind the trajectory."""
        return Points(self.trajectory.points, self.trajectory.point_colors)

    @property
    def camera(self) -> Camera:
        """The street camera as the last finished stage has it."""
        return self.trajectory_record.camera if self.has(TRAJECTORY) else self.anchors.camera

    def depth(self, name: str) -> DepthMap:
        """Dense depth of an aerial photo."""
        path = depth_path(self.prepared.root / parts.DEPTH, name)
        if not path.is_file():
            raise InputError(path, "is not there", "Name an aerial photo, as the model does.")
        return load_depth(path)

    @cached_property
    def scene(self) -> SceneRecord:
        """How the update of the splats went."""
        return self.stage(SCENE).load(records.SCENE_FILE, SceneRecord)

    @property
    def base(self) -> SplatFile | None:
        """The aerial splats; None where there are none yet."""
        trained = self.prepared.part(parts.SPLATS)
        own = None if trained is None else SplatFile(trained.path(parts.SPLATS_FILE))
        return given_splats(self.scaffold) or own

    def splats(self) -> Splats:
        """What is drawn, in the local frame: after the update, else the aerial Gaussians."""
        drawn = self.updated if self.has(SCENE) else self.base
        if drawn is None:
            raise InputError(self.root, "has no splats yet", "Run `skyanchor update` or `skyanchor prepare`.")
        return visible(drawn.read())

    @property
    def updated(self) -> SplatFile:
        """The splats after the update."""
        return self.scene.base.at(self.stage(SCENE).path(records.UPDATED_PLY))

    @property
    def patch(self) -> Patch:
        """What turns the splats before the update into those after it, and back."""
        return load_patch(self.stage(SCENE).path(records.PATCH_FILE))

    @property
    def held_out(self) -> Path | None:
        """Folder of the test views' pictures, {aerial,ground}/{photo,before,render}; None before stage 4."""
        return self.stage(SCENE).path(records.TEST_FOLDER) if self.has(SCENE) else None

    @property
    def mesh(self) -> Mesh:
        """The street as a mesh, in the local frame; `skyanchor mesh` makes it."""
        held = read_ply(self.stage(MESH).path(records.MESH_FILE))
        return replace(held, vertices=held.vertices - moved_by(self.scaffold.georef))

    @property
    def mesh_record(self) -> MeshRecord:
        """mesh.json."""
        return self.stage(MESH).load(records.MESH_RECORD, MeshRecord)

    @property
    def changes(self) -> ChangesRecord:
        """What is another way than before; `skyanchor changes` looks for it."""
        return self.stage(CHANGES).load(records.CHANGES_FILE, ChangesRecord)

    @property
    def metrics(self) -> Metrics | None:
        """What `skyanchor evaluate` measured, where it was run."""
        path = self.root / METRICS_FILE
        return files.load(path, Metrics, "Delete it: `skyanchor evaluate` measures again.") if path.is_file() else None

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds per stage, in the order of the work; a scaffold that was prepared elsewhere counts nothing."""
        own, spent = self.prepared.root == self.root / SCAFFOLD, timings(self.prepared.root)
        order = {
            part: k for k, part in enumerate((parts.DEPTH, parts.SURFACE, parts.WINDOWS, parts.PLACES, parts.SPLATS))
        }
        named = sorted(spent, key=lambda name: order.get(name.partition("/")[0], len(order)))
        scaffold = {f"{SCAFFOLD}/{name}": spent[name] for name in named}
        return {**(scaffold if own else {}), **timings(self.root)}

    @property
    def anchor_seconds(self) -> AnchorSeconds | None:
        """Seconds per step of every look at a group; None where they were not measured."""
        return files.recall(self.root / records.ANCHOR_SECONDS_FILE, AnchorSeconds)

    @property
    def trajectory_seconds(self) -> TrajectorySeconds | None:
        """Seconds per step of every submap, and of what follows them; None where they were not measured."""
        return files.recall(self.root / records.TRAJECTORY_SECONDS_FILE, TrajectorySeconds)

    @property
    def scene_seconds(self) -> SceneSeconds | None:
        """Seconds per step of the update; None where they were not measured."""
        return files.recall(self.root / records.SCENE_SECONDS_FILE, SceneSeconds)

    @property
    def memory(self) -> dict[str, Peak]:
        """Most memory at a time per stage; a scaffold that was prepared elsewhere counts nothing."""
        own = self.prepared.root == self.root / SCAFFOLD
        scaffold = {f"{SCAFFOLD}/{part}": peak for part, peak in peaks(self.prepared.root).items()}
        return {**(scaffold if own else {}), **peaks(self.root)}
