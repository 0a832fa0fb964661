"""Other programs' ways on a world of points whose matches are exact: where they succeed, and where they must not."""

from __future__ import annotations

import importlib
import shutil
import sys
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pycolmap
import pytest
from PIL import Image

from skyanchor.errors import SkyAnchorError
from skyanchor.evaluation import peer_tables, peers, peers_pnp
from skyanchor.evaluation.ablate import JSON, AblationRecord, Measured, names_of
from skyanchor.evaluation.foreign import ForeignConfig, ModelScore, Outcome, score_foreign
from skyanchor.evaluation.peer_tables import Cost, PeerRow
from skyanchor.events import ANCHORS
from skyanchor.geometry import cameras, rigid
from skyanchor.geometry.colmap import to_camera, to_rigid3d
from skyanchor.matching.features import Features
from skyanchor.run import records
from skyanchor.run.folder import RunFolder
from skyanchor.run.inputs import INPUTS_FILE, Inputs
from skyanchor.run.layout import STATE
from skyanchor.run.memory import Peak
from skyanchor.run.metrics import ImageMetrics, PoseMetrics
from skyanchor.storage import files
from skyanchor.types import AnchorGroup, AnchorPose, Anchors, Floats, Georeference, LocalisedGroup, Pose

CAMERA = cameras.pinhole(320, 240, 260.0)
UP = np.array([0.0, 0.0, 1.0])
CONFIG = ForeignConfig(aerial_prefix="aerial/", ground_prefix="ground/")


def _flight() -> dict[str, Pose]:
    eyes = [np.array([x, y, 30.0]) for x in (-6.0, 4.0, 14.0, 24.0) for y in (-14.0, -6.0)]
    return {f"{k:02}.jpg": rigid.look_at(e, e + np.array([1.0, 14.0, -26.0]), UP) for k, e in enumerate(eyes)}


def _walk() -> dict[str, Pose]:
    eyes = [np.array([1.2 * k, -4.0 + 0.3 * np.sin(k), 1.6]) for k in range(10)]
    return {f"{k:02}.jpg": rigid.look_at(e, e + np.array([2.0, 9.0, 0.4]), UP) for k, e in enumerate(eyes)}


def _points() -> Floats:
    """A house front with bays, and the ground before it."""
    rng = np.random.default_rng(0)
    x, z = rng.uniform(-8, 24, 300), rng.uniform(0, 9, 300)
    front = np.stack([x, 6.0 + 1.5 * (np.floor(x / 3) % 2) + rng.normal(0, 0.3, 300), z], 1)
    ground = np.stack([rng.uniform(-8, 24, 150), rng.uniform(-3, 6, 150), rng.normal(0, 0.1, 150)], 1)
    return np.concatenate([front, ground])


def _scene(root: Path) -> tuple[peers.PeerScene, Path]:
    """The scene on disk, and a work folder whose database holds projections of the points as keypoints."""
    poses = {f"aerial/{n}": p for n, p in _flight().items()} | {f"ground/{n}": p for n, p in _walk().items()}
    for name in poses:
        kind, file = name.split("/")
        (root / kind / "images").mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (320, 240)).save(root / kind / "images" / file)
    for kind, held, place in (("aerial", _flight(), "sparse"), ("ground", _walk(), "truth")):
        peers.write_poses(root / kind / place, [(n, CAMERA, to_rigid3d(p)) for n, p in held.items()])
    scene, work = peers.PeerScene(root / "aerial", root / "ground/images", CAMERA), root / "work"
    peers.collect_photos(scene, work)
    _fill(work, poses, _points(), 0.3)
    return scene, work


def _fill(work: Path, poses: dict[str, Pose], points: Floats, noise_px: float) -> None:
    rng, seen = np.random.default_rng(1), {}
    with pycolmap.Database.open(work / peers.DATABASE) as database:
        ids = {image.name: image.image_id for image in database.read_all_images()}
        for name, pose in poses.items():
            in_cam = pose(points)
            xy = cameras.project(CAMERA, in_cam) + rng.normal(0, noise_px, (len(points), 2))
            inside = np.all((xy > 0) & (xy < [320, 240]), axis=1) & (in_cam[:, 2] > 0.5)
            seen[name] = np.flatnonzero(inside)
            database.write_keypoints(ids[name], xy[inside].astype(np.float32))
        for a, b in combinations(seen, 2):
            _, k, m = np.intersect1d(seen[a], seen[b], return_indices=True)
            if len(k) >= 15:
                geometry = pycolmap.estimate_calibrated_two_view_geometry(
                    to_camera(CAMERA, 1), database.read_keypoints(ids[a])[:, :2].astype(float), to_camera(CAMERA, 1),
                    database.read_keypoints(ids[b])[:, :2].astype(float), np.stack([k, m], 1).astype(np.uint32),
                )  # fmt: skip
                database.write_matches(ids[a], ids[b], np.stack([k, m], 1).astype(np.uint32))
                database.write_two_view_geometry(ids[a], ids[b], geometry)


