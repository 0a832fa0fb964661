"""A report with something in every part: a walk of 19 frames, three groups, matches, pictures, a scene."""

from __future__ import annotations

import base64
import math
from typing import Any

import numpy as np

from skyanchor.report import drawings
from skyanchor.report.content import (
    AIR_TABLE,
    STREET_TABLE,
    Comparison,
    Curve,
    Download,
    GroupRow,
    InputRow,
    MapCamera,
    MapContent,
    MapFrame,
    MapPlace,
    MatchLine,
    MatchPicture,
    Provenance,
    RecipeRow,
    Report,
    Scene3d,
    SubmapRow,
)

UP = np.array([0.0, 0.0, 1.0])


def box_points() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    points = np.c_[rng.uniform(-20, 20, (4000, 2)), np.zeros(4000)]
    colors = np.tile(np.array([200, 40, 40], np.uint8), (4000, 1))
    return points, colors


def splat_bytes(points: Any, colors: Any) -> bytes:
    rows = np.zeros(len(points), dtype=[("p", "<f4", 3), ("s", "<f4", 3), ("c", "u1", 4), ("q", "u1", 4)])
    rows["p"], rows["s"], rows["q"] = points, 0.8, [255, 128, 128, 128]
    rows["c"] = np.c_[colors, np.full(len(colors), 255)]
    return rows.tobytes()


HOSTILE = "too few matches </script> <!--<script> @@SCRIPT@@"
"""What a name or a reason may hold."""


FRAMES = tuple(MapFrame(i, f"f{i}.jpg", -10 + i * 1.0, 2.0, "keyframe", 0.05) for i in range(18))
LOST = MapFrame(18, "f18.jpg", math.nan, math.nan, "missing", math.nan, HOSTILE)


def a_map() -> MapContent:
    """The frames, their truth, an aerial camera and a prior on a raster, somewhere on Earth."""
    raster, extent = drawings.top_view(*box_points(), UP, width=200)
    square = (((-15.0, -8.0), (12.0, -8.0), (12.0, 9.0), (-15.0, 9.0)),)
    place = MapPlace("EPSG:32633, metres", (448300.0, 5411200.0), 1.5, ((48.0, 0.0, 9e-6), (14.0, 1.3e-5, 0.0)))
    truth, uri = tuple((f.x, f.y + 0.3) for f in FRAMES), drawings.transparent_uri(raster)
    return MapContent(uri, extent, (MapCamera("a.jpg", 0, 0),), (*FRAMES, LOST), truth, (square,), place)  # type: ignore[arg-type]


def groups() -> tuple[GroupRow, ...]:
    """One accepted, two refused."""
    refused = "look-alike", "two places fit"
    return (
        GroupRow(0, 0, 5, True, "", "", -9.0, 2.0, 0.03, {"support": 812.0, "tilt_deg": 2.5}),
        GroupRow(1, 12, 17, False, *refused, 5.0, 2.0, math.nan, {"support": 40.0}, ("first try",)),
        GroupRow(2, 18, 18, False, "no-place", "nothing looks like it", math.nan, math.nan),
    )


def provenance() -> Provenance:
    """A command whose words are HTML."""
    recipes = (
        RecipeRow("2-anchors", {"seed": 7}, {"frames": "0123"}, {"numpy": "2.0"}),
        RecipeRow("3-trajectory", {}, {}, {}),
    )
    inputs = (InputRow("street photos", "/data/walk", 19, "0123456789abcdef"),)
    return Provenance("2026-01-02 03:04 UTC", inputs, ("skyanchor update --out '<b>'",), recipes)


def a_scene(picture: str) -> Scene3d:
    """Splats before and after, blue and red, and the walk through them."""
    points, colors = box_points()
    red, blue = splat_bytes(points[::4], colors[::4]), splat_bytes(points[::4], colors[::4, ::-1])
    walk = tuple((f.x, f.y, 1.7, 1.0, 0.0, 0.0) for f in FRAMES)
    splats = base64.b64encode(blue + red).decode()
    return Scene3d(splats, (0, 1000, 1000), 9000, picture, (0, 0, 1), walk, ((0, 0, 50, 0, 0, -1),))


def example_report() -> Report:
    """All of it."""
    uri = drawings.data_uri(np.random.default_rng(1).integers(0, 255, (36, 64, 3), dtype=np.uint8))
    lines = (MatchLine(10, 10, 30, 20, True, 0.8), MatchLine(40, 20, 9, 8, False, 31.0))
    return Report(
        title="A <walk>",
        verdict="18 of 19 photos located.",
        status="partial",
        map=a_map(),
        groups=groups(),
        submaps=(SubmapRow(0, 0, 17, {"closure_m": 0.2, "over_m": 18.0}),),
        figures={
            "trajectory": {"ate_m": 0.08},
            STREET_TABLE: {"psnr before": 10.2, "psnr after": 24.8},
            AIR_TABLE: {"psnr before": 26.3, "psnr after": 26.4},
        },
        reached="scene",
        frames=19,
        comparisons=tuple(Comparison(k, k, uri, uri, uri, uri, 14.0, 23.0) for k in ("ground", "aerial")),
        matches=(MatchPicture(1, False, "f12.jpg", "a.jpg", uri, (64, 36), uri, (64, 36), lines),),
        curves=(Curve("street photos", (0.0, 10.0), (12.0, 20.0)), Curve("aerial photos", (0.0, 10.0), (26.0, 25.5))),
        seconds={"anchors": 1297.0, "trajectory": 40.0},
        memory={"anchors": (2_150_000_000, 0)},
        made=provenance(),
        downloads=(Download("walk.geojson", "application/geo+json", "GeoJSON", '{"type": "x"}'),),
        scene=a_scene(uri),
    )
