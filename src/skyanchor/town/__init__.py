"""The procedural town: demo scene and test truth. May touch: whatever stands below it."""

from skyanchor.town.build import build_town, build_walks
from skyanchor.town.presets import CITY, MINI, PRESETS, TOWN, FlightPlan, StreetPlan, TownPreset, WalkPlan
from skyanchor.town.rendering import render, render_colour, render_depth
from skyanchor.town.town import Epoch, Town, make_town
from skyanchor.town.weather import CLEAR, Weather