@pytest.fixture(scope="module")
def matched(tmp_path_factory: pytest.TempPathFactory) -> tuple[peers.PeerScene, Path]:
    pycolmap.logging.minloglevel = pycolmap.logging.ERROR.value
    return _scene(tmp_path_factory.mktemp("peers"))


def _score(scene: peers.PeerScene, out: Path) -> ModelScore:
    return score_foreign(out / "sparse", scene.aerial, scene.ground.parent / "truth", CONFIG).best


def test_the_flight_is_triangulated_where_it_is(matched: tuple[peers.PeerScene, Path], tmp_path: Path) -> None:
    flight = peers.fixed_flight(*matched, tmp_path / "flight")
    assert flight.num_reg_images() == 8 and flight.num_points3D() > 200
    world = np.array([point.xyz for point in flight.points3D.values()])
    nearest = np.array([np.linalg.norm(_points() - xyz, axis=1).min() for xyz in world])
    assert np.median(nearest) < 0.3


@pytest.mark.parametrize("way", list(peers.WAYS))
def test_colmap_finds_a_walk_with_perfect_matches(
    way: str, matched: tuple[peers.PeerScene, Path], tmp_path: Path
) -> None:
    scene, work = matched
    peers.WAYS[way][1](scene, work, tmp_path)
    found = _score(scene, tmp_path)
    assert found.on_aerial.registered == 10 and found.on_aerial.ate_m is not None and found.on_aerial.ate_m < 0.3
    assert found.outcome in (Outcome.OK, Outcome.MOVED_AERIAL) and found.aerial == 8
    if way == "extend":
        assert found.off_m == pytest.approx(0.0, abs=1e-9) and found.as_it_came.ate_m == pytest.approx(
            found.on_aerial.ate_m, abs=1e-6
        )


def test_single_frames_are_placed_in_the_aerial_frame(matched: tuple[peers.PeerScene, Path], tmp_path: Path) -> None:
    scene, work = matched
    peers_pnp.single_frames(scene, work, tmp_path)
    found = _score(scene, tmp_path)
    assert found.as_it_came.registered == 10 and found.as_it_came.ate_m is not None and found.as_it_came.ate_m < 0.3


def test_a_chain_drifts_from_its_anchors(matched: tuple[peers.PeerScene, Path], tmp_path: Path) -> None:
    scene, work = matched
    anchors = peers_pnp.first_anchors(_walk(), tuple(_walk()), 4)
    assert list(anchors) == ["00.jpg", "01.jpg", "02.jpg", "03.jpg"]
    peers_pnp.chain(scene, work, tmp_path, anchors)
    held = score_foreign(tmp_path / "sparse", scene.aerial, scene.ground.parent / "truth", CONFIG).best
    assert held.as_it_came.registered == 10 and held.aerial == 0
    assert held.as_it_came.ate_m is not None and 0.005 < held.as_it_came.ate_m < 0.5
    peers_pnp.chain(scene, work, tmp_path / "none", {})
    with pytest.raises(StopIteration):
        next(iter(pycolmap.Reconstruction(str(tmp_path / "none/sparse")).images))


def test_without_matches_nothing_is_made_up(matched: tuple[peers.PeerScene, Path], tmp_path: Path) -> None:
    scene, work = matched
    shutil.copytree(work, tmp_path / "work", symlinks=True, ignore=shutil.ignore_patterns("sparse"))
    with pycolmap.Database.open(tmp_path / "work" / peers.DATABASE) as database:
        names = {image.image_id: image.name for image in database.read_all_images()}
        for a, b in combinations(names, 2):
            if names[a][:3] != names[b][:3] and database.exists_two_view_geometry(a, b):
                database.delete_two_view_geometry(a, b)
    peers_pnp.single_frames(scene, tmp_path / "work", tmp_path / "single")
    assert _score(scene, tmp_path / "single").outcome is Outcome.TOO_FEW


