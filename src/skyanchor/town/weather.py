"""Hard days as settings: what is different in the street, in the camera and in the flight. The default is clear."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Annotated, TypeAlias

from skyanchor import bounds
from skyanchor.bounds import Degrees, NotNegative, Range, Share, ZeroOr
from skyanchor.errors import InputError

Factor: TypeAlias = Annotated[float, Range(0.1, 10.0)]
"""Of a focal length."""


@dataclass(frozen=True)
class World:
    """The street on the day of the walks; it is rendered, so that shadows and reflections are where they belong."""

    sun_azimuth_deg: float = 215.0
    """Where the sun stands, clockwise from north."""
    sun_elevation_deg: float = 48.0
    """Above the horizon."""
    overcast: Share = 0.0
    """Share of the sun that clouds take, 0..1; the sky gives a part of it back from all sides."""
    wet: Share = 0.0
    """How wet roads and pavements are, 0..1: darker, with puddles that mirror the houses."""
    bare: Share = 0.0
    """Share of the leaves that have fallen, 0..1."""
    hedges: Share = 0.0
    """Share of the house fronts with a hedge that was 1.7 m high at the flight and is cut to 0.9 m, 0..1."""
    snow: Share = 0.0
    """Share of ground, roofs, cars and sills that snow lies on, 0..1; it has no thickness."""
    cars: Share = 0.0
    """Share of the parked cars that have left, 0..1; another one stands in half of their places."""
    traffic: Annotated[float, Range(0.0, 0.6)] = 0.0
    """Share of the picture that people and cars on the move cover, 0..0.6, mean of the walk."""
    works: Share = 0.0
    """Share of the houses with scaffolding, and of the shops with another sign, 0..1."""
    dusk: Share = 0.0
    """0 day, 1 the last light, with windows lit."""


@dataclass(frozen=True)
class Carried:
    """How the camera is built and carried; rendered, so that the true pose of every row and pixel is known."""

    eye_height_m: Annotated[float, Range(0.0, 100.0)] = 0.0
    """Above the ground; 0 for that of the walk's plan."""
    lean_deg: Degrees = 0.0
    """Roll to either side in curves of some ten frames, as a cyclist leans; the largest."""
    shake_deg: Degrees = 0.0
    """Vertical hand shake from frame to frame, standard deviation; a hundredth of it in metres moves the camera."""
    portrait: bool = False
    """Held upright: taller than wide."""
    wide: Factor = 1.0
    """Focal length over that of the walk's plan: 0.5 for a phone's wide lens."""
    k1: Annotated[float, Range(-1.0, 1.0)] = 0.0
    """Radial distortion, x' = x (1 + k1 r²) of COLMAP's SIMPLE_RADIAL; below 0 for a barrel."""
    k2: Annotated[float, Range(-1.0, 1.0)] = 0.0
    """Its next term, x' = x (1 + k1 r² + k2 r⁴) of COLMAP's RADIAL."""
    readout_ms: NotNegative = 0.0
    """Time from the first to the last row of a rolling shutter; the true pose is that of the middle row."""
    speed_m_s: NotNegative = 1.4
    """Along the way, for the rolling shutter."""
    zoom: Factor = 1.0
    """Focal length of the second half of the walk over that of the first."""
    missing: Annotated[float, Range(0.0, 0.9)] = 0.0
    """Share of the frames that are missing, 0..0.9."""
    doubled: Share = 0.0
    """Share of the frames that come twice, 0..1."""


@dataclass(frozen=True)
class Photos:
    """What happens to a photo once it is taken; severities 0..1 of the operations in `conditions` and `spoiling`."""

    shadows: Share = 0.0
    """Shadows and sunlit patches that no other photo has."""
    drifting_shadows: Share = 0.0
    """The same, drifting across the photos."""
    leaf_shade: Share = 0.0
    """Light and shade through leaves all over the photo, no two photos alike."""
    drifting_leaf_shade: Share = 0.0
    """The same, drifting across the photos."""
    passers: Share = 0.0
    """People and cars painted over the photo."""
    motion_blur: Share = 0.0
    """The hand moves while the shutter is open."""
    defocus: Share = 0.0
    """Out of focus."""
    exposure: Share = 0.0
    """The automatic exposure jumps."""
    compression: Share = 0.0
    """Video of a low bit rate."""


@dataclass(frozen=True)
class Survey:
    """The flight, and what was delivered of it."""

    sun_azimuth_deg: float = 215.0
    """Where the sun stands, clockwise from north."""
    sun_elevation_deg: float = 48.0
    """Above the horizon."""
    overcast: Share = 0.0
    """Share of the sun that clouds take, 0..1."""
    position_cm: NotNegative = 0.0
    """Error of the delivered positions, standard deviation per axis."""
    angle_deg: Degrees = 0.0
    """Error of the delivered orientations, standard deviation per axis."""
    exposure_stops: NotNegative = 0.0
    """Step of the exposure between neighbouring flight lines; every other line is darker."""
    higher_m: NotNegative = 0.0
    """Metres that it was flown above the plan's altitude; the spacing of the photos stays, they see more each."""
    ground_cm: Annotated[float, ZeroOr(0.5, 1000.0)] = 0.0
    """Ground resolution of a nadir photo; 0 for that of the plan. The photos keep their field of view."""
    nadir: bool = False
    """No oblique photos."""
    overlap: Annotated[float, Range(0.0, 0.95)] = 0.0
    """Share that neighbouring nadir photos share along and across the lines, 0..0.95; 0 for the plan's spacing."""


