"""The rasteriser's protocol: splats and a posed pinhole camera in, image, alpha and depth out, differentiable.

Torch autograd is the interface. Both rasterisers (Numba on any CPU, gsplat on CUDA) follow gsplat 1.5.3: pixel centres
at +0.5, quaternions wxyz normalised inside, colour = max(SH + 0.5, 0), expected depth = D / max(alpha, 1e-10).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from skyanchor.backends.choices import Need
from skyanchor.errors import BackendError
from skyanchor.geometry.cameras import calibration, is_pinhole
from skyanchor.types import Camera

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class SplatTensors:
    """What is drawn: N Gaussians as float32 torch tensors on one device, before any activation."""

    means: Tensor
    """(N, 3), metres, world frame."""
    quats: Tensor
    """(N, 4), wxyz of world_from_splat; any length but zero, normalised inside."""
    log_scales: Tensor
    """(N, 3), log of the standard deviation along the splat's axes in metres."""
    logit_opacities: Tensor
    """(N,), opacity = sigmoid(logit)."""
    sh: Tensor
    """(N, K, 3), K = (degree + 1)² coefficients, degree 0..3."""
    constant: int = 0
    """So many rows at the end come from tensors without gradients."""


@dataclass(frozen=True, eq=False)
class Rendered:
    """One view, and what densification needs to know about how each Gaussian took part in it."""

    rgb: Tensor
    """(H, W, 3), not clamped above."""
    alpha: Tensor
    """(H, W), 0..1."""
    depth: Tensor
    """(H, W), expected depth along the optical axis in metres: Σ w z / max(Σ w, 1e-10); 0 where nothing is drawn."""
    radii: Tensor
    """(N,), float32, larger half-axis of the drawn footprint in pixels; 0 = not in this view. No gradient."""
    screen: Tensor
    """Carrier of the screen-space gradients: read them with `screen_gradients` after backward."""

    @property
    def visible(self) -> Tensor:
        """(N,) bool, which Gaussians were drawn."""
        return self.radii > 0

    def screen_gradients(self) -> Tensor:
        """(N, 2), dL/d(projected mean) per pixel after backward; zero for undrawn rows, undefined for frozen ones."""
        if self.screen.grad is None:
            raise ValueError("no screen gradients: render with gradients enabled and call backward first")
        return self.screen.grad.reshape(-1, 2)


class Rasteriser(Protocol):
    """Draws splats into a pinhole camera."""

    def render(
        self,
        splats: SplatTensors,
        camera: Camera,
        cam_from_world: Tensor,
        *,
        frozen: int = 0,
        background: Tensor | None = None,
        sh_degree: int | None = None,
        with_depth: bool = True,
    ) -> Rendered:
        """The view of `camera` (PINHOLE) at `cam_from_world` (4, 4).

        The last `frozen` rows are drawn but get zero gradients and, while the pose is constant, cost no gradient work.
        When `cam_from_world` requires gradients these are exact: the frozen rows then take part in them.
        `background` (3,) is a constant, black when None. `sh_degree` is the highest band used; None means all given.
        Without `with_depth` the depth is left undefined where that is cheaper.
        """
        ...


@dataclass(frozen=True)
class CpuRasteriser:
    """The Numba rasteriser: any CPU, the same bits for any number of threads."""

    needs: ClassVar[tuple[Need, ...]] = ()
    near: float = 0.01
    """Gaussians whose centre is nearer than this are not drawn, metres."""
    far: float = 1e10
    """Gaussians whose centre is farther than this are not drawn, metres."""
    blur: float = 0.3
    """Added to both variances of the projected Gaussian, pixels²."""
    alpha_cap: float = 0.999
    """Largest alpha of one Gaussian at one pixel (gsplat 1.5: 0.999, from 1.6: 0.99)."""

    def check(self) -> None:
        """Nothing is needed beyond the core."""

    def load(self, device: str = "cpu") -> Rasteriser:
        """The rasteriser, ready to draw; the heavy imports happen here."""
        if device != "cpu":
            raise BackendError(f"the Numba rasteriser runs on cpu, not on {device}; choose gsplat for CUDA")
        from skyanchor.gaussians.cpu.autograd import NumbaRasteriser

        return NumbaRasteriser(self)


@dataclass(frozen=True)
class Intrinsics:
    """A pinhole camera as the rasterisers use it, pixels."""

    fx: float
    fy: float
    cx: float
    cy: float
    width: int
    height: int


def intrinsics(camera: Camera) -> Intrinsics:
    """Focal lengths, principal point and size of a camera without distortion."""
    if not is_pinhole(camera):
        raise ValueError(f"splats are drawn into PINHOLE cameras, not {camera.model}: use geometry.cameras.undistorted")
    k = calibration(camera)
    return Intrinsics(
        float(k[0, 0]), float(k[1, 1]), float(k[0, 2]), float(k[1, 2]), int(camera.width), int(camera.height)
    )
