"""Towns flown with a survey camera: what becomes of a walk where large photos are reduced, and where they are not.

    python benchmarks/large_photos.py [SEED ...] [--out out/large] [--ways windows whole narrow] [--workers 2]

Every seed is a mini town that a few wide photos show: 2880x2160 pixels from 100 m, 5 cm a pixel on the ground. Its
walk is looked for by `skyanchor anchors` in three ways:

    windows  as it is by default: depth at 15 cm, views painted from windows of the photos
    whole    views painted from whole photos of 1600 pixels, those of described places from fewer
    narrow   the same, and depth no wider than 800 pixels: the default until November 2026

Truth is read by `evaluate`, only to score. What is there already is not done again.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from spread import called

from skyanchor import open_run
from skyanchor.events import ANCHORS
from skyanchor.town import MINI, build_town
from skyanchor.town.presets import FlightPlan

FLIGHT = FlightPlan(width=2880, height=2160, focal=2000.0, altitude=100.0, spacing=(32.0, 28.0), margin=20.0)
NO_WINDOWS = ("--geometry.windows.longest", "65536")
WAYS = {"windows": (), "whole": NO_WINDOWS, "narrow": (*NO_WINDOWS, "--geometry.stereo.width", "800")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seeds", type=int, nargs="*", default=[61])
    parser.add_argument("--out", type=Path, default=Path("out/large"))
    parser.add_argument("--ways", nargs="+", choices=tuple(WAYS), default=list(WAYS))
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    print("| town | photos | way | groups | frames | ATE m | refused | seconds: scaffold, anchors |")
    print("|---|---|---|---|---|---|---|---|")
    for seed in options.seeds:
        scene = options.out / f"town-{seed}"
        if not (scene / "scene.json").is_file():
            build_town(scene, replace(MINI, name="large", flight=FLIGHT, seed=seed))
        for way in options.ways:
            print(row(seed, scene, way, options.workers), flush=True)


def row(seed: int, scene: Path, way: str, workers: int) -> str:
    """The walk looked for in one way, and scored."""
    run = scene.with_name(f"{scene.name}-{way}")
    called(
        "anchors", "--scaffold", scene / "aerial", "--ground", scene / "ground", "--out", run, "--preset", "cpu",
        "--camera", "f=343", "--workers", workers, *WAYS[way],
    )  # fmt: skip
    called("evaluate", run, "--truth", scene / "ground/truth")
    held = open_run(run)
    groups, metrics = held.anchors.groups, held.metrics
    assert metrics is not None, "evaluate has just written them"
    refused = ", ".join(str(group.refusal.reason) for group in groups if group.refusal is not None) or "-"
    found = metrics.anchors
    off = "-" if found.ate_m is None else f"{found.ate_m:.3f}"
    seconds = held.seconds
    scaffold = sum(spent for stage, spent in seconds.items() if stage != ANCHORS)
    return (
        f"| {seed} | {len(held.scaffold.views)} | {way} | {sum(group.accepted for group in groups)} of {len(groups)} "
        f"| {found.registered} of {found.total} | {off} | {refused} | {scaffold:.0f}, {seconds[ANCHORS]:.0f} |"
    )


if __name__ == "__main__":
    main()
