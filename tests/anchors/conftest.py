"""One prepared street for all tests of the anchor stage."""

import pytest
from anchors_street import GROUND, make_scaffold, make_sequence, small_config

from skyanchor.anchors.in_process import prepared_here
from skyanchor.anchors.prepared_scaffold import PreparedScaffold
from skyanchor.types import Sequence


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> PreparedScaffold:
    scaffold, maps = make_scaffold(tmp_path_factory.mktemp("aerial"))
    return prepared_here(scaffold, maps, GROUND, small_config())


@pytest.fixture(scope="session")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Sequence:
    return make_sequence(tmp_path_factory.mktemp("ground"))


@pytest.fixture(scope="session")
def mirrored(tmp_path_factory: pytest.TempPathFactory) -> Sequence:
    return make_sequence(tmp_path_factory.mktemp("mirrored"), mirrored=True)


@pytest.fixture(scope="session")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Sequence:
    return make_sequence(tmp_path_factory.mktemp("elsewhere"), seed=7)
