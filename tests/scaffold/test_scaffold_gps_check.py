"""GPS of a walk is laid on the aerial model: inside, beside it, or of no use."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from survey_fixture import make_survey, write_survey

from skyanchor.geometry import crs
from skyanchor.scaffold import load_scaffold
from skyanchor.scaffold.gps_check import gps_on_model


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
