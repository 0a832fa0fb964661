"""When two days contradict each other."""

from __future__ import annotations

from dataclasses import dataclass, field

from skyanchor.bounds import Few, NotNegative, Positive, Share


@dataclass(frozen=True)
class LookConfig:
    """How photos are compared on a surface."""

    photos: Few = 2
    """Photos of its own day that one is compared with ..."""
    other_photos: Few = 3
    """... and of other days ..."""
    reach_m: Positive = 4.0
    """... taken at most so far from it, metres ..."""
    cosine: Share = 0.9
    """... and looking the same way: least cosine of the angle between."""
    apart_m: Positive = 1.0
    """Photos less far apart see no depth, metres."""
    window_px: Few = 13
    """Side of the windows that are compared, pixels; slow changes of light are those over a third of it and more."""
    most_contrast: Positive = 0.2
    """Contrast beyond which it counts no more, log grey: the edge of a shadow does not outweigh the wall."""
    least_cosine: Share = 0.25
    """How squarely a photo must see a surface to say that it altered: a road ahead is squeezed to a few rows."""
    least_contrast: Positive = 0.025
    """Contrast below which a window says nothing, log grey, root mean square."""
    agree: Share = 0.6
    """Correlation from which photos agree ..."""
    disagree: Share = 0.35
    """... and up to which they do not; between them nothing is said."""
    margin_m: NotNegative = 0.12
    """Depth of another photo is of the same surface within this, metres ..."""
    margin_px: NotNegative = 10.0
    """... plus this many pixel footprints, z / focal."""


@dataclass(frozen=True)
class RivalConfig:
    """How the photos of a day are asked which of two surfaces they show."""

    photos: Few = 4
    """Photos of its own day that one is compared with ..."""
    apart_m: Positive = 0.6
    """... taken at least so far from it, metres ..."""
    best: Few = 2
    """... of which so many count, those that fit best: something may stand before the surface in others."""
    other_maps: Few = 4
    """Depth maps of the other day, the nearest ones, that say where its surface is."""
    least_pixels: Few = 10
    """A photo with fewer pixels of a change is not asked."""
    least_worse: Positive = 1.8
    """How many times worse the other day's surface must fit, root mean square. Wrong depth was chosen for fitting its
    photos, so it fits them somewhat better than the truth does."""


@dataclass(frozen=True)
class ChangeConfig:
    """What counts as a change."""

    voxel_m: Positive = 0.1
    """Side of the cells that evidence is gathered in, metres."""
    farthest_m: Positive = 14.0
    """Places farther away from a street view than this are none of its business, metres."""
    margin_m: NotNegative = 0.12
    """How far behind a place a view must see a surface to look through that place, metres ..."""
    margin_px: NotNegative = 10.0
    """... plus this many pixel footprints, z / focal: a walk looks ahead, where depth is less sure than that."""
    aerial_margin_px: NotNegative = 4.0
    """The same for aerial photos, metres and pixels of theirs."""
    least_height: NotNegative = 0.12
    """How far above the plane of that surface the place must lie as well, metres: a road is seen at a low angle."""
    least_views: Few = 3
    """Views of each day that must agree: what moves is seen in one place once."""
    least_share: Share = 0.75
    """Share of the views with an opinion that must agree, 0..1."""
    least_weight: NotNegative = 4.0
    """How sure they must be together, Σ -ln(1 - confidence)."""
    least_confidence: Share = 0.5
    """Depth below this confidence, and completed depth, says nothing, 0..1."""
    look: LookConfig = field(default_factory=LookConfig)
    """How photos are compared."""
    rivals: RivalConfig = field(default_factory=RivalConfig)
    """How photos are asked which of two surfaces they show."""
    reach_cells: Few = 2
    """Cells that lie at most this far apart belong to one change."""
    least_cells: Few = 20
    """A change has at least so many cells ..."""
    least_other: Few = 10
    """... of which photos show so many otherwise than those of the other day, and more than they show alike."""
    least_altered: Few = 40
    """Cells of a change that photos alone tell of, at least."""
    least_breadth_m: NotNegative = 0.3
    """Second side of the box around such a change, at least, metres: the edge of a shadow is long and narrow."""
    least_alone: Few = 80
    """Cells of a change where there are no photos to compare with."""
    least_size_m: Positive = 0.4
    """Largest side of the box around a change, at least, metres."""
