"""The estimate of a run follows what is to be done and who does it."""

from __future__ import annotations

from dataclasses import replace

from skyanchor.stages import outlook
from skyanchor.stages.outlook import Estimate, Load, estimate

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


def test_the_rates_are_ranges() -> None:
    rates = [value for name, value in vars(outlook).items() if name.endswith("_S")]
    assert len(rates) == 6 and all(low < high for low, high in rates)
