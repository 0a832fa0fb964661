"""A submap that reaches other anchors: they are put where they belong, and the gap is spread over the free poses."""

from __future__ import annotations

from skyanchor.sfm.relaxation import Edge, EdgeSigmas, relax
from skyanchor.trajectory.closure import measure
from skyanchor.trajectory.submap_state import SubmapState, drop_strays, refresh


def close(state: SubmapState, segment: tuple[int, ...]) -> None:
    """Put a segment's anchors where they belong, the gap spread over the free poses; unless it contradicts the map."""
    local, config = state.local, state.config
    segment = tuple(f for f in segment if f in state.anchors)
    visual = {f: local.poses[f] for f in segment if f in local.poses}
    if visual:
        origin = {f: local.poses[f] for f in state.constant}
        nearest = min(state.constant, key=lambda f: abs(f - segment[0]))
        path = local.path_m(min(nearest, segment[0]), max(nearest, segment[-1]))
        closure = measure(
            state.job.submap.index, visual, state.anchors, origin, path, state.scale_sigma, config.closure
        )
        state.closures.append(closure)
        if closure.contradiction:
            return
        if closure.gap_m > config.closure.relax_m and config.ablation.anchored_adjustment:
            _relax(state, segment)
    for frame in segment:
        local.insert(frame, state.anchors[frame])
        state.pending.pop(frame, None)
    state.constant |= set(segment)
    _match_tail(state, segment)
    drop_strays(state, segment)
    refresh(state, local.poses)


def _relax(state: SubmapState, segment: tuple[int, ...]) -> None:
    """Spread the gap over the free poses: the segment at its anchors, steps between frames as the photos saw them."""
    poses = state.local.poses
    edges = [
        Edge(i, j, poses[i] @ poses[j].inverse)
        for j, references in state.references.items()
        for i in references
        if i in poses and j in poses
    ]
    fixed = frozenset(state.constant | set(segment))
    snapped = poses | {f: state.anchors[f] for f in segment if f in poses}
    poses.update(relax(snapped, fixed, edges, EdgeSigmas()))


def _match_tail(state: SubmapState, segment: tuple[int, ...]) -> None:
    """Match every anchor with its own group and the latest movable frames before it."""
    free = [f for f in sorted(state.local.poses) if f not in state.constant and f < segment[0]]
    latest = free[-state.config.tail_window :]
    for k, frame in enumerate(segment):
        for other in [*latest, *segment[:k]]:
            state.local.finder.pairs(other, frame)
