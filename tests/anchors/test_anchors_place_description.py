"""Where places are described, and that none is looked at twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skyanchor.anchors.place_description import Describer, Sampled, _with_landmarks
from skyanchor.anchors.place_finding import PlacesConfig
from skyanchor.anchors.place_index import PlaceView
from skyanchor.bridges.views import Node
from skyanchor.matching import Sift, XFeat
from skyanchor.storage import codec, files
from skyanchor.types import Pose


def test_a_small_network_runs_beside_the_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen workers would hold the GPU sixteen times."""
    asked: list[str] = []
    for kind in (XFeat, Sift):
        monkeypatch.setattr(kind, "load", lambda self, device="auto": asked.append(device))
    for features in (XFeat(), Sift()):
        nothing: Any = None
        assert Describer(nothing, nothing, nothing, replace(PlacesConfig(), features=features)).matcher is None
    assert asked == ["cpu", "auto"]


def nodes(count: int) -> tuple[Node, ...]:
    """Places in a row, each with a direction of its own."""
    still = Pose(np.eye(3), np.zeros(3))
    return tuple(Node(np.array([k / 3.0, 0.1, 1.7]), k * np.pi / 7.0, still) for k in range(count))


def seen_from(node: Node) -> PlaceView:
    """A view of five keypoints that tell the node."""
    rng = np.random.default_rng(round(3 * node.eye[0]))
    descriptors, points = rng.random((5, 64)).astype(np.float32), rng.random((5, 3)).astype(np.float32)
    return PlaceView(node.eye, node.heading, 40, descriptors, points, np.arange(5))


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Where the describer looked from; nothing is to be seen from every fourth node."""
    asked: list[float] = []

    def view(self: Describer, node: Node) -> PlaceView | None:
        asked.append(node.heading)
        return None if round(3 * node.eye[0]) % 4 == 3 else seen_from(node)

    monkeypatch.setattr(Describer, "_view", view)
    return asked


def test_views_that_gave_the_words_stand_in_the_tiles(looked: list[float], tmp_path: Path) -> None:
    nothing: Any = None
    describer, places = Describer(nothing, nothing, nothing, replace(PlacesConfig(), sampled=4, centres=2)), nodes(10)
    files.save(tmp_path / "sampled.npz", describer.sampled(places))
    held = files.load(tmp_path / "sampled.npz", Sampled)
    assert len(held.views) == len(looked) == 4
    assert None in held.views and describer.vocabulary(held) is not None
    travelled = codec.from_json(tuple[Node, ...], codec.to_json(places))
    made = describer.describe(travelled, held)
    assert len(looked) == len(set(looked)) == 10
    alone = describer.describe(places)
    assert [view.heading for view in made] == [view.heading for view in alone]
    for ours, theirs in zip(made, alone, strict=True):
        assert np.array_equal(ours.descriptors, theirs.descriptors) and np.array_equal(ours.points, theirs.points)


def test_no_words_are_looked_for_where_a_descriptor_of_whole_views_needs_none(looked: list[float]) -> None:
    nothing: Any = None
    config = replace(PlacesConfig(), descriptor=object())  # type: ignore[arg-type]
    describer = Describer(nothing, nothing, nothing, config)
    held = describer.sampled(nodes(5))
    assert held.views == () and describer.vocabulary(held) is None and not looked


@pytest.mark.parametrize(("points", "kept"), [(200_000, 0.53), (800, 0.53), (10, 1.0)])
def test_a_model_of_few_points_has_places_where_a_model_of_many_has_them(points: int, kept: float) -> None:
    """Points over the western half of a square of 400 m, 25 or many more within 25 m of a place, or six."""
    rng = np.random.default_rng(3)
    landmarks = np.column_stack([rng.uniform(0, 200, points), rng.uniform(0, 400, points), np.zeros(points)])
    places = np.stack([axis.ravel() for axis in np.mgrid[4:400:8, 4:400:8, 1:2]], axis=1).astype(np.float64)
    found = _with_landmarks(places, landmarks, 25, 25.0)
    assert len(found) / len(places) == pytest.approx(kept, abs=0.05)  # the edge is 25 m wide
    assert points < 25 or np.mean(found[:, 0] > 230.0) == 0.0
