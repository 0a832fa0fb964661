"""Surfels: flat Gaussians (2DGS) drawn by gsplat, with depth and normals of the surface they make up. CUDA only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from skyanchor.backends.choices import Need
from skyanchor.bounds import NotNegative, Positive, Share
from skyanchor.errors import BackendError
from skyanchor.gaussians.gsplat_adapter import GSPLAT, missing_for_cuda
from skyanchor.gaussians.rasteriser import Intrinsics, Rasteriser, Rendered, SplatTensors, intrinsics
from skyanchor.types import Camera

if TYPE_CHECKING:
    from torch import Tensor

LEAST_SLANT = 0.05
"""Cosine between surface and ray below which the plane's depth is not used: it would run away."""
HALF_M = 5.0
"""Depth at which the bounded depth is a half, metres: there it tells metres apart, and the sky is not endlessly far."""


@dataclass(frozen=True)
class GsplatSurfels:
    """gsplat's rasteriser of flat Gaussians; the third scale plays no part."""

    needs: ClassVar[tuple[Need, ...]] = (GSPLAT,)
    near: float = 0.01
    """Surfels whose centre is nearer than this are not drawn, metres."""
    far: float = 1e10
    """Surfels whose centre is farther than this are not drawn, metres."""

    def check(self) -> None:
        """BackendError that says what is missing."""
        if (reason := missing_for_cuda()) is not None:
            raise BackendError(reason)

    def load(self, device: str = "cuda") -> Rasteriser:
        """The rasteriser, ready to draw; the heavy imports happen here."""
        if not device.startswith("cuda"):
            raise BackendError(f"surfels are drawn on cuda, not on {device}: mesh the measured depth instead")
        self.check()
        return SurfelRasteriser(self)


@dataclass(frozen=True, eq=False)
class RenderedSurfels(Rendered):
    """One view of surfels; its depth is where the rays meet the mean plane of what is drawn at a pixel."""

    normals: Tensor
    """(H, W, 3), sum of w n, camera axes, towards the camera; of length alpha where all agree."""
    distortion: Tensor
    """(H, W), how far the surfels of a pixel lie apart: Σ_i<j w_i w_j (m_i - m_j)², m the bounded depth, 0..1."""


@dataclass(frozen=True)
class SurfelRasteriser:
    """gsplat's 2D rasterisation of one view."""

    choice: GsplatSurfels

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
    ) -> RenderedSurfels:
        """As the protocol says, but without frozen rows; depth is always there.

        The planes are drawn as a fourth channel: with n the normal of a surfel and d = n . centre in camera axes, a
        pixel's ray r (r_z = 1) meets the mean plane at z = Σ w d / (Σ w n . r). See `channels` for the others.
        """
        import torch
        from gsplat import rasterization_2dgs, spherical_harmonics

        if frozen > splats.constant:
            raise BackendError("surfels cannot be frozen in part")
        splats = steadied(splats)
        k = intrinsics(camera)
        rotation, centre = cam_from_world[:3, :3], -cam_from_world[:3, :3].T @ cam_from_world[:3, 3]
        degree = round(splats.sh.shape[1] ** 0.5) - 1 if sh_degree is None else sh_degree
        colors = spherical_harmonics(degree, splats.means - centre, splats.sh).add(0.5).clamp(min=0.0)
        offsets = plane_offsets(splats.means, splats.quats, cam_from_world)
        matrix = torch.tensor([[k.fx, 0.0, k.cx], [0.0, k.fy, k.cy], [0.0, 0.0, 1.0]], device=splats.means.device)
        drawn, alpha, normals, *_, info = rasterization_2dgs(
            splats.means,
            splats.quats,
            splats.log_scales.exp(),
            splats.logit_opacities.sigmoid(),
            channels(colors, offsets, splats.means @ cam_from_world[2, :3] + cam_from_world[2, 3])[None],
            cam_from_world[None],
            matrix[None],
            k.width,
            k.height,
            near_plane=self.choice.near,
            far_plane=self.choice.far,
            render_mode="RGB+ED",
        )
        in_cam = normals.reshape(k.height, k.width, 3) @ rotation.T
        depth = plane_depth(drawn[0, ..., 3], in_cam, alpha[0, ..., 0], drawn[0, ..., -1], k)
        rgb = drawn[0, ..., :3]
        if background is not None:
            rgb = rgb + (1.0 - alpha[0]) * background
        screen = info["gradient_2dgs"]
        radii = info["radii"][0].amax(dim=1).float()
        spread = distortion(alpha[0, ..., 0], drawn[0, ..., 4], drawn[0, ..., 5])
        return RenderedSurfels(rgb, alpha[0, ..., 0], depth, radii, screen, normals=in_cam, distortion=spread)


def steadied(splats: SplatTensors) -> SplatTensors:
    """The same surfels, to which gradients that are no numbers come back as zeros.

    A surfel seen edge on can have one, and a single one would stay in it, and then in every view that shows it.
    """
    import torch

    def steady(value: Tensor) -> Tensor:
        held = value.view_as(value)
        if held.requires_grad:
            held.register_hook(lambda gradient: torch.nan_to_num(gradient, 0.0, 0.0, 0.0))
        return held

    return SplatTensors(
        steady(splats.means), steady(splats.quats), steady(splats.log_scales), steady(splats.logit_opacities),
        steady(splats.sh), splats.constant,
    )  # fmt: skip


