"""The paper preset's trajectory: what is matched, verified and adjusted, how often, and what is not done."""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from typing import Any

import pytest
from trajectory_world import anchors_of, posed, scaffold, sequence_of, street

from skyanchor import CPU, PAPER, PipelineConfig
from skyanchor.trajectory import SubmapReport, growth, localmap, recover, submap, submap_state
from skyanchor.trajectory.jobs import BOOTSTRAP, REFINEMENT, REGISTRATION


class Noted:
    """Counts what the stage asks for, and lets it have it."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.patch = patch
        self.solves: Counter[int] = Counter()
        """By the most iterations of the solver."""
        self.verified: set[tuple[str, int]] = set()
        """(estimator, most trials)."""
        self.loops: set[int] = set()
        """Loop pairs a keyframe, at most."""
        self.last: list[str] = []
        """What is done with all submaps together."""
        self.submap: SubmapReport | None = None
        for module in (submap_state, growth):
            self._note(module, "adjust", lambda bundle, solver, clock: self.solves.update([solver.iterations]))
        self._note(localmap, "verify", lambda *given: self.verified.add((given[-1].estimator, given[-1].trials[1])))
        self._note(submap, "loop_pairs", lambda *given: self.loops.add(given[-1]))
        for name in ("adjust_all", "hold_anchors"):
            self._note(import_module("skyanchor.trajectory.recover"), name, lambda *_, n=name: self.last.append(n))

    def _note(self, module: Any, name: str, note: Any) -> None:
        whole = getattr(module, name)

        def noted(*given: Any) -> Any:
            note(*given)
            return whole(*given)

        self.patch.setattr(module, name, noted)


def asked_for(preset: PipelineConfig) -> Noted:
    """What the trajectory of a short walk asks for."""
    with pytest.MonkeyPatch.context() as patch:
        noted = Noted(patch)
        world = street(24)
        sequence = sequence_of(world)
        trajectory, report = recover(scaffold(), sequence, anchors_of(world, sequence), preset.trajectory, source=world)
        assert len(posed(trajectory)) == 24
        noted.submap = report.submaps[0]
    return noted


def test_the_papers_trajectory_is_its_own() -> None:
    papers, ours = asked_for(PAPER), asked_for(CPU)
    assert papers.verified == {("magsac", 50_000)} and ours.verified == {("lo-ransac", 10_000)}
    assert papers.loops == {0} and ours.loops == {3}
    assert papers.last == [] and ours.last == ["adjust_all", "hold_anchors"]
    assert (papers.solves[350], papers.solves[400]) == (1, 1) and (ours.solves[350], ours.solves[400]) == (1, 2)
    assert papers.solves[300] >= 3 and ours.solves[300] == 0, "every frame with its points when it is registered"
    for noted in (papers, ours):
        assert noted.submap is not None
        spent, phases = noted.submap.seconds, noted.submap.phases
        assert set(phases) == {BOOTSTRAP, REGISTRATION, REFINEMENT} and min(phases.values()) > 0.0
        assert 0.8 * spent["total"] < sum(phases.values()) < 1.2 * spent["total"], "the same time told twice"
        assert ("one-frame adjustment" in spent) == (noted is papers)
