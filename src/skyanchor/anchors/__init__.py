"""Cross-view anchor localisation: bridges, places, ground-first shape, group pose, fixed-aerial adjustment, verdict."""

from skyanchor.anchors.config import AnchorConfig
from skyanchor.anchors.places import Near

__all__ = ["AnchorConfig", "Near"]
