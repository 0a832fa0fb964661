"""Where the stereo arithmetic runs: Numba on any CPU, Triton on CUDA. Both do the same sweep and PatchMatch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Protocol, TypeAlias

from skyanchor.backends.choices import Need
from skyanchor.backends.devices import TorchDevice
from skyanchor.backends.packages import Package, imported
from skyanchor.bounds import Few, FewOrNone, NotNegative, Positive, Radius, Range
from skyanchor.stereo.planes import GreyStack, PlaneField
from skyanchor.types import Floats32


@dataclass(frozen=True)
class SweepConfig:
    """Plane sweep with semi-global aggregation."""

    radius: Radius = 3
    """Half window of the ZNCC, pixels of the sweep's scale."""
    step_px: Annotated[float, Range(0.05, 100.0)] = 0.7
    """Motion in a typical source between two planes, pixels of the sweep's scale."""
    most_planes: Annotated[int, Range(2, 4096)] = 224
    """Most planes; bounds the memory."""
    small_step: Annotated[int, Range(0, 255)] = 10
    """Penalty of a step to the next plane, of 255."""
    jump: Annotated[int, Range(0, 255)] = 120
    """Penalty of a jump, of 255, on even colour."""
    contrast: Positive = 12.0
    """Grey difference that halves the jump penalty."""


@dataclass(frozen=True)
class RefineConfig:
    """Slanted-plane PatchMatch."""

    coarse_rounds: FewOrNone = 0
    """Iterations over all pixels at the sweep's scale, before those at full size."""
    rounds: FewOrNone = 2
    """Iterations over all pixels."""
    radius: Radius = 3
    """Half window, pixels."""
    stride: Radius = 1
    """Distance of the samples in the window, pixels."""
    sigma_grey: Positive = 10.0
    """Grey difference at which a window pixel's weight falls to 1/e."""
    tried_sources: Few = 3
    """New planes of a pixel are tried in this many sources, those that fit its present plane best."""
    pull: NotNegative = 0.05
    """Cost of leaving the first surface by a pixel or more where the photo is plain; less where it has texture."""


@dataclass(frozen=True)
class Photometry:
    """What the photos are like and how many sources count."""

    noise: Positive = 1.0
    """Grey level noise of the photos: windows with less texture than that score as plain."""
    best_sources: Few = 3
    """Sources whose mean cost counts; the others may be occluded."""


class StereoBackend(Protocol):
    """The two heavy steps of depth estimation."""

    def sweep(
        self, stack: GreyStack, tilt: Floats32, planes: Floats32, photometry: Photometry, config: SweepConfig
    ) -> Floats32:
        """Inverse distance u (H, W) of the semi-global surface; the plane at u has 1/z(p) = u tilt . p."""

    def refine(
        self,
        stack: GreyStack,
        start: PlaneField,
        surface: PlaneField,
        tilt: Floats32,
        w_range: tuple[float, float],
        photometry: Photometry,
        config: RefineConfig,
        rounds: range,
        scored: bool = True,
    ) -> tuple[PlaneField, Floats32]:
        """The planes refined in these rounds of all, and their photometric cost (H, W), 0..1.

        `surface` is the first one, which plain pixels are pulled to. The cost is empty unless they are to be `scored`.
        """


@dataclass(frozen=True)
class NumbaStereo:
    """Numba kernels on the CPU; as many threads as NUMBA_NUM_THREADS says."""

    needs: ClassVar[tuple[Need, ...]] = ()
    takes_turns: ClassVar[bool] = False
    """Whether photos share one device: they are then measured by threads of one process."""

    def check(self) -> None:
        """Nothing is needed beyond the core."""

    def load(self, device: str = "cpu") -> StereoBackend:
        """The backend, ready to run; the kernels are compiled on first use."""
        from skyanchor.stereo.numba_backend import NumbaBackend

        return NumbaBackend()


TRITON = Package("triton", "triton", "pip install triton")


@dataclass(frozen=True)
class TritonStereo:
    """Triton kernels on a GPU; they are compiled on first use, which takes some seconds once per machine."""

    needs: ClassVar[tuple[Need, ...]] = (TRITON,)
    takes_turns: ClassVar[bool] = True
    device: str = "cuda"
    """Torch device."""

    def check(self) -> None:
        """BackendError where torch cannot use the device, or Triton is missing."""
        TorchDevice(self.device).check()
        imported(TRITON)

    def load(self, device: str = "auto") -> StereoBackend:
        """The backend, ready to run, on its own device where none is given."""
        place = self.device if device == "auto" else device
        TorchDevice(place).check()
        imported(TRITON)
        from skyanchor.stereo.triton_backend import TritonBackend

        return TritonBackend(place)


AnyStereo: TypeAlias = NumbaStereo | TritonStereo
