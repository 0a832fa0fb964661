"""What changed in a street: where the depth and the photos of a later day contradict those of earlier ones.

Values in, values out. A place is asked about, not a pixel: views of one day must agree on a surface there, views of the
other must look through it, several each, so that light, viewpoint and whatever moves say nothing.

config -> evidence (what the depth of one day says), look and rivals (what its photos say) -> find (cells where days
contradict each other) -> objects (cells gathered to things) -> change (a change as a value) -> pictures.

May touch: the foundation, stereo.
"""

from skyanchor.changes.change import Change, ChangeKind, Region, inside_cells, united
from skyanchor.changes.config import ChangeConfig
from skyanchor.changes.evidence import Day, flight_as_day, walk_as_day
from skyanchor.changes.find import find_changes, vanished_region

__all__ = [
    "Change",
    "ChangeConfig",
    "ChangeKind",
    "Day",
    "Region",
    "find_changes",
    "flight_as_day",
    "inside_cells",
    "united",
    "vanished_region",
    "walk_as_day",
]
