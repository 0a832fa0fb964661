"""An update is a patch that comes off again, byte for byte: python examples/03_patch_and_back.py RUN

RUN is a run folder after `skyanchor update`; it stays as it is.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import skyanchor
from skyanchor.gaussians.ply import read_bytes
from skyanchor.scene.patch import apply_patch, remove_patch, summary


def main(folder: str) -> None:
    run = skyanchor.open_run(folder)
    patch, updated = run.patch, run.updated.path
    print(summary(patch))
    with tempfile.TemporaryDirectory() as scratch:
        before, after = (Path(scratch) / name for name in ("before.ply", "after.ply"))
        remove_patch(read_bytes(updated), patch, before)
        apply_patch(read_bytes(before), patch, after)
        print("put on again, identical:", after.read_bytes() == updated.read_bytes())
        if run.base is not None and run.base.path.is_file():
            print("taken off, identical to the aerial file:", before.read_bytes() == run.base.path.read_bytes())


if __name__ == "__main__":
    if len(sys.argv) < 2 or "--help" in sys.argv:
        print(__doc__)
    else:
        main(sys.argv[1])