@dataclass(frozen=True)
class Since:
    """What is another way on the day of the later walk than it was on the day of the first."""

    still: bool = False
    """Nothing comes or goes between the walks; only the light is another."""
    cars: Share = 0.0
    """Share of the parked cars that have left, 0..1; another one stands in half of their places."""
    hedges: Share = 0.0
    """Share of the house fronts with a hedge that was 1.7 m high and is cut to 0.9 m, 0..1."""
    works: Share = 0.0
    """Share of the houses with scaffolding on one of the days, and of the shops with another sign, 0..1."""


@dataclass(frozen=True)
class Weather:
    """All that makes a day hard."""

    world: World = World()
    carried: Carried = Carried()
    photos: Photos = Photos()
    flight: Survey = Survey()
    since: Since = Since()


CLEAR = Weather()
"""Flight and walk in the same hour, nothing in the way."""

HARD_1 = Weather(
    World(sun_azimuth_deg=250.0, sun_elevation_deg=38.0, cars=0.3, traffic=0.05),
    Carried(shake_deg=0.4),
    Photos(motion_blur=0.15, exposure=0.2, compression=1.0 / 3.0),
    Survey(position_cm=1.0, exposure_stops=0.2),
)
"""A walk on another afternoon."""
HARD_2 = Weather(
    World(sun_azimuth_deg=285.0, sun_elevation_deg=28.0, cars=0.6, traffic=0.1, works=0.1),
    Carried(shake_deg=0.8, readout_ms=15.0),
    Photos(motion_blur=0.3, exposure=0.4, compression=2.0 / 3.0),
    Survey(position_cm=2.0, angle_deg=0.01, exposure_stops=0.4),
)
"""A low sun from the other side, some traffic, a phone that is not held well."""
HARD_3 = Weather(
    World(overcast=1.0, wet=0.7, bare=0.8, hedges=0.2, cars=0.8, traffic=0.2, works=0.25),
    Carried(shake_deg=1.2, readout_ms=20.0, lean_deg=4.0, missing=0.1),
    Photos(motion_blur=0.45, defocus=0.2, exposure=0.6, compression=2.0 / 3.0),
    Survey(position_cm=3.0, angle_deg=0.02, exposure_stops=0.6, ground_cm=8.0),
)
"""A wet day in winter over a summer's flight."""
HARD_4 = Weather(
    World(overcast=0.8, bare=1.0, hedges=0.4, snow=0.7, cars=1.0, traffic=0.35, works=0.5, dusk=0.6),
    Carried(shake_deg=2.0, readout_ms=25.0, lean_deg=8.0, missing=0.2, doubled=0.1),
    Photos(motion_blur=0.6, defocus=0.4, exposure=0.8, compression=1.0),
    Survey(position_cm=5.0, angle_deg=0.02, exposure_stops=0.8, ground_cm=12.0),
)
"""Snow at dusk among crowds: what nobody should expect to work."""


def changed(weather: Weather, words: Sequence[str]) -> Weather:
    """The weather with settings such as `world.snow=0.6` changed; SkyAnchorError for one that cannot be."""
    for word in words:
        name, _, text = word.partition("=")
        part, _, setting = name.partition(".")
        if name not in names():
            raise InputError(f"condition '{word}'", "is none", f"Give one of {', '.join(names())}, as world.snow=0.6.")
        held = getattr(weather, part)
        weather = replace(weather, **{part: replace(held, **{setting: _number(word, text, getattr(held, setting))})})
    bounds.check(weather)
    return weather


def names() -> tuple[str, ...]:
    """All settings, as `world.snow`."""
    return tuple(f"{part.name}.{field.name}" for part in fields(CLEAR) for field in fields(getattr(CLEAR, part.name)))


def _number(word: str, text: str, like: float | bool) -> float | bool:
    if isinstance(like, bool):
        if text.lower() not in ("", "1", "0", "true", "false"):
            raise InputError(f"condition '{word}'", "is neither true nor false", "Write it as flight.nadir=true.")
        return text.lower() in ("", "1", "true")
    try:
        number = float(text)
    except ValueError as error:
        raise InputError(f"condition '{word}'", "has no number", "Write it as world.snow=0.6.") from error
    if not -360.0 <= number <= 360.0:  # nan is not either
        raise InputError(f"condition '{word}'", "is out of range", "Its unit is in docs/commands.md.")
    return number
