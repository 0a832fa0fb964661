"""Which rasteriser runs where, and one clear line where none does."""

from __future__ import annotations

import pytest
import torch

from skyanchor.errors import BackendError
from skyanchor.gaussians.devices import chosen_device, load_engine
from skyanchor.gaussians.gsplat_adapter import Gsplat
from skyanchor.gaussians.rasteriser import CpuRasteriser

WITHOUT_CUDA = pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")


@WITHOUT_CUDA
def test_auto_is_the_cpu_without_cuda() -> None:
    assert chosen_device("auto") == "cpu"
    assert load_engine().device == "cpu"


@WITHOUT_CUDA
def test_cuda_without_a_gpu_says_what_to_do() -> None:
    with pytest.raises(BackendError, match=r"NVIDIA GPU.*choose the device `cpu`"):
        load_engine("cuda")


def test_rasterisers_refuse_the_wrong_device() -> None:
    with pytest.raises(BackendError, match="not on cpu"):
        Gsplat().load("cpu")
    with pytest.raises(BackendError, match="not on cuda"):
        load_engine("cuda", CpuRasteriser())
