"""How much likelier the right place is than a look-alike, by what is recognised there and what is not."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, isnan, log, pi, sqrt

from scipy.special import betaln

LARGEST = 1e6
"""Size that none is told from, in the unit of what is measured: infinity has no density."""


@dataclass(frozen=True)
class Shares:
    """A share as it is from place to place: a beta distribution."""

    mean: float
    """0..1."""
    weight: float
    """How alike all places are: so many trials would tell the share of one place as well as this does."""

    def log_chance(self, found: float, of: float) -> float:
        """ln of the probability of one outcome of trials in which `found` of `of` succeed."""
        a, b = self.mean * self.weight, (1.0 - self.mean) * self.weight
        return float(betaln(found + a, of - found + b) - betaln(a, b))

    def log_density(self, share: float) -> float:
        """ln of the density at a share that is known exactly."""
        a, b = self.mean * self.weight, (1.0 - self.mean) * self.weight
        x = min(max(share, 0.01), 0.99)
        return (a - 1.0) * log(x) + (b - 1.0) * log(1.0 - x) - float(betaln(a, b))


@dataclass(frozen=True)
class Sizes:
    """A size as it is from place to place: a log-normal distribution."""

    median: float
    """In the unit of what is measured."""
    spread: float
    """Standard deviation of its natural logarithm."""

    def log_density(self, size: float) -> float:
        """ln of the density of ln size; beyond `LARGEST` as there, where odds have long reached their limit."""
        off = log(min(max(size, 1e-3), LARGEST) / self.median) / self.spread
        return -0.5 * off * off - log(self.spread * sqrt(2.0 * pi))


@dataclass(frozen=True)
class Places:
    """What places of one kind show."""

    fronts: Shares
    """Of what is in sight above the horizon, that where more matches agree than do not."""
    ground: Shares
    """The same below it."""
    matches: Shares
    """Of the matches, those that agree."""
    exact: Shares
    """Of the matches of the last look, by a more exact matcher, those that agree."""
    edges: Shares
    """Of the cells above the horizon with edges, those whose edges lie in the photo where the view has them."""
    residuals: Sizes
    """Median of the matches that agree, in the street photos, sigmas."""
    halves: Sizes
    """Distance between the places that two halves of the matches lead to, metres."""


COVERED = 0.3
"""Chance that the ground at the right place does not look as it did in the flight: crowds, rain, snow, other cars."""
ANYTHING = Shares(0.5, 2.0)
"""What is then recognised of it: any share is as likely as another."""
BLIND = 0.1
"""Chance that a more exact matcher sees no more at the right place than at a look-alike: bare walls, another light."""
ROUGH = 0.1
"""Chance that matches or their halves fit no better at the right place than at a look-alike: blur, a rolling shutter, a
bent lens, a shape that follows what moves."""
ONE_HOUSE = 0.1
"""Chance that halves of a look-alike hold together as those of the right place do: all that agrees is of one house."""
COPIES = 0.02
"""Chance that the best wrong place is a copy: houses of the same designs side by side, which show all that the right
place shows but what keypoints tell. Fitted, see docs/reliability.md."""
RIGHT = Places(
    fronts=Shares(0.76, 6.4),
    ground=Shares(0.75, 5.5),
    matches=Shares(0.86, 13.0),
    exact=Shares(0.47, 9.0),
    edges=Shares(0.80, 7.0),
    residuals=Sizes(0.37, 0.25),
    halves=Sizes(0.055, 0.70),
)
"""The right place: what moved, another light and what the flight did not see well are missing."""
LOOK_ALIKE = Places(
    fronts=Shares(0.20, 6.0),
    ground=Shares(0.32, 5.7),
    matches=Shares(0.50, 6.0),
    exact=Shares(0.16, 6.0),
    edges=Shares(0.30, 6.0),
    residuals=Sizes(0.50, 0.40),
    halves=Sizes(0.20, 0.75),
)
"""The best of all wrong places for a group, in towns whose crossings and houses repeat: a part of it agrees truly."""


@dataclass(frozen=True)
class Found:
    """How much of what is to be seen at a place is recognised; cells of one frame, for others see the same again."""

    fronts: float
    """Cells above the horizon where there is something to be recognised."""
    confirmed: float
    """Share of them where more matches agree than do not."""
    ground: float
    """Cells below the horizon, likewise."""
    ground_confirmed: float
    """Share of them."""
    edges: float = 0.0
    """Cells above the horizon with edges."""
    edges_met: float = 0.0
    """Share of them whose edges lie in the photo where the view has them."""


KINDS = (RIGHT, LOOK_ALIKE)
"""What the odds are between."""


def log_odds(found: Found, ratio: float, kinds: tuple[Places, Places] = KINDS, copies: float = COPIES) -> float:
    """log10 of the likelihood at the right place over that at the best wrong one.

    The figures are taken as independent at the right place and at a look-alike. They are not at a copy of the right
    place, where all of them are as they are there: L_right / [(1 - c) L_alike + c L_right], so that together they are
    worth 1 / c at most. `ratio` is the share of the matches that agree; there are so many that it is known exactly.
    """
    right, alike = log_likelihoods(found, ratio, kinds)
    return float((right - _either(alike, right, copies)) / log(10.0))


def log_likelihoods(found: Found, ratio: float, kinds: tuple[Places, Places] = KINDS) -> tuple[float, float]:
    """ln of the likelihood of what is recognised, at the right place and at a look-alike that is no copy of it."""
    above, met = found.confirmed * found.fronts, found.edges_met * found.edges
    ground = _ground(found.ground_confirmed, found.ground, kinds)
    right, alike = (
        kind.matches.log_density(ratio)
        + kind.fronts.log_chance(above, found.fronts)
        + kind.edges.log_chance(met, found.edges)
        + below
        for kind, below in zip(kinds, ground, strict=True)
    )
    return right, alike


def _ground(share: float, cells: float, kinds: tuple[Places, Places]) -> tuple[float, float]:
    """ln of the chances of what is recognised of the ground, which at the right place is as it was or covered.

    Less than a look-alike shows speaks against the right place as much as that does, and not for it.
    """
    right, look_alike = kinds
    below = max(share, look_alike.ground.mean) * cells
    as_it_was, covered, alike = (one.log_chance(below, cells) for one in (right.ground, ANYTHING, look_alike.ground))
    return _either(as_it_was, covered, COVERED), alike


def exact_log_odds(agreeing: float, matches: float, kinds: tuple[Places, Places] = KINDS) -> float:
    """What the last look adds to the log10 of the odds: so many of its matches agree.

    A semi-dense matcher sees the same house in its twin; keypoints sit on what differs. At a look-alike hardly any of
    their matches agree, at the right place about as many as not, but where they see nothing, which takes little away.
    """
    right, alike = (one.exact.log_chance(agreeing, matches) for one in kinds)
    return float((_either(right, alike, BLIND) - alike) / log(10.0))


def residual_log_odds(residual: float, kinds: tuple[Places, Places] = KINDS) -> float:
    """What the median residual of the agreeing matches, in sigmas, adds to the log10 of the odds.

    A street of the same designs is not the same street to the centimetre: its houses stand otherwise beside each other.
    """
    right, alike = (one.residuals.log_density(residual) for one in kinds)
    return float((_either(right, alike, ROUGH) - alike) / log(10.0))


def halves_log_odds(metres: float, kinds: tuple[Places, Places] = KINDS) -> float:
    """What the distance between the places of two halves of the matches adds to the log10 of the odds; 0 for nan.

    Houses of the same designs stand otherwise beside each other, so those on the left and on the right of a look-alike
    lead to places a few decimetres apart. No light changes where they stand.
    """
    if isnan(metres):
        return 0.0
    right, alike = (one.halves.log_density(metres) for one in kinds)
    return float((_either(right, alike, ROUGH) - _either(alike, right, ONE_HOUSE)) / log(10.0))


def _either(usual: float, other: float, chance: float) -> float:
    """ln of the probability of what has ln p `usual`, or with some chance `other`: ln [(1 - c) e^usual + c e^other]."""
    most = max(usual, other)
    return most + log((1.0 - chance) * exp(usual - most) + chance * exp(other - most))
