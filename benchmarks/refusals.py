"""Sequences that do not belong: none of their groups may be accepted.

    python benchmarks/refusals.py --scaffold NAME=DIR:WORK ... --ground NAME=DIR:CAMERA ... [--groups 3] [--workers 2]

WORK is a folder that `benchmarks/anchors.py --work` prepared. Every sequence is tried on every scaffold of another
name, and mirrored on its own; what stands behind a `/` tells walks and flights of one scene NAME apart. A group that is
accepted but needs another to bear it out counts as refused: on its own it would be.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path

import cv2
from skyanchor.anchors.storage import load_places, load_surface

from skyanchor.anchors.config import AnchorConfig
from skyanchor.anchors.frames import GroundFrames
from skyanchor.anchors.group import PreparedScaffold, localise_group
from skyanchor.anchors.verdict import is_sure
from skyanchor.bridges.ground import find_ground
from skyanchor.bridges.views import AerialAtlas
from skyanchor.scaffold import load_scaffold, visibility_graph
from skyanchor.sequence import SequenceConfig, SubmapConfig, load_sequence
from skyanchor.types import Reason, Sequence

SHOWN = ("support", "ratio", "halves_m", "sigma_m", "aerial_views")
"""Figures of a refusal worth a look."""


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


@dataclass(frozen=True)
class Pairing:
    """A walk that does not belong to a scaffold."""

    scaffold: str
    aerial: Path
    work: Path
    walk: Walk
    mirrored: bool
    groups: int

    @property
    def label(self) -> str:
        """For people."""
        return f"{self.walk.name}{' mirrored' if self.mirrored else ''} on {self.scaffold}"


@lru_cache(maxsize=1)
def _prepared(aerial: Path, work: Path) -> PreparedScaffold:
    return prepared_scaffold(aerial, work, AnchorConfig())


def tried(pairing: Pairing) -> tuple[int, int]:
    """(groups accepted, groups tried) of one pairing, a line printed for each."""
    with tempfile.TemporaryDirectory() as scratch:
        photos = pairing.walk.folder
        if pairing.mirrored:
            photos = mirrored_copy(photos, Path(scratch) / "images")
        return accepted_groups(_prepared(pairing.aerial, pairing.work), load(pairing.walk, photos), pairing)


def accepted_groups(prepared: PreparedScaffold, sequence: Sequence, pairing: Pairing) -> tuple[int, int]:
    config = AnchorConfig()
    frames = GroundFrames(sequence, config)
    accepted = 0
    chosen = sequence.groups[:: max(1, len(sequence.groups) // pairing.groups)][: pairing.groups]
    for group in chosen:
        start = time.monotonic()
        result, _ = localise_group(prepared, frames, group, config)
        sure = result.accepted and is_sure(result.figures, config.verdict)
        accepted += sure
        reason = "ACCEPTED" if sure else Reason.NOT_BORNE_OUT if result.refusal is None else result.refusal.reason
        attempts = ", ".join(a.reason for a in result.attempts)
        printed = asdict(result.figures)
        figures = " ".join(f"{name} {printed[name]:.2f}" for name in SHOWN)
        print(
            f"{pairing.label} frames {group.frames[0]}..: {reason} {figures} [{attempts}]"
            f" {time.monotonic() - start:.0f} s",
            flush=True,
        )
    return accepted, len(chosen)


def pairings(scaffolds: list[str], grounds: list[str], groups: int) -> list[Pairing]:
    walks = [Walk(name, *_folder_and_camera(rest)) for name, rest in (w.split("=", 1) for w in grounds)]
    found = []
    for name, rest in (s.split("=", 1) for s in scaffolds):
        aerial, work = (Path(part) for part in rest.split(":"))
        found += [
            Pairing(name, aerial, work, walk, walk.name.split("/")[0] == name.split("/")[0], groups) for walk in walks
        ]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scaffold", action="append", required=True)
    parser.add_argument("--ground", action="append", required=True)
    parser.add_argument("--groups", type=int, default=3)
    parser.add_argument("--workers", type=int, default=1, help="processes")
    given = parser.parse_args()
    work = pairings(given.scaffold, given.ground, given.groups)
    with ProcessPoolExecutor(given.workers, mp_context=get_context("spawn")) as pool:
        counts = list(pool.map(tried, work))
    wrong, total = (sum(column) for column in zip(*counts, strict=True))
    print(f"{wrong} of {total} groups of {len(work)} pairings accepted, 0 expected")


def _folder_and_camera(text: str) -> tuple[Path, str]:
    folder, camera = text.split(":")
    return Path(folder), camera


if __name__ == "__main__":
    main()
