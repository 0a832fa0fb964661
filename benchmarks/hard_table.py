"""What became of walks under the conditions of `benchmarks/hard.py`, as tables and as curves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from hard_conditions import CLEAR_DAY, CONDITIONS, SEVERITIES, WHOLE_DAY


@dataclass(frozen=True)
class Outcome:
    """What became of one walk under one condition."""

    condition: str
    severity: str
    where: str
    """Seed of the town, or name of the scene."""
    groups: int
    accepted: int
    wrong: int
    worst_m: float
    """Of the accepted groups, root mean square over a group's frames; 0 without any."""
    worst_sigmas: float
    """The same over the stated sigma."""
    anchors_ate_m: float | None
    ate_m: float | None
    posed: int
    frames: int
    psnr: float | None
    seconds: float
    reasons: dict[str, int]
    """Why groups were refused."""
    matches: float | None = None
    """Matches with a bridge view at the true pose that agree with it, per photo."""
    agreeing: float | None = None
    """Their share of all matches, 0..1."""


def table(outcomes: list[Outcome]) -> str:
    """Markdown, one row per condition and severity, over its towns or scenes."""
    head = "| condition | severity | settings | walks | groups accepted | wrong | worst group | ATE | frames posed |"
    lines = [head + " street PSNR | seconds | refused |", "|" + "---|" * 12]
    for key in dict.fromkeys((outcome.condition, outcome.severity) for outcome in outcomes):
        own = [outcome for outcome in outcomes if (outcome.condition, outcome.severity) == key]
        lines.append("| " + " | ".join(_row(own)) + " |")
    return "\n".join(lines) + "\n"


def _row(own: list[Outcome]) -> list[str]:
    first = own[0]
    hardship = CONDITIONS.get(first.condition, CLEAR_DAY)
    errors = [outcome.ate_m for outcome in own if outcome.ate_m is not None]
    psnr = [outcome.psnr for outcome in own if outcome.psnr is not None]
    refused = sum((Counter(outcome.reasons) for outcome in own), Counter[str]())
    spread = f"{min(errors):.3f} to {max(errors):.3f} m" if len(errors) > 1 else "".join(f"{e:.3f} m" for e in errors)
    worst = max(own, key=lambda outcome: outcome.worst_m)
    return [
        first.condition,
        "" if hardship == CLEAR_DAY else first.severity,
        hardship.settings(first.severity),
        str(len(own)),
        f"{sum(o.accepted for o in own)}/{sum(o.groups for o in own)}",
        str(sum(o.wrong for o in own)),
        f"{worst.worst_m:.3f} m, {max(o.worst_sigmas for o in own):.1f} sigmas" if errors else "-",
        spread or "-",
        f"{sum(o.posed for o in own)}/{sum(o.frames for o in own)}",
        f"{np.mean(psnr):.1f} dB" if psnr else "-",
        f"{np.median([o.seconds for o in own]):.0f}",
        ", ".join(f"{reason} {count}" for reason, count in refused.most_common()) or "-",
    ]


def matches_table(outcomes: list[Outcome]) -> str:
    """Markdown, one row per condition and severity: agreeing matches a photo, and what share they are."""
    lines = [
        "| condition | severity | settings | agreeing matches a photo | of the clear day's | share of all matches |"
    ]
    lines.append("|" + "---|" * 6)
    clear = {o.where: o.matches or 0.0 for o in outcomes if o.condition == CLEAR_DAY.name}
    for key in dict.fromkeys((o.condition, o.severity) for o in outcomes):
        own = [o for o in outcomes if (o.condition, o.severity) == key]
        hardship = CONDITIONS.get(key[0], CLEAR_DAY)
        settings = hardship.settings(key[1])
        kept = np.mean([(o.matches or 0.0) / max(1.0, clear[o.where]) for o in own])
        count, share = (np.mean([getattr(o, name) or 0.0 for o in own]) for name in ("matches", "agreeing"))
        severity = "" if hardship == CLEAR_DAY else key[1]
        lines.append(f"| {key[0]} | {severity} | {settings} | {count:.0f} | {kept:.0%} | {share:.0%} |")
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Panel:
    """One of the pictures that `curves` draws."""

    title: str
    ticks: tuple[str, ...]
    """Along the axis, mild to hard."""
    outcomes: tuple[tuple[Outcome, ...], ...]
    """At every tick."""


def panels(outcomes: list[Outcome]) -> list[Panel]:
    """A panel per condition, over its severities, and one of all whole days, over these."""
    found, days = [], []
    for name in dict.fromkeys(o.condition for o in outcomes if o.condition != CLEAR_DAY.name):
        own = [outcome for outcome in outcomes if outcome.condition == name]
        if own[0].severity == WHOLE_DAY:
            days.append((name, tuple(own)))
            continue
        steps = tuple(tuple(o for o in own if o.severity == severity) for severity in SEVERITIES)
        found.append(Panel(name, SEVERITIES, steps))
    if days:
        found.append(Panel("whole days", *zip(*sorted(days), strict=True)))
    return found


def curves(outcomes: list[Outcome], path: Path) -> None:
    """Share of the groups accepted, of the frames posed, and error, a panel per condition."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    shown = panels(outcomes)
    if not shown:
        return
    columns = min(6, len(shown))
    rows = -(-len(shown) // columns)
    figure, axes = pyplot.subplots(rows, columns, figsize=(2.6 * columns, 2.2 * rows), squeeze=False, sharey=True)
    for axis in axes.flat[len(shown) :]:
        axis.axis("off")
    for axis, panel in zip(axes.flat, shown, strict=False):
        for marks, label, value in CURVES:
            at = [k for k, own in enumerate(panel.outcomes) if own]
            axis.plot(at, [value(panel.outcomes[k]) for k in at], marks, label=label)
        axis.set(title=panel.title, xticks=range(len(panel.ticks)), xlim=(-0.3, len(panel.ticks) - 0.7))
        axis.set(ylim=(-0.05, 1.1))
        axis.set_xticklabels(panel.ticks, fontsize=7)
    axes.flat[0].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _accepted(own: Sequence[Outcome]) -> float:
    return sum(o.accepted for o in own) / max(1, sum(o.groups for o in own))


def _posed(own: Sequence[Outcome]) -> float:
    return sum(o.posed for o in own) / max(1, sum(o.frames for o in own))


def _error_dm(own: Sequence[Outcome]) -> float:
    errors = [o.ate_m for o in own if o.ate_m is not None]
    return 10.0 * float(np.median(errors)) if errors else float("nan")


CURVES = (("o-", "groups", _accepted), ("s:", "frames", _posed), ("x--", "ATE, dm", _error_dm))
