"""Splat sets: parts, and similarity transforms that move colour with the shape."""

from __future__ import annotations

import numpy as np
import torch

from skyanchor.gaussians import harmonics, splats
from skyanchor.gaussians.rasteriser import CpuRasteriser
from skyanchor.gaussians.splats import Splats
from skyanchor.geometry import rigid
from skyanchor.geometry.cameras import pinhole
from skyanchor.types import Pose, Similarity


def cloud(count: int, seed: int = 0, degree: int = 3) -> Splats:
    """Gaussians in a ball of radius 2 m around (0, 0, 6), view-dependent in every band."""
    rng = np.random.default_rng(seed)
    return Splats(
        rng.uniform((-2, -2, 4), (2, 2, 8), (count, 3)).astype(np.float32),
        rng.normal(size=(count, 4)).astype(np.float32),
        rng.normal(-2.0, 0.5, (count, 3)).astype(np.float32),
        rng.normal(0.0, 1.5, count).astype(np.float32),
        rng.normal(0.0, 0.3, (count, (degree + 1) ** 2, 3)).astype(np.float32),
        np.zeros(count, np.int32),
    )


def random_similarity(seed: int) -> Similarity:
    rng = np.random.default_rng(seed)
    return Similarity(
        float(np.exp(rng.normal(0, 0.7))), rigid.rotation_exp(rng.normal(size=3) * 1.5), rng.normal(size=3) * 5
    )


def test_concat_pads_bands_and_select_undoes_it() -> None:
    low, high = cloud(5, degree=1), splats.owned(cloud(7, seed=1), 2)
    both = splats.concat([low, high])
    assert (len(both), both.sh_degree) == (12, 3)
    assert not both.sh[:5, 4:].any()
    assert np.array_equal(both.owner, [0] * 5 + [2] * 7)
    back = splats.with_sh_degree(splats.select(both, np.arange(12) < 5), 1)
    assert back.sh.tobytes() == low.sh.tobytes()
    assert len(splats.concat([])) == 0


def test_tensors_there_and_back() -> None:
    before = cloud(9)
    after = splats.from_tensors(splats.to_tensors(before), owner=3)
    assert after.sh.tobytes() == before.sh.tobytes()
    assert after.quats.tobytes() == before.quats.tobytes()
    assert np.array_equal(after.owner, np.full(9, 3))


def test_bands_turn_with_the_object() -> None:
    rng = np.random.default_rng(3)
    rotation = rigid.rotation_exp(np.array([0.4, -1.9, 0.7]))
    directions = rng.normal(size=(20, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    before = rng.normal(size=16)
    after = before.copy()
    for band, turn in enumerate(harmonics.band_rotations(rotation, 3), start=1):
        rows = slice(band * band, (band + 1) ** 2)
        after[rows] = turn @ before[rows]
        assert np.allclose(turn @ turn.T, np.eye(2 * band + 1), atol=1e-10)
    shown = harmonics.basis(directions @ rotation.T, 3) @ after
    assert np.allclose(shown, harmonics.basis(directions, 3) @ before, atol=1e-10)


def rendering(scene: Splats, cam_from_world: Pose, near: float = 0.01) -> np.ndarray:
    matrix = np.eye(4)
    matrix[:3, :3], matrix[:3, 3] = cam_from_world.rotation, cam_from_world.translation
    drawn = (
        CpuRasteriser(near=near)
        .load()
        .render(splats.to_tensors(scene), pinhole(160, 120, 140.0), torch.tensor(matrix, dtype=torch.float32))
    )
    return np.asarray(drawn.rgb.detach().numpy(), np.float64)


def psnr(a: np.ndarray, b: np.ndarray) -> float:
    return float(-10 * np.log10(np.mean((np.clip(a, 0, 1) - np.clip(b, 0, 1)) ** 2)))


def test_a_moved_scene_looks_the_same_from_the_moved_camera() -> None:
    scene = cloud(400)
    for seed in range(3):
        b_from_a = random_similarity(seed)
        # the camera moves along: x_cam = R_c x_a + t_c, and in frame b R_c Rᵀ, s t_c - R_c Rᵀ t, all depths times s
        cam_from_a = Pose(np.eye(3), np.array([0.1, -0.2, 0.3]))
        turn = cam_from_a.rotation @ b_from_a.rotation.T
        cam_from_b = Pose(turn, b_from_a.scale * cam_from_a.translation - turn @ b_from_a.translation)
        before = rendering(scene, cam_from_a)
        after = rendering(splats.transformed(scene, b_from_a), cam_from_b, near=0.01 * b_from_a.scale)
        assert psnr(before, after) > 60
        frozen_colour = splats.Splats(
            *(getattr(splats.transformed(scene, b_from_a), name) for name in ("means", "quats", "log_scales")),
            scene.logit_opacities, scene.sh, scene.owner,
        )  # fmt: skip
        assert psnr(before, rendering(frozen_colour, cam_from_b)) < 40  # the bands matter in this scene
