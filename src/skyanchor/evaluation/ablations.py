"""What can be left out of the method to measure what it is worth: the paper's variants, and backends by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from skyanchor.anchors.config import Route
from skyanchor.backends.names import choice_named, name_of
from skyanchor.events import ANCHORS, SCENE, TRAJECTORY
from skyanchor.gaussians.devices import load_engine
from skyanchor.matching import AnyMatcher
from skyanchor.matching.global_descriptors import AnyDescriptor, SceneVlad
from skyanchor.pipeline import PipelineConfig
from skyanchor.scaffold import training as scaffold_training
from skyanchor.scene import config as update_settings
from skyanchor.scene.config import UpdateConfig, trained_from_scratch, without_insertion
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
    since: str = ""
    """The first stage that it runs again, where that is one before its table's."""
    long: bool = False
    """Run only where it is named: hours on a GPU, and days without one."""

    @property
    def first(self) -> str:
        """The first stage that is its own."""
        return self.since or STAGES[self.table]


def all_variants(table: Table) -> tuple[Variant, ...]:
    """The paper's variants of a stage, and ours, in the paper's order."""
    return {"anchors": anchor_variants, "trajectory": trajectory_variants, "update": update_variants}[table]()


# --- anchors ------------------------------------------------------------------------------------------------------


def anchor_variants() -> tuple[Variant, ...]:
    """Anchor localisation; bridges need no visibility graph, so its row stands beside that of the paper's route."""
    rows: tuple[tuple[str, str, dict[str, bool]], ...] = (
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
        Variant("anchors", "no-bridges", "w/o bridges: aerial photos matched directly", _matched_directly),
        *variants,
    )


def _matched_directly(config: PipelineConfig) -> PipelineConfig:
    return on_route(config, "direct")


def _on_papers_route(config: PipelineConfig) -> PipelineConfig:
    return replace(config, anchors=replace(config.anchors, route="paper"))


def _anchors_without(switches: dict[str, bool]) -> Change:
    def change(config: PipelineConfig) -> PipelineConfig:
        ablation = replace(config.anchors.ablation, **switches)
        return replace(config, anchors=replace(config.anchors, ablation=ablation))

    return change


# --- trajectory ---------------------------------------------------------------------------------------------------


def trajectory_variants() -> tuple[Variant, ...]:
    """Trajectory recovery; a group size that is the method's own is the full method.

    Groups of another size are localised anew. That their outermost anchors alone are used is another question: how many
    poses a trajectory needs where all of them are as good as a whole group makes them.
    """
    rows: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("no-anchor-init", "w/o anchor initialisation", {"anchor_initialisation": False}),
        ("anchors-not-fixed", "w/o fixed anchor poses", {"fixed_anchors": False}),
        ("front-only", "front-anchor-only adjustment", {"rear_anchors": False}),
        ("no-anchored-adjustment", "w/o anchor-constrained adjustment", {"anchored_adjustment": False}),
        ("no-3d-aware-selection", "w/o 3D-aware keyframe selection", {"aware_of_points": False}),
        ("outermost-2", "the outermost 2 anchors of every group", {"group_size": 2}),
        ("outermost-4", "the outermost 4 anchors of every group", {"group_size": 4}),
    )
    changed = [Variant("trajectory", name, label, _trajectory_without(switches)) for name, label, switches in rows]
    return (
        *changed[:5],
        *(_groups_of(size) for size in (2, 4, 6)),
        *changed[5:],
        Variant("trajectory", "anchors-constant", "anchors constant to the end (the paper's)", _constant_to_the_end),
        Variant(
            "trajectory", "no-whole-adjustment", "w/o adjustment of all, anchors constant (the paper's)", _submaps_alone
        ),
    )


