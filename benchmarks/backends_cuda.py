"""Every learned backend that can run here, on a scene: matches, inliers, seconds. Made for a CUDA machine with weights.

    python benchmarks/backends_cuda.py SCENE [--device cuda] [--pairs 6] [--width 1280]

SCENE holds ground/images (a street sequence). Backends whose package or weights are missing are listed with the reason.

Ground pairs only. Bridge views against street frames, each network on CUDA where there is one, are what this runs, on a
run folder whose anchors are finished (true poses only score it); backends that are not here say so in their row:

    skyanchor ablate RUN --truth SCENE/ground/truth --workers 4 \\
        --matchers sift,x-feat-star,lighter-glue,light-glue-aliked,light-glue-disk,mast3r-aerial,roma-1,roma-2 \\
        --descriptors scene-vlad,any-loc-g,any-loc-l,any-loc-b,any-loc-s,mega-loc,salad
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

from skyanchor import photos
from skyanchor.errors import BackendError
from skyanchor.feedforward.vggt import Vggt
from skyanchor.geometry import cameras
from skyanchor.matching import (
    LighterGlue,
    LightGlue,
    Mast3r,
    Roma,
    Sift,
    TwoView,
    VerifyConfig,
    Vismatch,
    XFeat,
    XFeatStar,
    verify,
)
from skyanchor.matching.global_descriptors import AnyLoc, MegaLoc, Salad, SceneVlad, described
from skyanchor.matching.retrieval import ranked
from skyanchor.types import Photo

MATCHERS = (
    Sift(),
    XFeat(),
    XFeatStar(),
    LighterGlue(),
    LightGlue(),
    LightGlue(detector="disk"),
    Mast3r(),
    Mast3r(crops=0),
    Mast3r(variant="original"),
    Roma(),
    Roma(version=2),
    Vismatch(name="eloftr"),
    Vismatch(name="minima"),
)
DESCRIPTORS = (
    SceneVlad(),
    AnyLoc("s"),
    AnyLoc("b"),
    AnyLoc("l"),
    AnyLoc("g"),
    AnyLoc("g", vocabulary="urban"),
    MegaLoc(),
    Salad(),
)


def read(folder: Path, width: int) -> list[Photo]:
    names = sorted(path for path in folder.iterdir() if path.suffix.lower() in (".jpg", ".jpeg", ".png"))
    return [Photo(path.name, photos.resized(photos.read_pixels(path), width)) for path in names]


def wait(device: str) -> None:
    if device.startswith("cuda"):
        import torch

        torch.cuda.synchronize()


def match_all(choice, frames: list[Photo], step: int, count: int, device: str) -> str:
    matcher = choice.load(device)
    height, width = frames[0].pixels.shape[:2]
    camera = cameras.pinhole(width, height, 0.8 * width)
    found, inliers, seconds = [], [], []
    starts = [round(k * (len(frames) - step - 1) / max(count - 1, 1)) for k in range(count)]
    for k in starts:
        begun = time.perf_counter()
        matches = matcher.match(frames[k], frames[k + step])
        wait(device)
        seconds.append(time.perf_counter() - begun)
        checked = verify(matches.xy_a, matches.xy_b, camera, camera, matches.sigma_px, VerifyConfig())
        found.append(len(matches.score))
        inliers.append(int(checked.inliers.sum()) if isinstance(checked, TwoView) else 0)
    best = min(seconds)
    return (
        f"{statistics.median(found):7.0f} {statistics.median(inliers):8.0f} {min(inliers):8d} "
        f"{statistics.median(seconds):9.3f} {best:9.3f} {matches.sigma_px:7.2f}"
    )


def describe_all(choice, frames: list[Photo], device: str) -> str:
    database, queries = frames[::4], frames[1::4]
    descriptor = choice.load(device, database)
    begun = time.perf_counter()
    held = described(descriptor, database)
    wait(device)
    each = (time.perf_counter() - begun) / len(database)
    best = ranked(described(descriptor, queries), held, 1)[:, 0]
    near = sum(abs(int(row) - k) <= 1 for k, row in enumerate(best))
    return f"{held.shape[1]:7d} {near:5d}/{len(queries)} {each:9.3f}"


def report(rows, run) -> None:
    for choice in rows:
        try:
            print(f"{choice!s:<110.110}", run(choice), flush=True)
        except BackendError as error:
            print(f"{choice!s:<110.110}", "not here:", str(error).split(". ")[0], flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scene", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--step", type=int, default=4)
    parser.add_argument("--width", type=int, default=1280)
    given = parser.parse_args()
    frames = read(given.scene / "ground" / "images", given.width)
    print(f"{len(frames)} photos of {frames[0].pixels.shape[1]}x{frames[0].pixels.shape[0]} on {given.device}")
    print("matchers: matches, inliers (median, least), seconds (median, best), sigma px")
    report(MATCHERS, lambda choice: match_all(choice, frames, given.step, given.pairs, given.device))
    print("descriptors: length, nearest photo found, seconds per photo")
    report(DESCRIPTORS, lambda choice: describe_all(choice, frames[:80], given.device))
    print("local reconstruction: seconds for 16 photos")
    report((Vggt(),), lambda choice: _reconstruct(choice, frames[:16], given.device))


def _reconstruct(choice: Vggt, frames: list[Photo], device: str) -> str:
    network = choice.load(device)
    begun = time.perf_counter()
    found = network.reconstruct(range(len(frames)), frames)
    wait(device)
    return f"{time.perf_counter() - begun:9.2f} focal {found.camera.params[0]:.0f} px" if found.camera else "no camera"


if __name__ == "__main__":
    main()
