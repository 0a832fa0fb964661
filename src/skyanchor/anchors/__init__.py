"""Cross-view anchor localisation: places, shape/, group (one group's way), walk (all), direct (the paper's way)."""

from skyanchor.anchors.config import AnchorConfig
from skyanchor.anchors.priors import Area, Near

__all__ = ["AnchorConfig", "Area", "Near"]
