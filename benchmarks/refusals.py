"""Sequences that do not belong: none of their groups may be accepted.

    python benchmarks/refusals.py --scaffold NAME=DIR:WORK ... --ground NAME=DIR:CAMERA ... [--groups 3]

WORK is a folder that `benchmarks/anchors.py --work` prepared. Every sequence is tried on every scaffold of another
name, and mirrored on its own.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import cv2

from skyanchor.anchors.bridges import AerialAtlas
from skyanchor.anchors.config import AnchorConfig
from skyanchor.anchors.frames import GroundFrames
from skyanchor.anchors.localise import PreparedScaffold, localise_group
from skyanchor.anchors.storage import load_places, load_surface
from skyanchor.anchors.surface import find_ground
from skyanchor.scaffold import load_scaffold, visibility_graph
from skyanchor.sequence import SequenceConfig, SubmapConfig, load_sequence
from skyanchor.types import Sequence


@dataclass(frozen=True)
class Walk:
    """A ground folder and its camera."""

    name: str
    folder: Path
    camera: str


def prepared_scaffold(folder: Path, work: Path, config: AnchorConfig) -> PreparedScaffold:
    scaffold = load_scaffold(folder)
    surface = load_surface(work / "surface.npz")
    atlas = AerialAtlas(surface, scaffold.views, config.bridge)
    index = load_places(work / "places.npz")
    return PreparedScaffold(scaffold, surface, find_ground(surface), atlas, index, visibility_graph(scaffold))


def mirrored_copy(source: Path, target: Path) -> Path:
    target.mkdir(parents=True)
    for path in sorted(source.iterdir()):
        cv2.imwrite(str(target / path.name), cv2.flip(cv2.imread(str(path)), 1))
    return target


def load(walk: Walk, folder: Path) -> Sequence:
    return load_sequence(folder, SequenceConfig(camera=walk.camera, cut=SubmapConfig(submap_length=40)))


def accepted_groups(
    prepared: PreparedScaffold, sequence: Sequence, most: int, label: str, config: AnchorConfig
) -> tuple[int, int]:
    frames = GroundFrames(sequence, config)
    accepted = 0
    chosen = sequence.groups[:: max(1, len(sequence.groups) // most)][:most]
    for group in chosen:
        start = time.monotonic()
        result, _ = localise_group(prepared, frames, group, config)
        accepted += result.accepted
        reason = "ACCEPTED" if result.refusal is None else result.refusal.reason
        tried = ", ".join(a.reason for a in result.attempts)
        support = result.figures.get("support", 0.0)
        seconds = time.monotonic() - start
        print(
            f"{label} frames {group.frames[0]}..: {reason} support {support:.0f} [{tried}] {seconds:.0f} s", flush=True
        )
    return accepted, len(chosen)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scaffold", action="append", required=True)
    parser.add_argument("--ground", action="append", required=True)
    parser.add_argument("--groups", type=int, default=3)
    given = parser.parse_args()
    config = AnchorConfig()
    walks = [Walk(name, *_folder_and_camera(rest)) for name, rest in (w.split("=", 1) for w in given.ground)]
    wrong, total = 0, 0
    with tempfile.TemporaryDirectory() as scratch:
        for name, rest in (s.split("=", 1) for s in given.scaffold):
            folder, work = rest.split(":")
            prepared = prepared_scaffold(Path(folder), Path(work), config)
            for walk in walks:
                own = walk.name.split("/")[0] == name
                photos = walk.folder
                if own:
                    photos = mirrored_copy(walk.folder, Path(scratch) / walk.name.replace("/", "-"))
                label = f"{walk.name}{' mirrored' if own else ''} on {name}"
                accepted, tried = accepted_groups(prepared, load(walk, photos), given.groups, label, config)
                wrong, total = wrong + accepted, total + tried
    print(f"{wrong} of {total} groups accepted, 0 expected")


def _folder_and_camera(text: str) -> tuple[Path, str]:
    folder, camera = text.split(":")
    return Path(folder), camera


if __name__ == "__main__":
    main()
