"""A scaffold prepared once: what walks find there, what they add, and what happens when it moves or is in use."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path

import paper_street
import pytest

import skyanchor
from skyanchor import pipeline, reading
from skyanchor.anchors.place_description import tiles_of
from skyanchor.anchors.priors import Near
from skyanchor.bridges.ground import Ground
from skyanchor.errors import InputError, RecipeError, SkyAnchorError
from skyanchor.events import ANCHORS, SCAFFOLD, TRAJECTORY, Listener, silent
from skyanchor.geometry import cameras
from skyanchor.matching import XFeat
from skyanchor.pipeline import PipelineConfig
from skyanchor.run import prepared as parts
from skyanchor.run.executor import InProcess
from skyanchor.run.folder import RunFolder
from skyanchor.run.inputs import Inputs
from skyanchor.run.job import Job
from skyanchor.run.layout import OF_A_SCAFFOLD
from skyanchor.run.pool import Done
from skyanchor.run.prepared import Prepared, find_prepared
from skyanchor.run.results import open_run
from skyanchor.scaffold import load_scaffold
from skyanchor.scaffold import training as scaffold_training
from skyanchor.scaffold.windows import WindowConfig
from skyanchor.sequence import SequenceConfig
from skyanchor.stages import anchors
from skyanchor.stages.digests import aerial_digests
from skyanchor.stages.places import like, place_files, places_part
from skyanchor.stages.scaffold import GeometryConfig, replace_earlier_layout
from skyanchor.stages.windows import windows_part
from skyanchor.stages.work import Site
from skyanchor.stereo import SourceConfig, StereoConfig
from skyanchor.storage import codec, files
from skyanchor.types import Anchors

FRAMES = 12


def small() -> PipelineConfig:
    """The method at the size of a street of paper."""
    base = PipelineConfig(
        sequence=SequenceConfig(camera="PINHOLE,230,230,160,90"),
        geometry=GeometryConfig(SourceConfig(count=4), stereo=StereoConfig(width=96, sweep_scale=1)),
    )
    places = replace(base.anchors.places, width=160, features=XFeat(keypoints=200, longest=160, threshold=0.01))
    places = replace(places, nodes=replace(places.nodes, spacing=14.0, headings=4))
    training = replace(scaffold_training.CPU, train=replace(scaffold_training.CPU.train, iterations=3))
    scene = replace(base.scene, aerial=training, device="cpu")
    return replace(base, anchors=replace(base.anchors, places=places), scene=scene)


@dataclass
class Counting:
    """Runs jobs here and remembers which."""

    functions: list[str] = field(default_factory=list)

    def run(self, jobs: Sequence[Job], listen: Listener = silent, done: Done | None = None) -> list[codec.Json]:
        self.functions += [job.function for job in jobs]
        return InProcess().run(jobs, listen, done)

    def held(self, modules: tuple[str, ...] = ()) -> AbstractContextManager[None]:
        return InProcess().held()

    def ahead(self, jobs: Sequence[Job]) -> None:
        self.functions += [job.function for job in jobs]

    def of_stage_1(self) -> list[str]:
        modules = ("skyanchor.stages.scaffold", "skyanchor.stages.places", "skyanchor.stages.splats")
        return [function for function in self.functions if function.startswith(modules)]


@pytest.fixture(autouse=True)
def no_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups are another test's business: here it counts what the stage stands on."""
    monkeypatch.setattr(anchors, "_localised", lambda stage, work, above, config: Anchors((), work.sequence.camera))


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("paper")
    paper_street.write_scene(root, FRAMES)
    return root


