"""Both rasterisers on one scene, on a machine with CUDA: difference of images and gradients, and speed.

    python benchmarks/rasterisers_cuda.py [--gaussians 40000] [--width 480] [--height 270]

The scene is a synthetic street; both draw the same numbers, loss and upstream gradients are the same.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import numpy as np
import torch

from skyanchor.gaussians.devices import Engine, load_engine
from skyanchor.gaussians.rasteriser import SplatTensors
from skyanchor.gaussians.seeding import neighbour_distance
from skyanchor.gaussians.splats import Splats, to_tensors
from skyanchor.geometry.cameras import pinhole
from skyanchor.types import Camera

NAMES = ("means", "quats", "log_scales", "logit_opacities", "sh")


@dataclass(frozen=True, eq=False)
class Outcome:
    """What one rasteriser drew, its gradients, and how long it took."""

    images: dict[str, np.ndarray]
    gradients: dict[str, np.ndarray]
    forward_ms: float
    both_ms: float


def street(count: int, seed: int = 0) -> Splats:
    """Ground, two facades, a far wall and clutter; opacities and sizes as after training."""
    rng = np.random.default_rng(seed)
    share = [int(part * count) for part in (0.35, 0.2, 0.2, 0.15)]
    share.append(count - sum(share))
    low = np.array([(-8, 1.58, 1), (-8.05, -8, 1), (7.95, -8, 1), (-8, -8, 29.95), (-8, -6, 2)], float)
    high = np.array([(8, 1.62, 30), (-7.95, 1.6, 30), (8.05, 1.6, 30), (8, 1.6, 30.05), (8, 1.6, 30)], float)
    means = np.concatenate([rng.uniform(a, b, (n, 3)) for a, b, n in zip(low, high, share, strict=True)])
    log_scales = np.log(neighbour_distance(means))[:, None] + 0.35 * rng.normal(size=(count, 3))
    sh = np.concatenate([rng.normal(0, 1, (count, 1, 3)), 0.15 * rng.normal(size=(count, 15, 3))], axis=1)
    arrays = (means, rng.normal(size=(count, 4)), log_scales, rng.normal(0.3, 2.0, count), sh)
    return Splats(*(array.astype(np.float32) for array in arrays), owner=np.zeros(count, np.int32))


def measured(engine: Engine, splats: Splats, camera: Camera, rounds: int) -> Outcome:
    leaves = to_tensors(splats, engine.device)
    for name in NAMES:
        getattr(leaves, name).requires_grad_(True)
    pose = torch.eye(4, device=engine.device)
    pose[:3, 3] = torch.tensor([0.2, -0.1, 0.3])
    pose.requires_grad_(True)
    weights = torch.rand(camera.height, camera.width, 5, generator=torch.Generator().manual_seed(0)).to(engine.device)
    forward, both = [], []
    for _ in range(rounds):
        for name in NAMES:
            getattr(leaves, name).grad = None
        pose.grad = None
        begun = now(engine)
        drawn = engine.rasteriser.render(leaves, camera, pose)
        forward.append(now(engine) - begun)
        image = torch.cat([drawn.rgb, drawn.alpha[..., None], 0.05 * drawn.depth[..., None]], dim=2)
        (image * weights).mean().backward()
        both.append(now(engine) - begun)
    images = {"rgb": drawn.rgb, "alpha": drawn.alpha, "depth": drawn.depth}
    gradients = {name: getattr(leaves, name).grad for name in NAMES}
    gradients |= {"screen": drawn.screen_gradients(), "pose": rigid_gradient(pose.detach(), pose.grad)}
    return Outcome(arrays(images), arrays(gradients), 1e3 * float(np.median(forward)), 1e3 * float(np.median(both)))


def rigid_gradient(pose: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    """dL/d(turn, shift) on the left of the pose, (6,): Σ_j p_j x g_j over the columns, and g_4.

    As a free 3 x 4 matrix a pose has gradients that depend on how the camera centre is computed from it (gsplat
    inverts the matrix, ours is -Rᵀt); along rigid motions they must agree.
    """
    turn = torch.linalg.cross(pose[:3].T, gradient[:3].T).sum(dim=0)
    return torch.cat([turn, gradient[:3, 3]])


def now(engine: Engine) -> float:
    if engine.device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter()


def arrays(tensors: dict[str, torch.Tensor]) -> dict[str, np.ndarray]:
    return {name: tensor.detach().cpu().numpy().astype(np.float64) for name, tensor in tensors.items()}


def frozen_rows_get_nothing(engine: Engine, splats: Splats, camera: Camera) -> bool:
    tensors = to_tensors(splats, engine.device)
    leaves = SplatTensors(*(getattr(tensors, name).requires_grad_(True) for name in NAMES))
    frozen = len(splats) // 2
    engine.rasteriser.render(leaves, camera, torch.eye(4, device=engine.device), frozen=frozen).rgb.sum().backward()
    return not any(bool(getattr(leaves, name).grad[-frozen:].any()) for name in NAMES)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gaussians", type=int, default=40_000)
    parser.add_argument("--width", type=int, default=480)
    parser.add_argument("--height", type=int, default=270)
    options = parser.parse_args()
    camera = pinhole(options.width, options.height, 0.8 * options.width)
    splats = street(options.gaussians)
    cpu, cuda = load_engine("cpu"), load_engine("cuda")
    a, b = measured(cpu, splats, camera, 7), measured(cuda, splats, camera, 20)
    print(f"{options.gaussians} Gaussians, {options.width}x{options.height}, SH 3, {torch.cuda.get_device_name()}")
    print(f"{'image':16s} {'largest':>10s} {'mean':>10s}   absolute difference, Numba - gsplat")
    for name, image in a.images.items():
        gap = np.abs(image - b.images[name])
        print(f"{name:16s} {gap.max():10.2e} {gap.mean():10.2e}")
    print(f"{'gradient':16s} {'relative':>10s}   |a - b| / |b|")
    for name, gradient in a.gradients.items():
        other = b.gradients[name]
        print(f"{name:16s} {np.linalg.norm(gradient - other) / np.linalg.norm(other):10.2e}")
    print(f"frozen rows without gradient: Numba {frozen_rows_get_nothing(cpu, splats, camera)}", end="")
    print(f", gsplat {frozen_rows_get_nothing(cuda, splats, camera)}")
    print(f"forward / forward + backward, ms: Numba {a.forward_ms:.1f} / {a.both_ms:.1f} on", end=" ")
    print(f"{torch.get_num_threads()} threads, gsplat {b.forward_ms:.2f} / {b.both_ms:.2f}")


if __name__ == "__main__":
    main()
