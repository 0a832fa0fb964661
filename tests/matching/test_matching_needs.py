"""What a choice needs is looked for before work begins, and the message says how to get it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from skyanchor.backends import weights
from skyanchor.errors import BackendError
from skyanchor.matching import AnyMatcher, LighterGlue, Mast3r, Roma, Sift, Vismatch, XFeat, XFeatStar, needs
from skyanchor.matching.global_descriptors import MEGALOC, SALAD, AnyDescriptor, AnyLoc, SceneVlad
from skyanchor.matching.needs import check_descriptor, check_matcher
from skyanchor.pipeline import Inputs, PipelineConfig, run_anchors
from skyanchor.run.executor import InProcess
from skyanchor.run.folder import RunFolder

PICKLE = b"\x80"
"""The beginning of a file that could be a checkpoint."""


@pytest.fixture(autouse=True)
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without any weights."""
    for variable in (weights.VARIABLE, "TORCH_HOME", "HF_HUB_CACHE"):
        monkeypatch.setenv(variable, str(tmp_path))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("choice", [Sift(), XFeat(), XFeatStar(), LighterGlue()])
def test_the_defaults_need_nothing(choice: AnyMatcher) -> None:
    check_matcher(choice)
    check_descriptor(SceneVlad())


@pytest.mark.parametrize(
    ("choice", "advice"),
    [
        (Mast3r(), "skyanchor weights aerial-mast3r --download"),
        (Mast3r(variant="original"), "skyanchor weights mast3r --download"),
        (Roma(), "skyanchor weights roma --download"),
        (Roma(version=2), "skyanchor weights romav2 --download"),
    ],
)
def test_missing_weights_are_told(choice: AnyMatcher, advice: str) -> None:
    with pytest.raises(BackendError, match=advice):
        check_matcher(choice)


@pytest.mark.parametrize(
    ("choice", "advice"),
    [
        (AnyLoc(), "skyanchor weights dinov2-g --download"),
        (AnyLoc("b"), "skyanchor weights dinov2-b --download"),
        (MEGALOC, "git clone https://github.com/gmberton/MegaLoc"),
        (SALAD, "git clone https://github.com/serizba/salad"),
    ],
)
def test_missing_descriptors_are_told(choice: AnyDescriptor, advice: str) -> None:
    with pytest.raises(BackendError, match=advice):
        check_descriptor(choice)


def test_what_is_there_is_enough(tmp_path: Path) -> None:
    (tmp_path / weights.DINOV2_G.files[0]).write_bytes(PICKLE)
    check_descriptor(AnyLoc())
    with pytest.raises(BackendError, match="anyloc-urban"):
        check_descriptor(AnyLoc(vocabulary="urban"))
    hub = tmp_path / "hub" / MEGALOC.repository
    hub.mkdir(parents=True)
    (hub / "hubconf.py").touch()
    with pytest.raises(BackendError, match="skyanchor weights megaloc --download"):
        check_descriptor(MEGALOC)
    (tmp_path / weights.MEGALOC.files[0]).write_bytes(PICKLE)
    check_descriptor(MEGALOC)


def test_a_missing_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needs, "find_spec", lambda module: None)
    with pytest.raises(BackendError, match="pip install vismatch"):
        check_matcher(Vismatch(name="loftr"))


def test_a_file_that_is_no_checkpoint_is_told(tmp_path: Path) -> None:
    (tmp_path / "junk.pth").write_text("junk")
    with pytest.raises(BackendError, match=r"junk\.pth is no checkpoint"):
        check_descriptor(AnyLoc(weights=tmp_path / "junk.pth"))
    with pytest.raises(BackendError, match=r"junk\.pth is no checkpoint"):
        check_matcher(Mast3r(weights=tmp_path / "junk.pth"))


def test_a_run_stops_before_it_reads_anything(tmp_path: Path) -> None:
    base = PipelineConfig()
    config = replace(base, anchors=replace(base.anchors, refine=replace(base.anchors.refine, matcher=Mast3r())))
    with RunFolder(tmp_path / "run") as run, pytest.raises(BackendError, match="aerial-mast3r"):
        run_anchors(run, Inputs(tmp_path / "none", tmp_path / "none"), config, InProcess())
