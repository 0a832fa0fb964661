"""The Triton kernels beside their Numba twins; on a machine without a GPU in Triton's interpreter, on few pixels."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton comes with torch for CUDA")

SCENE = """
import cv2, numpy as np, torch
from skyanchor.geometry import cameras
from skyanchor.stereo import patchmatch_triton, sweep_kernels, sweep_triton
from skyanchor.stereo.backends import Photometry, RefineConfig
from skyanchor.stereo.numba_backend import NumbaBackend
from skyanchor.stereo.planes import GreyStack, PlaneField
from skyanchor.stereo.stack_triton import put, uploaded
from skyanchor.stereo.triton_backend import TritonBackend

device = "cuda" if torch.cuda.is_available() else "cpu"
if device == "cpu":
    patchmatch_triton.TILE, sweep_triton.PIXELS = 128, 512
rng = np.random.default_rng(0)
height, width, count = 15, 16, 4
wide = 1.5 * cv2.GaussianBlur(rng.uniform(0, 255, (height + 20, width + 20)).astype(np.float32), (0, 0), 1.2)
reference = np.ascontiguousarray(wide[10:-10, 10:-10])
sources = np.stack([wide[10 + i : 10 + i + height, 8 : 8 + width] for i in range(count)])
sources += rng.normal(size=sources.shape).astype(np.float32)
M = np.tile(np.array([[1, 0.01, 0], [0, 1, 0], [0, 0, 1]], np.float32), (count, 1, 1))
m = np.array([[20.0, -10.0 * i, 0.02] for i in range(count)], np.float32)
sizes = np.tile(np.array([width, height], np.float32), (count, 1))
sizes[1] -= 3
stack = GreyStack(cameras.pinhole(width, height, 35.0), reference, sources, sizes, M, m)
tilt = np.array([0.001, 0.002, 1.0], np.float32)
"""

SWEEP = """
u = np.linspace(-0.01, 0.2, 9, dtype=np.float32)
slow = sweep_kernels.sweep_costs(reference, sources, sizes, M, m, tilt, u, 2, 1.0, 3)
images = uploaded(stack, device)
fast = sweep_triton.sweep_costs(images, put(tilt, device), put(u, device), 2, 1.0, 3).cpu().numpy()
apart = np.abs(slow.astype(int) - fast)
assert apart.max() <= 1 and np.mean(apart == 0) > 0.999
assert 0.1 < np.mean(slow == 255) < 0.9  # planes that leave the sources, and others
total = sweep_kernels.aggregate(slow, reference, 10, 120, 12.0)
same = sweep_triton.aggregate(torch.as_tensor(slow, device=device), images.reference, 10, 120, 12.0)
assert np.array_equal(total, same.cpu().numpy())
best = sweep_triton.best_planes(same, put(u, device)).cpu().numpy()
assert np.abs(best - sweep_kernels.best_planes(total, u)).max() < 1e-6
"""

PATCHMATCH = """
w = (0.1 + 0.03 * rng.normal(size=(height, width))).astype(np.float32)
a, b = (0.002 * rng.normal(size=(2, height, width))).astype(np.float32)
config, start = RefineConfig(radius=1, tried_sources=3), PlaneField(w, a, b)
surface = PlaneField(np.full_like(w, 0.1), a, b)
given = (stack, start, surface, tilt, (0.02, 0.3), Photometry(best_sources=2), config, range({rounds}))
(slow, slow_cost), (fast, fast_cost) = (backend.refine(*given) for backend in (NumbaBackend(), TritonBackend(device)))
same = np.abs(slow.w - fast.w) < 1e-6
if not range({rounds}):
    assert same.all() and np.abs(slow_cost - fast_cost).max() < 1e-3 and (slow_cost < 0.5).any()
else:
    assert same.mean() > 0.8 and np.mean(slow.w != w) > 0.5
    assert np.abs(slow_cost - fast_cost)[same].max() < 1e-2 and abs(slow_cost.mean() - fast_cost.mean()) < 2e-3
"""


@pytest.mark.parametrize(
    "check",
    [SWEEP, PATCHMATCH.format(rounds="0"), PATCHMATCH.format(rounds="1"), PATCHMATCH.format(rounds="2, 3")],
    ids=["sweep", "score", "improve", "improve later"],
)
def test_triton_and_numba_agree(check: str, tmp_path: Path) -> None:
    """In a process of its own, because Triton's interpreter is chosen on import."""
    alone = {**os.environ, "TRITON_INTERPRET": "0" if torch.cuda.is_available() else "1"}
    subprocess.run([sys.executable, "-c", SCENE + check], check=True, env=alone, cwd=tmp_path)