def test_pairs_that_look_alike() -> None:
    rng = np.random.default_rng(0)
    places = rng.normal(size=(30, 40, 16))
    size = (np.ones(40, np.float32), np.ones(40, np.float32), 64, 48, 1.0)

    def features(k: int) -> Features:
        held = places[k] / np.linalg.norm(places[k], axis=1, keepdims=True)
        return Features(rng.uniform(0, 48, (40, 2)), held.astype(np.float32), *size)

    held = {f"aerial/{k}": features(k) for k in range(30)} | {f"ground/{k}": features(k) for k in range(3)}
    pairs = peers.alike(held)
    for k in range(3):
        aerial = [pair for pair in pairs if f"ground/{k}" in pair and any(n.startswith("aerial") for n in pair)]
        assert (f"aerial/{k}", f"ground/{k}") in aerial and 20 <= len(aerial) <= 21
    assert ("ground/0", "ground/1") in pairs and len(set(pairs)) == len(pairs)


# --- tables -------------------------------------------------------------------------------------------------------


def _row(name: str, ate: float, seconds: float, verdict: str = "ok", ours: bool = False) -> PeerRow:
    poses = PoseMetrics(10, 20 if verdict != "ok" else 10, ate, 0.1, 0.2)
    return PeerRow(name, verdict, poses, poses, Cost(seconds, 2 * seconds, 10**9), 1, ours)


def test_ratios_are_to_the_best_that_came_out_ok() -> None:
    rows = [
        _row("COLMAP", 0.2, 50.0),
        _row("GLOMAP", 0.01, 5.0, "registered too few"),
        peer_tables.failed_row("hloc", "nothing came out"),
        _row("ours", 0.05, 100.0, ours=True),
    ]
    lines = list(peer_tables.pose_tables(rows))
    assert lines.count("### Anchors\n") == 1 and lines.count("### Trajectory\n") == 1
    assert "| ours / best rival |  | 0.25 | 1.00 | 1.00 | 1.00 | 2.00 | 2.00 | 1.00 |" in lines
    assert "| hloc | nothing came out | - | - | - | - | - | - | - |" in lines
    assert any(line.startswith("| GLOMAP | registered too few | 0.010 |") and "10/20" in line for line in lines)
    assert peer_tables.ratio(rows[1:], lambda row: 1.0) is None


def test_gaussians_of_all_ways_in_one_table() -> None:
    street, air = ImageMetrics(8.0, 0.3, None), ImageMetrics(26.0, 0.9, 0.1)
    ours = {"ground": ImageMetrics(24.0, 0.6, 0.2), "aerial": ImageMetrics(28.6, 0.9, 0.2), "seconds": 90.0}
    paper = {"ground": ImageMetrics(20.0, 0.8, 0.1), "aerial": ImageMetrics(13.0, 0.3, 0.4), "seconds": 450.0}
    rows = (
        Measured("update", "aerial-only", "aerial only", ground=street, aerial=air),
        Measured("update", "joint-training", "joint", problem="no weights"),
        Measured("update", "papers-schedule", "paper", **paper, peak=Peak(4 * 10**9, 8 * 10**9)),
        Measured("update", "no-guard", "a part of ours left out", ground=air, aerial=air, seconds=1.0),
        Measured("trajectory", "front-only", "another table"),
        Measured("update", "full-update", "full method", **ours, peak=Peak(2 * 10**9)),
    )
    lines = list(peer_tables.splat_table(rows))
    assert "| aerial only | ok | 0.900 | 26.00 | 0.100 | 0.300 | 8.00 | - | - | - | - |" in lines
    joint = "joint training on all views (Horizon-GS's way)"
    assert f"| {joint} | no weights |{' - |' * 9}" in lines
    assert any("| from scratch | not measured: `ablate --stages update --only from-scratch` | - |" in x for x in lines)
    assert "| SkyAnchor | ok | 0.900 | 28.60 | 0.200 | 0.600 | 24.00 | 0.200 | 90 | 2.0 | - |" in lines
    assert lines[-1] == "| ours / best rival |  | 1.00 | 1.10 | 2.00 | 0.75 | 1.20 | 2.00 | 0.20 | 0.50 | - |"
    assert len(lines) == 3 + 5 + 1 and not any("left out" in line or "another table" in line for line in lines)
    lost = replace(rows[-1], problem="out of memory")
    assert list(peer_tables.splat_table((*rows[:-1], lost)))[-1].count("| - ") == 9, "a failure of ours has no ratio"


