"""Dense depth at known poses: of the aerial photos, and of the street once it has poses.

Per photo: `estimate_depth` measures (sweep, PatchMatch), `make_consistent` confirms and averages over the neighbours'
measured maps, `complete` closes the holes and marks them.

May touch: the foundation, backends, photos.
"""

from skyanchor.stereo.backends import AnyStereo, NumbaStereo, Photometry, RefineConfig, SweepConfig, TritonStereo
from skyanchor.stereo.completion import CompletionConfig, complete
from skyanchor.stereo.consistency import ConsistencyConfig, make_consistent
from skyanchor.stereo.estimate import StereoConfig, estimate_depth
from skyanchor.stereo.sources import SourceConfig, choose_neighbours, choose_sources, depth_range, points_in_view
from skyanchor.stereo.storage import DepthFolder, depth_files, depth_path, load_depth, save_depth

__all__ = [
    "AnyStereo",
    "CompletionConfig",
    "ConsistencyConfig",
    "DepthFolder",
    "NumbaStereo",
    "Photometry",
    "RefineConfig",
    "SourceConfig",
    "StereoConfig",
    "SweepConfig",
    "TritonStereo",
    "choose_neighbours",
    "choose_sources",
    "complete",
    "depth_files",
    "depth_path",
    "depth_range",
    "estimate_depth",
    "load_depth",
    "make_consistent",
    "points_in_view",
    "save_depth",
]
