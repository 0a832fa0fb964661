"""Cross-view anchor localisation: bridges, places, ground-first shape, group pose, fixed-aerial adjustment, verdict."""

from skyanchor.anchors.config import AnchorConfig
from skyanchor.anchors.priors import Area, Near

__all__ = ["AnchorConfig", "Area", "Near"]
