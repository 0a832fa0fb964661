"""What can be left out of the method to measure what it is worth: the paper's variants, and backends by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from skyanchor.backends.names import choice_named, name_of
from skyanchor.events import ANCHORS, SCENE, TRAJECTORY
from skyanchor.gaussians.devices import load_engine
from skyanchor.matching import AnyMatcher
from skyanchor.matching.global_descriptors import AnyDescriptor, SceneVlad
from skyanchor.pipeline import PipelineConfig
from skyanchor.scaffold import training as scaffold_training
from skyanchor.scene.settings import UpdateConfig, trained_from_scratch, without_insertion, without_refinement
from skyanchor.stages.scene import resolved_update

Table: TypeAlias = Literal["anchors", "trajectory", "update", "matchers", "descriptors"]
"""Which of the tables a variant belongs to."""
Change: TypeAlias = Callable[[PipelineConfig], PipelineConfig]
"""The method's settings as a variant has them."""

STAGES: dict[Table, str] = {
    "anchors": ANCHORS,
    "trajectory": TRAJECTORY,
    "update": SCENE,
    "matchers": ANCHORS,
    "descriptors": ANCHORS,
}
"""The stage that the variants of a table run again."""
FULL = "full method"
SWAPS: tuple[Table, ...] = ("matchers", "descriptors")
"""Tables whose variants have another backend; each is run anew, so that all are timed alike."""


@dataclass(frozen=True)
class Variant:
    """The method with one thing changed."""

    table: Table
    name: str
    """Of its run folder."""
    label: str
    """What the tables call it, the paper's words where it has them."""
    change: Change
    check: Callable[[], None] = lambda: None
    """BackendError when what it needs is not here."""


def all_variants(table: Table) -> tuple[Variant, ...]:
    """The paper's variants of a stage, and ours, in the paper's order."""
    return {"anchors": anchor_variants, "trajectory": trajectory_variants, "update": update_variants}[table]()


# --- anchors ------------------------------------------------------------------------------------------------------


def anchor_variants() -> tuple[Variant, ...]:
    """Anchor localisation; bridges need no visibility graph, so its row stands beside that of the paper's route."""
    rows: tuple[tuple[str, str, dict[str, bool]], ...] = (
        ("no-bridges", "w/o bridges: aerial photos matched directly", {"bridges": False}),
        ("no-ground-first", "w/o ground-first reconstruction", {"ground_first": False}),
        ("no-metric-alignment", "w/o global metric alignment", {"metric_alignment": False}),
        ("single-frame", "single-frame localisation", {"single_frame": True}),
    )
    variants = [Variant("anchors", name, label, _anchors_without(switches)) for name, label, switches in rows]
    without = _anchors_without({"visibility_graph": False})
    return (
        Variant("anchors", "papers-route", "the paper's route", _on_papers_route),
        Variant(
            "anchors",
            "no-visibility-graph",
            "the paper's route w/o aerial visibility graph",
            lambda config: without(_on_papers_route(config)),
        ),
        *variants,
    )


def _on_papers_route(config: PipelineConfig) -> PipelineConfig:
    return replace(config, anchors=replace(config.anchors, route="paper"))


def _anchors_without(switches: dict[str, bool]) -> Change:
    def change(config: PipelineConfig) -> PipelineConfig:
        ablation = replace(config.anchors.ablation, **switches)
        return replace(config, anchors=replace(config.anchors, ablation=ablation))

    return change


# --- trajectory ---------------------------------------------------------------------------------------------------


def trajectory_variants() -> tuple[Variant, ...]:
    """Trajectory recovery; a group size that is the method's own is the full method."""
    rows: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("no-anchor-init", "w/o anchor initialisation", {"anchor_initialisation": False}),
        ("anchors-not-fixed", "w/o fixed anchor poses", {"fixed_anchors": False}),
        ("front-only", "front-anchor-only adjustment", {"rear_anchors": False}),
        ("no-anchored-adjustment", "w/o anchor-constrained adjustment", {"anchored_adjustment": False}),
        ("no-3d-aware-selection", "w/o 3D-aware keyframe selection", {"aware_of_points": False}),
        ("group-size-2", "anchor group size (2, 2)", {"group_size": 2}),
        ("group-size-4", "anchor group size (4, 4)", {"group_size": 4}),
        ("group-size-6", "anchor group size (6, 6)", {"group_size": 6}),
    )
    return (
        *(Variant("trajectory", name, label, _trajectory_without(switches)) for name, label, switches in rows),
        Variant("trajectory", "no-whole-adjustment", "w/o adjustment over all submaps (the paper's)", _submaps_alone),
    )


