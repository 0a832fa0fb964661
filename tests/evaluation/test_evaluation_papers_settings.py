"""The paper's settings one at a time: each is what one types for it, and nothing else is changed."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest
import tyro

from skyanchor import pipeline
from skyanchor.cli import runs
from skyanchor.errors import SkyAnchorError
from skyanchor.evaluation import ablate as ab
from skyanchor.evaluation.ablations import Variant
from skyanchor.evaluation.papers_settings import BY_TABLE, papers_settings
from skyanchor.events import ANCHORS
from skyanchor.matching import Sift, XFeat
from skyanchor.pipeline import PAPER, PipelineConfig
from skyanchor.presets import with_matcher
from skyanchor.scene import config as update_settings
from skyanchor.storage import files

TYPED = [variant for table in ("anchors", "trajectory") for variant in papers_settings(table)]
ALL = [variant for table in BY_TABLE for variant in papers_settings(table)]


def parsed(words: list[str], held: PipelineConfig = pipeline.CPU) -> PipelineConfig:
    """The settings as the command's own parser reads them."""
    read: list[PipelineConfig] = []

    def keep(options: runs.Everyday, settings: runs.Settings = held) -> int:
        read.append(settings)
        return 0

    tyro.cli(keep, args=["--out", "run", *words], config=(tyro.conf.FlagCreatePairsOff,))
    return read[0]


@pytest.mark.parametrize("variant", TYPED, ids=lambda variant: variant.name)
def test_a_label_is_what_one_types(variant: Variant) -> None:
    assert parsed(variant.label.split()) == variant.change(pipeline.CPU) != pipeline.CPU


@pytest.mark.parametrize("variant", [one for one in TYPED if ":" in one.label], ids=lambda variant: variant.name)
def test_so_it_is_where_the_run_has_another_matcher(variant: Variant) -> None:
    held = with_matcher(pipeline.CPU, XFeat())
    assert parsed(variant.label.split(), held) == variant.change(held) != held
    own = with_matcher(pipeline.CPU, Sift(keypoints=3000, contrast=0.02))
    assert parsed(variant.label.split(), own) == variant.change(own) != own


def differing(one: Any, other: Any, path: str = "") -> dict[str, Any]:
    """Where two settings differ, and what the second has there."""
    if is_dataclass(one) and type(one) is type(other):
        found: dict[str, Any] = {}
        for each in fields(one):
            found |= differing(getattr(one, each.name), getattr(other, each.name), f"{path}.{each.name}".strip("."))
        return found
    return {} if one == other else {path: other}


@pytest.mark.parametrize("variant", ALL, ids=lambda variant: variant.name)
def test_nothing_else_is_changed(variant: Variant) -> None:
    ours = replace(pipeline.CPU, scene=replace(pipeline.CPU.scene, update=update_settings.preset("cpu")))
    changed = variant.change(ours)
    asked = {path.replace(":sift", ""): value for path, value in BY_TABLE[variant.table][variant.name].items()}
    assert differing(ours, changed) == asked
    left_open = variant.change(pipeline.CPU)
    assert left_open == changed or replace(left_open.scene, update=ours.scene.update) == changed.scene


def test_settings_of_the_preset_are_among_them() -> None:
    """Whatever the trajectory of the preset has otherwise is tried alone."""
    asked = [pair for settings in BY_TABLE["trajectory"].values() for pair in settings.items()]
    for path, value in differing(pipeline.CPU.trajectory, PAPER.trajectory, "trajectory").items():
        assert (path.replace("matcher.", "matcher:sift."), value) in asked


def test_they_are_asked_for_by_one_word(tmp_path: Any) -> None:
    for stage in (ANCHORS, "3-trajectory"):
        files.save(tmp_path / stage / "recipe.json", {})
    chosen = ab.chosen_variants(tmp_path, papers=True)
    assert [variant.name for variant in chosen] == [variant.name for variant in TYPED]
    assert not {variant.name for variant in ab.chosen_variants(tmp_path)} & {variant.name for variant in TYPED}
    few = ab.chosen_variants(tmp_path, ["update"], only=["papers-sky"], papers=True)
    assert [variant.name for variant in few] == ["papers-sky"]
    assert {variant.name for variant in ALL} <= {name for table in BY_TABLE for name in ab.names_of(table)}


def test_they_are_not_passed_over_beside_backends(tmp_path: Any) -> None:
    with pytest.raises(SkyAnchorError, match="--papers-settings says nothing of --matchers"):
        ab.chosen_variants(tmp_path, matchers=["sift"], papers=True)
    found = ab.chosen_variants(tmp_path, ["anchors"], ["sift"], papers=True)
    assert [variant.name for variant in found] == [*BY_TABLE["anchors"], "matcher-sift"]
