"""The page's words: numbers with units, durations, names of figures, and the glossary that explains them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from types import MappingProxyType

_UNITS = MappingProxyType({"m": "m", "deg": "°", "px": "px", "s": "s"})


@dataclass(frozen=True)
class Entry:
    """A word and what it means here."""

    word: str
    meaning: str


SHORTENED = "…/"
"""Stands for the folders that a path begins with."""
GLOSSARY = (
    Entry(
        "located",
        "The photo has a position and a direction in the aerial model. Papers say registered or posed. A photo that "
        "could not be located gets none, and the reason is told.",
    ),
    Entry(
        "anchor group",
        "A few photos in a row that were found in the aerial photos themselves. They tie the walk to the aerial model.",
    ),
    Entry(
        "anchor, keyframe, filled in",
        "How a photo was located: as part of an anchor group; as one of the photos that the map of the walk is built "
        "of; from the located photos around it.",
    ),
    Entry(
        "95 % within",
        "The radius of a ball around the stated camera position that holds the true one in 95 of 100 cases: 2.80 "
        "standard deviations. For the whole walk: 95 % of all positions are expected within it.",
    ),
    Entry(
        "standard deviation (sigma)",
        "Of a camera position along one axis, the worst one, in metres. It covers everything: the photo's own "
        "measurement and the shift that all photos share because the anchors may be off together. 68 % of the errors "
        "along that axis are smaller. On scenes with known truth it proved right or too large.",
    ),
    Entry("walk", "The street photos or the video, in the order they were taken. A stretch of it is a submap."),
    Entry(
        "closure error",
        "How far a stretch of the walk had drifted when it arrived at its last anchors, before it was held to them.",
    ),
    Entry(
        "held out",
        "Photos that took no part in the work and are used only to judge it: what is drawn is compared with them.",
    ),
    Entry(
        "PSNR",
        "How much a drawn picture is like the photo, in decibels (dB). 20 is recognisable, 25 good, above 30 hard to "
        "tell from the photo. SSIM says the same from 0 to 1.",
    ),
    Entry(
        "ATE, RPE",
        "Errors against true positions, where these are known: of the whole walk, and from one photo to the next "
        "(RPE-t in metres, RPE-r in degrees). Nothing is aligned beforehand.",
    ),
    Entry("splats", "Small coloured blobs (Gaussians) that make up the 3D scene."),
    Entry(
        "digest",
        "A checksum of a file's contents. The same digest means the same data.",
    ),
    Entry(SHORTENED, "Folders of the computer that did the work, which say nothing to others, are left out of paths."),
)
"""Every word of the page that a client may not know."""

SUPPORT = MappingProxyType(
    {"anchored": "anchor", "keyframe": "keyframe", "resected": "filled in", "missing": "not located"}
)
"""How a photo was located."""

FIGURES = MappingProxyType(
    {
        "ate_m": "ATE [m]",
        "rpe_t_m": "RPE-t [m]",
        "rpe_r_deg": "RPE-r [°]",
        "registered": "photos located",
        "total": "photos in all",
        "frames": "photos in all",
        "support": "agreeing places",
        "ratio": "share that agrees",
        "frame_share": "share of photos with support",
        "aerial_views": "aerial photos",
        "many_view_share": "share seen in several aerial photos",
        "spread": "share of the picture covered",
        "fronts": "fronts to recognise [cells of a photo]",
        "confirmed": "share of the fronts that is recognised",
        "ground": "ground to recognise [cells of a photo]",
        "ground_confirmed": "share of the ground that is recognised",
        "edges": "fronts with edges [cells of a photo]",
        "edges_met": "share of them whose edges lie where the model has them",
        "exact": "matches of the last look",
        "exact_share": "share that agrees at the last look",
        "log_odds": "odds against a look-alike [powers of ten]",
        "reprojection": "residual in street photos [sigmas of the matcher]",
        "aerial_reprojection": "residual in aerial photos [sigmas of the matcher]",
        "tilt_deg": "camera tilt [°]",
        "height_m": "camera height [m]",
        "bend": "bend of the path [share of its length]",
        "turn_deg": "turn between photos [°]",
        "halves_m": "two halves of the evidence apart [m]",
        "halves_deg": "two halves of the evidence apart [°]",
        "halves_scale": "two halves of the evidence apart [share of the scale]",
        "sigma_m": "sigma of the adjustment alone [m]",
        "step_m": "distance between photos [m]",
        "routes_m": "bridge views and the paper's way apart [m]",
        "overlap_keyframes": "photos of earlier walks",
        "overlap_support": "places that agree with them",
        "overlap_carried": "stands on earlier walks alone [1 = yes]",
        "overlap_metres": "flight and earlier walks apart [m]",
        "overlap_degrees": "flight and earlier walks apart [°]",
        "overlap_scale": "flight and earlier walks apart [share of the scale]",
        "overlap_position_sigmas": "position apart [stated sigmas]",
        "overlap_turn_sigmas": "turn apart [stated sigmas]",
        "overlap_scale_sigmas": "scale apart [stated sigmas]",
        "closure_m": "closure error [m]",
        "closure_deg": "closure error [°]",
        "over_m": "over a way of [m]",
        "anchored": "anchors",
        "keyframe": "keyframes",
        "resected": "filled in",
        "missing": "not located",
        "points": "3D points",
        "focal_px": "focal length [px]",
        "k1": "radial distortion k1",
        "k2": "radial distortion k2",
        "psnr before": "PSNR before [dB]",
        "psnr after": "PSNR after [dB]",
        "ssim before": "SSIM before",
        "ssim after": "SSIM after",
        "position_sigma_m": "standard deviation per axis, median [m]",
        "radius_95_m": "95 % within [m]",
    }
)
"""Figures by the names that results have; others are named by their own words."""


TABLES = MappingProxyType(
    {
        "anchors": "Anchors against the truth",
        "trajectory": "The walk against the truth",
        "walk": "The walk",
        "render from the street": "Drawn from the street",
        "render from the air": "Drawn from the air",
    }
)
"""Headings of tables of figures."""
UNITS = MappingProxyType({"frame": "photo"})
"""What stages count, by the names that results have."""


WORK = MappingProxyType(
    {
        "1-scaffold/depth": "measures how far away everything in the aerial photos is",
        "1-scaffold/surface": "joins these distances into the surface of the scene",
        "1-scaffold/windows": "cuts large aerial photos, to show the street as fine as they do",
        "1-scaffold/places": "describes the places where a walk may have been",
        "1-scaffold/splats": "makes the aerial photos a 3D scene",
        "2-anchors": "finds groups of street photos in the aerial photos",
        "3-trajectory": "locates all street photos between them",
        "4-scene": "adds the street to the 3D scene",
        "5-mesh": "makes the street a mesh",
        "6-changes": "finds what changed since earlier walks",
    }
)
"""What the stages do."""


def stage_name(name: str) -> str:
    """A stage without what tells its variants apart: 1-scaffold/places/72x45-e973c49c is 1-scaffold/places."""
    return "/".join(name.split("/")[:2])


def work_of(stage: str) -> str:
    """What a stage does; empty for one that nobody described."""
    return WORK.get(stage_name(stage), "")


def label(name: str) -> str:
    """A figure's name for people, with its unit: `drift_m` is drift [m]."""
    if name in FIGURES:
        return FIGURES[name]
    stem, _, ending = name.rpartition("_")
    return f"{plain(stem)} [{_UNITS[ending]}]" if stem and ending in _UNITS else plain(name)


