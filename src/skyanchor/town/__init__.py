"""The procedural town: demo scene and test truth.

- *Built*: presets (settings), town (the whole from a seed), layout (streets), houses, furniture, solids, coats;
  geometry (as arrays for the kernels).
- *Drawn*: rendering, and the `*_kernels`.
- *Photographed*: routes (where the cameras are), photographing, sensor, spoiling; tracks (sparse points); build (all of
  it on disk).
- *Otherwise*: weather and movers (hard days in the town), conditions (hard days laid over photos of any scene), works
  and turnover (another year).

May touch: whatever stands below it.
"""

from skyanchor.town.build import build_town, build_walks
from skyanchor.town.presets import CITY, MINI, PRESETS, TOWN, FlightPlan, StreetPlan, TownPreset, WalkPlan
from skyanchor.town.rendering import render, render_colour, render_depth
from skyanchor.town.town import Epoch, Town, make_town
from skyanchor.town.weather import CLEAR, Weather
