"""Priors on where the walk was: areas from files, coordinates of the user and of the Earth, EXIF positions."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from skyanchor.anchors import priors
from skyanchor.anchors.area_file import read_area
from skyanchor.anchors.priors import LON_LAT, Area, Near, allowed, gps_priors, local_priors, narrowed
from skyanchor.bridges.ground import Ground
from skyanchor.errors import InputError
from skyanchor.events import Event, Note
from skyanchor.geometry import crs
from skyanchor.types import Camera, Frame, Georeference, Plane, Scaffold, Sequence, Tracks

UP = np.array([0.0, 0.0, 1.0])
SQUARE = ((0.0, 0.0), (40.0, 0.0), (40.0, 30.0), (0.0, 30.0))
ORIGIN = (47.0, 8.0, 400.0)
METRE_NORTH, METRE_EAST = 1.0 / 111_170.0, 1.0 / 76_050.0
"""Degrees per metre at 47 degrees north, about."""
LAMBERT = "EPSG:3416"
"""ETRS89 / Austria Lambert."""


def scaffold(georef: Georeference | None = None) -> Scaffold:
    """Sparse points over 100 x 100 m around the origin of the local frame."""
    grid = np.stack(np.meshgrid(np.arange(-50.0, 51.0, 5.0), np.arange(-50.0, 51.0, 5.0)), axis=-1).reshape(-1, 2)
    points = np.column_stack([grid, np.zeros(len(grid))])
    none = Tracks(np.empty(0, np.int64), np.empty(0, np.int64), np.empty((0, 2)))
    colours, ids = np.zeros((len(points), 3), np.uint8), np.arange(len(points))
    found = georef or Georeference(np.zeros(3))
    return Scaffold(Path(), (), points, colours, ids, none, UP, Plane(UP, 0.0), found)


def lon_lat(corners: tuple[tuple[float, float], ...]) -> list[list[float]]:
    """Corners in metres east and north of ORIGIN."""
    return [[ORIGIN[1] + x * METRE_EAST, ORIGIN[0] + y * METRE_NORTH] for x, y in corners]


def geojson(path: Path, *polygons: list[list[list[float]]], **more: object) -> Path:
    features = [
        {"type": "Feature", "properties": {}, "geometry": {"type": "Polygon", "coordinates": rings}}
        for rings in polygons
    ]
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features, **more}))
    return path


# --- files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "x,y\n0,0\n40,0\n40,30\n0,30\n",
        "# drawn by hand\n0 0 1.5\n40 0 1.5\n\n40 30 1.5\n0 30 1.5\n0 0 1.5\n",
        "0;0\n40;0\n40;30\n40;30\n0;30",
    ],
)
def test_lines_of_x_and_y(tmp_path: Path, text: str) -> None:
    path = tmp_path / "area.csv"
    path.write_text(text)
    (area,) = read_area(path)
    assert set(area.rings[0]) == set(SQUARE) and len(area.rings[0]) == 4 and area.crs is None


def test_geojson_is_in_degrees_unless_it_cannot_be(tmp_path: Path) -> None:
    closed = [*lon_lat(SQUARE), lon_lat(SQUARE)[0]]
    (area,) = read_area(geojson(tmp_path / "a.geojson", [closed]))
    assert area.crs == LON_LAT and len(area.rings[0]) == 4
    (own,) = read_area(geojson(tmp_path / "b.geojson", [[list(corner) for corner in SQUARE]]))
    assert own.crs is None and own.rings == (SQUARE,)
    named = {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::32632"}}
    (utm,) = read_area(geojson(tmp_path / "c.geojson", [[[5e5 + x, 5.2e6 + y] for x, y in SQUARE]], crs=named))
    assert utm.crs == "EPSG:32632"
    crs84 = {"type": "name", "properties": {"name": "urn:ogc:def:crs:OGC:1.3:CRS84"}}
    assert read_area(geojson(tmp_path / "d.geojson", [closed], crs=crs84))[0].crs == LON_LAT


def test_holes_and_several_polygons(tmp_path: Path) -> None:
    hole = [[10.0, 10.0], [30.0, 10.0], [30.0, 25.0], [10.0, 25.0]]
    far = [[x + 100.0, y] for x, y in SQUARE]
    areas = read_area(geojson(tmp_path / "a.json", [[list(c) for c in SQUARE], hole], [far]))
    flat = np.array([[5.0, 5.0], [20.0, 18.0], [110.0, 5.0], [70.0, 5.0]])
    assert allowed(areas, flat).tolist() == [True, False, True, False]
    multi = {"type": "MultiPolygon", "coordinates": [[[list(c) for c in SQUARE], hole], [far]]}
    (tmp_path / "m.json").write_text(json.dumps(multi))
    assert read_area(tmp_path / "m.json") == areas


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("0,0\n40,0\n", "has 2 distinct corners that enclose nothing"),
        ("0,0\n20,0\n40,0\n", "enclose nothing"),
        ("0,0\n40,30\n40,0\n0,30\n", "crosses itself: the edge from corner 1 meets the one from corner 3"),
        ("0,0\n40,north\n40,30\n", "line 2 is no x,y"),
        ("8.0,47.0\n8.001,47.0\n8.001,47.001\n", "less than 2 m across"),
        ('{"type": "Point", "coordinates": [1, 2]}', "holds no Polygon"),
        ('{"type": "Polygon"}', "is no (Geo)?JSON"),
        ("{", "is no (Geo)?JSON"),
        ('{"type": "Polygon", "coordinates": [[[0, 0], [9, 9]]]}', "enclose nothing"),
        ('{"type": "Polygon", "coordinates": [[[0, 0], [9, null], [9, 9]]]}', "not numbers"),
    ],
)
def test_what_is_no_area_is_refused_with_a_reason(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "area.txt"
    path.write_text(text)
    with pytest.raises(InputError, match=told):
        read_area(path)
    with pytest.raises(InputError, match="does not exist"):
        read_area(tmp_path / "none.geojson")


# --- coordinates --------------------------------------------------------------------------------------------------


def test_priors_come_in_the_users_coordinates() -> None:
    offset = np.array([500_000.0, 4_400_000.0, 30.0])
    given = (Near(500_020.0, 4_399_965.0, 60.0), Area((tuple((x + 5e5, y + 4.4e6) for x, y in SQUARE),)))
    near, area = local_priors(given, scaffold(Georeference(offset)))
    assert near == Near(20.0, -35.0, 60.0) and isinstance(area, Area) and area.rings == (SQUARE,)
    local_files = scaffold(Georeference(offset, moved=np.zeros(3)))
    assert local_priors((*given, Near(20.0, -35.0, 60.0)), local_files) == (near, area, near)


@pytest.mark.parametrize("system", ["enu", "utm", "etrs89"])
def test_longitude_and_latitude_land_in_the_local_frame(system: str) -> None:
    if system == "enu":
        georef = Georeference(np.zeros(3), None, ORIGIN)
        corners = lon_lat(SQUARE)
    else:  # 9 degrees east is the middle of zone 32: east 500 000 m, and north is grid north
        georef = Georeference(
            np.array([500_000.0, 5_205_000.0, 0.0]), "EPSG:25832" if system == "etrs89" else "EPSG:32632"
        )
        corners = [[9.0 + x * METRE_EAST, 46.99778 + y * METRE_NORTH] for x, y in SQUARE]
    (area,) = local_priors((Area((tuple((x, y) for x, y in corners),), LON_LAT),), scaffold(georef))
    assert isinstance(area, Area) and area.crs is None
    found = np.array(area.rings[0])
    assert np.abs(found - found[0] - np.array(SQUARE)).max() < 0.2
    if system == "enu":
        assert np.abs(found[0]).max() < 0.01


def test_an_area_in_another_system_lands_in_the_models() -> None:
    utm = Georeference(np.array([652_200.0, 5_207_100.0, 0.0]), "EPSG:25832")
    on_earth = crs.to_wgs84(np.array([[x, y, 0.0] for x, y in SQUARE]) + utm.offset, "EPSG:25832")
    corners = crs.from_wgs84(on_earth, LAMBERT)
    (area,) = local_priors((Area((tuple((x, y) for x, y, _ in corners),), LAMBERT),), scaffold(utm))
    assert isinstance(area, Area) and np.abs(np.array(area.rings[0]) - np.array(SQUARE)).max() < 1e-3


def test_an_area_that_has_nothing_to_do_with_the_model_is_an_error() -> None:
    degrees = Area((tuple((x, y) for x, y in lon_lat(SQUARE)),), LON_LAT)
    with pytest.raises(InputError, match="does not say where on Earth it lies"):
        local_priors((degrees,), scaffold())
    with pytest.raises(InputError, match="lies in EPSG:32655, and not there"):
        local_priors((degrees,), scaffold(Georeference(np.zeros(3), "EPSG:32655")))
    with pytest.raises(InputError, match=r"x 1000 to 1040, y 0 to 30\) holds nothing of .* \(x -50 to 50"):
        local_priors((Area((tuple((x + 1000.0, y) for x, y in SQUARE),)),), scaffold())
    with pytest.raises(InputError, match="the area is in EPSG:25835, but the aerial model lies in EPSG:32632, and not"):
        local_priors((Area((SQUARE,), "EPSG:25835"),), scaffold(Georeference(np.zeros(3), "EPSG:32632")))
    with pytest.raises(InputError, match="system cannot be used: EPSG:99999 is no coordinate system"):
        local_priors((Area((SQUARE,), "EPSG:99999"),), scaffold(Georeference(np.zeros(3), "EPSG:32632")))
    swapped = Area((tuple((y, x) for x, y in lon_lat(SQUARE)),), LON_LAT)
    with pytest.raises(InputError, match="wrong way round"):
        local_priors((swapped,), scaffold(Georeference(np.zeros(3), None, ORIGIN)))


@pytest.mark.parametrize("circle", [(500.0, 500.0, 20.0), (1e9, 1e9, 10.0), (0.0, -71.0, 20.0)])
def test_a_circle_beside_the_model_is_an_error(circle: tuple[float, float, float]) -> None:
    with pytest.raises(InputError, match=r"--near: .* lie beside the aerial model \(x -50 to 50, y -50 to 50\)"):
        local_priors((Near(*circle),), scaffold())
    far = scaffold(Georeference(np.array([652_200.0, 5_207_100.0, 0.0]), "EPSG:25832"))
    for point, said in (
        ((5_207_110.0, 652_190.0), "wrong way round"),
        ((47.0, 9.0), "--within"),
        ((9e5, 6e6), "metres"),
    ):
        with pytest.raises(InputError, match=f"{said}.$"):
            local_priors((Near(*point, 20.0),), far)
    assert local_priors((Near(0.0, -69.0, 20.0), Near(2.5, 2.5, 0.5)), scaffold()), (
        "at its edge, and between its points"
    )


def test_an_area_has_a_margin_and_priors_add_up() -> None:
    flat = np.array([[20.0, 15.0], [45.0, 15.0], [47.0, 15.0], [100.0, 0.0]])
    assert allowed((Area((SQUARE,)),), flat).tolist() == [True, True, False, False]
    assert allowed((Area((SQUARE,), margin=0.0), Near(100.0, 3.0, 4.0)), flat).tolist() == [True, False, False, True]
    assert allowed((), flat).all()


def test_a_street_narrower_than_the_grid_of_places_keeps_some() -> None:
    """Places stand on a grid of 8 m: of any part of the ground one is within the margin."""
    grid = np.stack(np.meshgrid(np.arange(-50.0, 51.0, 8.0), np.arange(-50.0, 51.0, 8.0)), axis=-1).reshape(-1, 2)
    rng = np.random.default_rng(0)
    for x, y in rng.uniform(-40.0, 40.0, (20, 2)):
        lane = Area((((x, y), (x + 1.0, y), (x + 1.0, y + 1.0), (x, y + 1.0)),))
        assert 1 <= allowed((lane,), grid).sum() <= 4


# --- EXIF ---------------------------------------------------------------------------------------------------------


def ground() -> Ground:
    """Free ground of 100 x 100 m around the origin."""
    flat = np.zeros((100, 100))
    return Ground(np.eye(3)[:2], UP, np.array([-50.0, -50.0]), 1.0, flat, np.ones((100, 100), bool))


def photos_at(*places: tuple[float, float] | None) -> Sequence:
    """Frames with EXIF positions so many metres east and north of ORIGIN."""
    gps = tuple(None if p is None else (*lon_lat((p,))[0][::-1], 0.0) for p in places)
    frames = tuple(Frame(k, f"{k}.jpg", Path(f"{k}.jpg")) for k in range(len(places)))
    return Sequence(Path(), frames, Camera("PINHOLE", 4, 4, (4.0, 4.0, 2.0, 2.0)), False, (), (), gps)


def told_by(georef: Georeference, sequence: Sequence, radius: float = 25.0) -> tuple[dict[int, Near], list[str]]:
    heard: list[Event] = []
    found = gps_priors(scaffold(georef), sequence, ground(), radius, heard.append)
    return found, [event.text for event in heard if isinstance(event, Note)]


def test_exif_positions_become_circles_of_the_stated_radius() -> None:
    georef = Georeference(np.zeros(3), None, ORIGIN)
    found, told = told_by(georef, photos_at((10.0, -20.0), None, (0.0, 0.0), (70.0, 0.0), (90.0, 0.0)))
    assert sorted(found) == [0, 2, 3]
    assert abs(found[0].x - 10.0) < 0.1 and abs(found[0].y + 20.0) < 0.1 and found[0].radius == 25.0
    assert told == ["EXIF positions of 3 frames narrow their search to 25 m; 1 lie off the model and are not used"]


def test_one_stray_position_does_not_cost_the_others() -> None:
    georef = Georeference(np.array([423_980.0, 5_205_680.0, 0.0]), "EPSG:32632")
    sequence = photos_at((0.0, 0.0), (0.0, 0.0), (10.0, 0.0))
    gps = (sequence.gps[0], (-33.9, 151.2, 0.0), sequence.gps[2])
    found, told = told_by(georef, Sequence(Path(), sequence.frames, sequence.camera, False, (), (), gps))
    assert sorted(found) == [0, 2] and "1 lie off the model" in told[0]


def test_exif_positions_without_a_georeference_are_named_and_ignored() -> None:
    found, told = told_by(Georeference(np.zeros(3)), photos_at((0.0, 0.0)))
    assert found == {} and len(told) == 1
    assert "does not say where on Earth it lies: they are not used" in told[0]
    found, told = told_by(Georeference(np.zeros(3), "EPSG:32655"), photos_at((0.0, 0.0)))
    assert found == {} and "they do not lie in its EPSG:32655" in told[0]
    assert told_by(Georeference(np.zeros(3)), photos_at(None, None)) == ({}, [])


def test_a_radius_of_zero_ignores_them() -> None:
    assert told_by(Georeference(np.zeros(3), None, ORIGIN), photos_at((0.0, 0.0)), 0.0) == ({}, [])


def test_what_is_said_of_the_place_adds_to_the_odds_what_it_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(priors, "FITTED_M2", 1e9)  # a small model
    assert narrowed((), ground()) == 0.0 and narrowed((Near(0.0, 0.0, 1e3),), ground()) == 0.0
    assert narrowed((Near(0.0, 0.0, 20.0),), ground()) == pytest.approx(np.log10(100.0**2 / (np.pi * 20.0**2)), abs=0.1)
    assert narrowed((Near(500.0, 0.0, 20.0),), ground()) == 0.0, "nothing is left out of what is not there"


def test_a_model_larger_than_those_of_the_odds_has_more_look_alikes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(priors, "FITTED_M2", 100.0)
    assert narrowed((), ground()) == pytest.approx(-2.0, abs=0.1)
    few = Near(0.0, 0.0, 20.0)
    assert narrowed((few,), ground()) == pytest.approx(np.log10(100.0 / (np.pi * 20.0**2)), abs=0.1)
