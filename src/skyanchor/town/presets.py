"""Settings of a town scene and those that ship: `mini` for tests, `town` for the demo, `city` for a large block, and
`hard-1` to `hard-4` for days on which much goes wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from skyanchor.town.weather import CLEAR, HARD_1, HARD_2, HARD_3, HARD_4, Weather


@dataclass(frozen=True)
class StreetPlan:
    """Two families of nearly straight streets; everything between them is built up."""

    columns: int
    """Streets that run north-south."""
    rows: int
    """Streets that run east-west."""
    column_spacing: float = 38.0
    """Metres between neighbouring north-south streets."""
    row_spacing: float = 34.0
    """Metres between neighbouring east-west streets."""
    skew_deg: float = 3.5
    """Largest deviation of a street from its family's direction, degrees."""
    half_width: float = 3.3
    """Half the carriageway, metres."""
    pavement: float = 2.3
    """Metres from kerb to house front."""
    kerb: float = 0.12
    """Metres that pavements lie above the road."""
    slope: tuple[float, float] = (0.008, -0.012)
    """Rise of the ground per metre east and north."""
    designs: int = 9
    """House designs that the town builds again and again."""
    designs_of: int | None = None
    """Seed of the town whose designs they are; its own without one."""


@dataclass(frozen=True)
class FlightPlan:
    """A five-camera survey: at each station a nadir photo and four 45 degree obliques."""

    width: int
    """Pixels."""
    height: int
    """Pixels."""
    focal: float
    """Pixels."""
    altitude: float
    """Metres above the ground."""
    spacing: tuple[float, float]
    """Metres between stations along a flight line, and between lines."""
    margin: float
    """Metres around the walks within which a photo's centre must fall to be kept."""
    gain: float = 1.35
    """Exposure; 1 maps white in full sun just below clipping."""
    noise: float = 0.006
    """Standard deviation of sensor noise at mid grey, share of full scale."""


@dataclass(frozen=True)
class WalkPlan:
    """A hand-held video along streets."""

    corners: tuple[tuple[float, float], ...]
    """Way points in street numbers: (1, 0.5) lies on the second column street, half-way between rows 0 and 1."""
    frames: int
    """Frames, evenly spaced along the way."""
    side: float = 0.5
    """Metres to the right of the middle of the street."""
    width: int = 640
    """Pixels."""
    height: int = 360
    """Pixels."""
    focal: float = 457.0
    """Pixels."""
    eye_height: float = 1.7
    """Metres above the ground."""
    gain: float = 1.0
    """Exposure; 1 maps white in full sun just below clipping."""
    noise: float = 0.012
    """Standard deviation of sensor noise at mid grey, share of full scale."""


@dataclass(frozen=True)
class TownPreset:
    """All a town scene depends on."""

    name: str
    streets: StreetPlan
    flight: FlightPlan
    walk: WalkPlan
    later_walk: WalkPlan | None
    """A second sequence on another day, partly along the same way."""
    other_walks: tuple[WalkPlan, ...] = ()
    """Sequences elsewhere on the day of the first."""
    seed: int = 7
    """Town, flight and walks."""
    depth_photos: int = 12
    """Aerial photos whose true depth is written."""
    weather: Weather = CLEAR
    """Of the walks and of the flight."""


MINI = TownPreset(
    name="mini",
    streets=StreetPlan(columns=3, rows=3),
    flight=FlightPlan(width=640, height=480, focal=620.0, altitude=40.0, spacing=(12.0, 10.0), margin=8.0),
    walk=WalkPlan(corners=((1.0, 0.3), (1.0, 1.0)), frames=40, width=480, height=270, focal=343.0),
    later_walk=None,
)
"""Seconds to build: for tests."""

TOWN = TownPreset(
    name="town",
    streets=StreetPlan(columns=4, rows=4),
    flight=FlightPlan(width=960, height=720, focal=900.0, altitude=50.0, spacing=(20.0, 18.0), margin=8.0),
    walk=WalkPlan(corners=((1.0, 0.1), (1.0, 1.0), (2.0, 1.0), (2.0, 1.75)), frames=150),
    later_walk=WalkPlan(corners=((1.0, 0.55), (1.0, 1.3)), frames=40, side=-0.4, gain=0.9, noise=0.015),
)
"""Minutes to build: for the demo."""

CITY = TownPreset(
    name="city",
    streets=StreetPlan(columns=22, rows=25, column_spacing=46.0, row_spacing=40.0, skew_deg=0.6),
    flight=FlightPlan(width=1280, height=960, focal=1250.0, altitude=100.0, spacing=(72.0, 64.0), margin=190.0),
    walk=WalkPlan(corners=((4.0, 4.2), (4.0, 7.0), (6.0, 7.0), (6.0, 8.5)), frames=240),
    later_walk=None,
    other_walks=(
        WalkPlan(corners=((17.0, 5.4), (17.0, 4.0), (14.0, 4.0), (14.0, 6.6)), frames=240, side=-0.4),
        WalkPlan(corners=((9.3, 20.0), (11.0, 20.0), (11.0, 17.0), (12.6, 17.0)), frames=240, side=0.3, gain=0.9),
    ),
)
"""A square kilometre in 1 076 photos, some 20 minutes to build on 13 cores: for the search of a place nobody named."""

HARD = tuple(
    replace(MINI, name=f"hard-{k + 1}", weather=weather) for k, weather in enumerate((HARD_1, HARD_2, HARD_3, HARD_4))
)
"""The mini town on days that are harder from one to the next."""

PRESETS: dict[str, TownPreset] = {preset.name: preset for preset in (MINI, TOWN, CITY, *HARD)}
"""Presets by the name a user types."""
