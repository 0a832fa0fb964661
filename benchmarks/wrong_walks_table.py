"""What `benchmarks/wrong_walks.py` found, as a table and as curves."""

from __future__ import annotations

import json
from dataclasses import fields
from math import isfinite
from pathlib import Path

import numpy as np
from hard_conditions import WRONG_M

from skyanchor.anchors.likelihood import Found
from skyanchor.anchors.verdict import VerdictConfig


def read_lines(folder: Path) -> list[dict[str, object]]:
    """A line per group of all pairings that are done."""
    return [json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]


HEAD = (
    "walk", "pairings", "groups", "belong", "accepted", "wrong", "worst error", "odds, accepted", "odds, wrong places",
    "seconds", "of an acceptance", "refused",
)  # fmt: skip


def table(lines: list[dict]) -> str:
    """Markdown, one row per kind of walk and day; odds are powers of ten, seconds CPU medians of a first look."""
    taken = [line["seconds"] for line in lines if line["accepted"]]
    rows = [f"| {' | '.join(HEAD)} |", "|" + "---|" * len(HEAD)]
    for key in dict.fromkeys((line["kind"], line["day"]) for line in sorted(lines, key=lambda line: line["kind"])):
        own = [line for line in lines if (line["kind"], line["day"]) == key]
        rows.append(f"| {' '.join(filter(None, key))} | {' | '.join(_row(own, float(np.median(taken or [np.nan]))))} |")
    return "\n".join(rows) + "\n"


def _row(own: list[dict], acceptance_s: float) -> list[str]:
    """What became of the groups of one kind."""
    right = [line["error_m"] for line in own if line["accepted"] and not line["wrong"]]
    least = [line["figures"]["log_odds"] for line in own if line["accepted"]]
    most = [odds for is_right, odds, _ in best_places(own) if not is_right and np.isfinite(odds)]
    reasons = sorted({line["reason"] for line in own if line["reason"]})
    seconds = float(np.median([line["seconds"] for line in own]))
    return [
        str(len({line["pairing"] for line in own})),
        str(len(own)),
        str(sum(line["belong"] == line["frames"] for line in own)),
        str(sum(line["accepted"] for line in own)),
        str(sum(line["wrong"] for line in own)),
        f"{max(right):.3f} m" if right else "-",
        f"from {min(least):.1f}" if least else "-",
        f"up to {max(most):.1f}" if most else "-",
        f"{seconds:.1f}",
        f"{seconds / acceptance_s:.1f}",
        ", ".join(f"{reason} {sum(line['reason'] == reason for line in own)}" for reason in reasons) or "-",
    ]


def last_words(places: list[dict]) -> list[dict]:
    """Places that were measured, each as it was known in the end: after its last look, if it had one.

    A place that stands by its last look has that one's figures; the odds rest on the share that agreed in the first,
    on its residual and on its halves.
    """
    # what the views show is that of the first look in either, so a place is known by it
    of_the_first = ("ratio", "reprojection", "halves_m")
    latest: dict[tuple[float, ...], dict] = {}
    for place in places:
        if place["figures"] is not None and isfinite(place["figures"]["log_odds"]):
            key = tuple(place["figures"][one.name] for one in fields(Found))
            first = latest.get(key, place)["figures"]
            latest[key] = place | {"figures": place["figures"] | {name: first[name] for name in of_the_first}}
    return list(latest.values())


def is_right(place: dict) -> bool:
    """Whether a place that was looked at is where the group really was."""
    return place["error_m"] is not None and place["error_m"] < WRONG_M


def best_places(lines: list[dict]) -> list[tuple[bool, float, float]]:
    """(right, odds, share that agrees) of the best place of every group, -inf where none came so far."""
    found = []
    for line in lines:
        best = max(last_words(line["places"]), key=lambda place: place["figures"]["log_odds"], default=None)
        belongs = line["belong"] == line["frames"] if best is None else is_right(best)
        odds, share = (-np.inf if best is None else best["figures"][name] for name in ("log_odds", "ratio"))
        found.append((belongs, odds, share))
    return found


def curves(lines: list[dict], path: Path) -> None:
    """The odds of right and wrong places, and what a limit on them or on the agreeing share takes of either."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    found = best_places(lines)
    right, odds, share = (np.array(column) for column in zip(*found, strict=True))
    figure, (left, other) = pyplot.subplots(1, 2, figsize=(9.0, 3.4))
    bins = np.arange(-6.0, 11.0, 0.5)
    for chosen, name in ((right, "right"), (~right, "wrong")):
        left.hist(np.clip(odds[chosen], bins[0], bins[-1]), bins, alpha=0.6, label=f"{name}, {chosen.sum()} groups")
    left.axvline(VerdictConfig().sure_odds, color="k", lw=0.8, ls=":")
    left.set(xlabel="odds of the best place, powers of ten", ylabel="groups")
    for values, name in ((odds, "odds"), (share, "share that agrees")):
        limits = np.r_[np.inf, np.sort(values)[::-1]]
        taken = [[float((values[chosen] >= limit).mean()) for limit in limits] for chosen in (~right, right)]
        other.step(*taken, where="post", label=name)
    other.set(xlabel="wrong places above the limit", ylabel="right places above it", xlim=(-0.02, 1), ylim=(0, 1.02))
    for axis in (left, other):
        axis.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
