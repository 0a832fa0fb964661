"""One prepared street for all tests of the anchor stage."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from anchors_street import GROUND, make_scaffold, make_sequence

from skyanchor.anchors.config import AnchorConfig, RefineConfig
from skyanchor.anchors.group import PreparedScaffold, prepare
from skyanchor.bridges.views import BridgeConfig, NodeConfig
from skyanchor.matching import XFeat, XFeatStar
from skyanchor.types import Sequence, VisibilityGraph


def small_config() -> AnchorConfig:
    """The defaults at the size of the test photos."""
    base = AnchorConfig()
    return replace(
        base,
        places=replace(
            base.places,
            nodes=NodeConfig(spacing=10.0),
            bridge=BridgeConfig(far=60.0, paint_width=480, front_width=240, sources=8),
            width=256,
            features=XFeat(keypoints=400, longest=256, threshold=0.01),
        ),
        refine=RefineConfig(width=400, matcher=XFeatStar(keypoints=2000, longest=400), frames=(2, 6)),
    )


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> PreparedScaffold:
    scaffold, maps = make_scaffold(tmp_path_factory.mktemp("aerial"))
    ring = tuple(np.array([j for j in range(len(maps)) if j != i]) for i in range(len(maps)))
    graph = VisibilityGraph(ring, tuple(np.ones(len(maps) - 1) for _ in maps))
    return prepare(scaffold, graph, maps, GROUND, small_config())


@pytest.fixture(scope="session")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Sequence:
    return make_sequence(tmp_path_factory.mktemp("ground"))


@pytest.fixture(scope="session")
def mirrored(tmp_path_factory: pytest.TempPathFactory) -> Sequence:
    return make_sequence(tmp_path_factory.mktemp("mirrored"), mirrored=True)


@pytest.fixture(scope="session")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Sequence:
    return make_sequence(tmp_path_factory.mktemp("elsewhere"), seed=7)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("anchors")
