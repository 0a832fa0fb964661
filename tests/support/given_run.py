"""Runs on a street of paper whose anchors come from the truth."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skyanchor.events import ANCHORS
from skyanchor.run import records
from skyanchor.run.folder import Stage
from skyanchor.stages.work import Work
from skyanchor.types import AnchorPose, Anchors, LocalisedGroup, Pose


def given_anchors(work: Work, true: Sequence[Pose]) -> Stage:
    """Stage 2 with every group where it really is."""
    groups = tuple(
        LocalisedGroup(group, tuple(AnchorPose(f, true[f], np.eye(6) * 1e-6) for f in group.frames), None)
        for group in work.sequence.groups
    )
    stage = work.run.stage(ANCHORS, "given", {}, {})
    if not stage.done:
        record = records.AnchorsRecord(work.names, work.scaffold.georef, Anchors(groups, work.sequence.camera))
        stage.save(records.ANCHORS_FILE, record)
        stage.finish()
    return stage
