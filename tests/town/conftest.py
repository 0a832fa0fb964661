from __future__ import annotations

from pathlib import Path

import pytest

from skyanchor.town import FlightPlan, StreetPlan, Town, TownPreset, WalkPlan, build_town, make_town

TINY = TownPreset(
    name="tiny",
    streets=StreetPlan(columns=2, rows=2),
    flight=FlightPlan(width=320, height=240, focal=310.0, altitude=40.0, spacing=(11.0, 10.0), margin=7.0),
    walk=WalkPlan(corners=((0.0, 0.4), (0.0, 0.55)), frames=4, width=96, height=54, focal=68.0),
    later_walk=WalkPlan(corners=((0.0, 0.5), (0.0, 0.65)), frames=3, width=96, height=54, focal=68.0),
    depth_photos=3,
)


@pytest.fixture(scope="session")
def tiny() -> TownPreset:
    return TINY


@pytest.fixture(scope="session")
def tiny_town() -> Town:
    return make_town(TINY.streets, TINY.seed)


@pytest.fixture(scope="session")
def tiny_scene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("town") / "tiny"
    build_town(out, TINY)
    return out
