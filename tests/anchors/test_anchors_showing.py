"""Matches that people look at: pixels of the real photos, from the pairs that agree most, good and bad."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from skyanchor.anchors.adjustment import AdjustmentConfig, FixedAerial, thinned
from skyanchor.anchors.evidence import CrossMatches, GroupAt, subset
from skyanchor.anchors.shape.incremental import single_frame
from skyanchor.anchors.showing import PAIRS, PER_PAIR, shown_adjusted, shown_matches
from skyanchor.anchors.solve import GroupSolution
from skyanchor.geometry import cameras, rigid, similarity
from skyanchor.scaffold.windows import Photos
from skyanchor.types import CrossView, View

UP = np.array([0.0, 0.0, 1.0])
GROUND, AERIAL = cameras.pinhole(400, 224, 290.0), cameras.pinhole(640, 480, 500.0)
POSES = tuple(rigid.look_at(np.array([0.0, y, 1.7]), np.array([0.0, y + 9.0, 2.0]), UP) for y in (0.0, 1.0, 2.0))
VIEWS = tuple(
    View(f"a{k}.jpg", Path(f"a{k}.jpg"), AERIAL, rigid.look_at(np.array([k - 4.0, -6.0, 30.0]), np.zeros(3), UP))
    for k in range(4)
)
PHOTOS = Photos(VIEWS, np.arange(4))


def matches(count: int = 200, seed: int = 0) -> tuple[CrossMatches, np.ndarray]:
    """Exact matches, and every fifth 30 pixels off."""
    rng = np.random.default_rng(seed)
    points = np.c_[rng.uniform(-4, 4, count), rng.uniform(8, 14, count), rng.uniform(0, 4, count)]
    frame, source = rng.integers(0, 3, count), rng.choice([0, 1, 1, 2], count)
    xy = np.stack([cameras.project(GROUND, POSES[f](x[None]))[0] for f, x in zip(frame, points, strict=True)])
    bad = np.arange(count) % 5 == 0
    xy[bad, 0] += 30.0
    none = np.zeros((count, 3))
    return CrossMatches(frame, xy, np.ones(count), points, none, source, np.zeros(count, np.int64)), ~bad


def standing(found: CrossMatches, agrees: np.ndarray) -> GroupAt:
    """Frames 40 to 42 at their true poses."""
    local = replace(single_frame(40, GROUND), frames=(40, 41, 42), cams_from_local=POSES)
    return GroupAt(local, GROUND, GroupSolution(similarity.identity(), POSES, agrees, 0.5), found)


def shown(found: CrossMatches, agrees: np.ndarray) -> CrossView | None:
    return shown_matches(standing(found, agrees), found.points, agrees, PHOTOS)


def test_pixels_lie_where_the_photos_show_the_points() -> None:
    found, agrees = matches()
    seen = shown(found, agrees)
    assert seen is not None and 0 < len(seen.frame) <= PAIRS * PER_PAIR
    np.testing.assert_allclose(seen.residual_px[seen.agrees], 0.0, atol=1e-9)
    np.testing.assert_allclose(seen.residual_px[~seen.agrees], 30.0, atol=1e-6)
    assert 0.05 < np.mean(~seen.agrees) < 0.4
    for f, v, xy, above in zip(seen.frame, seen.view, seen.ground_xy, seen.aerial_xy, strict=True):
        row = int(np.argmin(np.abs(found.xy - xy).sum(axis=1)))
        assert found.frame[row] + 40 == f and found.source[row] == v
        want = cameras.project(AERIAL, VIEWS[v].cam_from_world(found.points[row][None]))[0]
        np.testing.assert_allclose(above, want)


def test_the_pairs_with_the_most_agreement_come_first_and_differ() -> None:
    found, agrees = matches()
    seen = shown(found, agrees)
    assert seen is not None
    pairs = list(dict.fromkeys(zip(seen.frame.tolist(), seen.view.tolist(), strict=True)))
    assert len(pairs) == PAIRS and len({f for f, _ in pairs}) == len({v for _, v in pairs}) == PAIRS
    counts = {
        (int(f), int(v)): int((agrees & (found.frame == f) & (found.source == v)).sum())
        for f in range(3)
        for v in range(3)
    }
    assert counts[pairs[0][0] - 40, pairs[0][1]] == max(counts.values())


def test_matches_left_out_for_their_number_are_not_called_bad() -> None:
    found, agrees = matches()
    config = AdjustmentConfig(matches=50)
    tried = thinned(subset(found, agrees), 50, GROUND)
    kept = tried[1:]  # the adjustment threw one out
    points = found.points[agrees][kept]
    nothing = np.zeros(len(kept), np.int64)
    done = FixedAerial(POSES, np.zeros((3, 6, 6)), kept, nothing, nothing, 0.5, 0.5, points, 1.0, len(tried))
    seen = shown_adjusted(standing(found, agrees), done, PHOTOS, config)
    assert seen is not None
    off = seen.residual_px > 10
    assert off.any() and not seen.agrees[off].any() and (~seen.agrees[~off]).sum() <= 1


def test_nothing_matched_nothing_shown() -> None:
    found, agrees = matches()
    none = CrossMatches(*(getattr(found, name)[:0] for name in CrossMatches.__dataclass_fields__))
    assert shown(none, agrees[:0]) is None
    everything_bad = shown(found, np.zeros(len(found), bool))
    assert everything_bad is not None and not everything_bad.agrees.any()
