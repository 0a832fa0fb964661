"""What crosses a stage boundary: frozen values made of numbers, names and numpy arrays. May touch: nothing of ours.

Frames and units are in CONVENTIONS.md: `b_from_a` maps coordinates of frame a into frame b, cameras are OpenCV
(x right, y down, z forward), the centre of the top-left pixel is (0.5, 0.5), quaternions are wxyz, lengths are metres.

basics (types of arrays) -> geometry (transforms, cameras, planes) -> images (photos, matches, depth) -> scaffold (the
flight), sequence (the walk) -> refusals (why something got no pose), anchors (what stage 2 finds), trajectory (what
stage 3 finds). Each may name what stands before it; everybody else takes the names from here.
"""

from skyanchor.types.anchors import (
    AnchorPose,
    Anchors,
    CrossView,
    GroupFigures,
    LensEstimate,
    LocalisedGroup,
    Overlap,
    RadialEstimate,
    TriedPlace,
)
from skyanchor.types.basics import QUIET, Bools, Bytes, Floats, Floats32, Ints
from skyanchor.types.geometry import Camera, Plane, Pose, Similarity
from skyanchor.types.images import Cloud, DepthMap, Matches, Photo, View
from skyanchor.types.refusals import Reason, Refusal
from skyanchor.types.scaffold import Georeference, Scaffold, Tracks, UpSource, VisibilityGraph
from skyanchor.types.sequence import AnchorGroup, Frame, Sequence, Submap
from skyanchor.types.trajectory import PosedFrame, Support, Trajectory

__all__ = [
    "QUIET",
    "AnchorGroup",
    "AnchorPose",
    "Anchors",
    "Bools",
    "Bytes",
    "Camera",
    "Cloud",
    "CrossView",
    "DepthMap",
    "Floats",
    "Floats32",
    "Frame",
    "Georeference",
    "GroupFigures",
    "Ints",
    "LensEstimate",
    "LocalisedGroup",
    "Matches",
    "Overlap",
    "Photo",
    "Plane",
    "Pose",
    "PosedFrame",
    "RadialEstimate",
    "Reason",
    "Refusal",
    "Scaffold",
    "Sequence",
    "Similarity",
    "Submap",
    "Support",
    "Tracks",
    "Trajectory",
    "TriedPlace",
    "UpSource",
    "View",
    "VisibilityGraph",
]
