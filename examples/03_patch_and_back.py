"""An update is a patch: put it on a .ply, take it off, and the original is there again byte for byte."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from skyanchor.gaussians.ply import read_bytes, write_ply
from skyanchor.gaussians.seeding import splats_from_points
from skyanchor.gaussians.splats import owned
from skyanchor.scene.patch import Change, apply_patch, make_patch, remove_patch, summary


def some_splats(count: int, seed: int) -> object:
    rng = np.random.default_rng(seed)
    return splats_from_points(rng.normal(size=(count, 3)), rng.integers(0, 255, (count, 3), dtype=np.uint8))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        base, updated, back = (Path(folder) / name for name in ("aerial.ply", "updated.ply", "back.ply"))
        write_ply(base, some_splats(1000, 0))
        hidden = np.zeros(1000, bool)
        hidden[:3] = True
        street = owned(some_splats(200, 1), 1)
        held = read_bytes(base)
        patch = make_patch(held, "monday", Change(held.splats(), np.zeros(1000, bool), hidden, street), "{}")
        apply_patch(held, patch, updated)
        remove_patch(read_bytes(updated), patch, back)
        print(summary(patch), "identical after removal:", back.read_bytes() == base.read_bytes())


if __name__ == "__main__":
    main()
