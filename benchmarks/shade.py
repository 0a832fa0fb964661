"""Matches that hold at the right place under another light, by matcher: the step that a place is confirmed with.

    python benchmarks/shade.py --scene DIR [--ground ground] [--run RUN] [--frames 4] [--severities 0.33 0.67 1]

A view of the scaffold is rendered at the true pose of a few frames of the walk and matched with their photos, clean and
with every condition of light laid over them (`skyanchor/town/conditions.py`). A match holds when its surface point lies
within four sigmas of where the true camera sees it. Truth is used to say where the right place is, and to score.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from scenes import load_scene, prepared_in

from skyanchor.anchors.config import AnchorConfig
from skyanchor.anchors.evidence import match_bridge, sightings
from skyanchor.anchors.frames import GroundFrames, spread_over
from skyanchor.anchors.ladder import in_shade
from skyanchor.anchors.search import Search
from skyanchor.anchors.solve import group_residuals
from skyanchor.bridges.views import Bridge, render_bridge
from skyanchor.geometry import cameras
from skyanchor.matching import AnyMatcher, LighterGlue, Matcher, Sift, XFeat, through_shade
from skyanchor.town import conditions
from skyanchor.types import Bytes, Camera, Photo, Pose

SEED = 17
"""Of the light."""
WITHIN = 4.0
"""Sigmas."""
LIGHTS = (conditions.shadows, conditions.leaf_shade)


def choices(config: AnchorConfig) -> dict[str, AnyMatcher]:
    """What is compared, by name: the matcher of the first attempt and of the second, and others in both networks."""
    size = config.refine.width
    xfeat, lighter = XFeat(4000, size, 0.01), LighterGlue(2048, size, 0.01)
    return {
        "default": config.refine.matcher,
        "through shade": in_shade(config).refine.matcher,
        "xfeat": xfeat,
        "xfeat through shade": through_shade(xfeat),
        "lighterglue": lighter,
        "lighterglue through shade": through_shade(lighter),
        "sift": Sift(4000, size),
    }


def holding(matcher: Matcher, photo: Photo, bridge: Bridge, pose: Pose, camera: Camera) -> tuple[int, int]:
    """(matches that hold, matches) between a photo and the view from its own place."""
    found = match_bridge(matcher, 0, matcher.extract(photo), bridge, matcher.extract(bridge.photo))
    return int((group_residuals((pose,), sightings(found, camera)) < WITHIN).sum()), len(found)


def lights(severities: list[float]) -> dict[str, Callable[[Bytes, int], Bytes]]:
    """What is laid over a photo, by name."""

    def laid(condition: conditions.Condition, severity: float) -> Callable[[Bytes, int], Bytes]:
        return lambda pixels, number: condition(pixels, severity, SEED, number)

    made = {f"{light.__name__} {severity:.2f}": laid(light, severity) for light in LIGHTS for severity in severities}
    return {"clean": lambda pixels, number: pixels} | made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scene", type=Path, required=True)
    parser.add_argument("--ground", default="ground")
    parser.add_argument("--run", type=Path, help="run folder")
    parser.add_argument("--frames", type=int, default=4)
    parser.add_argument("--severities", type=float, nargs="+", default=[1 / 3, 2 / 3, 1.0])
    given = parser.parse_args()
    scene, config = load_scene(given.scene, given.ground), AnchorConfig()
    prepared = prepared_in(given.run or Path("runs") / f"{given.scene.name}-{given.ground}", given.scene, given.ground)
    search = Search(prepared, GroundFrames(scene.sequence), config)
    view = cameras.scaled(search.camera, min(config.refine.width, search.camera.width))
    chosen = [int(k) for k in spread_over(len(scene.sequence.frames), given.frames)]
    poses = [scene.true[scene.sequence.frames[k].name] for k in chosen]
    bridges = [render_bridge(prepared.atlas, view, pose) for pose in poses]
    matchers = {name: choice.load() for name, choice in choices(config).items()}
    print(f"matches that hold of all matches, mean of {len(chosen)} frames of {given.scene.name}")
    for light, lay in lights(given.severities).items():
        clean = {k: search.frames.photo(k) for k in chosen}
        shots = [replace(photo, pixels=lay(photo.pixels, k)) for k, photo in clean.items()]
        for name, matcher in matchers.items():
            counts = [
                holding(matcher, shot, bridge, pose, search.camera)
                for shot, bridge, pose in zip(shots, bridges, poses, strict=True)
            ]
            held, found = np.mean(counts, axis=0)
            print(f"{light:22s} {name:26s} {held:6.0f} of {found:6.0f}", flush=True)


if __name__ == "__main__":
    main()
