"""Trajectory recovery measured: accuracy against truth, seconds per step and frame, the COLMAP mapper beside it.

python benchmarks/trajectory.py --scene DIR                      perfect anchors, taken from the scene's truth
python benchmarks/trajectory.py --scene DIR --anchors RUN        anchors of a run folder
python benchmarks/trajectory.py --scene DIR --noise 0.1          truth, each group displaced by this many metres
python benchmarks/trajectory.py --scene DIR --baseline           pycolmap's incremental mapper on the same matches
python benchmarks/trajectory.py --scene DIR --ablations          the paper's table
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter

import numpy as np
import pycolmap

from skyanchor.evaluation.poses import PoseMetrics, pose_metrics
from skyanchor.geometry import colmap, rigid
from skyanchor.matching import Features, Sift
from skyanchor.matching.sift import SiftMatcher
from skyanchor.run.results import open_run
from skyanchor.scaffold import colmap_files, load_scaffold
from skyanchor.scaffold.loading import pose_of
from skyanchor.sequence import SequenceConfig, SubmapConfig, load_sequence
from skyanchor.trajectory import Ablation, PhotoFeatures, TrajectoryConfig, TrajectoryReport, recover
from skyanchor.trajectory.jobs import SubmapJob, SubmapResult
from skyanchor.trajectory.submap import recover_submap
from skyanchor.types import AnchorPose, Anchors, Camera, Ints, LocalisedGroup, Pose, Sequence, Trajectory

ABLATIONS = {
    "full method": Ablation(),
    "w/o anchor init": Ablation(anchor_initialisation=False),
    "w/o fixed anchor poses": Ablation(fixed_anchors=False),
    "front-anchor-only BA": Ablation(rear_anchors=False),
    "w/o anchor-constrained BA": Ablation(anchored_adjustment=False),
    "w/o 3D-aware KF selection": Ablation(aware_of_points=False),
    "outermost 2 anchors": Ablation(group_size=2),
    "outermost 4 anchors": Ablation(group_size=4),
}

MATCHING = ("features", "matching", "verification", "keyframes", "references")
"""Steps that end with verified pairs; the mapper is given those."""


def truth_of(folder: Path) -> tuple[dict[str, Pose], Camera]:
    model = colmap_files.read_model(colmap_files.find_model(folder))
    return {image.name: pose_of(image) for image in model.images}, next(iter(model.cameras.values()))


def perfect_anchors(
    sequence: Sequence, truth: dict[str, Pose], camera: Camera, noise_m: float, inner_m: float, seed: int
) -> Anchors:
    """Anchors at the truth; each group displaced as a whole by about `noise_m` and each frame by `inner_m`."""
    rng = np.random.default_rng(seed)
    groups = []
    for group in sequence.groups:
        middle = rigid.centre_in_world(truth[sequence.frames[group.frames[len(group.frames) // 2]].name])
        turn = rigid.rotation_exp(rng.normal(0, np.radians(1.0) * noise_m, 3))
        shift = rng.normal(0, noise_m / np.sqrt(3.0), 3)
        poses = []
        for frame in group.frames:
            pose = truth[sequence.frames[frame].name]
            centre = middle + turn @ (rigid.centre_in_world(pose) - middle) + shift
            centre = centre + rng.normal(0, inner_m / np.sqrt(3.0), 3)
            moved = rigid.from_centre(pose.rotation @ turn.T, centre)
            poses.append(AnchorPose(frame, moved, np.eye(6) * max(noise_m, 1e-3) ** 2))
        groups.append(LocalisedGroup(group, tuple(poses), None))
    return Anchors(tuple(groups), camera)


def metrics(sequence: Sequence, trajectory: Trajectory, truth: dict[str, Pose]) -> PoseMetrics:
    names = [frame.name for frame in sequence.frames]
    estimated = {names[f.frame]: f.cam_from_world for f in trajectory.frames if f.cam_from_world is not None}
    return pose_metrics(estimated, truth, names, names)


def line(name: str, found: PoseMetrics) -> str:
    figures = f"ATE {found.ate_m:.4f} m  RPE-t {found.rpe_t_m:.4f} m  RPE-r {found.rpe_r_deg:.4f} deg"
    return f"{name:28s} {figures}  posed {found.registered}/{found.total}"


def show(report: TrajectoryReport, frames: int) -> None:
    for submap in report.submaps:
        reached = f"{submap.registered}/{submap.keyframes} keyframes"
        print(f"submap {submap.index}: frames {submap.first}-{submap.last}, {reached}")
        for step, seconds in sorted(submap.seconds.items(), key=lambda item: -item[1]):
            print(
                f"    {step:14s} {seconds:8.2f} s  {1e3 * seconds / (submap.last - submap.first + 1):8.1f} ms a frame"
            )
        print("   ", {key: round(value, 3) for key, value in submap.figures.items()})
    for closure in report.closures:
        print(
            f"closure of submap {closure.submap}: {closure.gap_m:.3f} m {closure.gap_deg:.3f} deg after"
            f" {closure.path_m:.1f} m, scale {closure.scale:.4f}, {closure.sigmas:.2f} sigmas"
        )
    print("after the submaps:", {key: round(value, 2) for key, value in report.seconds.items()})
    print("figures:", {key: round(value, 3) for key, value in report.figures.items()})
    for text in report.warnings:
        print("warning:", text)


class RememberingMatcher(SiftMatcher):
    """SIFT that compares the same two sets of keypoints only once, so that ablations share their matches."""

    @staticmethod
    def _name(features: Features) -> int:
        return hash((len(features), features.xy.tobytes()))

    def pairs(self, a: Features, b: Features) -> Ints:
        """As SIFT's, from memory when it is there."""
        key = (self._name(a), self._name(b))
        if key not in REMEMBERED:
            REMEMBERED[key] = super().pairs(a, b)
        return REMEMBERED[key]


