"""Features, matchers and retrieval behind one protocol.

protocol (what a matcher can do) and choices (which there are) first; features (keypoints, and their cache), neighbours
(mutual nearest ones), verify (two views). Retrieval: retrieval (VLAD, fitted to the scene), global_descriptors (what
there is besides). Every other file adapts one matcher or descriptor, or a part of a network.

May touch: the foundation, backends, photos.
"""

from skyanchor.matching.choices import (
    AnyMatcher,
    AnySparse,
    Disk,
    LighterGlue,
    LightGlue,
    Mast3r,
    Own,
    Roma,
    Sift,
    Vismatch,
    XFeat,
    XFeatStar,
    through_shade,
)
from skyanchor.matching.features import FeatureCache, Features, strongest
from skyanchor.matching.neighbours import match_alike, match_features
from skyanchor.matching.protocol import Matcher, SparseMatcher
from skyanchor.matching.verify import TwoView, VerifyConfig, verify

__all__ = [
    "AnyMatcher",
    "AnySparse",
    "Disk",
    "FeatureCache",
    "Features",
    "LightGlue",
    "LighterGlue",
    "Mast3r",
    "Matcher",
    "Own",
    "Roma",
    "Sift",
    "SparseMatcher",
    "TwoView",
    "VerifyConfig",
    "Vismatch",
    "XFeat",
    "XFeatStar",
    "match_alike",
    "match_features",
    "strongest",
    "through_shade",
    "verify",
]
