"""Sequences that do not belong: none of their groups may be accepted.

    python benchmarks/refusals.py [SCENE ...] [--runs DIR] [--groups 1] [--workers 2]

Without scenes those below `scenes/`. Every walk (`ground`, `ground2`, ...) is tried on every scaffold of another scene,
and mirrored on its own. Depth, surface and places are made in run folders below `--runs` and found again there. A group
that is accepted but needs another to bear it out counts as refused: on its own it would be.
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
from scenes import config_for, prepared_in

from skyanchor.anchors.config import AnchorConfig
from skyanchor.anchors.frames import GroundFrames
from skyanchor.anchors.prepare import PreparedScaffold
from skyanchor.anchors.search import Search
from skyanchor.anchors.verdict import is_sure
from skyanchor.anchors.walk import GroupTask, verdict_on
from skyanchor.sequence import load_sequence
from skyanchor.types import Reason, Sequence

SHOWN = ("support", "ratio", "halves_m", "sigma_m", "aerial_views")
"""Figures of a refusal worth a look."""
SUBMAP = 40
"""Frames between the groups that are tried."""


@dataclass(frozen=True)
class Pairing:
    """A walk that does not belong to a scaffold."""

    scene: Path
    """Whose scaffold."""
    ground: Path
    """Whose walk."""
    run: Path
    """Where the scaffold is prepared, for a walk of its own."""
    groups: int

    @property
    def mirrored(self) -> bool:
        """On its own scaffold a walk does not belong when left is right."""
        return self.ground.parent == self.scene

    @property
    def label(self) -> str:
        """For people."""
        walk = f"{self.ground.parent.name}/{self.ground.name}"
        return f"{walk}{' mirrored' if self.mirrored else ''} on {self.scene.name}"


@lru_cache(maxsize=1)
def _prepared(scene: Path, run: Path) -> PreparedScaffold:
    """The scaffold, its places described for the camera of its own first walk."""
    return prepared_in(run, scene, "ground")


def mirrored_copy(source: Path, target: Path) -> Path:
    target.mkdir(parents=True)
    for path in sorted(source.iterdir()):
        cv2.imwrite(str(target / path.name), cv2.flip(cv2.imread(str(path)), 1))
    return target


def tried(pairing: Pairing) -> tuple[int, int]:
    """(groups accepted, groups tried) of one pairing, a line printed for each."""
    with tempfile.TemporaryDirectory() as scratch:
        photos = pairing.ground / "images"
        if pairing.mirrored:
            photos = mirrored_copy(photos, Path(scratch) / "images")
        walk = load_sequence(photos, config_for(pairing.ground, SUBMAP).sequence)
        return accepted_groups(_prepared(pairing.scene, pairing.run), walk, pairing)


def accepted_groups(prepared: PreparedScaffold, sequence: Sequence, pairing: Pairing) -> tuple[int, int]:
    config = AnchorConfig()
    search = Search(prepared, GroundFrames(sequence), config)
    accepted = 0
    chosen = sequence.groups[:: max(1, len(sequence.groups) // pairing.groups)][: pairing.groups]
    for group in chosen:
        start = time.monotonic()
        result = verdict_on(search, GroupTask(group, ())).localised
        sure = result.accepted and is_sure(result.figures, config.verdict)
        accepted += sure
        reason = "ACCEPTED" if sure else Reason.NOT_BORNE_OUT if result.refusal is None else result.refusal.reason
        attempts = ", ".join(attempt.reason for attempt in result.attempts)
        printed = asdict(result.figures)
        figures = " ".join(f"{name} {printed[name]:.2f}" for name in SHOWN)
        print(
            f"{pairing.label} frames {group.frames[0]}..: {reason} {figures} [{attempts}]"
            f" {time.monotonic() - start:.0f} s",
            flush=True,
        )
    return accepted, len(chosen)


def pairings(scenes: list[Path], runs: Path, groups: int) -> list[Pairing]:
    """Every walk of every scene on every scaffold."""
    walks = [ground for scene in scenes for ground in sorted(scene.glob("ground*")) if (ground / "truth").is_dir()]
    return [Pairing(scene, walk, runs / f"{scene.name}-ground", groups) for scene in scenes for walk in walks]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenes", type=Path, nargs="*", help="folders with aerial and ground")
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--groups", type=int, default=1, help="of each walk")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    given = parser.parse_args()
    scenes = given.scenes or sorted(path.parent for path in Path("scenes").glob("*/aerial"))
    if not scenes:
        parser.error("no scenes: name some, or put them below scenes/")
    work = pairings(scenes, given.runs, given.groups)
    for scene, run in dict.fromkeys((pairing.scene, pairing.run) for pairing in work):
        _prepared(scene, run)
    with ProcessPoolExecutor(given.workers, mp_context=get_context("spawn")) as pool:
        counts = list(pool.map(tried, work))
    wrong, total = (sum(column) for column in zip(*counts, strict=True))
    print(f"{wrong} of {total} groups of {len(work)} pairings accepted, 0 expected")


if __name__ == "__main__":
    main()