REMEMBERED: dict[tuple[int, int], Ints] = {}


@dataclass(frozen=True)
class RememberedSift(Sift):
    """The choice of `RememberingMatcher`."""

    def load(self, device: str = "cpu") -> RememberingMatcher:
        """The matcher, ready to run."""
        return RememberingMatcher(self, device)


class Recorder:
    """Runs submaps one after another and keeps their results."""

    def __init__(self, source: PhotoFeatures) -> None:
        self.source = source
        self.results: list[SubmapResult] = []

    def __call__(self, jobs: tuple[SubmapJob, ...]) -> tuple[SubmapResult, ...]:
        """The jobs' results."""
        found = tuple(recover_submap(job, self.source) for job in jobs)
        self.results += found
        return found


def mapper_baseline(sequence: Sequence, anchors: Anchors, results: list[SubmapResult], source: PhotoFeatures) -> float:
    """Seconds of pycolmap's incremental mapper that extends the anchors on the same features and verified pairs."""
    keyframes = sorted({f for r in results for f in r.keyframes})
    posed = {p.frame: p.cam_from_world for g in anchors.groups for p in g.poses}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        model = pycolmap.Reconstruction()
        with pycolmap.Database.open(str(folder / "pairs.db")) as database:
            _fill(database, model, sequence, keyframes, posed, anchors.camera, results, source)
        (folder / "start").mkdir()
        model.write(str(folder / "start"))
        options = pycolmap.IncrementalPipelineOptions()
        options.fix_existing_frames = True
        options.ba_refine_focal_length = options.ba_refine_extra_params = False
        options.multiple_models = False
        pycolmap.logging.minloglevel = pycolmap.logging.ERROR.value
        started = perf_counter()
        args = (str(folder / "pairs.db"), str(sequence.root), str(folder / "out"))
        found = pycolmap.incremental_mapping(*args, options=options, input_path=str(folder / "start"))
        seconds = perf_counter() - started
        best = max((m.num_reg_images() for m in found.values()), default=0)
    print(f"pycolmap's mapper: {seconds:.1f} s, {best}/{len(keyframes)} keyframes registered")
    return seconds


