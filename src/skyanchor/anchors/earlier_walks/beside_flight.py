"""What the flight says of a group, and what earlier walks say of it: both, one of them, or their contradiction.

Where both say where it stands they must agree within what they state, and the group is adjusted against both at once.
Where only the earlier walks do, they carry it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from skyanchor.anchors.adjustment import FixedSightings, adjust_against, sightings_from_above
from skyanchor.anchors.earlier_walks.keyframes import EarlierWalks
from skyanchor.anchors.earlier_walks.settling import OnWalks, settle_on_walks
from skyanchor.anchors.earlier_walks.stated import compared, contradiction
from skyanchor.anchors.earlier_walks.street_points import StreetPoints, sightings_in_keyframes
from skyanchor.anchors.evidence import CrossMatches, joined, subset
from skyanchor.anchors.frames import Lens
from skyanchor.anchors.place_refinement import Settled, settle, shared_of
from skyanchor.anchors.search import Search
from skyanchor.sfm.uncertainty import centre_sigma_m
from skyanchor.types import Reason


def beside_walks(search: Search, found: Settled) -> Settled:
    """What the flight says of a group, with what earlier walks say of it: both, one of them, or their contradiction."""
    if search.earlier is None or found.local is None:
        return found
    there = replace(search, lens=Lens(search.lens.factor * found.focal, known=search.lens.known or found.placed))
    street = settle_on_walks(there, search.earlier, found.local)
    refusal = street.settled.refusal
    if refusal is not None and refusal.reason is Reason.EARLIER_WALK_DISAGREES:
        return replace(found, refusal=refusal, overlap=street.overlap, instead_of=found.refusal)
    if not street.settled.placed or street.overlap is None:
        return found
    above = found if found.placed else _looked_at(there, street.settled)
    if not above.placed:
        return replace(street.settled, overlap=street.overlap, focal=found.focal, instead_of=found.refusal)
    overlap = compared(there, above, street.settled, street.overlap)
    if overlap.sigmas > search.config.earlier.most_sigmas:
        return replace(above, refusal=contradiction(overlap), overlap=overlap)
    return replace(_together(there, search.earlier, street, above), overlap=overlap)


def _looked_at(search: Search, street: Settled) -> Settled:
    """What the flight says of the place where earlier walks put the group: views rendered there, and no other start."""
    assert street.local is not None and street.at is not None
    return settle(search, street.local, street.at.solution, warm=True)


def _together(search: Search, earlier: EarlierWalks, street: OnWalks, found: Settled) -> Settled:
    """The group adjusted against aerial photos and keyframes at once; `found`, what the flight says, was judged before.

    Either side weighs as much as it states: its standard deviations are widened first, see `_widening`. Of the error
    that all matches of a side share, what the keyframes have more of than the flight counts as their own.
    """
    if search.config.route == "paper":  # its matches lie on no surface
        return found
    assert found.at is not None and found.done is not None and street.settled.done is not None
    above_m, below_m = shared_of(search, found), shared_of(search, street.settled)
    beyond_m = np.sqrt(max(below_m**2 - above_m**2, 0.0))
    widening = (_widening(found, 0.0), _widening(street.settled, float(beyond_m)))
    flight = len(search.prepared.atlas.views)
    above, below = _agreeing(found), _agreeing(street.settled)
    matches = joined([above, replace(below, source=below.source + flight)])
    matches = replace(matches, sigma_px=matches.sigma_px * np.where(matches.source < flight, *widening))
    start = replace(found.at.solution, cams_from_world=found.done.cams_from_world, inliers=np.ones(len(matches), bool))
    with search.frames.clock.step("adjustment"):
        sightings_of = partial(_sightings_of_both, search, earlier, street.street, widening)
        both = replace(found.at, solution=start, matches=matches)
        done = adjust_against(both, sightings_of, search.config.adjustment)
    if done is None:
        return found
    return replace(found, done=replace(found.done, cams_from_world=done.cams_from_world, covariances=done.covariances))


def _widening(settled: Settled, beyond_m: float) -> float:
    """Factor on the standard deviations of a group's matches, after which the group is as sure as it honestly is.

    The adjustment alone states too little. A group is no surer than half of what two halves of its matches disagree
    by, and it is off by `beyond_m` besides. An error that all matches of both sides share is left aside: it moves both.
    """
    assert settled.done is not None
    formal = float(np.mean([centre_sigma_m(covariance) for covariance in settled.done.covariances]))
    own = max(formal, 0.5 * settled.figures.halves_m)
    return float(np.hypot(own, beyond_m)) / max(formal, 1e-9)


def _agreeing(settled: Settled) -> CrossMatches:
    """The matches that a settled group rests on."""
    assert settled.at is not None and settled.done is not None
    return subset(settled.at.agreeing, settled.done.cross)


def _sightings_of_both(
    search: Search, earlier: EarlierWalks, street: StreetPoints, widening: tuple[float, float], matches: CrossMatches
) -> FixedSightings:
    """Where aerial photos and keyframes show the matches; keyframes are numbered after the aerial photos.

    `widening` are the factors on the standard deviations of the flight and of the keyframes.
    """
    flight = len(search.prepared.atlas.views)
    rows = (np.flatnonzero(matches.source < flight), np.flatnonzero(matches.source >= flight))
    above = sightings_from_above(search.prepared.atlas, subset(matches, rows[0]), search.config.adjustment)
    walks = sightings_in_keyframes(earlier, street, subset(matches, rows[1]))
    slack_m = np.empty(len(matches))
    slack_m[rows[0]], slack_m[rows[1]] = widening[0] * above.slack_m, walks.slack_m
    return FixedSightings(
        (*above.views, *walks.views),
        np.concatenate([rows[0][above.point], rows[1][walks.point]]),
        np.concatenate([above.view, walks.view + flight]),
        np.concatenate([above.xy, walks.xy]),
        np.concatenate([widening[0] * above.sigma_px, widening[1] * walks.sigma_px]),
        np.concatenate([above.reference, walks.reference]),
        slack_m,
    )