@pytest.fixture(scope="module")
def prepared(scene: Path, tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    out = tmp_path_factory.mktemp("survey") / "scaffold"
    made = pipeline.prepare(scene / "aerial", out, small(), InProcess(), camera=paper_street.WALKER)
    return made


def walked(scaffold: Path, scene: Path, root: Path, executor: Counting, config: PipelineConfig | None = None) -> None:
    """The anchors of the walk."""
    inputs = Inputs(scaffold, scene / "ground")
    with RunFolder(root) as run:
        files.save(root / ".state/inputs.json", inputs)
        pipeline.run(run, inputs, config or small(), executor, ANCHORS)


def test_everything_that_depends_on_the_flight_is_there(prepared: Prepared) -> None:
    for part in (parts.DEPTH, parts.SURFACE, parts.SPLATS):
        assert prepared.needed(part).recipe.stage == f"{SCAFFOLD}/{part}"
    assert len(list((prepared.root / parts.PLACES).iterdir())) == 1
    assert len(list((prepared.root / parts.DEPTH).glob("*.npz"))) == len(paper_street.flight())
    assert prepared.scaffold().views[0].path.is_file()


def test_walks_run_no_job_of_stage_1(prepared: Prepared, scene: Path, tmp_path: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in prepared.root.rglob("*") if path.is_file()}
    for name in ("monday", "tuesday"):
        executor = Counting()
        walked(prepared.root, scene, tmp_path / name, executor)
        assert executor.of_stage_1() == []
        run = open_run(tmp_path / name)
        assert run.has(SCAFFOLD) and run.has(ANCHORS) and not (tmp_path / name / SCAFFOLD).exists()
        assert run.depth("a010.png").depth.shape == (72, 96)
    after = {path: path.stat().st_mtime_ns for path in prepared.root.rglob("*") if path.is_file()}
    assert {p: t for p, t in after.items() if p.parent.name != ".state"} == {
        p: t for p, t in before.items() if p.parent.name != ".state"
    }


def test_another_camera_adds_its_places_once(prepared: Prepared, scene: Path, tmp_path: Path) -> None:
    mine = Prepared(shutil.copytree(prepared.root, tmp_path / "scaffold"))
    config = replace(small(), sequence=SequenceConfig(camera="PINHOLE,330,330,160,90"))
    counts = []
    for name in ("first", "second"):
        executor = Counting()
        walked(mine.root, scene, tmp_path / name, executor, config)
        counts.append(len(executor.of_stage_1()))
    assert counts[0] > 0 and counts[1] == 0
    assert len(list((mine.root / parts.PLACES).iterdir())) == 2


def test_a_prior_describes_the_tiles_it_touches_and_others_use_them(prepared: Prepared, tmp_path: Path) -> None:
    mine = Prepared(shutil.copytree(prepared.root, tmp_path / "scaffold"))
    shutil.rmtree(mine.root / parts.PLACES)
    config, executor = replace(small().anchors.places, tile=14.0), Counting()
    site, surface = Site(mine.scaffold(), mine, executor, given=True), mine.needed(parts.SURFACE)
    ground = surface.load(parts.GROUND_FILE, Ground)
    whole = tiles_of(site.scaffold, ground, config)
    x, y = ground.across @ next(iter(whole.values()))[0].eye
    near = (Near(float(x), float(y), 1.0),)
    some = place_files(site, surface, paper_street.WALKER, config, near, silent)
    assert 1 == len(some.tiles) < len(whole) and some.tiles[0].is_file()
    assert executor.functions.count("skyanchor.stages.places:describe_places_job") == 1
    places_part(site, surface, paper_street.WALKER, config)
    assert executor.functions.count("skyanchor.stages.places:describe_places_job") == len(whole)
    everywhere = place_files(site, surface, paper_street.WALKER, config, (), silent)
    assert len(everywhere.tiles) == len(whole) and len(everywhere.index()) > len(some.index())
    assert place_files(site, surface, paper_street.WALKER, config, near, silent) == some


def test_cameras_alike_share_their_places() -> None:
    phone, other = cameras.pinhole(1920, 1080, 1480.0), cameras.pinhole(3840, 2160, 2990.0)
    assert like(phone, 416) == like(other, 416)
    ours = like(phone, 416)
    assert ours.width == 416 and abs(ours.height / 416 - 9 / 16) < 2e-3
    assert abs(cameras.focal_px(ours) / 416 / (1480.0 / 1920.0) - 1.0) < 0.05
    assert like(cameras.pinhole(1080, 1920, 1480.0), 416).height > 416
    assert like(cameras.pinhole(1920, 1080, 800.0), 416) != ours


def test_the_first_stage_of_a_run_is_a_scaffold(scene: Path, tmp_path: Path) -> None:
    walked(scene / "aerial", scene, tmp_path / "first", Counting())
    executor = Counting()
    walked(tmp_path / "first" / SCAFFOLD, scene, tmp_path / "second", executor)
    assert executor.of_stage_1() == []
    assert find_prepared(tmp_path / "first") == Prepared(tmp_path / "first" / SCAFFOLD)
    recipes = [open_run(tmp_path / name).stage(ANCHORS).recipe for name in ("first", "second")]
    assert recipes[0] == recipes[1]


def test_the_functions_do_what_the_commands_do(prepared: Prepared, scene: Path, tmp_path: Path) -> None:
    shared = Prepared(shutil.copytree(prepared.root, tmp_path / "scaffold"))
    again = skyanchor.prepare(scene / "aerial", shared.root, small(), camera=paper_street.WALKER, workers=1)
    assert again == shared
    run = skyanchor.localise(shared.root, scene / "ground", tmp_path / "run", small(), workers=1)
    assert run.has(ANCHORS) and run.anchors.groups == () and run.camera == run.sequence.camera
    run = skyanchor.recover(str(shared.root), str(scene / "ground"), str(tmp_path / "run"), small(), workers=1)
    assert run.has(TRAJECTORY) and len(run.trajectory.frames) == FRAMES and run.poses == {}
    with pytest.raises(SkyAnchorError, match="fewer than two street frames have a pose"):
        skyanchor.update(shared.root, scene / "ground", tmp_path / "run", small(), workers=1)
    metrics = skyanchor.evaluate(tmp_path / "run", scene / "ground/truth")
    assert metrics.trajectory.registered == 0 and metrics.trajectory.total == FRAMES
    held = skyanchor.open_run(str(tmp_path / "run"))
    assert held.metrics == metrics and "2-anchors, 3-trajectory" in repr(held)
    assert len(held.splats()) > 100 and held.scaffold.views[0].name == "a000.png"


def test_a_first_stage_of_the_earlier_layout_is_told_or_replaced(scene: Path, tmp_path: Path) -> None:
    with RunFolder(tmp_path) as run:
        run.stage(SCAFFOLD, "depth", {}, {}).finish()
    (tmp_path / SCAFFOLD / parts.DEPTH).mkdir()
    site = Site(load_scaffold(scene / "aerial"), Prepared(tmp_path / SCAFFOLD), InProcess())
    with pytest.raises(RecipeError, match="made by an earlier version"):
        replace_earlier_layout(site)
    replace_earlier_layout(replace(site, redo=True))
    assert not (tmp_path / SCAFFOLD).exists()


def test_it_moves_with_its_photos_or_without(prepared: Prepared, scene: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    shutil.copytree(scene, disk / "flight")
    made = Prepared(shutil.copytree(prepared.root, disk / "scaffold"))
    parts.write_aerial(made.root, made.scaffold(disk / "flight/aerial/images"), made.record.reading)
    moved = tmp_path / "elsewhere"
    disk.rename(moved)
    there = Prepared(moved / "scaffold")
    assert there.scaffold().views[0].path.resolve() == (moved / "flight/aerial/images/a000.png").resolve()
    shutil.move(moved / "flight", tmp_path / "photos")
    with pytest.raises(InputError, match=r"which is not there\. Give the folder they are in now with --images"):
        there.scaffold()
    assert there.scaffold(tmp_path / "photos/aerial/images").views[3].path.is_file()


def test_other_photos_are_refused(prepared: Prepared, scene: Path, tmp_path: Path) -> None:
    shutil.copytree(scene / "aerial/images", tmp_path / "images")
    shutil.copyfile(tmp_path / "images/a001.png", tmp_path / "images/a000.png")
    inputs = Inputs(prepared.root, scene / "ground", tmp_path / "images")
    with RunFolder(tmp_path / "run") as run, pytest.raises(InputError, match="was prepared from other photos"):
        pipeline.run(run, inputs, small(), InProcess(), ANCHORS)


@dataclass
class Spoiling(Counting):
    """Replaces a photo by another before the first job whose function has a name."""

    photo: Path = Path()
    function: str = ""

    def run(self, jobs: Sequence[Job], listen: Listener = silent, done: Done | None = None) -> list[codec.Json]:
        if any(self.function in job.function for job in jobs):
            self.spoil()
        return super().run(jobs, listen, done)

    def spoil(self) -> None:
        shutil.copyfile(sorted(self.photo.parent.iterdir())[-1], self.photo)


@pytest.mark.parametrize("which", ["aerial/images/a003.png", "ground/images/g003.png"])
def test_a_photo_that_is_replaced_while_groups_are_placed_is_told(
    prepared: Prepared, scene: Path, tmp_path: Path, which: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy, nobody = shutil.copytree(scene, tmp_path / "scene"), anchors._localised
    spoiler = Spoiling(photo=copy / which)

    def meanwhile(*given: object) -> Anchors:
        spoiler.spoil()
        return nobody(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(anchors, "_localised", meanwhile)
    inputs = Inputs(prepared.root, copy / "ground", copy / "aerial/images")
    with (
        RunFolder(tmp_path / "run") as run,
        pytest.raises(InputError, match=rf"{Path(which).name}: was changed while the run went on"),
    ):
        pipeline.run(run, inputs, small(), InProcess(), ANCHORS)
    assert not (tmp_path / "run" / ANCHORS).exists()


def test_places_that_were_described_with_a_replaced_photo_are_not_kept(
    prepared: Prepared, scene: Path, tmp_path: Path
) -> None:
    mine = Prepared(shutil.copytree(prepared.root, tmp_path / "scaffold"))
    shutil.rmtree(mine.root / parts.PLACES)
    copy = shutil.copytree(scene, tmp_path / "scene")
    spoiler = Spoiling(photo=copy / "aerial/images/a003.png", function="describe_places_job")
    inputs = Inputs(mine.root, copy / "ground", copy / "aerial/images")
    with RunFolder(tmp_path / "run") as run, pytest.raises(InputError, match=r"a003\.png: was changed while the run"):
        pipeline.run(run, inputs, small(), spoiler, ANCHORS)
    assert not any((mine.root / parts.PLACES).rglob("*.npz"))


def test_tiles_of_a_prior_that_were_described_with_a_replaced_photo_are_not_kept(
    prepared: Prepared, scene: Path, tmp_path: Path
) -> None:
    mine = Prepared(shutil.copytree(prepared.root, tmp_path / "scaffold"))
    shutil.rmtree(mine.root / parts.PLACES)
    copy, config = shutil.copytree(scene, tmp_path / "scene"), replace(small().anchors.places, tile=14.0)
    spoiler = Spoiling(photo=copy / "aerial/images/a003.png", function="describe_places_job")
    surface, held = mine.needed(parts.SURFACE), mine.scaffold(copy / "aerial/images")
    ground = surface.load(parts.GROUND_FILE, Ground)
    eyes = [nodes[0].eye for nodes in tiles_of(held, ground, config).values()]
    kept, lost = ((Near(*(ground.across @ eye), 1.0),) for eye in (eyes[0], eyes[-1]))
    with RunFolder(tmp_path / "run") as run:
        aerial_digests(run, held)
        site = Site(held, mine, InProcess(), given=True, known=run.known)
        before = place_files(site, surface, paper_street.WALKER, config, kept, silent)
        with pytest.raises(InputError, match=r"a003\.png: was changed while the run went on"):
            place_files(replace(site, executor=spoiler), surface, paper_street.WALKER, config, lost, silent)
    assert set((mine.root / parts.PLACES).rglob("tiles/*.npz")) == set(before.tiles)
    assert before.vocabulary.is_file()


def test_settings_that_it_was_not_made_with_are_told(prepared: Prepared, scene: Path, tmp_path: Path) -> None:
    stereo = StereoConfig(width=200, sweep_scale=1)
    other = replace(small(), geometry=GeometryConfig(SourceConfig(count=4), stereo=stereo))
    with pytest.raises(RecipeError, match=r"was prepared with another --geometry\.stereo"):
        walked(prepared.root, scene, tmp_path / "run", Counting(), other)
    with pytest.raises(RecipeError, match="made differently"):
        pipeline.prepare(scene / "aerial", prepared.root, other, InProcess())


def test_windows_that_it_was_not_cut_into_are_told(prepared: Prepared, tmp_path: Path) -> None:
    mine = Prepared(shutil.copytree(prepared.root, tmp_path / "scaffold"))
    cut, other = (replace(small().geometry, windows=WindowConfig(longest, 0.01)) for longest in (256, 300))
    for asked in (cut, other):
        reading.check_prepared_as_asked(mine, asked)  # none are there yet: they are cut as it is asked
    windows_part(Site(mine.scaffold(), mine, InProcess(), given=True), cut.windows)
    assert mine.part(parts.WINDOWS) is not None
    for asked in (cut, pipeline.CPU.geometry):
        reading.check_prepared_as_asked(mine, asked)
    with pytest.raises(RecipeError, match=r"was prepared with another --geometry\.windows"):
        reading.check_prepared_as_asked(mine, other)


def test_a_walk_may_name_the_map_of_a_scaffold_that_has_none(prepared: Prepared, scene: Path, tmp_path: Path) -> None:
    named = replace(small(), scaffold=replace(small().scaffold, crs="EPSG:25832"))
    inputs = Inputs(prepared.root, scene / "ground")
    with RunFolder(tmp_path / "run") as run:
        assert reading.read_site(run, inputs, small(), InProcess()).scaffold.georef.crs is None
        assert reading.read_site(run, inputs, named, InProcess()).scaffold.georef.crs == "EPSG:25832"
        wrong = replace(named, scaffold=replace(named.scaffold, crs="EPSG:99"))
        with pytest.raises(InputError, match="--crs: cannot be used"):
            reading.read_site(run, inputs, wrong, InProcess())


def test_an_unfinished_one_is_named(scene: Path, tmp_path: Path, prepared: Prepared) -> None:
    half = shutil.copytree(prepared.root, tmp_path / "half")
    (half / parts.SURFACE / "recipe.json").unlink()
    with pytest.raises(InputError, match=r"is not finished: it has no surface\. Run `skyanchor prepare` once more"):
        walked(half, scene, tmp_path / "run", Counting())


def test_nobody_makes_it_anew_while_a_walk_reads_it(prepared: Prepared, scene: Path) -> None:
    with prepared.reading(), prepared.reading(), pytest.raises(SkyAnchorError, match="is in use"):
        pipeline.prepare(scene / "aerial", prepared.root, small(), InProcess(), redo=True)
    with (
        RunFolder(prepared.root, part_of=SCAFFOLD, layout=OF_A_SCAFFOLD),
        pytest.raises(SkyAnchorError, match="is in use by process"),
        prepared.reading(),
    ):
        pass
