"""The aerial model as users bring it: loading, frame check, georeference, visibility graph.

May touch: the foundation, photos, stereo, gaussians, bridges.
"""

from skyanchor.scaffold.loading import ScaffoldConfig, load_scaffold
from skyanchor.scaffold.orientation import OrientationConfig
from skyanchor.scaffold.summary import CameraSummary, ScaffoldSummary, describe, warnings_of
from skyanchor.scaffold.visibility import VisibilityConfig, visibility_graph