def _submaps_alone(config: PipelineConfig) -> PipelineConfig:
    return replace(config, trajectory=replace(config.trajectory, last_adjustment=False))


def _trajectory_without(switches: dict[str, Any]) -> Change:
    def change(config: PipelineConfig) -> PipelineConfig:
        ablation = replace(config.trajectory.ablation, **switches)
        return replace(config, trajectory=replace(config.trajectory, ablation=ablation))

    return change


# --- update -------------------------------------------------------------------------------------------------------


def update_variants() -> tuple[Variant, ...]:
    """Scene update; the aerial-only row needs no run, see `AERIAL_ONLY`."""
    rows: tuple[tuple[str, str, Callable[[UpdateConfig], UpdateConfig]], ...] = (
        ("from-scratch", "trained from scratch, seeds of air and street", trained_from_scratch),
        ("no-insertion", "w/o insertion before the refinement", without_insertion),
        ("not-frozen", "w/o frozen aerial model", lambda config: replace(config, frozen=False)),
        ("no-adjustment-init", "w/o points of the anchored adjustment", lambda config: replace(config, seeds="random")),
        ("no-joint-refinement", "w/o joint refinement", without_refinement),
        ("no-guard", "w/o aerial views in the insertion (the paper's)", lambda config: replace(config, guard=False)),
    )
    return (
        *(Variant("update", name, label, _update_changed(change)) for name, label, change in rows),
        Variant("update", "joint-training", "joint training on all views (Horizon-GS's way)", _joint_training),
    )


AERIAL_ONLY = Variant("update", "aerial-only", "aerial only", lambda config: config)
"""The scene before the update: the full run has drawn its held-out views too."""


def _joint_training(config: PipelineConfig) -> PipelineConfig:
    """All views from the first iteration on, for as long as flight, insertion and refinement take together."""
    aerial = config.scene.aerial or scaffold_training.preset(load_engine(config.scene.device).device)
    whole = trained_from_scratch(resolved_update(config.scene), aerial.train.iterations)
    return replace(config, scene=replace(config.scene, update=whole))


def _update_changed(changed: Callable[[UpdateConfig], UpdateConfig]) -> Change:
    def change(config: PipelineConfig) -> PipelineConfig:
        return replace(config, scene=replace(config.scene, update=changed(resolved_update(config.scene))))

    return change


# --- backends -----------------------------------------------------------------------------------------------------


def matcher_variant(name: str) -> Variant:
    """The method with another cross-view matcher, with bridges on pictures of the size that the method matches.

    Aerial photos, where they are matched directly, are shown to it as the method shows them to its own.
    """
    chosen: AnyMatcher = choice_named(AnyMatcher, name, "--matchers")

    def change(config: PipelineConfig) -> PipelineConfig:
        refine, paper = config.anchors.refine, config.anchors.paper
        bridges, photos = (_sized(chosen, own) for own in (refine.matcher, paper.matcher))
        changed = replace(refine, matcher=bridges, last=None), replace(paper, matcher=photos)
        return replace(config, anchors=replace(config.anchors, refine=changed[0], paper=changed[1]))

    return Variant("matchers", f"matcher-{_folder(chosen)}", name_of(chosen), change, chosen.check)


def _sized(chosen: AnyMatcher, own: AnyMatcher) -> AnyMatcher:
    """A matcher that sees pictures as large as those of the method's own, and keeps no more keypoints."""
    return replace(chosen, keypoints=min(chosen.keypoints, own.keypoints), longest=own.longest)


def descriptor_variant(name: str) -> Variant:
    """The method with another global descriptor, for the shortlist of places and for aerial photos."""
    chosen: AnyDescriptor = choice_named(AnyDescriptor, name, "--descriptors")
    of_places = None if chosen == SceneVlad() else chosen  # places sum up the local features they are matched with

    def change(config: PipelineConfig) -> PipelineConfig:
        anchors = config.anchors
        places, paper = replace(anchors.places, descriptor=of_places), replace(anchors.paper, descriptor=chosen)
        return replace(config, anchors=replace(anchors, places=places, paper=paper))

    return Variant("descriptors", f"descriptor-{_folder(chosen)}", name_of(chosen), change, chosen.check)


def _folder(choice: AnyMatcher | AnyDescriptor) -> str:
    return name_of(choice).replace(":", "-").replace("/", "-")