def test_every_way_of_the_table_is_a_row_that_ablate_measures() -> None:
    assert set(peer_tables.SPLATS) <= names_of("update")


def test_ours_is_judged_as_the_others_are() -> None:
    whole, half, few = (PoseMetrics(count, 40, 0.1, 0.1, 0.1) for count in (40, 20, 19))
    assert peer_tables.own_row(whole, whole, None).verdict == peer_tables.own_row(whole, half, None).verdict == "ok"
    lost = peer_tables.own_row(few, few, None)
    assert lost.verdict == "registered too few" and lost.ours
    rows = [_row("a rival", 0.2, 50.0), lost]
    assert peer_tables.ratio(rows, lambda row: row.trajectory.ate_m if row.trajectory else None) is None


# --- the script ---------------------------------------------------------------------------------------------------


def test_models_are_given_with_what_stands_before_their_names() -> None:
    assert peers.given_model("MP-SfM=a/b") == peers.GivenModel("MP-SfM", Path("a/b"))
    assert peers.given_model("x=m,air/,") == peers.GivenModel("x", Path("m"), "air/", "")
    for wrong in ("x", "=m", "x=", "x=m,air/", "x=m,a,b,c"):
        with pytest.raises(SkyAnchorError, match="give NAME=PATH"):
            peers.given_model(wrong)


def test_the_script_shows_given_models_and_what_is_wrong_with_one(
    matched: tuple[peers.PeerScene, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Aerial and street photos share their names here, so that a model must say which are which."""
    scene, _ = matched
    _run_of_ours(tmp_path / "run", 0.05)
    joint = {f"up/{n}": p for n, p in _flight().items()} | {f"down/{n}": p for n, p in _walk().items()}
    peers.write_poses(tmp_path / "joint", [(n, CAMERA, to_rigid3d(p)) for n, p in joint.items()])
    lines = [f"{k} {k} 0 0 0 0 0 1" for k in range(10)]
    (tmp_path / "slam.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    script = importlib.import_module("peers")
    words = ["peers.py", str(scene.aerial.parent), "--run", str(tmp_path / "run"), "--matchers", ""]
    words += ["--work", str(tmp_path / "work"), "--splats", str(tmp_path / "run")]
    words += ["--model", f"MASt3R-SfM={tmp_path}/joint,up/,down/", "--model", f"MP-SfM={tmp_path}/joint"]
    words += ["--model", f"VGGT-SLAM={tmp_path}/slam.txt", "--model", f"nobody={tmp_path}/nowhere"]
    files.save(tmp_path / "run" / JSON, AblationRecord("truth", ()))
    monkeypatch.setattr(sys, "argv", words)
    script.main()
    out = capsys.readouterr().out
    anchors, walk = out.partition("### Trajectory")[::2]
    assert ": 10 street frames" in anchors and "| MASt3R-SfM | ok | 0.000 |" in anchors
    assert "| MASt3R-SfM | ok | 0.000 | 0.000 | 0.000 | 10/10 |" in walk
    assert "| MP-SfM | failed: " in walk and "has two images of one file name" in walk
    assert "| VGGT-SLAM | cannot align | - | - |" in walk, "a walk alone is in no frame but its own"
    assert "| nobody | failed: " in walk and "| SkyAnchor, no alignment | registered too few | 0.050 |" in anchors
    assert "| SkyAnchor | not measured: `ablate --stages update --only full-update` |" in walk


def _run_of_ours(root: Path, off_m: float) -> None:
    """A finished run with every frame an anchor, so far from its place."""
    walk, names = _walk(), tuple(_walk())
    moved = {n: rigid.from_centre(p.rotation, rigid.centre_in_world(p) + off_m * UP) for n, p in walk.items()}
    poses = tuple(AnchorPose(k, moved[n], np.eye(6) * 1e-6) for k, n in enumerate(names))
    groups = (LocalisedGroup(AnchorGroup(0, tuple(range(10)), (0,)), poses, None),)
    record = records.AnchorsRecord(names, Georeference(np.zeros(3)), Anchors(groups, CAMERA))
    files.save(root / STATE / INPUTS_FILE, Inputs(root, root))
    with RunFolder(root) as run:
        stage = run.stage(ANCHORS, "given", {}, {})
        stage.save(records.ANCHORS_FILE, record)
        stage.finish()
