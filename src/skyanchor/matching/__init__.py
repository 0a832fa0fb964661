"""Features, matchers and retrieval behind one protocol."""

from skyanchor.matching.choices import AnyMatcher, AnySparse, LightGlue, Sift, XFeat, XFeatStar
from skyanchor.matching.features import FeatureCache, Features
from skyanchor.matching.neighbours import match_features
from skyanchor.matching.protocol import Matcher, SparseMatcher
from skyanchor.matching.verify import TwoView, VerifyConfig, verify

__all__ = [
    "AnyMatcher",
    "AnySparse",
    "FeatureCache",
    "Features",
    "LightGlue",
    "Matcher",
    "Sift",
    "SparseMatcher",
    "TwoView",
    "VerifyConfig",
    "XFeat",
    "XFeatStar",
    "match_features",
    "verify",
]
