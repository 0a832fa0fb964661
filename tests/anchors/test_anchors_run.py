"""The anchor stage through the run folder: jobs, verdicts on disk, seconds beside them, nothing done twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from anchors_street import make_scaffold, street_poses
from conftest import small_config

from skyanchor.anchors.priors import Near
from skyanchor.events import Event, StageSkipped
from skyanchor.geometry import rigid
from skyanchor.run import records
from skyanchor.run.executor import InProcess
from skyanchor.run.folder import RunFolder, Stage
from skyanchor.stages.anchors import anchors_stage
from skyanchor.stages.survey import Survey
from skyanchor.stereo import depth_path, save_depth
from skyanchor.storage import files
from skyanchor.types import DepthMap, Sequence


def given_depth(run: RunFolder, maps: tuple[DepthMap, ...]) -> Stage:
    stage = run.stage(records.SCAFFOLD, "given", {}, {})
    if not stage.done:
        for one in maps:
            save_depth(depth_path(stage.path("depth"), one.name), one)
        stage.finish()
    return stage


def test_the_stage_leaves_verdicts_and_seconds_and_is_not_repeated(tmp_path: Path, walk: Sequence) -> None:
    scaffold, maps = make_scaffold(tmp_path / "aerial")
    survey, told = Survey(scaffold, walk), list[Event]()
    config = small_config()
    config = replace(config, prior=replace(config.prior, near=(Near(0.0, 8.0, 9.0),)))  # few places to describe
    for _ in range(2):
        with RunFolder(tmp_path / "run", listen=told.append) as run:
            _, anchors = anchors_stage(run, survey, given_depth(run, maps), config, InProcess())
    assert [group.accepted for group in anchors.groups] == [True, True]
    for group in anchors.groups:
        ours = rigid.centres_in_world([anchor.cam_from_world for anchor in group.poses])
        true = rigid.centres_in_world([street_poses()[anchor.frame] for anchor in group.poses])
        assert 0.0 < np.linalg.norm(ours - true, axis=1).max() < 0.12
    kept = files.load(tmp_path / "run" / records.ANCHORS / records.ANCHORS_FILE, records.AnchorsRecord)
    assert [g.group.frames for g in kept.anchors.groups] == [g.group.frames for g in anchors.groups]
    seconds = files.load(tmp_path / "run" / records.ANCHOR_SECONDS_FILE, records.AnchorSeconds)
    assert sorted({look.group for look in seconds.looks}) == [0, 1]
    for look in seconds.looks:
        assert {"places", "bridge views", "matches with bridges", "adjustment"} <= set(look.seconds)
        assert min(look.seconds.values()) > 0.0
    assert [event.stage for event in told if isinstance(event, StageSkipped)] == [records.SCAFFOLD, records.ANCHORS]
