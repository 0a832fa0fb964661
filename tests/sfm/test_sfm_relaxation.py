"""A gap spread over a chain of poses, against known truth."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from trajectory_world import street_poses

from skyanchor.geometry import rigid
from skyanchor.sfm.relaxation import Edge, EdgeSigmas, relax
from skyanchor.types import Pose


def chain(poses: list[Pose]) -> list[Edge]:
    relative = [a @ b.inverse for a, b in pairwise(poses)]
    return [Edge(k, k + 1, step) for k, step in enumerate(relative)]


def test_relaxation_undoes_scale_drift():
    truth = street_poses(40)
    drifted = [truth[0]]
    for k in range(39):
        step = truth[k + 1] @ truth[k].inverse
        longer = Pose(step.rotation, step.translation * (1.0 + 0.002 * k))
        drifted.append(longer @ drifted[-1])
    centre = rigid.centre_in_world
    before = np.linalg.norm(centre(drifted[-1]) - centre(truth[-1]))
    start = dict(enumerate(drifted)) | {39: truth[39]}
    found = relax(start, frozenset({0, 39}), chain(drifted), EdgeSigmas())
    errors = [float(np.linalg.norm(centre(found[k]) - centre(truth[k]))) for k in range(40)]
    assert before > 0.5 and max(errors) < 0.35 * before and errors[39] == 0.0 and errors[0] == 0.0


def test_relaxation_undoes_a_turn():
    truth = street_poses(30)
    drifted = [truth[0]]
    for k in range(29):
        step = truth[k + 1] @ truth[k].inverse
        bent = Pose(rigid.rotation_exp(np.array([0.0, 0.004, 0.0])) @ step.rotation, step.translation)
        drifted.append(bent @ drifted[-1])
    centre = rigid.centre_in_world
    before = np.linalg.norm(centre(drifted[-1]) - centre(truth[-1]))
    start = dict(enumerate(drifted)) | {29: truth[29]}
    found = relax(start, frozenset({0, 29}), chain(drifted), EdgeSigmas())
    errors = [float(np.linalg.norm(centre(found[k]) - centre(truth[k]))) for k in range(30)]
    assert before > 0.5 and max(errors) < 0.1 * before


def test_relaxation_leaves_a_closed_chain_alone():
    truth = street_poses(12)
    found = relax(dict(enumerate(truth)), frozenset({0, 11}), chain(truth), EdgeSigmas())
    assert all(np.allclose(found[k].translation, truth[k].translation, atol=1e-9) for k in range(12))
