"""The odds against a look-alike, fitted to what walks have shown, and how far they can be believed on other towns.

    python benchmarks/fit_odds.py GROUPS.jsonl [...] [--table MD]

GROUPS are lines of `benchmarks/wrong_walks.py`. Of every group the best right place and the best wrong one count, by
the odds that the run gave them. Means and weights of `anchors/likelihood.py` are found by maximum likelihood: beta
distributions for shares that are known exactly, beta-binomial ones for cells and matches, of which there are few; then
the share of wrong places that show what the right one does, copies of it.

What is printed: the numbers in force and those fitted to all towns; then the towns in two halves, each judged by the
numbers fitted to the other half (no town judges itself), with what a limit on the odds takes of right and wrong places,
and whether a place of odds 10^x is right as often as that says; and how often the wrong places of two groups of a walk
lie where the walk between them leads.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from math import isnan, log
from pathlib import Path

import numpy as np
from scipy.optimize import minimize
from wrong_walks_table import is_right, last_words

from skyanchor.anchors import likelihood
from skyanchor.anchors.config import OdometryConfig
from skyanchor.anchors.likelihood import Found, Places, Shares, Sizes
from skyanchor.geometry import rigid
from skyanchor.types import Pose

LIMITS = (-1.0, 0.0, 0.5, 1.0, 1.5, 2.0)
BINS = (-np.inf, -2.0, -1.0, 0.0, 1.0, 2.0, np.inf)
LEAST_WEIGHT, MOST_WEIGHT = 1.0, 40.0
"""Places that differ more than this are not one kind, and so few do not show that they are more alike."""


@dataclass(frozen=True)
class Seen:
    """A place of a group, right or wrong."""

    town: str
    right: bool
    found: Found
    ratio: float
    residual: float
    """Median of the matches that agree, sigmas."""
    halves: float
    """Distance between the places of two halves of the matches, metres."""
    exact: tuple[float, float]
    """Matches of the last look that agree, and all of them."""
    said: float
    """log10 of the odds that the run gave it."""


def read(paths: list[Path]) -> list[dict]:
    """All lines."""
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


def best_of(lines: list[dict]) -> list[Seen]:
    """The best right and the best wrong place of every group."""
    seen: list[Seen] = []
    for line in lines:
        places = [_seen(line, place) for place in last_words(line["places"])]
        for right in (True, False):
            seen += sorted((one for one in places if one.right is right), key=lambda one: one.said)[-1:]
    return seen


def _seen(line: dict, place: dict) -> Seen:
    f = place["figures"]
    found = Found(**{one.name: f[one.name] for one in fields(Found)})
    exact = (f["exact_share"] * f["exact"], f["exact"]) if f["exact"] > 0 else (0.0, 0.0)
    return Seen(
        line["scaffold"], is_right(place), found, f["ratio"], f["reprojection"], f["halves_m"], exact, f["log_odds"]
    )


# --- groups of one walk ---------------------------------------------------------------------------------------------


def on_one_walk(lines: list[dict]) -> tuple[int, int]:
    """(walks with two groups at wrong places, those of them where the walk leads from one to the other).

    Only walks that do not belong: of the others the right place is known to the second look.
    """
    walks: dict[str, list[dict]] = {}
    for line in lines:
        if line["belong"] == 0:
            walks.setdefault(line["pairing"], []).append(line)
    pairs = [[_best(line) for line in groups[:2]] for groups in walks.values() if len(groups) > 1]
    known = [pair for pair in pairs if all(place is not None for place in pair)]
    return len(known), sum(min(_miss(a, b), _miss(b, a)) <= 1.0 for a, b in known)


def _best(line: dict) -> dict | None:
    places = [place for place in last_words(line["places"]) if place["middle"] is not None]
    return max(places, key=lambda place: place["figures"]["log_odds"], default=None)


def _miss(known: dict, other: dict) -> float:
    """How far one place lies from where the walk from another leads, over what dead reckoning may be off by."""
    (here, from_start), (there, other_start) = (_poses(place) for place in (known, other))
    pace, config = known["figures"]["step_m"], OdometryConfig()
    led = here.inverse(pace * from_start(rigid.centre_in_world(other_start)[None]))[0]
    way = pace * abs(known["middle"]["walked"] - other["middle"]["walked"])
    return float(np.linalg.norm(led - rigid.centre_in_world(there)) / (config.slack + config.drift * way))


def _poses(place: dict) -> tuple[Pose, Pose]:
    flat = [np.array(place["middle"][name]) for name in ("cam_from_world", "cam_from_start")]
    here, from_start = (Pose(numbers[:9].reshape(3, 3), numbers[9:]) for numbers in flat)
    return here, from_start


# --- fits -----------------------------------------------------------------------------------------------------------


def fitted(chance: Callable[[Shares], float], start: Shares) -> Shares:
    """The mean and weight at which the ln likelihood is largest."""

    def shares(x: np.ndarray) -> Shares:
        weight = float(np.clip(np.exp(x[1]), LEAST_WEIGHT, MOST_WEIGHT))
        return Shares(float(np.clip(1.0 / (1.0 + np.exp(-x[0])), 0.01, 0.99)), weight)

    begin = np.array([log(start.mean / (1.0 - start.mean)), log(start.weight)])
    return shares(minimize(lambda x: -chance(shares(x)), begin, method="Nelder-Mead").x)


def sizes(measured: list[float], start: Sizes) -> Sizes:
    """The median and spread of those that were measured; as in `start` where fewer than two were."""
    logs = np.log([max(size, 1e-3) for size in measured if not isnan(size)])
    return Sizes(float(np.exp(logs.mean())), float(logs.std())) if len(logs) > 1 else start


def places_of(seen: list[Seen], start: Places) -> Places:
    """What places of one kind show, one figure at a time; as in `start` where none has it."""

    def cells(of: Callable[[Found], tuple[float, float]], old: Shares) -> Shares:
        trials = [of(one.found) for one in seen if of(one.found)[1] > 0]
        return fitted(lambda s: sum(s.log_chance(k * n, n) for k, n in trials), old) if trials else old

    last = [one.exact for one in seen if one.exact[1] > 0]
    ratios = [one.ratio for one in seen]
    return replace(
        start,
        fronts=cells(lambda f: (f.confirmed, f.fronts), start.fronts),
        ground=cells(lambda f: (f.ground_confirmed, f.ground), start.ground),
        edges=cells(lambda f: (f.edges_met, f.edges), start.edges),
        matches=fitted(lambda s: sum(map(s.log_density, ratios)), start.matches) if ratios else start.matches,
        exact=fitted(lambda s: sum(s.log_chance(k, n) for k, n in last), start.exact) if last else start.exact,
        residuals=sizes([one.residual for one in seen], start.residuals),
        halves=sizes([one.halves for one in seen], start.halves),
    )  # fmt: skip


def both_of(seen: list[Seen]) -> tuple[Places, Places]:
    """(right places, look-alikes) fitted to the places."""
    right, alike = ([one for one in seen if one.right is kind] for kind in (True, False))
    return places_of(right, likelihood.RIGHT), places_of(alike, likelihood.LOOK_ALIKE)


def odds_of(one: Seen, kinds: tuple[Places, Places]) -> float:
    """log10 of the odds of a place by such numbers."""
    odds = likelihood.log_odds(one.found, one.ratio, kinds) + likelihood.residual_log_odds(one.residual, kinds)
    odds += likelihood.halves_log_odds(one.halves, kinds)
    return odds + (likelihood.exact_log_odds(*one.exact, kinds) if one.exact[1] > 0 else 0.0)


def copies_of(seen: list[Seen]) -> tuple[float, float, float]:
    """The share of wrong places that are copies of the right one: most likely, and within half a unit of ln likelihood.

    By the numbers in force: each wrong place shows what a look-alike does with chance 1 - c, and with c what the right
    one does.
    """
    wrong = [likelihood.log_likelihoods(one.found, one.ratio) for one in seen if not one.right]
    shares = np.geomspace(1e-4, 0.5, 400)
    right, alike = np.array(wrong).reshape(-1, 2).T[:, :, None]
    total = np.logaddexp(alike + np.log1p(-shares), right + np.log(shares)).sum(axis=0)
    near = shares[total > total.max() - 0.5]
    return float(shares[total.argmax()]), float(near[0]), float(near[-1])


# --- tables ---------------------------------------------------------------------------------------------------------


def numbers(kinds: dict[str, tuple[Places, Places]]) -> list[str]:
    """Markdown: every mean with its weight."""
    rows = ["| share of | " + " | ".join(f"{name}, right | {name}, look-alike" for name in kinds) + " |"]
    rows.append("|" + "---|" * (1 + 2 * len(kinds)))
    for part in fields(Places):
        shares = [getattr(kind, part.name) for pair in kinds.values() for kind in pair]
        rows.append(f"| {part.name} | " + " | ".join(map(_numbers, shares)) + " |")
    return rows


def _numbers(of: Shares | Sizes) -> str:
    if isinstance(of, Sizes):
        return f"{of.median:.3g}, spread {of.spread:.2f}"
    return f"{of.mean:.2f}, weight {of.weight:.1f}"


def limits(odds: np.ndarray, right: np.ndarray) -> list[str]:
    """Markdown: what a limit takes."""
    rows = [
        f"| limit | right places above, of {right.sum()} | wrong places above, of {(~right).sum()} |",
        "|---|---|---|",
    ]
    return rows + [
        f"| 10^{limit:g} | {(odds[right] >= limit).sum()} | {(odds[~right] >= limit).sum()} |" for limit in LIMITS
    ]


def calibration(odds: np.ndarray, right: np.ndarray) -> list[str]:
    """Markdown: how often places of such odds are right, and how often the odds say so.

    The odds are those of one right place against one look-alike; with R right and W wrong places among those counted,
    a place is right with chance R 10^x / (R 10^x + W).
    """
    prior = right.sum() / max((~right).sum(), 1)
    said = prior * 10.0 ** np.clip(odds, -30, 30)
    rows = ["| odds | places | right | said |", "|---|---|---|---|"]
    for low, high in pairwise(BINS):
        here = (odds >= low) & (odds < high)
        if here.any():
            rows.append(
                f"| 10^{low:g} to 10^{high:g} | {here.sum()} | {right[here].mean():.0%} | "
                f"{(said / (1 + said))[here].mean():.0%} |"
            )
    return rows


def area(odds: np.ndarray, right: np.ndarray) -> float:
    """Chance that a right place has better odds than a wrong one: the area below the ROC."""
    pairs = odds[right][:, None] - odds[~right][None]
    return float(((pairs > 0) + 0.5 * (pairs == 0)).mean()) if pairs.size else float("nan")


def halves(seen: list[Seen]) -> np.ndarray:
    """(N,), odds of each place by the numbers fitted to the half of the towns that it is not in."""
    towns = sorted({one.town for one in seen})
    first = np.array([towns.index(one.town) % 2 == 0 for one in seen])
    kinds = {
        side: both_of([one for one, mine in zip(seen, first, strict=True) if mine != side]) for side in (True, False)
    }
    return np.array([odds_of(one, kinds[bool(mine)]) for one, mine in zip(seen, first, strict=True)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", type=Path, nargs="+")
    parser.add_argument("--table", type=Path, help="write what is printed there too")
    given = parser.parse_args()
    lines = read(given.groups)
    seen = best_of(lines)
    right = np.array([one.right for one in seen])
    inforce = (likelihood.RIGHT, likelihood.LOOK_ALIKE)
    now, held = np.array([odds_of(one, inforce) for one in seen]), halves(seen)
    text = [
        f"{right.sum()} right and {(~right).sum()} wrong places of {len({one.town for one in seen})} scaffolds", "",
        *numbers({"in force": inforce, "fitted": both_of(seen)}),
        "", "Copies among wrong places: {:.3f} ({:.3f} to {:.3f}), in force {:.3f}".format(
            *copies_of(seen), likelihood.COPIES
        ),
        "", f"In force: area below the ROC {area(now, right):.4f}", "", *limits(now, right), "",
        *calibration(now, right),
        "", f"By the other half of the towns: area {area(held, right):.4f}", "", *limits(held, right), "",
        *calibration(held, right), "",
        "Walks that do not belong with two measured groups: {}, the walk leads from one to the other in {}".format(
            *on_one_walk(lines)
        ),
    ]  # fmt: skip
    print("\n".join(text))
    if given.table is not None:
        given.table.write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    main()
