"""The paper's route to anchors with real matchers: how far each group of a scene gets, and why no further.

    python benchmarks/papers_route.py SCENE --run RUN [--ground ground] [--matchers sift,x-feat,lighter-glue]
                                      [--keypoints 4000] [--longest 1600] [--retrieved 20] [--groups 2] [--out FILE] ...

RUN holds the prepared scaffold of the scene. Every group gets one attempt (no ladder): retrieval, seeds by verified
inliers, support, registration in a free frame, similarity, adjustment at the reference, verdict. Truth is read to
score alone: `right` counts verified matches of street with aerial photos that the true poses agree with, within four
times the matcher's sigma, and `among raw` the same of all matches before the verification.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from kept import Outcome, made_here, write_lines
from scenes import Scene, config_for, load_scene, surface_at

from skyanchor.anchors.config import AnchorConfig
from skyanchor.anchors.frames import GroundFrames
from skyanchor.anchors.paper_route.mixed import PixelPairs
from skyanchor.anchors.paper_route.route import apart_m, match_mixed, settle_matched
from skyanchor.anchors.paper_route.support import Supported, support_of
from skyanchor.anchors.search import Search
from skyanchor.anchors.shape.choice import group_shape
from skyanchor.anchors.shape.incremental import LocalGroup
from skyanchor.backends.names import choice_named
from skyanchor.errors import BackendError
from skyanchor.geometry import cameras, rigid
from skyanchor.matching import AnyMatcher
from skyanchor.types import Camera, Floats, Pose, Refusal

AGREE = 4.0
"""A match is right when its pixels are this near the true epipolar line, sigmas."""


def epipolar_px(xy: tuple[Floats, Floats], lenses: tuple[Camera, Camera], b_from_a: Pose) -> Floats:
    """(N,), Sampson error of pixels (N, 2) of two photos, in units of the focal lengths' mean."""
    a, b = (cameras.unproject(lens, at) for lens, at in zip(lenses, xy, strict=True))
    essential = rigid.skew(b_from_a.translation) @ b_from_a.rotation
    lines_b, lines_a = a @ essential.T, b @ essential
    error = np.abs((b * lines_b).sum(1)) / np.sqrt((lines_b[:, :2] ** 2).sum(1) + (lines_a[:, :2] ** 2).sum(1))
    return error * 0.5 * sum(cameras.focal_px(lens) for lens in lenses)


@dataclass(frozen=True, eq=False)
class Looked:
    """One group with one matcher."""

    search: Search
    local: LocalGroup
    support: Supported
    true: tuple[Pose, ...]

    def right(self, k: int, a: int, xy: tuple[Floats, Floats]) -> Floats:
        """(N,), whether pixels of frame k and of the a-th aerial photo can show the same spot."""
        index, view = self.support.index, int(self.support.views[a])
        lenses = cameras.undistorted(self.search.camera), index.atlas.photo_camera(view)
        b_from_a = self.search.prepared.scaffold.views[view].cam_from_world @ self.true[k].inverse
        sigma = max(self.support.pairs.frames[k].sigma_px, index.features[view].sigma_px)
        return epipolar_px(xy, lenses, b_from_a) < AGREE * sigma


def matches_told(looked: Looked, paired: PixelPairs) -> dict[str, float]:
    """Pairs of street and aerial photos that were verified, their matches, and how many of those are right."""
    frames, index = len(looked.local.frames), looked.support.index
    cross = {(i, j - frames): xy for (i, j), xy in paired.items() if i < frames <= j}
    right = sum(int(looked.right(k, a, xy).sum()) for (k, a), xy in cross.items())
    raw = [
        looked.right(k, a, (found.xy_a, found.xy_b))
        for k, frame in enumerate(looked.support.pairs.frames)
        for a, j in enumerate(looked.support.views)
        for found in [index.matcher.match_extracted(frame, index.features[int(j)])]
        if len(found.xy_a)
    ]
    count = sum(len(xy[0]) for xy in cross.values())
    return {
        "aerial photos": len(looked.support.views),
        "pairs tried": frames * len(looked.support.views),
        "pairs verified": len(cross),
        "matches": count,
        "right": right,
        "among raw": float(np.concatenate(raw).mean()) if raw else float("nan"),
    }


def group_row(search: Search, frames: tuple[int, ...], scene: Scene) -> tuple[str, dict[str, float]]:
    """(how it ended, figures) of one group."""
    begun = time.process_time()
    local = group_shape(search.frames, frames, search.camera, search.config)
    if isinstance(local, Refusal):
        return f"{local.reason.value}: {local.detail}", {}
    support = support_of(search, local)
    if isinstance(support, Refusal):
        return f"{support.reason.value}: {support.detail}", {"CPU s": time.process_time() - begun}
    paired = match_mixed(search, local, support)
    done = settle_matched(search, local, support, paired)
    spent = time.process_time() - begun
    true = tuple(scene.true[scene.sequence.frames[f].name] for f in local.frames)
    figures = matches_told(Looked(search, local, support, true), paired)
    if done.done is not None:
        figures["off m"] = apart_m(done.done.cams_from_world, true)
        figures["odds"], figures["routes m"] = done.figures.log_odds, done.figures.routes_m
    why = "accepted" if done.refusal is None else f"{done.refusal.reason.value}: {done.refusal.detail}"
    return why, figures | {"CPU s": spent}


def settings(base: AnchorConfig, name: str, given: argparse.Namespace) -> AnchorConfig:
    """The paper's route with a matcher."""
    chosen: AnyMatcher = choice_named(AnyMatcher, name, "--matchers")
    chosen.check()
    sized = replace(chosen, keypoints=given.keypoints, longest=given.longest)
    verify = replace(base.paper.verify, least_inliers=given.least_inliers, least_ratio=given.least_ratio)
    paper = replace(base.paper, matcher=sized, retrieved=given.retrieved, verify=verify)
    return replace(base, route="paper", paper=paper)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scene", type=Path)
    parser.add_argument("--run", type=Path, required=True, help="run folder or prepared scaffold")
    parser.add_argument("--ground", default="ground")
    parser.add_argument("--matchers", default="sift,x-feat,x-feat-star,lighter-glue")
    parser.add_argument("--keypoints", type=int, default=4000)
    parser.add_argument("--longest", type=int, default=1600, help="pixels")
    parser.add_argument("--retrieved", type=int, default=20, help="aerial candidates per frame")
    parser.add_argument("--least-inliers", type=int, default=30, help="of two verified photos")
    parser.add_argument("--least-ratio", type=float, default=0.3, help="of their matches")
    parser.add_argument("--groups", type=int, default=2, help="the first ones of the walk")
    parser.add_argument("--out", type=Path, help="JSON lines")
    given = parser.parse_args()
    scene, base = load_scene(given.scene, given.ground), config_for(given.scene / given.ground).anchors
    prepared, rows = surface_at(given.run), []
    for name in given.matchers.split(","):
        try:
            config = settings(base, name, given)
        except BackendError as error:
            print(f"{name}: {error}", flush=True)
            continue
        for group in scene.sequence.groups[: given.groups]:
            search = Search(prepared, GroundFrames(scene.sequence), config)
            why, figures = group_row(search, group.frames, scene)
            rows.append(Outcome(f"{name}, group {group.index}: {why}", {k: round(v, 4) for k, v in figures.items()}))
            told = ", ".join(f"{key} {value:g}" for key, value in rows[-1].figures.items())
            print(f"{rows[-1].of} ({told})", flush=True)
            if given.out:
                write_lines(given.out, made_here(), rows)


if __name__ == "__main__":
    main()