def plain(name: str) -> str:
    """A name of the code as words."""
    return re.sub(r"[_-]", " ", name)


def number(value: float | None, digits: int = 3) -> str:
    """Fewer decimals the larger it is; a dash for what was not measured."""
    if value is None or math.isnan(value):
        return "–"
    if value == int(value) if math.isfinite(value) else False:
        return f"{int(value):,}"
    size = abs(value)
    return f"{value:.{1 if size >= 100 else 2 if size >= 10 else digits}f}"


def length(metres: float) -> str:
    """A length as one would say it: 4.4 mm, 8.3 cm, 40 cm, 12 m."""
    if math.isnan(metres):
        return "–"
    if metres < 0.995:
        small = f"{1000 * metres:.1f} mm" if metres < 0.00995 else f"{100 * metres:.1f} cm"
        return small if metres < 0.0995 else f"{100 * metres:.0f} cm"
    return f"{metres:.1f} m" if metres < 9.95 else f"{metres:.0f} m"


def duration(seconds: float) -> str:
    """A time as one would say it: 8.4 s, 21 min 37 s, 3 h 5 min."""
    if seconds < 59.95:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min"


def ranges(numbers: Iterable[int]) -> str:
    """Ascending numbers with runs drawn together: 1–4, 7."""
    parts: list[list[int]] = []
    for n in numbers:
        if parts and parts[-1][1] == n - 1:
            parts[-1][1] = n
        else:
            parts.append([n, n])
    return ", ".join(span(a, b) for a, b in parts)


def span(first: int, last: int) -> str:
    """First to last, or the one."""
    return f"{first}" if first == last else f"{first}–{last}"


def counted(count: int, word: str) -> str:
    """1 photo, 2 photos."""
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"
