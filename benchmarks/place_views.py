"""Right matches between the frames of walks and the described views nearest to them, by where their directions begin.

    python benchmarks/place_views.py SCENE SCAFFOLD [--starts 0 30 street] [--headings 6] [--every 8]

SCENE holds walks with truth, SCAFFOLD is prepared. A start is an angle from the first axis of the map, degrees, as if
the scene were turned the other way by it, or `street`. At the three places nearest to a frame the view that looks most
as it does is described and matched with it; a match is right when its point falls within 1/80 of the picture's width of
the keypoint at the frame's true pose. The best of the three counts.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
from scenes import config_for

from skyanchor.anchors.frames import GroundFrames
from skyanchor.anchors.place_description import Describer, choose_nodes, described_view, view_camera
from skyanchor.anchors.place_index import PlaceView
from skyanchor.bridges.ground import Ground
from skyanchor.bridges.surface import Surface
from skyanchor.bridges.views import looking, nodes_at, render_bridge
from skyanchor.evaluation.truth import read_truth
from skyanchor.geometry import cameras, rigid
from skyanchor.matching import Features, match_alike
from skyanchor.run import prepared as parts
from skyanchor.run.prepared import find_prepared
from skyanchor.sequence import load_sequence
from skyanchor.stages.places import like
from skyanchor.types import Camera, Floats, Pose


def headings_at(place: Floats, ground: Ground, describer: Describer, start: str) -> Floats:
    """(H,), directions of the views from a place, radians."""
    nodes = describer.config.nodes
    if start == "street":
        return np.array([node.heading for node in nodes_at(place[None], ground, nodes)])
    return np.radians(float(start)) + np.arange(nodes.headings) * 2.0 * np.pi / nodes.headings


def view_like(place: Floats, towards: float, ground: Ground, describer: Describer, start: str) -> PlaceView | None:
    """The described view from a place that looks most nearly in a direction."""
    headings = headings_at(place, ground, describer, start)
    nearest = headings[np.argmax(np.cos(headings - towards))]
    node = looking(ground, place, float(nearest), describer.config.nodes.pitch_deg)
    bridge = render_bridge(describer.atlas, view_camera(describer.camera, describer.config.width), node.cam_from_world)
    return described_view(node, bridge, describer.matcher, describer.config.least_painted, None)


def right_matches(features: Features, view: PlaceView | None, camera: Camera, pose: Pose, cosine: float) -> int:
    """Matches of a frame with a view that its true pose bears out."""
    if view is None:
        return 0
    pairs, _ = match_alike(features.descriptors, view.descriptors, cosine)
    local = pose(view.points[pairs[:, 1]].astype(np.float64))
    xy = cameras.project(cameras.undistorted(camera), local)
    off = np.linalg.norm(xy - features.xy[pairs[:, 0]] * (camera.width / features.width), axis=1)
    return int(((off < camera.width / 80.0) & (local[:, 2] > 0)).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scene", type=Path)
    parser.add_argument("scaffold", type=Path)
    parser.add_argument("--starts", nargs="+", default=["0", "30", "street"])
    parser.add_argument("--headings", type=int, default=6)
    parser.add_argument("--every", type=int, default=8)
    given = parser.parse_args()
    held = find_prepared(given.scaffold)
    assert held is not None, f"{given.scaffold} holds no prepared scaffold"
    scaffold, made = held.scaffold(), held.needed(parts.SURFACE)
    surface, ground = made.load(parts.SURFACE_FILE, Surface), made.load(parts.GROUND_FILE, Ground)
    for walk in sorted(path.parent for path in given.scene.glob("ground*/images")):
        config = config_for(walk)
        places = config.anchors.places
        places = replace(places, nodes=replace(places.nodes, headings=given.headings))
        sequence = load_sequence(walk / "images", config.sequence)
        true, frames = read_truth(walk / "truth", scaffold.georef.offset), GroundFrames(sequence)
        describer = Describer(scaffold, surface, like(sequence.camera, places.width), places)
        free = np.array([node.eye for node in choose_nodes(ground, scaffold.points, places)])[:: given.headings]
        for start in given.starts:
            found = []
            for k in range(2, len(sequence.frames), given.every):
                pose, features = true[sequence.frames[k].name], frames.features(k, places.features)
                ahead = ground.across @ pose.rotation[2]
                near = np.argsort(np.linalg.norm(free - rigid.centre_in_world(pose), axis=1))[:3]
                views = [view_like(free[p], float(np.arctan2(*ahead[::-1])), ground, describer, start) for p in near]
                right = [right_matches(features, view, sequence.camera, pose, places.least_cosine) for view in views]
                found.append(max(right))
            print(f"{walk.name} from {start}: mean {np.mean(found):.0f} right matches, {found}", flush=True)


if __name__ == "__main__":
    main()
