"""Dense depth at known poses and its fusion to a coloured cloud: aerial geometry, ground points, mesh."""

from skyanchor.stereo.storage import depth_path, load_depth, save_depth

__all__ = ["depth_path", "load_depth", "save_depth"]
