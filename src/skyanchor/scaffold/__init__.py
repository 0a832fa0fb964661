"""The aerial model as users bring it: loading, frame check, georeference, visibility graph.

- *Read and written*: loading (the whole, checked); colmap_files (a model on disk), colmap_model (what it
  holds), colmap_binary, colmap_text, colmap_rigs, checked_file; photo_files; write_back (models in the user's own
  coordinates); summary (what was understood, for people).
- *Where it lies*: georeference, orientation (up and ground), gps_check (a walk's GPS on it).
- *Its photos*: observed_patches (whether they are those of the model's points), visibility (which see the same ground),
  windows (parts of large ones).
- *Its Gaussians*: frame_check, frame_registration (whether given ones fit, and where they lie else); seeding, training,
  blocks, voxels (made here).

May touch: the foundation, photos, stereo, gaussians, bridges.
"""

from skyanchor.scaffold.loading import ScaffoldConfig, load_scaffold
from skyanchor.scaffold.orientation import OrientationConfig
from skyanchor.scaffold.summary import CameraSummary, ScaffoldSummary, describe, warnings_of
from skyanchor.scaffold.visibility import VisibilityConfig, visibility_graph
