"""The conditions of `benchmarks/hard.py`, each at three severities, and the days that combine them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from skyanchor.town import CLEAR
from skyanchor.town.conditions import HARD, MIDDLE, MILD
from skyanchor.town.presets import HARD as HARD_DAYS
from skyanchor.town.presets import TownPreset
from skyanchor.town.spoiling import OPERATIONS
from skyanchor.town.weather import Weather, changed, names

SEVERITIES = ("mild", "middle", "hard")
WHOLE_DAY = "whole"
"""Of a preset, which combines conditions: it has one severity."""
WRONG_M, WRONG_SIGMAS = 0.5, 5.0


@dataclass(frozen=True)
class Hardship:
    """One condition at its three severities, or a whole day of the town's presets, which has none."""

    name: str
    steps: tuple[str, ...]
    """Settings of `skyanchor town --weather`, words apart by a space, mild to hard."""
    camera: bool = True
    """Whether the user knows the focal length."""

    @property
    def severities(self) -> tuple[str, ...]:
        """Those that it has."""
        return SEVERITIES if len(self.steps) == len(SEVERITIES) else (WHOLE_DAY,)

    def weather(self, severity: str) -> Weather:
        """The day of a severity."""
        return changed(CLEAR, self.steps[self.severities.index(severity)].split())

    def settings(self, severity: str) -> str:
        """What is different, for people."""
        if WHOLE_DAY in self.severities:
            return f"`--preset {self.name}`"
        return self.steps[self.severities.index(severity)].replace(" ", ", ")

    def tried(self, severities: Sequence[str]) -> tuple[str, ...]:
        """Those of the severities that it has; a whole day is tried whatever they are."""
        return tuple(one for one in self.severities if one in (*severities, WHOLE_DAY))

    @property
    def flown(self) -> bool:
        """Whether the flight is another one."""
        return any(word.startswith("flight.") for word in self.steps[0].split())

    @property
    def operation(self) -> str | None:
        """The operation on finished photos that it is, if it is one."""
        part, _, name = self.steps[0].partition("=")[0].partition(".")
        return name if part == "photos" else None


def _day(preset: TownPreset) -> Hardship:
    """All that is otherwise on the day of a preset than on a clear one."""
    words = []
    for name in names():
        part, _, setting = name.partition(".")
        held, usual = (getattr(getattr(weather, part), setting) for weather in (preset.weather, CLEAR))
        words += [f"{name}={held}"] if held != usual else []
    return Hardship(preset.name, (" ".join(words),))


def _photo(name: str) -> Hardship:
    low, middle, high = (f"photos.{name}={severity:.4f}" for severity in (MILD, MIDDLE, HARD))
    return Hardship(name.replace("_", "-"), (low, middle, high))


def _three(name: str, text: str, *values: float | str, camera: bool = True) -> Hardship:
    low, middle, high = (text.format(value) for value in values)
    return Hardship(name, (low, middle, high), camera)


def _two(name: str, text: str, *values: tuple[float, float], camera: bool = True) -> Hardship:
    low, middle, high = (text.format(*value) for value in values)
    return Hardship(name, (low, middle, high), camera)


CONDITIONS: dict[str, Hardship] = {
    hardship.name: hardship
    for hardship in (
        _two("sun", "world.sun_azimuth_deg={} world.sun_elevation_deg={}", (255, 40), (305, 30), (35, 20)),
        _three("overcast", "world.overcast={}", 0.5, 0.9, 1.0),
        _three("wet", "world.wet={0} world.overcast={0}", 0.4, 0.7, 1.0),
        _three("bare", "world.bare={}", 0.5, 0.8, 1.0),
        _three("hedges", "world.hedges={}", 0.2, 0.4, 0.8),
        _three("snow", "world.snow={}", 0.3, 0.6, 1.0),
        _three("cars", "world.cars={}", 0.3, 0.7, 1.0),
        _three("traffic", "world.traffic={}", 0.05, 0.2, 0.4),
        _three("works", "world.works={}", 0.15, 0.35, 0.7),
        _three("dusk", "world.dusk={}", 0.4, 0.7, 1.0),
        _two("rolling", "carried.readout_ms={} carried.speed_m_s={}", (20, 1.4), (20, 5), (25, 12)),
        _three("shake", "carried.shake_deg={}", 0.5, 1.5, 3.0),
        _three("height", "carried.eye_height_m={}", 1.0, 2.4, 3.0),
        _three("lean", "carried.lean_deg={}", 5, 12, 20),
        _three("portrait", "carried.portrait=true world.cars={}", 0, 0.3, 0.6),
        _two("wide", "carried.wide=0.5 carried.k1={} world.cars={}", (-0.01, 0), (-0.02, 0), (-0.03, 0), camera=False),
        _three("zoom", "carried.zoom={}", 1.1, 1.4, 2.0),
        _three("missing", "carried.missing={}", 0.1, 0.25, 0.5),
        _three("doubled", "carried.doubled={}", 0.1, 0.25, 0.5),
        *(_photo(name) for name in OPERATIONS),
        _two("flight-sun", "flight.sun_azimuth_deg={} flight.sun_elevation_deg={}", (255, 40), (305, 30), (35, 20)),
        _two("flight-poses", "flight.position_cm={} flight.angle_deg={}", (1, 0.01), (3, 0.02), (5, 0.02)),
        _three("flight-exposure", "flight.exposure_stops={}", 0.3, 0.6, 1.0),
        _three("flight-resolution", "flight.ground_cm={}", 9, 12, 15),
        _three("flight-nadir", "flight.nadir=true flight.overlap={}", 0.8, 0.7, 0.6),
        _three("flight-overlap", "flight.overlap={}", 0.7, 0.65, 0.6),
        *(_day(preset) for preset in HARD_DAYS),
    )
}
CLEAR_DAY = Hardship("clear", ("", "", ""))
