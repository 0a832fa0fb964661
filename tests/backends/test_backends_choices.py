"""Every choice in a tree of settings is found and checked, however deep; what switches leave out is not."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import torch

from skyanchor.backends.choices import check_all, choices_in
from skyanchor.backends.devices import TorchDevice
from skyanchor.errors import BackendError, InputError
from skyanchor.feedforward import FreeFolder
from skyanchor.gaussians.rasteriser import CpuRasteriser
from skyanchor.matching import Mast3r, Sift, XFeatStar
from skyanchor.matching.global_descriptors import SceneVlad
from skyanchor.pipeline import CPU, GPU
from skyanchor.stereo import NumbaStereo, TritonStereo

WITHOUT_CUDA = pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")


@dataclass(frozen=True)
class Absent:
    name: str = "it"

    def check(self) -> None:
        raise BackendError(f"{self.name} is not here")


@dataclass(frozen=True)
class Deep:
    number: int = 1
    choice: Absent | None = field(default_factory=Absent)


@dataclass(frozen=True)
class Middle:
    deep: tuple[Deep, ...] = (Deep(2, None), Deep())
    path: Path = Path("x")


@dataclass(frozen=True)
class Top:
    middle: Middle = field(default_factory=Middle)
    switch: bool = False
    device: str = "nowhere"

    @property
    def unused(self) -> tuple[str, ...]:
        return ("middle",) if self.switch else ()

    @property
    def implied(self) -> tuple[Absent, ...]:
        return (Absent(self.device),) if self.switch else ()


def test_a_choice_three_levels_deep_is_found() -> None:
    assert list(choices_in(Top())) == [Absent()]
    with pytest.raises(BackendError, match="it is not here"):
        check_all(Top())
    check_all(Deep(1, None), 3, "text", None, Deep)


def test_switches_leave_out_and_imply() -> None:
    assert list(choices_in(Top(switch=True))) == [Absent("nowhere")]


def test_the_methods_own_choices_are_found() -> None:
    found = set(choices_in(CPU))
    own = {CPU.anchors.ground_matcher, CPU.anchors.odometry.matcher, CPU.anchors.refine.matcher, CPU.trajectory.matcher}
    assert own | {NumbaStereo(), TorchDevice("cpu"), CPU.anchors.shape} <= found
    assert {CpuRasteriser} <= set(map(type, choices_in(replace(CPU.scene, device="cpu"))))
    assert CPU.anchors.paper.matcher not in found
    direct = replace(CPU.anchors, ablation=replace(CPU.anchors.ablation, bridges=False))
    assert {CPU.anchors.paper.matcher, SceneVlad()} <= set(choices_in(direct))
    assert {Sift, XFeatStar} <= set(map(type, choices_in(CPU.anchors)))


def test_an_absent_matcher_of_the_unused_way_is_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    anchors = replace(CPU.anchors, paper=replace(CPU.anchors.paper, matcher=Mast3r()))
    check_all(anchors)
    with pytest.raises(BackendError, match="aerial-mast3r"):
        check_all(replace(anchors, ablation=replace(anchors.ablation, bridges=False)))


def test_a_folder_made_elsewhere_is_looked_into(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no trajectory\.tum"):
        check_all(replace(CPU.trajectory, local=FreeFolder(tmp_path)))


@WITHOUT_CUDA
def test_stereo_rasteriser_and_device_are_checked() -> None:
    for settings in (GPU.geometry, GPU.trajectory, GPU.scene.points):
        with pytest.raises(BackendError, match="sees no GPU for the device cuda"):
            check_all(settings)
    with pytest.raises(BackendError, match="NVIDIA GPU"):
        check_all(replace(CPU.scene, device="cuda"))
    check_all(replace(CPU.scene, device="auto"))
    with pytest.raises(BackendError, match="sees no GPU"):
        TritonStereo().load()
