"""Where places are described."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from skyanchor.anchors.places import PlacesConfig
from skyanchor.anchors.prepare import Describer
from skyanchor.matching import Sift, XFeat


def test_a_small_network_runs_beside_the_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen workers would hold the GPU sixteen times."""
    asked: list[str] = []
    for kind in (XFeat, Sift):
        monkeypatch.setattr(kind, "load", lambda self, device="auto": asked.append(device))
    for features in (XFeat(), Sift()):
        nothing: Any = None
        assert Describer(nothing, nothing, nothing, replace(PlacesConfig(), features=features)).matcher is None
    assert asked == ["cpu", "auto"]
