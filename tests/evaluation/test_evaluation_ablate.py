"""Ablations of a run: stages reused, variants resumed, rows kept, and a real effect on a street of paper."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import paper_street
import pytest
from given_run import given_anchors

from skyanchor import pipeline
from skyanchor.anchors.ablated import way_left
from skyanchor.anchors.ladder import rungs
from skyanchor.anchors.paper_route.route import settle_by_similarity, settle_on_cameras
from skyanchor.cli.main import main
from skyanchor.errors import InputError, RecipeError, SkyAnchorError
from skyanchor.evaluation import ablate as ab
from skyanchor.evaluation.ablation_tables import HEADERS, markdown, tables
from skyanchor.evaluation.ablations import all_variants, descriptor_variant, matcher_variant
from skyanchor.events import ANCHORS, TRAJECTORY
from skyanchor.geometry import cameras
from skyanchor.matching import Sift, Vismatch
from skyanchor.matching.global_descriptors import HubModel, MegaLoc
from skyanchor.pipeline import PipelineConfig
from skyanchor.reading import read_work
from skyanchor.run.executor import Executor, InProcess
from skyanchor.run.folder import RunFolder
from skyanchor.run.inputs import Inputs
from skyanchor.run.metrics import ImageMetrics, PoseMetrics
from skyanchor.run.results import open_run
from skyanchor.scaffold import training as scaffold_training
from skyanchor.scene import config as update_settings
from skyanchor.sequence import SequenceConfig
from skyanchor.sequence.submaps import anchor_groups, cut_submaps
from skyanchor.stages import trajectory
from skyanchor.storage import files
from skyanchor.trajectory import TrajectoryConfig
from skyanchor.trajectory.config import AdjustConfig
from skyanchor.types import Frame, Sequence

FRAMES = 16
CONFIG = PipelineConfig(
    sequence=SequenceConfig(camera="PINHOLE,230,230,160,90"),
    trajectory=TrajectoryConfig(
        matcher=Sift(keypoints=600),
        adjust=AdjustConfig(bootstrap_iterations=50, online_iterations=30, final_iterations=50, final_rounds=1),
    ),
)


class FromTrueAnchors:
    """Takes anchors from the truth and runs the trajectory stage on them, and counts how often it had to."""

    def __init__(self, trajectory: bool = True) -> None:
        self.trajectory = trajectory
        self.runs: list[Path] = []

    def __call__(
        self, folder: RunFolder, inputs: Inputs, config: PipelineConfig, executor: Executor, upto: str
    ) -> None:
        work = read_work(folder, inputs, config, executor)
        stage = given_anchors(work, paper_street.walk(FRAMES))
        if self.trajectory and not (folder.root / TRAJECTORY / "recipe.json").is_file():
            self.runs.append(folder.root)
        if self.trajectory:
            trajectory.run(work, config.trajectory, stage)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("paper")
    paper_street.write_scene(root, FRAMES)
    return root


def subject(run: RunFolder, scene: Path, work: ab.Work, config: PipelineConfig = CONFIG) -> ab.Subject:
    inputs = Inputs(scene / "aerial", scene / "ground")
    files.save(run.root / ".state/inputs.json", inputs)
    return ab.Subject(run, inputs, config, InProcess(), scene / "ground/truth", work=work)


def test_a_trajectory_ablation_of_a_real_run(scene: Path, tmp_path: Path) -> None:
    work, root = FromTrueAnchors(), tmp_path / "run"
    chosen = ab.chosen_variants(root, ["trajectory"], only=["no-anchor-init", "groups-of-6"])
    with RunFolder(root) as run:
        first = ab.ablate(subject(run, scene, work), chosen)
    rows = {row.name: row for row in first.rows}
    full, without, same = rows["full-trajectory"], rows["no-anchor-init"], rows["groups-of-6"]
    assert [path.name for path in work.runs] == ["run", "no-anchor-init"]  # group size 6 is the method's own
    assert full.poses is not None and full.poses.ate_m is not None and 0.0 < full.poses.ate_m < 0.05
    assert without.poses is not None and (without.poses.ate_m is None or without.poses.ate_m > 2 * full.poses.ate_m)
    assert same.poses == full.poses and full.seconds is not None and full.seconds > 0

    variant = root / "ablations/no-anchor-init"
    assert (variant / "2-anchors").readlink() == Path("../../2-anchors")
    assert list((root / ".state/features").glob("*.npz")) and (variant / ".state/features").is_symlink()
    assert not (variant / "3-trajectory").is_symlink() and (variant / "3-trajectory/model").is_dir()

    more = ab.chosen_variants(root, ["trajectory"], only=["front-only", "no-anchor-init"])
    with RunFolder(root) as run:
        again = ab.ablate(subject(run, scene, work), more)
        assert [path.name for path in work.runs[2:]] == ["front-only"]
        assert {row.name for row in again.rows} == {*rows, "front-only"}
        changed = replace(CONFIG, trajectory=replace(CONFIG.trajectory, tail_window=3))
        with pytest.raises(RecipeError, match=r"tail_window.*its own command with --redo first") as told:
            ab.ablate(replace(subject(run, scene, work, changed), redo=True), more)
        assert "Use --redo" not in str(told.value)  # which replaces variants, not the run
    assert files.load(root / ab.JSON, ab.AblationRecord) == again


def test_groups_of_another_size_are_localised_as_such(scene: Path, tmp_path: Path) -> None:
    """Their anchors are their own; the row of outermost anchors stands on the run's."""
    work, root = FromTrueAnchors(), tmp_path / "run"
    chosen = ab.chosen_variants(root, ["trajectory"], only=["groups-of-4", "outermost-4"])
    with RunFolder(root) as run:
        record = ab.ablate(subject(run, scene, work), chosen)
        old = ab.Measured("trajectory", "group-size-4", "anchor group size (4, 4)")
        files.save(root / ab.JSON, replace(record, rows=(*record.rows, old)))
        kept = ab.save_rows(subject(run, scene, work), ())
    assert kept == record, "a row whose name promised other groups is not kept"
    sizes = {}
    for name in ("groups-of-4", "outermost-4"):
        held = open_run(root / "ablations" / name)
        sizes[name] = [len(group.group.frames) for group in held.anchors.groups]
        assert (held.root / "2-anchors").is_symlink() == (name == "outermost-4")
    assert sizes == {"groups-of-4": [4, 4], "outermost-4": [6, 6]}
    rows = {row.name: row.poses for row in record.rows}
    assert all(poses is not None and poses.registered == FRAMES for poses in rows.values())


