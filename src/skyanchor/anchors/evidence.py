"""Cross-view matches: what the frames of a group and bridge views of the scaffold have in common."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skyanchor.anchors.expected import Expected
from skyanchor.anchors.shape.incremental import LocalGroup
from skyanchor.anchors.solve import GroupSolution, Sightings
from skyanchor.bridges.views import Bridge, lift
from skyanchor.geometry import cameras
from skyanchor.geometry.depth import under
from skyanchor.matching import Features, Matcher
from skyanchor.types import Bools, Camera, Floats, Ints


@dataclass(frozen=True, eq=False)
class CrossMatches:
    """Surface points of the scaffold recognised in ground frames, flat arrays of one length."""

    frame: Ints
    """(N,), position in the group."""
    xy: Floats
    """(N, 2), pixels of the ground camera."""
    sigma_px: Floats
    """(N,), localisation error in those pixels."""
    points: Floats
    """(N, 3), on the surface, metres."""
    normals: Floats
    """(N, 3), unit."""
    source: Ints
    """(N,), aerial view the bridge pixel was painted from, or the keyframe that was matched."""
    point: Ints
    """(N,), number of the point that keyframes of earlier walks see; -1 where the surface was matched."""

    def __len__(self) -> int:
        """Number of matches."""
        return len(self.frame)


def joined(parts: list[CrossMatches]) -> CrossMatches:
    """All of them, in order."""
    if not parts:
        none, empty = np.empty((0, 3)), np.empty(0, np.int64)
        return CrossMatches(empty, np.empty((0, 2)), np.empty(0), none, none, empty, empty)
    return CrossMatches(
        np.concatenate([p.frame for p in parts]),
        np.concatenate([p.xy for p in parts]),
        np.concatenate([p.sigma_px for p in parts]),
        np.concatenate([p.points for p in parts]),
        np.concatenate([p.normals for p in parts]),
        np.concatenate([p.source for p in parts]),
        np.concatenate([p.point for p in parts]),
    )


def subset(matches: CrossMatches, keep: Bools | Ints) -> CrossMatches:
    """Only some of the matches."""
    return CrossMatches(
        matches.frame[keep],
        matches.xy[keep],
        matches.sigma_px[keep],
        matches.points[keep],
        matches.normals[keep],
        matches.source[keep],
        matches.point[keep],
    )


@dataclass(frozen=True, eq=False)
class GroupAt:
    """A group at a place: its own shape and camera, where it stands, and the matches that say so."""

    local: LocalGroup
    camera: Camera
    """PINHOLE, of the street photos."""
    solution: GroupSolution
    """Its inliers are among `matches`."""
    matches: CrossMatches
    """All that the solution was made from."""
    expected: tuple[Expected, ...] = ()
    """What the frames should show by the views that they were matched with; empty where it were no views."""

    @cached_property
    def agreeing(self) -> CrossMatches:
        """Those that agree with the solution."""
        return subset(self.matches, self.solution.inliers)


def match_bridge(matcher: Matcher, frame: int, ground: Features, bridge: Bridge, seen: Features) -> CrossMatches:
    """What one ground frame and one bridge have in common; bridge pixels without surface are left out."""
    matches = matcher.match_extracted(ground, seen)
    points, source = lift(bridge, matches.xy_b)
    normals = under(bridge.normal, matches.xy_b).astype(np.float64) @ bridge.cam_from_world.rotation
    good = np.isfinite(points[:, 0]) & (source >= 0)
    count = int(good.sum())
    # one pixel of the coarser of the two images, in ground pixels
    coarse = max(ground.sigma_px, seen.sigma_px * ground.width / bridge.camera.width)
    return CrossMatches(
        np.full(count, frame, np.int64),
        matches.xy_a[good],
        np.full(count, coarse),
        points[good],
        normals[good],
        source[good],
        np.full(count, -1, np.int64),
    )


def sightings(matches: CrossMatches, camera: Camera) -> Sightings:
    """The matches as the group solver takes them; `camera` is PINHOLE."""
    rays = cameras.unproject(camera, matches.xy)
    return Sightings(matches.frame, rays[:, :2], matches.points, matches.sigma_px / cameras.focal_px(camera))


def distinct_support(matches: CrossMatches, inliers: Bools, cell_px: float) -> int:
    """Agreeing matches, those of one frame within one image cell counted once."""
    cells = np.floor(matches.xy[inliers] / cell_px).astype(np.int64)
    return len(np.unique(np.column_stack([matches.frame[inliers], cells]), axis=0))