def _groups_of(size: int) -> Variant:
    """Anchor groups of so many frames, localised as such: none is enlarged beyond it when it fails."""

    def change(config: PipelineConfig) -> PipelineConfig:
        if config.sequence.cut.group_size == size:
            return config
        sequence = replace(config.sequence, cut=replace(config.sequence.cut, group_size=size))
        ladder = replace(config.anchors.ladder, enlarge=min(size, config.anchors.ladder.enlarge))
        used = replace(config.trajectory.ablation, group_size=max(size, config.trajectory.ablation.group_size))
        trajectory = replace(config.trajectory, ablation=used)
        return replace(config, sequence=sequence, anchors=replace(config.anchors, ladder=ladder), trajectory=trajectory)

    return Variant("trajectory", f"groups-of-{size}", f"anchor group size ({size}, {size})", change, since=ANCHORS)


def _constant_to_the_end(config: PipelineConfig) -> PipelineConfig:
    return replace(config, trajectory=replace(config.trajectory, hold=None))


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
        ("no-joint-refinement", "w/o joint refinement", lambda config: replace(config, joint=None)),
        ("no-guard", "w/o aerial views in the insertion (the paper's)", lambda config: replace(config, guard=False)),
    )
    return (
        *(Variant("update", name, label, _update_changed(change)) for name, label, change in rows),
        Variant("update", "joint-training", "joint training on all views (Horizon-GS's way)", _joint_training),
        Variant("update", "papers-schedule", "the paper's 30K + 40K and objective", _papers_schedule, long=True),
    )


AERIAL_ONLY = Variant("update", "aerial-only", "aerial only", lambda config: config)
"""The scene before the update: the full run has drawn its held-out views too."""


def _joint_training(config: PipelineConfig) -> PipelineConfig:
    """All views from the first iteration on, for as long as flight, insertion and refinement take together."""
    aerial = config.scene.aerial or scaffold_training.preset(load_engine(config.scene.device).device)
    whole = trained_from_scratch(resolved_update(config.scene), aerial.train.iterations)
    return replace(config, scene=replace(config.scene, update=whole))


def _papers_schedule(config: PipelineConfig) -> PipelineConfig:
    """The paper's update of the run's own aerial Gaussians, on pictures as wide as the run's."""
    width = resolved_update(config.scene).insertion.width
    paper = update_settings.PAPER
    assert paper.joint is not None
    wide = replace(paper, insertion=replace(paper.insertion, width=width), joint=replace(paper.joint, width=width))
    return replace(config, scene=replace(config.scene, contradicted=None, update=wide))


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


AblationRoute: TypeAlias = Literal["bridges", "paper", "direct"]
"""How anchors are found while backends are compared: by bridge views, by the paper's route, or by aerial photos matched
directly and lifted on our surface (the anchors' switch `bridges` off)."""
ROUTES: dict[AblationRoute, str] = {
    "bridges": "bridge views",
    "paper": "the paper's route",
    "direct": "aerial photos matched directly",
}


def on_route(config: PipelineConfig, route: AblationRoute) -> PipelineConfig:
    """The settings with anchors found that way."""
    ablation = replace(config.anchors.ablation, bridges=route != "direct")
    way: Route = "paper" if route == "paper" else "bridges"
    return replace(config, anchors=replace(config.anchors, route=way, ablation=ablation))


def routed(variant: Variant, route: AblationRoute) -> Variant:
    """A variant of backends whose anchors are found in a way that need not be the run's."""

    def change(config: PipelineConfig) -> PipelineConfig:
        return variant.change(on_route(config, route))

    label = f"{variant.label}, {ROUTES[route]}"
    return replace(variant, name=f"{variant.name}-{route}", label=label, change=change)


def own_backend(table: Table, route: AblationRoute) -> Variant:
    """The method's own backends on a route, which the others on it are compared with."""
    return routed(Variant(table, f"own-{table}", "the method's own", lambda config: config), route)


def _folder(choice: AnyMatcher | AnyDescriptor) -> str:
    return name_of(choice).replace(":", "-").replace("/", "-")
