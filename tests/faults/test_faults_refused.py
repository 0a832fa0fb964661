"""A call that is refused leaves a run as it was: what it remembers, the frames it stands on, the kind of its folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from PIL import Image
from sequence_fixture import exif_of, write_photo, write_video, write_walk

from skyanchor import reading
from skyanchor.cli.main import main
from skyanchor.errors import InputError, NothingPlacedError, RecipeError, SkyAnchorError
from skyanchor.events import ANCHORS, StageStarted
from skyanchor.presets import CPU
from skyanchor.reading import read_walk, standing_frames
from skyanchor.run.folder import RunFolder
from skyanchor.run.inputs import INPUTS_FILE, Inputs, remembered_commands
from skyanchor.run.layout import OF_A_RUN, OF_A_SCAFFOLD, STATE, claim
from skyanchor.run.records import SEQUENCE_FILE
from skyanchor.run.remembered import REMEMBERED, forgotten_if_refused
from skyanchor.sequence import SequenceConfig, VideoConfig, load_sequence
from skyanchor.sequence.copies import Copies
from skyanchor.storage import files
from skyanchor.types import Sequence

REFUSED = InputError("walk", "does not exist", "Give another.")


def _told(root: Path, text: str) -> None:
    for name in REMEMBERED:
        files.write_text(root / STATE / name, text)


def _kept(root: Path) -> set[str]:
    paths = [root / STATE / name for name in REMEMBERED]
    return {path.read_text() if path.is_file() else "" for path in paths}


# --- what a run remembers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "begun", "kept"),
    [
        (REFUSED, False, "before"),
        (REFUSED, True, "now"),
        (RecipeError("made differently"), True, "before"),
        (NothingPlacedError("no group"), False, "now"),
        (KeyboardInterrupt(), False, "now"),
        (None, False, "now"),
    ],
)
def test_a_refused_call_is_forgotten(tmp_path: Path, error: BaseException | None, begun: bool, kept: str) -> None:
    for first in (False, True):
        root = tmp_path / f"run-{first}"
        if not first:
            _told(root, "before")
        with RunFolder(root) as run:
            _told(root, "now")
            try:
                with forgotten_if_refused(run):
                    if begun:
                        run.listen(StageStarted(ANCHORS, "anchors"))
                    if error is not None:
                        raise error
            except (SkyAnchorError, KeyboardInterrupt) as raised:
                assert raised is error
        assert _kept(root) == {"" if first and kept == "before" else kept}


def test_a_mistyped_option_does_not_stay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, state = tmp_path / "run", tmp_path / "run" / STATE
    given = ["update", "--out", str(run), "--preset", "cpu", "--workers", "1"]
    data = ["--scaffold", str(tmp_path / "aerial"), "--ground", str(tmp_path / "walk")]
    assert main([*given, *data, "--onto", str(tmp_path / "june")]) == 2
    assert not (state / INPUTS_FILE).exists() and remembered_commands(run) == ()
    files.save(state / INPUTS_FILE, Inputs(tmp_path / "flight", tmp_path / "walk"))
    before = (state / INPUTS_FILE).read_bytes()
    for words in (["--splats", "x.ply"], ["--images", "x"], ["--onto", str(run)], ["--ground", "x"], data):
        assert main([*given, *words]) == 2
        assert (state / INPUTS_FILE).read_bytes() == before
    assert "does not exist" in capsys.readouterr().err


# --- frames ---------------------------------------------------------------------------------------------------------


def _refused_with_nothing_changed(folder: Path, work: Callable[[], object]) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(RecipeError, match="other street photos"):
        work()
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_frames_that_results_stand_on_are_not_written_over(tmp_path: Path) -> None:
    first = write_video(tmp_path / "first.avi", [0] + [5] * 20)
    other, slower = (write_video(tmp_path / name, [0] + [step] * 20) for name, step in (("b.avi", 9), ("c.avi", 2)))
    config = SequenceConfig(video=VideoConfig(frames_per_second=10.0))
    frames = tmp_path / "run/frames"
    names = tuple(frame.name for frame in load_sequence(first, config, frames).frames)
    standing = Copies(frames, names)
    for video in (other, slower):
        _refused_with_nothing_changed(frames, lambda video=video: load_sequence(video, config, standing))  # type: ignore[misc]
    denser = SequenceConfig(video=VideoConfig(frames_per_second=20.0))
    _refused_with_nothing_changed(frames, lambda: load_sequence(first, denser, standing))
    _refused_with_nothing_changed(frames, lambda: load_sequence(first, denser, Copies(tmp_path / "none", ())))
    again = first.rename(tmp_path / "renamed.avi")
    assert tuple(frame.name for frame in load_sequence(again, config, standing).frames) == names
    assert load_sequence(other, config, frames).frames


class _Redone:
    """A run whose stages stand on a video, called again with --redo."""

    def __init__(self, root: Path, video: Path) -> None:
        self.root, self.site = root, SimpleNamespace(scaffold=SimpleNamespace(views=()))
        with RunFolder(root) as run:
            files.save(root / STATE / SEQUENCE_FILE, self.read(run, video))
            run.stage(ANCHORS, "anchors", {}, {})

    def read(self, run: RunFolder, walk: Path, depth: Path | None = None, fps: float = 10.0) -> Sequence:
        sequence = SequenceConfig(video=VideoConfig(frames_per_second=fps))
        anchors = replace(CPU.anchors, local=replace(CPU.anchors.local, depth=depth))
        config = replace(CPU, sequence=sequence, anchors=anchors)
        site: Any = self.site
        return read_walk(run, Inputs(Path("aerial"), walk), config, site, ())

    def again(self, walk: Path, depth: Path | None = None, fps: float = 10.0) -> Sequence:
        with RunFolder(self.root, redo=True) as run:
            return self.read(run, walk, depth, fps)

    def frames(self) -> dict[Path, bytes]:
        """All files of the run but its state."""
        found = [path for path in self.root.rglob("*") if path.is_file() and STATE not in path.parts]
        return {path: path.read_bytes() for path in found}


def test_a_refused_redo_leaves_the_frames_that_results_stand_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever of the new walk is refused, or when: its frames are in the run only once nothing is."""
    first, other = (write_video(tmp_path / name, [0] + [step] * 20) for name, step in (("a.avi", 5), ("b.avi", 9)))
    run, depth = _Redone(tmp_path / "run", first), files.make_folder(tmp_path / "depth")
    before = run.frames()

    def refused(error: str, walk: Path, *given: Any) -> None:
        with pytest.raises(InputError, match=error) as told:
            run.again(walk, *given)
        assert files.TEMPORARY not in str(told.value) and run.frames() == before

    refused("has no depth map", other, depth)
    refused("fewer than one anchor group", other, None, 2.0)
    Image.new("L", (8, 8)).save(files.make_folder(tmp_path / "masks") / "frame_000000.png")
    refused(r"masks/frame_000000.png: is 8x8", other)
    (tmp_path / "masks/frame_000000.png").unlink()
    turned = write_walk(tmp_path / "turned", 6, exif=exif_of(orientation=3))
    Image.new("L", (8, 8)).save(files.make_folder(tmp_path / "masks") / "frame3.png")
    refused(r"run/frames/masks/frame3\.jpg\.png: is 8x8", turned)
    (tmp_path / "masks/frame3.png").unlink()
    with monkeypatch.context() as patch:
        patch.setattr(reading, "check_depth", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            run.again(other, depth)
    assert run.frames() == before


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_splats_that_cannot_be_patched_are_refused_before_the_walk_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> None:
        raise REFUSED

    monkeypatch.setattr(reading, "read_site", lambda *_: SimpleNamespace(scaffold=None))
    monkeypatch.setattr(reading.scene, "check_given_splats", refuse)
    monkeypatch.setattr(reading, "local_priors", lambda *_: ())
    monkeypatch.setattr(reading, "read_walk", _interrupted)
    given: Any = (Inputs(tmp_path, tmp_path), CPU, None)
    with RunFolder(tmp_path / "run") as run:
        with pytest.raises(InputError, match="does not exist"):
            reading.read_work(run, *given)
        with pytest.raises(KeyboardInterrupt):
            reading.read_work(run, *given, ANCHORS)


def test_a_redo_that_is_taken_replaces_the_frames(tmp_path: Path) -> None:
    first, other = (write_video(tmp_path / name, [0] + [step] * 20) for name, step in (("a.avi", 5), ("b.avi", 9)))
    run, images = _Redone(tmp_path / "run", first), tmp_path / "run/frames/images"
    before = run.frames()
    mask = files.make_folder(images.parent / "masks") / "frame_000000.jpg.png"
    Image.new("L", (320, 180), 255).save(mask)
    read = run.again(other)
    assert [frame.path for frame in read.frames] == [images / frame.name for frame in read.frames]
    assert read.frames[0].mask_path == mask and all(frame.path.is_file() for frame in read.frames)
    after = run.frames()
    assert after.keys() == {*before, mask} and after[images / "frame_000004.jpg"] != before[images / "frame_000004.jpg"]
    stamps = {path: path.stat().st_mtime_ns for path in after}
    assert run.again(other).frames == read.frames
    assert {path: path.stat().st_mtime_ns for path in run.frames()} == stamps
    turned = run.again(write_walk(tmp_path / "turned", 6, exif=exif_of(orientation=3)))
    assert {frame.path.parent for frame in turned.frames} == {images} and not (images.parent / "frames.json").exists()
    assert not list(run.root.glob(f".*{files.TEMPORARY}"))


def test_upright_copies_that_results_stand_on_are_not_written_over(tmp_path: Path) -> None:
    turned = exif_of(orientation=3)
    walk, other = (write_walk(tmp_path / name, 6, exif=turned) for name in ("walk", "other"))
    write_photo(other / "frame1.jpg", exif=turned, seed=99)
    frames = tmp_path / "run/frames"
    names = tuple(frame.name for frame in load_sequence(walk, None, frames).frames)
    _refused_with_nothing_changed(frames, lambda: load_sequence(other, None, Copies(frames, names)))
    assert len(load_sequence(walk, None, Copies(frames, names)).frames) == 6


def test_which_frames_a_run_stands_on(tmp_path: Path) -> None:
    video = write_video(tmp_path / "walk.avi", [0] + [9] * 20)
    with RunFolder(tmp_path / "run") as run:
        sequence = load_sequence(video, None, run.root / "frames")
        files.save(run.root / STATE / SEQUENCE_FILE, sequence)
        assert standing_frames(run) is None
        run.stage(ANCHORS, "anchors", {}, {})
        assert standing_frames(run) == tuple(frame.name for frame in sequence.frames)
        run.redo = True
        assert standing_frames(run) is None
        run.redo = False
        files.save(run.root / STATE / SEQUENCE_FILE, load_sequence(write_walk(tmp_path / "walk", 6)))
        assert standing_frames(run) == ()


# --- folders of another kind ----------------------------------------------------------------------------------------


def test_a_run_takes_no_prepared_scaffold_and_is_none(tmp_path: Path) -> None:
    run, scaffold = tmp_path / "run", tmp_path / "scaffold"
    files.write_text(run / STATE / INPUTS_FILE, "{}")
    for name in ("aerial.json", "model/cameras.bin", f"{STATE}/lock"):
        files.write_text(scaffold / name, "{}")
    for root, layout, said in ((run, OF_A_SCAFFOLD, "a run"), (scaffold, OF_A_RUN, "a prepared scaffold")):
        before = sorted(root.rglob("*"))
        with pytest.raises(SkyAnchorError, match=f"is {said} already"):
            claim(root, layout)
        assert sorted(root.rglob("*")) == before
    claim(run, OF_A_RUN)
    claim(scaffold, OF_A_SCAFFOLD)
