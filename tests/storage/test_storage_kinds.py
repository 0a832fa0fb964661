"""Folders of ours are known by what is there together."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyanchor.storage.kinds import kind_of


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        ((".state/inputs.json",), "a run folder"),
        (("aerial.json", "model/cameras.bin"), "a prepared scaffold"),
        (("aerial.json",), ""),
        (("model/cameras.bin", "images/a.jpg"), ""),
        (("tiles.json", "0_0.ply"), "a folder of tiles of splats"),
        (("a.jpg",), ""),
    ],
)
def test_a_folder_is_known_by_all_of_its_signs(tmp_path: Path, names: tuple[str, ...], kind: str) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert kind_of(tmp_path) == kind
