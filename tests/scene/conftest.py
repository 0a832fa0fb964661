"""One tiny scene for all tests of the update."""

import pytest
from update_world import World, make_world


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("photos"))