def channels(colors: Tensor, offsets: Tensor, z: Tensor) -> Tensor:
    """(N, 7): colour, plane offset, bounded depth m, m², and nothing; z (N,) are the depths of the centres.

    With the depth that gsplat puts behind them they are eight, which its kernel takes as they are. Any other number it
    pads with memory as it finds it, and what is no number there spoils the gradients of everything that is drawn.
    """
    import torch

    m = bounded_depth(z)
    return torch.cat([colors, offsets[:, None], m[:, None], (m * m)[:, None], torch.zeros_like(m[:, None])], dim=1)


def bounded_depth(z: Tensor) -> Tensor:
    """z / (z + `HALF_M`), 0..1."""
    z = z.clamp(min=0.0)
    return z / (z + HALF_M)


def distortion(alpha: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Σ_i<j w_i w_j (m_i - m_j)² = Σ w Σ w m² - (Σ w m)² from alpha = Σ w, first = Σ w m and second = Σ w m²."""
    return (alpha * second - first * first).clamp(min=0.0)


# --- planes -------------------------------------------------------------------------------------------------------


def plane_offsets(means: Tensor, quats: Tensor, cam_from_world: Tensor) -> Tensor:
    """(N,), n . centre in camera axes, metres: minus the distance of the surfel's plane from the camera."""
    rotation, translation = cam_from_world[:3, :3], cam_from_world[:3, 3]
    return -((surfel_normals(quats) @ rotation.T) * (means @ rotation.T + translation)).sum(dim=1).abs()


def surfel_normals(quats: Tensor) -> Tensor:
    """(N, 3), third column of the rotations world_from_splat."""
    import torch

    w, x, y, z = torch.nn.functional.normalize(quats, dim=1).unbind(dim=1)
    return torch.stack([2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)], dim=1)


def plane_depth(offsets: Tensor, normals: Tensor, alpha: Tensor, centres: Tensor, k: Intrinsics) -> Tensor:
    """(H, W), metres: Σ w d / (Σ w n . r), and the mean depth of the centres where the surface is seen edge on."""
    import torch

    slope = (normals * rays(k, normals)).sum(dim=2)
    steep = slope > -LEAST_SLANT * alpha.clamp(min=1e-6)
    found = offsets / torch.where(steep, -torch.ones_like(slope), slope)
    return torch.where(steep, centres, found)


def rays(k: Intrinsics, like: Tensor) -> Tensor:
    """(H, W, 3), directions of the pixel centres with z = 1, camera axes."""
    import torch

    x = (torch.arange(k.width, device=like.device, dtype=like.dtype) + 0.5 - k.cx) / k.fx
    y = (torch.arange(k.height, device=like.device, dtype=like.dtype) + 0.5 - k.cy) / k.fy
    return torch.stack([x.expand(k.height, -1), y[:, None].expand(-1, k.width), torch.ones_like(like[..., 0])], dim=2)


def normals_of_depth(depth: Tensor, k: Intrinsics) -> Tensor:
    """(H, W, 3), unit, towards the camera, camera axes: of the surface through neighbouring pixels; 0 at the border."""
    import torch

    points = depth[..., None] * rays(k, depth[..., None].expand(-1, -1, 3))
    across = points[1:-1, 2:] - points[1:-1, :-2]
    down = points[2:, 1:-1] - points[:-2, 1:-1]
    found = torch.nn.functional.normalize(torch.linalg.cross(down, across), dim=2)
    return torch.nn.functional.pad(found, (0, 0, 1, 1, 1, 1))


# --- terms --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SurfelTerms:
    """What is asked of surfels beside the photos, as 2DGS asks it."""

    normal_weight: NotNegative = 0.05
    """Of 1 - cosine between the drawn normal and that of the drawn depth."""
    distortion_weight: NotNegative = 1.0
    """Of the distortion."""
    after: Share = 0.2
    """Share of the training before which neither counts: the photos say first where the surface is."""
    farthest_m: Positive = 20.0
    """Depth beyond which the surface is of no interest, metres."""

    def term(self, camera: Camera, rendered: Rendered, progress: float) -> Tensor:
        """Weighted sum of both, of one view at a progress of 0..1.

        Pixels whose depth is none or beyond the crop take no part, nor does the surface beside them.
        """
        import torch

        if not isinstance(rendered, RenderedSurfels) or progress < self.after:
            return torch.zeros((), device=rendered.rgb.device)
        near = (rendered.depth.detach() < self.farthest_m) & (rendered.depth.detach() > 0)
        near &= rendered.normals.detach().isfinite().all(dim=2)
        depth = torch.where(near, rendered.depth, self.farthest_m)
        surface = normals_of_depth(depth, intrinsics(camera)) * rendered.alpha.detach()[..., None]
        normals = torch.where(near[..., None], rendered.normals, 0.0)
        apart = torch.where(_amid(near), rendered.alpha.detach() - (normals * surface).sum(dim=2), 0.0)
        spread = torch.where(near, rendered.distortion, 0.0)
        return self.normal_weight * apart.mean() + self.distortion_weight * spread.mean()


def _amid(kept: Tensor) -> Tensor:
    """(H, W), those whose four neighbours are kept too; at the border they have not all of them."""
    found = kept.clone()
    found[1:-1, 1:-1] &= kept[1:-1, 2:] & kept[1:-1, :-2] & kept[2:, 1:-1] & kept[:-2, 1:-1]
    return found
