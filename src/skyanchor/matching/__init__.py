"""Features, matchers and retrieval behind one protocol. May touch: the foundation, backends, photos."""

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
