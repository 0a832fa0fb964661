"""How many groups of a made-up walk the rules accept by the size of the model, and how many walks that do not belong.

    python benchmarks/sure_walks.py [--walks 2000] [--groups 3 4 5 7] [--areas 0.05 0.2 1 100] [--copied 0.02 0.3]
                                    [--apart 44] [--lower 0] [--pool 100000] [--seed 0]

Nothing is seen here: the figures of a group are drawn from the distributions that the odds are made of
(`anchors/likelihood.py`; all but the halves of the matches, which say nothing here), their odds are computed, and
`borne_out` decides, in a model of so many square kilometres of which six tenths are free ground. Groups stand on a
line, `--apart` metres from one to the next.

A walk that belongs: every group is looked for at its right place and recognised there from even odds on. One that is
not has looked at twelve wrong places first; where one of those had even odds, it was off the walk. `--lower` takes so
many powers of ten from the odds of all right places, as bad days do.

A walk that does not: each group stands at the best of as many wrong places as the model is larger than the towns that
the odds were fitted on (a search looks at twelve at most, so this is too many). The surest group stays, the others are
off its walk and are looked for once more where it leads. Where the surest stands at a copy, the next stands at a copy
too with chance `--copied`: 0.02 is what any wrong place has, more is a row of houses of the same designs.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import partial
from math import log10
from pathlib import Path

import numpy as np

from skyanchor.anchors import likelihood
from skyanchor.anchors.agreement import borne_out
from skyanchor.anchors.config import AnchorConfig
from skyanchor.anchors.last_look import TELLS
from skyanchor.anchors.likelihood import Found, Places, Shares
from skyanchor.anchors.priors import FITTED_M2
from skyanchor.geometry import cameras
from skyanchor.types import AnchorGroup, AnchorPose, GroupFigures, LocalisedGroup, Pose, Reason, Refusal, Sequence

FREE = 0.6
"""Share of a city that is free ground."""
CELLS, MATCHES = 40, 100
"""Of each kind in a frame; of the last look."""
LOOKED_AT = 12
"""Wrong places that a search refines: four attempts with three places each."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """Places of one kind."""

    odds: np.ndarray
    """(N,), powers of ten."""
    copies: np.ndarray
    """(N,), bool."""

    def best_of(self, rng: np.random.Generator, count: int, of: int) -> Drawn:
        """For so many groups the best of so many places each."""
        order = np.argsort(self.odds)
        top = rng.random(count) ** (1.0 / of)
        rows = order[np.minimum((top * len(order)).astype(int), len(order) - 1)]
        return Drawn(self.odds[rows], self.copies[rows])


def drawn(rng: np.random.Generator, count: int, right: bool, copied: float) -> Drawn:
    """So many places, right ones or wrong ones of which a share is copies."""
    copies = np.zeros(count, bool) if right else rng.random(count) < copied
    return Drawn(np.array([_odds(rng, right, bool(copy)) for copy in copies]), copies)


def _odds(rng: np.random.Generator, right: bool, copy: bool) -> float:
    """Of one place; a copy shows all that the right place shows but what keypoints and residuals tell."""
    looks = likelihood.RIGHT if right or copy else likelihood.LOOK_ALIKE
    tells = likelihood.RIGHT if right else likelihood.LOOK_ALIKE
    covered = looks is likelihood.RIGHT and rng.random() < likelihood.COVERED
    ground = likelihood.ANYTHING if covered else looks.ground
    shares = [_counted(rng, share, CELLS) / CELLS for share in (looks.fronts, ground, looks.edges)]
    found = Found(CELLS, shares[0], CELLS, shares[1], CELLS, shares[2])
    odds = likelihood.log_odds(found, _share(rng, looks.matches))
    odds += likelihood.residual_log_odds(_residual(rng, tells, likelihood.ROUGH))
    if odds + TELLS < 0.0:
        return odds
    kind = likelihood.LOOK_ALIKE if rng.random() < likelihood.BLIND else tells
    return odds + likelihood.exact_log_odds(_counted(rng, kind.exact, MATCHES), MATCHES)


def _share(rng: np.random.Generator, of: Shares) -> float:
    return float(rng.beta(of.mean * of.weight, (1.0 - of.mean) * of.weight))


def _counted(rng: np.random.Generator, of: Shares, trials: int) -> int:
    return int(rng.binomial(trials, _share(rng, of)))


def _residual(rng: np.random.Generator, kind: Places, rough: float) -> float:
    of = likelihood.LOOK_ALIKE.residuals if rng.random() < rough else kind.residuals
    return float(of.median * np.exp(of.spread * rng.normal()))


# --- walks --------------------------------------------------------------------------------------------------------


def accepted(odds: np.ndarray, off_the_walk: np.ndarray, apart: float, prior: float) -> int:
    """Groups that the rules accept of a walk whose groups have these odds where it leads.

    `off_the_walk` are those that were recognised elsewhere before.
    """
    asked = [AnchorGroup(k, (10 * k,), (0,)) for k in range(len(odds))]
    groups = [
        _group(group, float(one), apart, bool(off)) for group, one, off in zip(asked, odds, off_the_walk, strict=True)
    ]
    sequence = Sequence(Path(), (), cameras.pinhole(640, 360, 500.0), False, (), tuple(asked))
    return sum(group.accepted for group in borne_out(groups, sequence, AnchorConfig(), 0, prior))


def _group(group: AnchorGroup, odds: float, apart: float, off: bool) -> LocalisedGroup:
    figures = GroupFigures(log_odds=odds)
    before = (Refusal(Reason.OFF_THE_WALK, ""),) if off else ()
    if odds < 0.0:
        return LocalisedGroup(group, (), Refusal(Reason.LOOK_ALIKE, ""), figures, before)
    pose = Pose(np.eye(3), np.array([-apart * group.index, 0.0, 0.0]))
    return LocalisedGroup(group, (AnchorPose(group.frames[0], pose, np.eye(6)),), None, figures, before)


def belonging(rng: np.random.Generator, right: Drawn, wrong: Drawn, groups: int) -> tuple[np.ndarray, np.ndarray]:
    """(odds of the groups where the walk leads, which of them were recognised elsewhere before)."""
    odds = rng.choice(right.odds, groups)
    return odds, (odds < 0.0) & (wrong.best_of(rng, groups, LOOKED_AT).odds >= 0.0)


def foreign(
    rng: np.random.Generator, wrong: Drawn, of: int, copied: float, groups: int
) -> tuple[np.ndarray, np.ndarray]:
    """The same for a walk that does not belong, the surest of its groups at the best of `of` wrong places each."""
    own = wrong.best_of(rng, groups, of)
    surest = int(own.odds.argmax())
    led = wrong.best_of(rng, groups, 1).odds
    if own.copies[surest]:
        again = rng.random(groups) < copied
        led[again] = rng.choice(wrong.odds[wrong.copies], int(again.sum()))
    led[surest] = own.odds[surest]
    return led, (own.odds >= 0.0) & (np.arange(groups) != surest)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--walks", type=int, default=2000)
    parser.add_argument("--groups", type=int, nargs="+", default=[3, 4, 5, 7])
    parser.add_argument("--areas", type=float, nargs="+", default=[0.05, 0.2, 1.0, 100.0], help="square kilometres")
    parser.add_argument("--copied", type=float, nargs="+", default=[0.02, 0.3])
    parser.add_argument("--apart", type=float, default=44.0, help="metres from one group to the next")
    parser.add_argument("--lower", type=float, default=0.0, help="powers of ten")
    parser.add_argument("--pool", type=int, default=100_000, help="wrong places that are drawn")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rng = np.random.default_rng(given.seed)
    right, wrong = drawn(rng, given.pool // 5, True, 0.0), drawn(rng, given.pool, False, likelihood.COPIES)
    right = Drawn(right.odds - given.lower, right.copies)
    for name, kind in (("right", right), ("wrong", wrong)):
        above = ", ".join(f"10^{limit:g} {(kind.odds >= limit).mean():.4f}" for limit in (0, 0.5, 1, 1.5, 2, 3, 3.5, 5))
        print(f"{name} places with odds above {above}")
    heads = [f"walks that do not belong, accepted; copies go on in {copied:g}" for copied in given.copied]
    print(" | ".join(["| km² | groups | of a walk that belongs, accepted | walks of which none is", *heads]) + " |")
    print("|" + "---|" * (4 + len(heads)))
    for km2 in given.areas:
        larger = max(1.0, FREE * km2 * 1e6 / FITTED_M2)
        for groups in given.groups:
            judged = partial(accepted, apart=given.apart, prior=-log10(larger))
            own = [judged(*belonging(rng, right, wrong, groups)) for _ in range(given.walks)]
            cells = [f"{np.mean(own) / groups:.1%}", f"{np.mean([one == 0 for one in own]):.1%}"]
            for copied in given.copied:
                walks = [judged(*foreign(rng, wrong, round(larger), copied, groups)) for _ in range(given.walks)]
                cells.append(f"{np.mean([one > 0 for one in walks]):.2%}")
            print(" | ".join([f"| {km2:g} | {groups}", *cells]) + " |", flush=True)


if __name__ == "__main__":
    main()
