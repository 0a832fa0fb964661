"""Frames and cameras: where a pixel of a street photo lies in the aerial frame."""

from __future__ import annotations

import numpy as np

from skyanchor.geometry import cameras, rigid

UP = np.array([0.0, 0.0, 1.0])


def main() -> None:
    camera = cameras.pinhole(1280, 720, focal=914.0)
    cam_from_world = rigid.look_at(np.array([12.0, -3.0, 1.7]), np.array([12.0, 10.0, 1.7]), UP)
    ray_in_cam = cameras.unproject(camera, np.array([[640.0, 360.0]]))
    point_in_world = cam_from_world.inverse(8.0 * ray_in_cam)
    print("8 m along the optical axis lies at", np.round(point_in_world[0], 3))
    print("and is seen again at pixel", cameras.project(camera, cam_from_world(point_in_world))[0])


if __name__ == "__main__":
    main()