def test_groups_of_another_size_are_never_enlarged_to_the_methods_own() -> None:
    held = {v.name: v.change(pipeline.CPU) for v in all_variants("trajectory")}
    two = held["groups-of-2"]
    assert two.sequence.cut.group_size == 2 and held["groups-of-6"] == pipeline.CPU
    assert two.trajectory == pipeline.CPU.trajectory and two.scene == pipeline.CPU.scene
    submaps = cut_submaps(40, two.sequence.cut)
    camera, frames = cameras.pinhole(64, 48, 60.0), tuple(Frame(k, f"{k}.jpg", Path()) for k in range(40))
    groups = anchor_groups(submaps, two.sequence.cut)
    walk = Sequence(Path(), frames, camera, False, submaps, groups)
    tried = {len(rung.frames) for group in groups for rung in rungs(walk, group, two.anchors)}
    assert tried == {2} and [len(group.frames) for group in groups] == [2, 2]


def test_a_variant_that_fails_says_why_and_the_others_go_on(scene: Path, tmp_path: Path) -> None:
    good = FromTrueAnchors(trajectory=False)

    def work(folder: RunFolder, inputs: Inputs, config: PipelineConfig, executor: Executor, upto: str) -> None:
        if config.anchors.ablation.single_frame:
            raise SkyAnchorError("no frame has a pose")
        good(folder, inputs, config, executor, upto)

    names = ["no-bridges", "single-frame"]
    with RunFolder(tmp_path) as run:
        record = ab.ablate(subject(run, scene, work), ab.chosen_variants(tmp_path, ["anchors"], only=names))
    problems = {row.name: row.problem for row in record.rows}
    assert problems == {"no-bridges": "", "single-frame": "no frame has a pose", "full-anchors": ""}
    assert "| single-frame localisation | no frame has a pose |" in markdown(record)


