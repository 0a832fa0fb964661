"""Map projections against published coordinates, there and back to the millimetre; what cannot be used is said."""

from __future__ import annotations

import numpy as np
import pyproj
import pytest

from skyanchor.geometry import crs

METRES_PER_DEGREE = 111_320.0

ORIGINS = [
    # system, latitude, longitude, x, y, within, metres: natural origins with the false eastings and northings of EPSG
    ("EPSG:32735", 0.0, 27.0, 500_000.0, 10_000_000.0, 0.002),
    ("EPSG:25832", 0.0, 9.0, 500_000.0, 0.0, 0.002),
    ("EPSG:2154", 46.5, 3.0, 700_000.0, 6_600_000.0, 0.002),
]


@pytest.mark.parametrize(("name", "lat", "lon", "x", "y", "within"), ORIGINS)
def test_origins_of_projections(name: str, lat: float, lon: float, x: float, y: float, within: float) -> None:
    found = crs.from_wgs84(np.array([[lat, lon, 12.5]]), name)
    assert np.abs(found - [[x, y, 12.5]]).max() < within


def test_a_transverse_mercator_off_its_middle() -> None:
    """Snyder 8-9 for WGS 84 at 47.1 N, 8.5 E in zone 32: x = k0 N (A + (1 - T + C) A³ / 6)."""
    found = crs.from_wgs84(np.array([[47.1, 8.5, 0.0]]), "EPSG:32632")[0]
    n = 6_378_137.0 / np.sqrt(1.0 - 0.00669437999 * np.sin(np.radians(47.1)) ** 2)
    a = np.radians(-0.5) * np.cos(np.radians(47.1))
    t, c = np.tan(np.radians(47.1)) ** 2, 0.00673949674 * np.cos(np.radians(47.1)) ** 2
    assert found[0] == pytest.approx(500_000.0 + 0.9996 * n * (a + (1.0 - t + c) * a**3 / 6.0), abs=0.001)
    assert 5_216_000.0 < found[1] < 5_217_000.0


@pytest.mark.parametrize(
    ("name", "lat", "lon", "within"),
    [
        ("EPSG:25832", 48.2, 9.7, 1e-3),
        ("EPSG:32735", -25.7, 28.2, 1e-3),
        ("EPSG:31467", 50.1, 8.7, 1e-3),
        ("EPSG:2154", 43.6, 1.4, 1e-3),
        ("EPSG:3879", 60.2, 24.9, 1e-3),
        ("EPSG:2056", 46.9, 7.4, 2e-3),
        ("EPSG:25832+7837", 48.2, 9.7, 1e-3),
    ],
)
def test_there_and_back_to_the_millimetre(name: str, lat: float, lon: float, within: float) -> None:
    crs.check(name)
    rng = np.random.default_rng(1)
    places = np.array([lat, lon, 300.0]) + rng.uniform(-0.05, 0.05, (50, 3)) * [1.0, 1.0, 1000.0]
    metres = crs.from_wgs84(places, name)
    back = crs.to_wgs84(metres, name)
    assert np.abs(back - places)[:, :2].max() * METRES_PER_DEGREE < within
    assert np.array_equal(back[:, 2], places[:, 2]) and np.array_equal(metres[:, 2], places[:, 2])
    assert np.abs(crs.from_wgs84(back, name) - metres).max() < within
    assert crs.covers(places, name)
    itself = pyproj.Transformer.from_crs(4326, name.split("+")[0]).transform(places[:, 0], places[:, 1])
    north_first = name in ("EPSG:31467", "EPSG:3879")
    assert np.abs(np.stack(itself[::-1] if north_first else itself, axis=1) - metres[:, :2]).max() < 1e-6


def test_a_kilometre_on_the_map_is_one_on_the_ground() -> None:
    corner = crs.from_wgs84(np.array([[48.2, 9.7, 0.0]]), "EPSG:25832")
    ends = crs.to_wgs84(corner + np.array([[0.0, 0.0, 0.0], [1000.0, 0.0, 0.0], [0.0, 1000.0, 0.0]]), "EPSG:25832")
    on_ground = pyproj.Geod(ellps="WGS84")
    for end in ends[1:]:
        metres = on_ground.inv(ends[0, 1], ends[0, 0], end[1], end[0])[2]
        assert 1000.0 < metres < 1000.5  # the scale of UTM near its middle is 0.9996


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("EPSG:4326", "is longitude and latitude"),
        ("EPSG:4978", "is no map projection"),
        ("EPSG:2263", "counts in US survey foot"),
        ("EPSG:3857", "metres are not those on the ground"),
        ("EPSG:99999", "no coordinate system that PROJ knows"),
        ("UTM 32", "no coordinate system that PROJ knows"),
    ],
)
def test_what_is_no_projection_in_metres_is_refused(name: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        crs.check(name)


def test_heights_are_said_and_never_guessed() -> None:
    assert "does not say" in crs.heights("EPSG:25832")
    assert crs.heights("EPSG:25832+7837") == "above the geoid (DHHN2016 height)"
    assert crs.heights("EPSG:5555") == "above the geoid (DHHN92 height)"
    three = pyproj.CRS("EPSG:25832").to_3d().to_wkt()
    assert crs.heights(three) == "above the ellipsoid"


def test_places_far_from_a_zone_are_not_its_own() -> None:
    there, little, far = np.array([[48.0, 9.0, 0.0]]), np.array([[48.0, 12.9, 0.0]]), np.array([[48.0, 13.5, 0.0]])
    assert crs.covers(there, "EPSG:25832") and crs.covers(little, "EPSG:25832")
    assert not crs.covers(far, "EPSG:25832") and not crs.covers(np.concatenate([there, far]), "EPSG:25832")
    assert not crs.covers(there, "EPSG:32655") and not crs.covers(-there, "EPSG:25832")
    fiji = np.array([[-17.0, 179.5, 0.0], [-17.0, -179.5, 0.0]])
    assert crs.covers(fiji, "EPSG:3460") and not crs.covers(there, "EPSG:3460")


def test_systems_are_found_by_gps() -> None:
    rng = np.random.default_rng(0)
    places = np.array([[48.0, 9.1, 0.0]]) + rng.uniform(-1e-3, 1e-3, (9, 3))
    noise = rng.normal(0.0, 3.0, (9, 3))
    fitting = crs.that_fit(places, crs.from_wgs84(places, "EPSG:25832") + noise)
    assert fitting[0] in ("EPSG:25832", "EPSG:32632") and {"EPSG:25832", "EPSG:32632"} <= set(fitting)
    assert len(set(fitting)) == len(fitting) < 10 and not set(fitting) & {"EPSG:25833", "EPSG:31467", "EPSG:2154"}
    assert crs.that_fit(places, np.zeros((9, 3))) == ()
