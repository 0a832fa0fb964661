"""The focal length that groups vote for."""

import pytest

from skyanchor.anchors.focal import FocalVotes, elected

FACTORS = (0.7, 1.0, 1.4)


def test_every_group_has_one_vote() -> None:
    loud, quiet = FocalVotes((900.0, 300.0, 0.0)), FocalVotes((10.0, 80.0, 0.0))
    assert elected((loud, quiet, quiet), FACTORS) == 1.0
    assert elected((loud, loud, quiet), FACTORS) == pytest.approx(0.7)


def test_without_any_place_the_guess_stays() -> None:
    assert elected((FocalVotes((0.0, 0.0, 0.0)),), FACTORS) == 1.0
