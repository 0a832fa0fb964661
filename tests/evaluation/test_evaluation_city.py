"""The table of the square kilometre, from made-up rows; which groups the search itself found."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from skyanchor.geometry import rigid
from skyanchor.run.records import GroupSeconds
from skyanchor.types import Pose, TriedPlace

ROOT = Path(__file__).parents[2]
PLAN = {"streets": [22, 25], "seed": 7, "depth": "measured", "spacing": [72, 64], "altitude": 150, "looked": []}
UP = np.array([0.0, 0.0, 1.0])


@pytest.fixture
def city(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("city")


def row(what: str, designs: int = 9, **values: object) -> str:
    return json.dumps({**PLAN, "designs": designs, "what": what, **values})


def searched(walk: str, area: str, accepted: int, wrong: int = 0, **values: Any) -> str:
    of = {"groups": 4, "accepted": accepted, "wrong": wrong, "found": [0, 1, 3], "sigmas": {}, "worker_mb": 450}
    seconds = {"group_s": [8.0, 10.0, 12.0, 40.0], "wall_s": 60.0}
    return row("searched", **{"walk": walk, "area": area, **of, **seconds, **values})


def cells(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")][2:]


def test_a_line_per_area_and_number_of_designs(
    city: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, out = tmp_path / "9.jsonl", tmp_path / "2.jsonl", tmp_path / "out.md"
    lines = [
        row("built", seconds=1),
        row("prepared", views=53790, places_mb=1800.4),
        searched("ground", "whole", 3, 1, worker_mb=610),
        searched("ground2", "whole", 4, group_s=[9.0, 9.0, 9.0, 9.0], wall_s=20.0),
        row("failed", walk="ground3", area="whole", code=1),
        searched("ground", "0.05", 0),
        searched("ground", "0.05", 4),
        row("failed", walk="ground", area="0.05", code=1),
        searched("ground", "near", 4, near_m=100.0),
    ]
    first.write_text("\n".join(lines) + "\n")
    second.write_text(searched("ground", "whole", 2, designs=2, found=[]) + "\n")
    monkeypatch.setattr(sys, "argv", ["city.py", "--rows", str(first), str(second), "--table", str(out)])
    city.main()
    text = out.read_text()
    assert text in capsys.readouterr().out and "earlier version" not in text
    near, small, two, nine = cells(text)
    assert near[:6] == ["near, 100 m", "9", "measured", "1", "4", "4/4"]
    assert small[:6] == ["0.05 km²", "9", "measured", "1", "4", "4/4"], "done again, and failed once more"
    assert two[:2] == ["whole, 1 km²", "2"] and two[5:8] == ["2/4", "0", "0/4"] and two[-2:] == ["-", "-"]
    assert nine[:4] == ["whole, 1 km²", "9", "measured", "3 (1 failed)"]
    assert nine[4:] == ["8", "7/8", "1", "6/8", "9.0, 40.0", "10.0", "610", "53790", "1800"]


def test_rows_of_an_earlier_version_are_told_apart(city: ModuleType, tmp_path: Path) -> None:
    old = json.loads(searched("ground", "whole", 3))
    del old["found"], old["sigmas"]
    text = city.table([old])
    assert cells(text)[0][7] == "-" and "wrong by their metres alone" in text


def test_a_search_that_failed_is_of_the_line_that_it_would_have_been_of(
    city: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[dict[str, Any]] = []
    ended = SimpleNamespace(pid=0, returncode=1, poll=lambda: 1)
    monkeypatch.setattr(city, "subprocess", SimpleNamespace(Popen=lambda *_, **__: ended))
    monkeypatch.setattr(city, "camera_of", lambda _: "f=343")
    bench = SimpleNamespace(
        work=tmp_path, scene=tmp_path, scaffold=tmp_path, looked=(), row=lambda **row: rows.append(row)
    )
    city.searched(bench, city.Search("ground", "near", (), 100.0), 40)
    kind_of = importlib.import_module("city_table").kind_of
    asked = json.loads(searched("ground", "near", 4, near_m=100.0))
    assert kind_of(json.loads(row("")) | rows[0]) == kind_of(asked)


def test_nothing_asked_is_told(city: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["city.py"])
    with pytest.raises(SystemExit):
        city.main()


def test_the_search_found_what_its_first_look_tried(city: ModuleType) -> None:
    """Within 3 m and in about the direction; a second look is told where to search by the neighbours."""

    def at(x: float, turn_deg: float = 0.0) -> Pose:
        eye, angle = np.array([x, 0.0, 1.7]), np.radians(turn_deg)
        return rigid.look_at(eye, eye + np.array([np.sin(angle), np.cos(angle), 0.0]), UP)

    def look(group: int, *places: Pose) -> GroupSeconds:
        return GroupSeconds(group, {}, tuple(TriedPlace(5, place) for place in places))

    looks = [look(0, at(80.0), at(2.5, 20.0)), look(1, at(3.5)), look(1, at(0.0)), look(2, at(0.0, 40.0)), look(4)]
    assert city.found(looks, {5: at(0.0)}, 5) == [0]
    assert city.found(looks, {}, 5) == []
