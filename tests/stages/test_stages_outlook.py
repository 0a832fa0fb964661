"""The estimate of a run follows what is to be done and who does it; GPS is laid on the model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from survey_fixture import make_survey, write_survey

from skyanchor.geometry import crs
from skyanchor.scaffold import load_scaffold
from skyanchor.stages import outlook
from skyanchor.stages.outlook import Estimate, Load, estimate, gps_on_model

WALK = Load(0.0, 3, 2, 156, False)


def test_yard_is_the_hardest_of_the_measured_scenes() -> None:
    found = estimate(replace(WALK, megapixels=77 * 0.528 * 0.396), False, 2)
    assert 300 < found.least_s < 471 < found.most_s < 540  # 471 s when it was measured
    mini = estimate(Load(26 * 0.288 * 0.216, 2, 1, 40, True), False, 2)
    assert 150 < mini.least_s < 164 < mini.most_s and str(mini).startswith("about 3 to 6 min")  # 164 s


def test_more_work_takes_longer_and_more_cores_less() -> None:
    usual = estimate(WALK, False, 2)
    for more in (
        replace(WALK, megapixels=1.0),
        replace(WALK, groups=9),
        replace(WALK, frames=400),
        replace(WALK, scene=True),
    ):
        assert estimate(more, False, 2).least_s > usual.least_s
    assert estimate(WALK, False, 8).most_s < usual.most_s
    assert estimate(WALK, False, 3) == estimate(WALK, False, 64)  # no more hands than groups and submaps
    flown = replace(WALK, megapixels=2.0)
    assert estimate(flown, True, 2).most_s < estimate(flown, False, 2).most_s


def test_an_estimate_in_words() -> None:
    assert str(Estimate(250.0, 550.0)) == "about 4 to 9 min, estimated from other scenes and machines"
    assert str(Estimate(5.0, 20.0)).startswith("about 1 min,")
    assert str(Estimate(7_300.0, 18_000.0)).startswith("about 2 to 5 h,")


def test_gps_inside_beside_and_without_a_system(tmp_path: Path) -> None:
    utm = np.array([432_123.0, 5_212_345.0, 512.0])
    scaffold = load_scaffold(write_survey(tmp_path, make_survey(offset=utm)))
    middle = np.median(scaffold.points, axis=0) + scaffold.georef.offset
    places = crs.to_wgs84(np.stack([middle, middle + 5_000.0 * np.eye(3)[0]]), "EPSG:32632")
    inside, beside = ((float(a), float(b), float(c)) for a, b, c in places)
    said, warning = gps_on_model((inside,), scaffold)
    assert said == "not used" and warning is not None and "does not say where on Earth" in warning
    named = replace(scaffold, georef=replace(scaffold.georef, crs="EPSG:32632"))
    assert gps_on_model((inside, beside), named) == ("1 of 2 inside the aerial model", None)
    said, warning = gps_on_model((beside,), named)
    assert said == "0 of 1 inside the aerial model" and warning is not None and " 4" in warning


def test_the_rates_are_ranges() -> None:
    rates = [value for name, value in vars(outlook).items() if name.endswith("_S")]
    assert len(rates) == 6 and all(low < high for low, high in rates)
