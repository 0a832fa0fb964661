"""Where a network runs when nobody says: CUDA where there is one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata

from skyanchor.errors import BackendError


def resolved(device: str) -> str:
    """The device itself, or for "auto" cuda where torch can use one, else cpu."""
    if device != "auto":
        return device
    return "cuda" if cuda_is_here() else "cpu"


def cuda_is_here() -> bool:
    """Whether torch can use a GPU; torch takes a second or two to import, and is left alone where it is for CPUs."""
    if "torch" not in sys.modules and metadata.version("torch").endswith("+cpu"):
        return False
    import torch

    return torch.cuda.is_available()


@contextmanager
def any_length() -> Iterator[None]:
    """Attention without cuDNN's kernels, which are compiled anew for every number of keypoints: seconds for a pair."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):
        yield


@dataclass(frozen=True)
class TorchDevice:
    """A device that settings name."""

    name: str
    """As torch calls it: cpu, cuda, cuda:1."""

    def check(self) -> None:
        """BackendError where torch cannot use it."""
        import torch

        if self.name.startswith("cuda") and not torch.cuda.is_available():
            raise BackendError(f"torch {torch.__version__} sees no GPU for the device {self.name}. Choose `cpu`")