def _fill(database, model, sequence, keyframes, posed, camera, results, source):  # type: ignore[no-untyped-def]
    one = colmap.to_camera(camera, 1)
    one.has_prior_focal_length = True
    database.write_camera(one, use_camera_id=True)
    database.write_rig(_rig(), use_rig_id=True)
    model.add_camera_with_trivial_rig(one)
    for frame in keyframes:
        name, image_id = sequence.frames[frame].name, frame + 1
        xy = source.features(frame).xy
        database.write_image(pycolmap.Image(name=name, camera_id=1, image_id=image_id), use_image_id=True)
        still = pycolmap.Frame(frame_id=image_id, rig_id=1)
        still.add_data_id(pycolmap.data_t(pycolmap.sensor_t(pycolmap.SensorType.CAMERA, 1), image_id))
        database.write_frame(still, use_frame_id=True)
        database.write_keypoints(image_id, xy.astype(np.float32))
        if frame in posed:
            image = pycolmap.Image(name=name, keypoints=xy, camera_id=1, image_id=image_id)
            model.add_image_with_trivial_frame(image, colmap.to_rigid3d(posed[frame]))
    for pair in {(p.i, p.j): p for r in results for p in r.pairs}.values():
        if len(pair.keypoints):
            geometry = pycolmap.TwoViewGeometry()
            geometry.config = pycolmap.TwoViewGeometryConfiguration.CALIBRATED
            geometry.inlier_matches = pair.keypoints.astype(np.uint32)
            database.write_matches(pair.i + 1, pair.j + 1, pair.keypoints.astype(np.uint32))
            database.write_two_view_geometry(pair.i + 1, pair.j + 1, geometry)


def _rig():  # type: ignore[no-untyped-def]
    rig = pycolmap.Rig(rig_id=1)
    rig.add_ref_sensor(pycolmap.sensor_t(pycolmap.SensorType.CAMERA, 1))
    return rig


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scene", type=Path, required=True)
    parser.add_argument("--ground", default="ground")
    parser.add_argument("--anchors", default="truth", help="truth, or a run folder")
    parser.add_argument("--noise", type=float, default=0.0, help="displacement of each group, metres")
    parser.add_argument("--inner", type=float, default=0.0, help="displacement of each anchor within its group, metres")
    parser.add_argument("--submap-length", type=int, default=100)
    parser.add_argument("--features", type=Path, default=None, help="folder in which features are kept")
    parser.add_argument("--threads", type=int, default=-1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--baseline", action="store_true")
    parser.add_argument("--ablations", action="store_true")
    args = parser.parse_args()

    ground = args.scene / args.ground
    truth, camera = truth_of(ground / "truth")
    text = ",".join([camera.model, *map(str, camera.params)])
    sequence = load_sequence(ground, SequenceConfig(camera=text, cut=SubmapConfig(submap_length=args.submap_length)))
    scaffold = load_scaffold(args.scene / "aerial")
    config = TrajectoryConfig()
    config = replace(config, adjust=replace(config.adjust, threads=args.threads))
    source = PhotoFeatures(sequence, config.matcher, args.features)
    if args.anchors == "truth":
        anchors = perfect_anchors(sequence, truth, camera, args.noise, args.inner, args.seed)
    else:
        anchors = open_run(args.anchors).anchors
    recorder = Recorder(source)
    started = perf_counter()
    trajectory, report = recover(scaffold, sequence, anchors, config, source=source, run=recorder)
    seconds = perf_counter() - started
    show(report, len(sequence.frames))
    print(line("full method", metrics(sequence, trajectory, truth)))
    print(f"total {seconds:.1f} s, {seconds / len(sequence.frames):.2f} s a frame")
    if args.baseline:
        own = sum(r.seconds["total"] - sum(r.seconds.get(s, 0.0) for s in MATCHING) for r in recorder.results)
        mapper = mapper_baseline(sequence, anchors, recorder.results, source)
        print(f"ours from the same features and pairs: {own:.1f} s; the mapper takes {mapper / own:.2f} times as long")
    if args.ablations:
        for name, ablation in ABLATIONS.items():
            changed = replace(config, ablation=ablation, matcher=RememberedSift(keypoints=config.matcher.keypoints))
            found, _ = recover(scaffold, sequence, anchors, changed, source=source)
            print(line(name, metrics(sequence, found, truth)), flush=True)


if __name__ == "__main__":
    main()
