"""Dense depth at known poses and its fusion to a coloured cloud: aerial geometry, ground points, mesh.

Per photo: `estimate_depth` measures (sweep, PatchMatch), `make_consistent` confirms and averages over the neighbours'
measured maps, `complete` closes the holes and marks them. `fuse` turns the maps into one cloud.
"""

from skyanchor.stereo.backends import AnyStereo, NumbaStereo, Photometry, RefineConfig, SweepConfig, TorchStereo
from skyanchor.stereo.completion import CompletionConfig, complete
from skyanchor.stereo.consistency import ConsistencyConfig, make_consistent
from skyanchor.stereo.estimate import StereoConfig, estimate_depth
from skyanchor.stereo.fusion import FusionConfig, fuse, points_of
from skyanchor.stereo.sources import SourceConfig, choose_neighbours, choose_sources, depth_range, points_in_view
from skyanchor.stereo.storage import DepthFolder, depth_path, load_depth, save_depth

__all__ = [
    "AnyStereo",
    "CompletionConfig",
    "ConsistencyConfig",
    "DepthFolder",
    "FusionConfig",
    "NumbaStereo",
    "Photometry",
    "RefineConfig",
    "SourceConfig",
    "StereoConfig",
    "SweepConfig",
    "TorchStereo",
    "choose_neighbours",
    "choose_sources",
    "complete",
    "depth_path",
    "depth_range",
    "estimate_depth",
    "fuse",
    "load_depth",
    "make_consistent",
    "points_in_view",
    "points_of",
    "save_depth",
]
