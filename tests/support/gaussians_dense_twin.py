"""The rasteriser's slow twin: every Gaussian at every pixel, float64, gradients by autograd alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from skyanchor.gaussians.rasteriser import SplatTensors
from skyanchor.geometry import rigid
from skyanchor.types import Camera


@dataclass(frozen=True, eq=False)
class Twin:
    rgb: Tensor
    alpha: Tensor
    depth: Tensor


def leaves(splats: SplatTensors, dtype: torch.dtype = torch.float32) -> SplatTensors:
    """A copy whose tensors are leaves that collect gradients."""
    return SplatTensors(*(t.detach().to(dtype).clone().requires_grad_() for t in tensors(splats)))


def tensors(splats: SplatTensors) -> tuple[Tensor, ...]:
    return splats.means, splats.quats, splats.log_scales, splats.logit_opacities, splats.sh


def take(splats: SplatTensors, rows: Tensor) -> SplatTensors:
    return SplatTensors(*(t[rows] for t in tensors(splats)))


def street(n: int, seed: int, degree: int = 3, size: float = 0.25) -> SplatTensors:
    """A cloud in front of the origin: some beside and behind the camera, some nearly opaque, some nearly invisible."""
    g = torch.Generator().manual_seed(seed)
    means = torch.rand((n, 3), generator=g) * torch.tensor([8.0, 6.0, 11.0]) - torch.tensor([4.0, 3.0, 1.0])
    sh = torch.randn((n, (degree + 1) ** 2, 3), generator=g) * 0.2
    sh[:, 0] *= 5.0
    return SplatTensors(
        means,
        torch.randn((n, 4), generator=g),
        np.log(size) + 0.6 * torch.randn((n, 3), generator=g),
        0.5 + 3.0 * torch.randn(n, generator=g),
        sh,
    )


def camera(width: int, height: int) -> Camera:
    """A pinhole with different focal lengths and a principal point off the centre."""
    return Camera("PINHOLE", width, height, (0.8 * width, 0.85 * width, 0.47 * width, 0.55 * height))


def cam_from_world() -> Tensor:
    view = np.eye(4)
    view[:3, :3] = rigid.rotation_exp(np.array([0.05, -0.1, 0.2]))
    view[:3, 3] = [0.2, -0.1, 0.3]
    return torch.tensor(view, dtype=torch.float32)


def rotations(quats: Tensor) -> Tensor:
    w, x, y, z = (quats / quats.norm(dim=-1, keepdim=True)).unbind(-1)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return torch.stack([torch.stack(row, -1) for row in rows], -2)


def project(splats: SplatTensors, cam: Camera, view: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Means (N, 2), covariances (N, 2, 2) with blur, depths (N,)."""
    fx, fy, cx, cy = cam.params
    axes = rotations(splats.quats) * splats.log_scales.exp()[:, None, :]
    x, y, z = (splats.means @ view[:3, :3].T + view[:3, 3]).unbind(-1)
    margin_x, margin_y = 0.15 * cam.width / fx, 0.15 * cam.height / fy
    ux = (x / z).clamp(-(cx / fx + margin_x), (cam.width - cx) / fx + margin_x)
    uy = (y / z).clamp(-(cy / fy + margin_y), (cam.height - cy) / fy + margin_y)
    zero = torch.zeros_like(z)
    j = torch.stack([torch.stack([fx / z, zero, -fx * ux / z], -1), torch.stack([zero, fy / z, -fy * uy / z], -1)], -2)
    b = j @ view[:3, :3] @ axes
    cov = b @ b.transpose(1, 2) + 0.3 * torch.eye(2, dtype=b.dtype)
    return torch.stack([fx * x / z + cx, fy * y / z + cy], -1), cov, z


def basis(d: Tensor, degree: int) -> Tensor:
    """Real spherical harmonics through the associated Legendre recurrence: no constant in common with the kernels."""
    x, y, z = d.unbind(-1)
    columns = []
    cos_m, sin_m = [torch.ones_like(x)], [torch.zeros_like(x)]  # r^m cos(m phi), r^m sin(m phi)
    for _ in range(degree):
        c, s = cos_m[-1], sin_m[-1]
        cos_m.append(x * c - y * s)
        sin_m.append(x * s + y * c)
    for band in range(degree + 1):
        for m in range(-band, band + 1):
            k = abs(m)
            scale = np.sqrt((2 * band + 1) / (4 * np.pi) * _factorial(band - k) / _factorial(band + k))
            around = scale * (1.0 if m == 0 else np.sqrt(2.0)) * (sin_m[k] if m < 0 else cos_m[k])
            columns.append((-1.0) ** k * around * _legendre(band, k, z))
    return torch.stack(columns, -1)


def _factorial(n: int) -> float:
    return float(np.prod(np.arange(1, n + 1)))


def _legendre(band: int, m: int, z: Tensor) -> Tensor:
    """P_band^m(z) / (1 - z²)^(m/2), without the Condon-Shortley sign."""
    start = float(np.prod(np.arange(1, 2 * m, 2))) * torch.ones_like(z)
    previous, current = torch.zeros_like(z), start
    for k in range(m + 1, band + 1):
        previous, current = current, ((2 * k - 1) * z * current - (k + m - 1) * previous) / (k - m)
    return current


def render(
    splats: SplatTensors,
    cam: Camera,
    view: Tensor,
    *,
    background: Tensor | None = None,
    degree: int = 3,
    shift: Tensor | None = None,
    cap: float = 0.999,
) -> Twin:
    """Blends front to back at every pixel; `shift` (N, 2) is added to the projected means."""
    mean, cov, z = project(splats, cam, view)
    mean = mean if shift is None else mean + shift
    opacity = torch.sigmoid(splats.logit_opacities)
    d = splats.means + view[:3, :3].T @ view[:3, 3]
    d = d / d.norm(dim=-1, keepdim=True)
    colour = (basis(d, degree)[:, :, None] * splats.sh[:, : (degree + 1) ** 2]).sum(1) + 0.5
    features = torch.cat([colour.clamp(min=0.0), z[:, None]], 1)
    conic = torch.linalg.inv(cov)
    rows = torch.nonzero((z >= 0.01) & (opacity > 1 / 255))[:, 0]
    at_y, at_x = torch.meshgrid(torch.arange(cam.height) + 0.5, torch.arange(cam.width) + 0.5, indexing="ij")
    at = torch.stack([at_x, at_y], -1).reshape(-1, 2).to(mean)
    through, out = torch.ones_like(at[:, 0]), torch.zeros((len(at), 4), dtype=mean.dtype)
    full = torch.zeros(len(at), dtype=torch.bool)
    for g in rows[torch.argsort(z[rows], stable=True)].tolist():
        offset = mean[g] - at
        alpha = (opacity[g] * torch.exp(-0.5 * ((offset @ conic[g]) * offset).sum(-1))).clamp(max=cap)
        on = (alpha >= 1 / 255) & ~full
        behind = through * (1 - alpha)
        full = full | (on & (behind <= 1e-4))
        on = on & ~full
        out = out + torch.where(on, alpha * through, 0.0)[:, None] * features[g]
        through = torch.where(on, behind, through)
    rgb = out[:, :3] if background is None else out[:, :3] + through[:, None] * background
    shape, alpha = (cam.height, cam.width), 1 - through
    return Twin(rgb.reshape(*shape, 3), alpha.reshape(shape), (out[:, 3] / alpha.clamp(min=1e-10)).reshape(shape))
