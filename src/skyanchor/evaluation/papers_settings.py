"""The paper's settings one at a time: what each difference that docs/paper.md lists is worth on a scene.

Each variant is ours but for one setting, or a few that say one thing, as the paper has it. It is called what one types
for it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from skyanchor.backends.names import choice_named, kebab
from skyanchor.evaluation.ablations import Table, Variant
from skyanchor.events import ANCHORS
from skyanchor.matching import AnySparse
from skyanchor.pipeline import PipelineConfig
from skyanchor.stages.scene import resolved_update

NO_LIMIT = 1_000_000
"""Of what the paper does not bound."""
Settings: TypeAlias = Mapping[str, Any]
"""Values by where settings hold them, as `trajectory.register.least_ratio`; a colon names the choice that has them, and
is taken where another one is there."""

GROUPS: dict[str, Settings] = {
    "papers-boundaries": {"sequence.cut.join_boundaries": False},
    "papers-keypoints-of-groups": {"anchors.ground_matcher:sift.keypoints": 6000},
}
TRAJECTORY: dict[str, Settings] = {
    "papers-boundaries-walked": {"sequence.cut.join_boundaries": False},
    "papers-short-submaps": {"sequence.cut.submap_length": 50},
    "papers-keypoints": {"trajectory.matcher:sift.keypoints": 6000},
    "papers-verification": {"trajectory.verify.estimator": "magsac", "trajectory.verify.trials": (100, 50_000)},
    "papers-keyframes": {"trajectory.keyframe.least_kept": 0.0},
    "papers-acceptance": {
        "trajectory.register.least_ratio": 0.0,
        "trajectory.register.least_cells": 0,
        "trajectory.register.motion_factor": float(NO_LIMIT),
    },
    "papers-order": {"trajectory.register.strong_inliers": 0},
    "papers-frame-adjustment": {"trajectory.adjust.registration_iterations": 300},
    "papers-online-window": {"trajectory.adjust.online_window": NO_LIMIT},
    "papers-angles": {"trajectory.tracks.least_angle_deg": 0.0},
    "papers-relaxation": {"trajectory.closure.relax_m": float(NO_LIMIT)},
    "papers-rounds": {"trajectory.adjust.final_rounds": 1},
    "papers-loops": {"trajectory.loop_pairs": 0},
    "papers-submaps-alone": {"trajectory.last_adjustment": False},
    "papers-hold": {"trajectory.hold": None},
}
UPDATE: dict[str, Settings] = {
    "papers-seeds": {"scene.update.seeds": "tracks"},
    "papers-street-points": {"scene.update.in_the_air": None, "scene.update.finer_views": 0},
    "papers-guard": {"scene.update.guard": False},
    "papers-guard-pictures": {"scene.update.guard_pictures": 0},
    "papers-weight": {"scene.update.guard_weight": 1.0},
    "papers-free-set": {"scene.update.refined": "all"},
    "papers-reach": {"scene.update.in_reach": False},
    "papers-exposures": {"scene.update.exposures": False},
    "papers-sky": {"scene.update.sky_radius": 0.0},
    "papers-floaters": {"scene.update.floaters": None},
    "papers-movers": {"scene.contradicted": None},
    "papers-length": {"scene.update.patience": 0},
    "papers-losses": {"scene.update.most_aerial_loss_db": math.inf},
}
BY_TABLE: dict[Table, dict[str, Settings]] = {"anchors": GROUPS, "trajectory": TRAJECTORY, "update": UPDATE}


def papers_settings(table: Table) -> tuple[Variant, ...]:
    """The settings of a stage that the paper has otherwise, a variant each."""
    return tuple(_variant(table, name, settings) for name, settings in BY_TABLE[table].items())


def _variant(table: Table, name: str, settings: Settings) -> Variant:
    since = ANCHORS if any(path.startswith("sequence.") for path in settings) else ""
    label = " ".join(typed(path, value) for path, value in settings.items())
    return Variant(table, name, label, lambda config: with_settings(config, settings), since=since)


def with_settings(config: PipelineConfig, settings: Settings) -> PipelineConfig:
    """The settings with these values; where an update is left to the device, that of its preset is changed."""
    if any(path.startswith("scene.update.") for path in settings):
        config = replace(config, scene=replace(config.scene, update=resolved_update(config.scene)))
    for path, value in settings.items():
        config = _replaced(config, path.split("."), value)
    return config


def _replaced(settings: Any, path: list[str], value: Any) -> Any:
    (name, _, choice), rest = path[0].partition(":"), path[1:]
    held = getattr(settings, name)
    if choice and kebab(type(held)) != choice:
        held = choice_named(AnySparse, choice, f"--{name}")
    return replace(settings, **{name: _replaced(held, rest, value) if rest else value})


def typed(path: str, value: Any) -> str:
    """What the command line calls a setting with this value."""
    choice, colon, last = path.partition(":")
    if colon:
        return f"{path[: path.rindex('.')].replace('_', '-')} {typed(choice + last[last.index('.') :], value)}"
    words = path.replace("_", "-")
    if value is None:
        return f"{words}:none"
    if value is False:
        head, _, last = words.rpartition(".")
        return f"--{head}.no-{last}"
    values = value if isinstance(value, tuple) else (value,)
    return " ".join([f"--{words}", *(f"{one:g}" if isinstance(one, float) else str(one) for one in values)])