def test_matchers_that_are_not_here_are_told(scene: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("SKYANCHOR_WEIGHTS", "TORCH_HOME", "HF_HUB_CACHE"):
        monkeypatch.setenv(variable, str(tmp_path))
    monkeypatch.chdir(tmp_path)
    work = FromTrueAnchors(trajectory=False)
    variants = ab.chosen_variants(tmp_path, matchers=["mast3r-original", "sift"], descriptors=["anyloc-s"])
    with RunFolder(tmp_path) as run:
        record = ab.ablate(subject(run, scene, work), variants)
    names = ["matcher-mast3r-original", "matcher-sift", "full-matchers", "descriptor-any-loc-s", "full-descriptors"]
    assert [row.name for row in record.rows] == names and "dinov2-s" in record.rows[3].problem
    assert "not on this machine" in record.rows[0].problem and record.rows[1].accepted == record.rows[1].groups == 2
    matchers, descriptors = tables(record)
    assert matchers.rows[1][:2] == ("sift", "2/2") and matchers.rows[2][0] == "full method, x-feat-star then sift"
    assert descriptors.rows[-1][0] == "full method, scene-vlad"


def test_the_command_line_prints_and_writes_the_tables(
    scene: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pipeline, "run", FromTrueAnchors(trajectory=False))
    run, truth = tmp_path / "run", str(scene / "ground/truth")
    asked = ["ablate", str(run), "--truth", truth, "--stages", "anchors", "--only", "single-frame"]
    assert main(asked) == 2
    assert "does not say with which settings" in capsys.readouterr().err
    files.save(run / ".state/inputs.json", Inputs(scene / "aerial", scene / "ground"))
    files.save(run / ".state/settings.json", CONFIG)
    assert main(asked) == 0
    shown = capsys.readouterr().out
    assert "single-frame localisation" in shown and "12/12" in shown and str(run / "ablations.md") in shown
    assert "| full method, x-feat-star then sift | 0.000 |" in (run / "ablations.md").read_text()


# --- choosing -----------------------------------------------------------------------------------------------------


def test_the_papers_variants_are_all_there() -> None:
    names = {table: [v.name for v in all_variants(table)] for table in ab.VARIED}
    assert names["anchors"] == [
        "papers-route",
        "no-visibility-graph",
        "no-bridges",
        "no-ground-first",
        "no-metric-alignment",
        "single-frame",
    ]
    assert len(names["trajectory"]) == 12 and len(names["update"]) == 8
    for table in ab.VARIED:
        variants = all_variants(table)
        changed = [variant.change(pipeline.CPU) for variant in variants]
        assert len({repr(config) for config in changed}) == len(changed)
        others = [v for v, c in zip(variants, changed, strict=True) if c.sequence != pipeline.CPU.sequence]
        assert [v.name for v in others] == (["groups-of-2", "groups-of-4"] if table == "trajectory" else [])
        assert all(v.first == ANCHORS for v in others)


def test_names_choose_and_wrong_ones_are_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no finished anchors"):
        ab.chosen_variants(tmp_path)
    files.save(tmp_path / TRAJECTORY / "recipe.json", {})
    assert {v.table for v in ab.chosen_variants(tmp_path)} == {"trajectory"}
    assert [v.table for v in ab.chosen_variants(tmp_path, matchers=["sift"])] == ["matchers"]
    with pytest.raises(SkyAnchorError, match="--stages scene: there are anchors, trajectory, update"):
        ab.chosen_variants(tmp_path, ["scene"])
    with pytest.raises(SkyAnchorError, match="--only rear-only: there are no-anchor-init"):
        ab.chosen_variants(tmp_path, ["trajectory"], only=["rear-only"])
    with pytest.raises(SkyAnchorError, match="--matchers surf: there are sift"):
        ab.chosen_variants(tmp_path, matchers=["surf"])
    with pytest.raises(SkyAnchorError, match="--descriptors gist: there are scene-vlad, any-loc-s"):
        ab.chosen_variants(tmp_path, descriptors=["gist"])


def test_the_visibility_graph_alone_is_left_out_of_the_papers_route() -> None:
    route, without = (v.change(pipeline.CPU) for v in all_variants("anchors")[:2])
    assert route.anchors.route == without.anchors.route == "paper"
    with_graph = replace(without.anchors.ablation, visibility_graph=True)
    assert replace(without.anchors, ablation=with_graph) == route.anchors
    assert not without.anchors.ablation.visibility_graph


def test_rows_of_a_run_of_the_papers_route_are_what_they_say() -> None:
    papers = replace(pipeline.CPU, anchors=replace(pipeline.CPU.anchors, route="paper"))
    held = {v.name: v.change(papers).anchors for v in all_variants("anchors")}
    assert held["papers-route"] == papers.anchors, "the full method itself"
    direct = held.pop("no-bridges")
    assert direct.route == "bridges" and not direct.ablation.bridges
    assert {config.route for config in held.values()} == {"paper"}
    ways = {name: way_left(config) for name, config in held.items()}
    assert ways["no-metric-alignment"] is settle_by_similarity and ways["no-ground-first"] is settle_on_cameras


def test_backends_are_compared_on_any_route(scene: Path, tmp_path: Path) -> None:
    asked = ab.chosen_variants(tmp_path, matchers=["sift"], descriptors=["megaloc"], route="paper")
    names = ["matcher-sift-paper", "own-matchers-paper", "descriptor-mega-loc-paper", "own-descriptors-paper"]
    assert [variant.name for variant in asked] == names
    sift, own, megaloc, _ = (variant.change(pipeline.CPU).anchors for variant in asked)
    assert {sift.route, own.route, megaloc.route} == {"paper"} and sift.ablation == pipeline.CPU.anchors.ablation
    assert isinstance(sift.paper.matcher, Sift) and own.paper == pipeline.CPU.anchors.paper
    assert megaloc.paper.descriptor == MegaLoc()
    papers = replace(pipeline.CPU, anchors=replace(pipeline.CPU.anchors, route="paper"))
    direct, _ = (v.change(papers).anchors for v in ab.chosen_variants(tmp_path, matchers=["sift"], route="direct"))
    assert direct.route == "bridges" and not direct.ablation.bridges, "from any run, also one of the paper's route"
    back, _ = (v.change(papers) for v in ab.chosen_variants(tmp_path, matchers=["sift"], route="bridges"))
    assert back == matcher_variant("sift").change(pipeline.CPU)
    with pytest.raises(SkyAnchorError, match="--route paper goes with --matchers or --descriptors"):
        ab.chosen_variants(tmp_path, ["trajectory"], route="paper")
    with RunFolder(tmp_path) as run:
        record = ab.ablate(subject(run, scene, FromTrueAnchors(trajectory=False)), asked[:2])
    assert [row.label for row in record.rows][:2] == ["sift, the paper's route", "the method's own, the paper's route"]
    assert (tmp_path / "ablations/matcher-sift-paper/2-anchors").is_dir()


def test_the_full_method_is_named_by_what_it_matches_with() -> None:
    base = pipeline.CPU.anchors
    changes: dict[str, Any] = {
        "x-feat-star then sift": {},
        "x-feat": {"route": "paper"},
        "x-feat-star then sift, beside it x-feat": {"route": "both"},
        "sift": {"route": "paper", "paper": replace(base.paper, matcher=Sift())},
    }
    for name, change in changes.items():
        config = replace(pipeline.CPU, anchors=replace(base, **change))
        assert ab.full_label("anchors", config) == ab.full_label("matchers", config) == f"full method, {name}"
    for switches, name in (({"bridges": False}, "x-feat"), ({"metric_alignment": False}, "x-feat")):
        assert ab.cross_view_matchers(replace(base, ablation=replace(base.ablation, **switches))) == name
    other = replace(base, route="paper", paper=replace(base.paper, descriptor=MegaLoc()))
    assert (
        ab.place_descriptor(other) == "mega-loc" and ab.place_descriptor(replace(other, route="both")) == "scene-vlad"
    )
    assert ab.full_label("update", pipeline.CPU) == "full method"


def test_the_papers_schedule_waits_to_be_named(tmp_path: Path) -> None:
    names = [v.name for v in ab.chosen_variants(tmp_path, ["update"])]
    assert "papers-schedule" not in names and len(names) == 7
    (only,) = ab.chosen_variants(tmp_path, ["update"], only=["papers-schedule"])
    held, own = only.change(pipeline.CPU).scene.update, update_settings.CPU.insertion.width
    assert held is not None and held.joint is not None
    assert (held.insertion.iterations, held.joint.iterations) == (30_000, 40_000)
    assert held.insertion.width == held.joint.width == own != update_settings.PAPER.insertion.width
    assert not held.guard and held.refined == "all"


def test_joint_training_is_as_long_as_all_phases_together() -> None:
    held = {v.name: v.change(pipeline.CPU).scene.update for v in all_variants("update")}
    scratch, joint = held["from-scratch"], held["joint-training"]
    assert scratch is not None and joint is not None and scratch.from_scratch and joint.from_scratch
    assert joint.insertion.iterations - scratch.insertion.iterations == scaffold_training.CPU.train.iterations


def test_matchers_keep_the_size_of_the_pictures() -> None:
    config = matcher_variant("lightglue-disk").change(pipeline.CPU)
    held, own = config.anchors.refine.matcher, pipeline.CPU.anchors.refine.matcher
    assert held.longest == own.longest and getattr(held, "detector", "") == "disk"
    photos = config.anchors.paper.matcher
    assert getattr(photos, "detector", "") == "disk" and photos.longest == pipeline.CPU.anchors.paper.matcher.longest
    own = {"refine": pipeline.CPU.anchors.refine, "paper": pipeline.CPU.anchors.paper}
    assert replace(config.anchors, **own) == pipeline.CPU.anchors
    other = matcher_variant("vismatch:loftr")
    assert isinstance(other.change(pipeline.CPU).anchors.refine.matcher, Vismatch)
    assert (other.name, other.label) == ("matcher-vismatch-loftr", "vismatch:loftr")


def test_descriptors_change_places_and_photos_alike() -> None:
    config = descriptor_variant("megaloc").change(pipeline.CPU)
    assert config.anchors.places.descriptor == MegaLoc() == config.anchors.paper.descriptor
    assert descriptor_variant("scene-vlad").change(pipeline.CPU) == pipeline.CPU
    netvlad = descriptor_variant("hub-model:models/netvlad:vgg16")
    assert netvlad.change(pipeline.CPU).anchors.places.descriptor == HubModel("models/netvlad", "vgg16")
    assert netvlad.name == "descriptor-hub-model-models-netvlad-vgg16"


# --- tables -------------------------------------------------------------------------------------------------------


def test_tables_are_the_papers() -> None:
    poses = PoseMetrics(12, 14, 0.1234, 0.0456, None)
    images = ImageMetrics(24.567, 0.7891, None)
    rows = (
        ab.Measured("update", "full-update", "full method", ground=images, aerial=images, seconds=61.4),
        ab.Measured("update", "no-joint-refinement", "w/o joint refinement", ground=images, aerial=images),
        ab.Measured("update", "aerial-only", "aerial only", ground=images, aerial=images),
        ab.Measured("anchors", "single-frame", "single-frame localisation", poses, 3, 4, seconds=9.0),
    )
    found = tables(ab.AblationRecord("truth", rows))
    assert [table.title.split(",")[0] for table in found] == ["anchor localisation", "scene update"]
    assert found[0].rows == (("single-frame localisation", "0.123", "0.046", "-", "12/14", "3/4", "9"),)
    assert [row[0] for row in found[1].rows] == ["aerial only", "w/o joint refinement", "full method"]
    assert found[1].rows[2] == ("full method", "0.789", "24.57", "-", "24.57", "61")
    assert all(len(row) == len(table.header) for table in found for row in table.rows)
    assert set(HEADERS) == {"anchors", "trajectory", "update", "matchers", "descriptors"}
    lines = markdown(ab.AblationRecord("truth", rows)).splitlines()
    assert "| full method | 0.789 | 24.57 | - | 24.57 | 61 |" in lines and "## Scene update, held-out views" in lines
