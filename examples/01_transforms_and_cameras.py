"""Where a pixel of a street photo lies in the aerial frame: python examples/01_transforms_and_cameras.py RUN

RUN is a run folder with a trajectory, as `skyanchor update` or `skyanchor trajectory` leaves it.
"""

from __future__ import annotations

import sys

import numpy as np

import skyanchor
from skyanchor.geometry import cameras


def main(folder: str) -> None:
    run = skyanchor.open_run(folder)
    tracks, camera = run.trajectory.tracks, run.camera
    frame = int(np.bincount(tracks.image).argmax())  # the one that sees most points
    cam_from_world = run.poses[run.names[frame]]
    print(f"{run.names[frame]} was taken at", np.round(cam_from_world.inverse.translation, 3))

    seen = tracks.image == frame
    points_in_world = run.points.points[tracks.point[seen]]
    pixels = cameras.project(camera, cam_from_world(points_in_world))
    off = np.linalg.norm(pixels - tracks.xy[seen], axis=1)
    print(f"it sees {len(off)} street points, half of them within {np.median(off):.2f} px of where its pose puts them")

    pixel = tracks.xy[seen][:1]
    depth = cam_from_world(points_in_world[:1])[0, 2]
    again = cam_from_world.inverse(depth * cameras.unproject(camera, pixel))
    print(f"pixel {np.round(pixel[0], 1)} at {depth:.2f} m is", np.round(again[0], 3), "in the aerial frame")

    first, last = (list(run.poses.values())[k] for k in (0, -1))
    last_from_first = last @ first.inverse
    print(f"from the first photo to the last: {np.linalg.norm(last_from_first.translation):.2f} m")


if __name__ == "__main__":
    if len(sys.argv) < 2 or "--help" in sys.argv:
        print(__doc__)
    else:
        main(sys.argv[1])
