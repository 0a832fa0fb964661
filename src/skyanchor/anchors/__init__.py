"""1. Cross-view anchor localisation: places, shape/, place and group (one group's way), walk (all groups), verdict."""

from skyanchor.anchors.config import AnchorConfig
from skyanchor.anchors.priors import Area, Near

__all__ = ["AnchorConfig", "Area", "Near"]
