"""The public scenes of the paper: which images are which, how the walk is cut, and the figures to compare with."""

from __future__ import annotations

from dataclasses import dataclass, field

from skyanchor.run.metrics import ImageMetrics, PoseMetrics

WHOLE = 10_000
"""Longer than any walk: every walk is one submap."""


@dataclass(frozen=True)
class Choice:
    """Which images of a joint model are taken, by patterns of their names: `*` and `?` as in a shell, without case.

    A pattern that begins with @ names a text file with one image name, or pattern, per line.
    """

    aerial: tuple[str, ...] = ("*aerial*",)
    """The flight."""
    ground: tuple[str, ...] = ("*street*", "*ground*")
    """The walk, among those that are not of the flight; in natural order of the names."""
    drop: tuple[str, ...] = ()
    """Images that link flight and walk: taken by neither."""


@dataclass(frozen=True)
class PaperRow:
    """What the paper says of a scene."""

    anchors: PoseMetrics
    trajectory: PoseMetrics | None = None
    aerial: ImageMetrics | None = None
    ground: ImageMetrics | None = None


@dataclass(frozen=True)
class PaperScene:
    """One scene of the paper."""

    title: str
    aerial: int
    """Aerial images in the paper."""
    ground: int
    """Street images in the paper."""
    submap: int
    """Frames per submap."""
    row: PaperRow
    choice: Choice = field(default_factory=Choice)
    segments: int = 1
    """Walks that do not join."""


def _poses(registered: int, total: int, ate: float, rpe_t: float, rpe_r: float) -> PoseMetrics:
    return PoseMetrics(registered, total, ate, rpe_t, rpe_r)


def _images(ssim: float, psnr: float, lpips: float) -> ImageMetrics:
    return ImageMetrics(psnr, ssim, lpips)


HORIZONGS = {
    "park": PaperScene(
        "HorizonGS-Park",
        690,
        885,
        100,
        PaperRow(
            _poses(108, 108, 0.17, 0.06, 0.16),
            _poses(885, 885, 0.19, 0.03, 0.03),
            _images(0.88, 26.33, 0.18),
            _images(0.82, 26.20, 0.21),
        ),
        Choice(("*aerial*",), ("*street*",)),
    ),
    "road": PaperScene(
        "HorizonGS-Road",
        1225,
        158,
        50,
        PaperRow(_poses(36, 36, 0.10, 0.03, 0.08)),
        Choice(("*aerial*",), ("*street*",)),
    ),
}
ISPRS = {
    "rathaus": PaperScene(
        "ISPRS-Rathaus",
        445,
        394,
        WHOLE,
        PaperRow(
            _poses(36, 36, 0.14, 0.02, 0.07),
            _poses(394, 394, 0.19, 0.026, 0.06),
            _images(0.91, 28.37, 0.11),
            _images(0.83, 24.68, 0.14),
        ),
        Choice(("*uav*", "*aerial*"), ("*terrestrial*", "*ground*")),
        segments=3,
    ),
    "stadthaus": PaperScene(
        "ISPRS-Stadthaus",
        345,
        263,
        50,
        PaperRow(_poses(60, 60, 0.30, 0.08, 0.10)),
        Choice(("*uav*", "*aerial*"), ("*terrestrial*", "*ground*")),
    ),
    "zeche": PaperScene(
        "ISPRS-Zeche",
        116,
        106,
        50,
        PaperRow(
            _poses(24, 24, 0.17, 0.018, 0.08),
            None,
            _images(0.90, 27.21, 0.09),
            _images(0.90, 27.95, 0.08),
        ),
        Choice(("*uav*", "*aerial*"), ("*terrestrial*", "*ground*")),
    ),
}
ALOG = {
    "uni10k": PaperScene(
        "ALoG-Uni10k",
        512,
        1022,
        210,
        PaperRow(_poses(60, 60, 0.21, 0.04, 0.21), _poses(1022, 1022, 0.23, 0.65, 0.40)),
        Choice(("*aerial*", "*drone*"), ("*ground*",)),
    ),
}
SCENES = {"horizongs": HORIZONGS, "isprs": ISPRS, "alog": ALOG}
"""By the names that the command line has for them. The paper's own campus is not published as we write."""
