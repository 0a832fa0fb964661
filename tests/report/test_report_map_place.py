"""Where the map lies: north and coordinates against the map system's own, priors as areas, files for other maps."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

from skyanchor.anchors.priors import Area, Near
from skyanchor.geometry import crs, rigid
from skyanchor.report.map_place import downloads, frames_csv, map_place, prior_rings
from skyanchor.types import Georeference, PosedFrame, Support

UP = np.array([0.0, 0.0, 1.0])
GEOREF = Georeference(np.array([650_000.0, 5_411_200.0, 0.0]), "EPSG:32633")
"""Two degrees east of its meridian: grid north is not north."""


def test_north_and_coordinates_are_those_of_the_system() -> None:
    place = map_place(GEOREF, UP, np.array([30.0, 40.0, 5.0]))
    assert place.offset == (650_000.0, 5_411_200.0) and place.system == "EPSG:32633, metres" and place.earth is not None
    for x, y in ((30.0, 40.0), (180.0, -90.0)):
        (lat, *_), (lon, *_) = ([a + b * x + c * y] for a, b, c in place.earth)
        expected = crs.to_wgs84(np.array([[x, y, 5.0]]) + GEOREF.offset, "EPSG:32633")[0]
        assert (lat, lon) == pytest.approx((expected[0], expected[1]), abs=2e-7)
    there = crs.from_wgs84(np.array([[expected[0] + 0.001, expected[1], 5.0]]), "EPSG:32633")[0] - GEOREF.offset
    turned = np.degrees(np.arctan2(there[0] - 180.0, there[1] + 90.0))
    assert place.north_deg == pytest.approx(turned, abs=0.01) and abs(turned) > 1.0


def test_a_model_that_does_not_say_where_it_is_has_no_north() -> None:
    place = map_place(Georeference(np.zeros(3)), UP, np.zeros(3))
    assert place.system == "" and np.isnan(place.north_deg) and place.earth is None and place.offset == (0.0, 0.0)
    local = map_place(Georeference(np.zeros(3), enu_origin=(48.0, 14.0, 300.0)), UP, np.zeros(3))
    assert local.north_deg == pytest.approx(0.0, abs=1e-3) and "48.0000000" in local.system


def test_priors_are_areas() -> None:
    square = ((0.0, 0.0), (4.0, 0.0), (4.0, 4.0))
    circle, area = prior_rings((Near(10.0, -5.0, 3.0), Area((square,))))
    assert area == (square,)
    away = np.linalg.norm(np.array(circle[0]) - [10.0, -5.0], axis=1)
    assert away == pytest.approx(3.0) and len(circle) == 1


def frames() -> tuple[PosedFrame, ...]:
    posed = PosedFrame(0, Support.ANCHORED, rigid.from_centre(np.eye(3), np.array([1.0, 2.0, 3.0])), 9, 0.02)
    return posed, PosedFrame(1, Support.MISSING, None, 0, float("nan"))


def test_the_walk_can_be_taken_along() -> None:
    rows = list(csv.DictReader(io.StringIO(frames_csv(frames(), ("a,b.jpg", "c.jpg"), GEOREF))))
    assert [row["name"] for row in rows] == ["a,b.jpg"]
    assert [float(rows[0][key]) for key in "xyz"] == [650_001.0, 5_411_202.0, 3.0]
    assert float(rows[0]["radius_95_m"]) == pytest.approx(2.795 * 0.02, abs=1e-4)
    names = [one.name for one in downloads("walk", frames(), ("a", "b"), GEOREF)]
    assert names == ["walk.csv", "walk.geojson", "walk.kml"]
    assert [one.name for one in downloads("walk", frames(), ("a", "b"), Georeference(np.zeros(3)))] == ["walk.csv"]
    assert downloads("walk", frames()[1:], ("a", "b"), GEOREF) == ()
