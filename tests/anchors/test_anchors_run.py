"""The anchor stage through the run folder: jobs, verdicts on disk, seconds beside them, nothing done twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
from anchors_street import localised, make_scaffold, small_config, street_poses

from skyanchor.anchors.in_process import prepared_here
from skyanchor.anchors.priors import Near
from skyanchor.bridges.fusion import SurfaceConfig
from skyanchor.events import ANCHORS, SCAFFOLD, Event, StageSkipped
from skyanchor.geometry import rigid
from skyanchor.run import prepared as parts
from skyanchor.run import records
from skyanchor.run.executor import InProcess
from skyanchor.run.folder import RunFolder, Stage
from skyanchor.run.job import SUMS
from skyanchor.run.layout import OF_A_SCAFFOLD
from skyanchor.run.prepared import Prepared
from skyanchor.stages import anchors as stages
from skyanchor.stages.beforehand import street_jobs
from skyanchor.stages.places import like
from skyanchor.stages.scaffold import surface_part
from skyanchor.stages.work import Site, Work
from skyanchor.stereo import DepthFolder, depth_path, save_depth
from skyanchor.storage import codec, files
from skyanchor.types import DepthMap, Scaffold, Sequence


def given_surface(root: Path, scaffold: Scaffold, maps: tuple[DepthMap, ...]) -> Stage:
    """The parts of a scaffold that anchors stand on, from depth that is given."""
    with RunFolder(root, part_of=SCAFFOLD, layout=OF_A_SCAFFOLD) as folder:
        depth = folder.stage(parts.DEPTH, "given", {}, {})
        if not depth.done:
            for one in maps:
                save_depth(depth_path(depth.folder, one.name), one)
            depth.finish()
        return surface_part(folder, scaffold, depth, SurfaceConfig(), InProcess())


def test_the_stage_leaves_verdicts_and_seconds_and_is_not_repeated(tmp_path: Path, walk: Sequence) -> None:
    scaffold, maps = make_scaffold(tmp_path / "aerial")
    told = list[Event]()
    config = small_config()
    config = replace(config, prior=replace(config.prior, near=(Near(0.0, 8.0, 9.0),)))  # few places to describe
    for _ in range(2):
        with RunFolder(tmp_path / "run", listen=told.append) as run:
            site = Site(scaffold, Prepared(tmp_path / "scaffold"), InProcess())
            work = Work(run, site, walk, InProcess())
            files.save(work.sequence_file, walk)
            InProcess().run(ahead := street_jobs(work, config))
            left = sorted(work.features.iterdir())
            surface = given_surface(site.prepared.root, scaffold, maps)
            anchors = stages.run(work, config, surface).load(records.ANCHORS_FILE, records.AnchorsRecord).anchors
    described = {frame for job in ahead for frame in cast(list[int], job.arguments["frames"])}
    assert described == {frame for group in walk.groups for frame in group.frames}
    choices = (config.places.features, config.refine.matcher, config.refine.last)
    assert len(left) >= len(described) * len({choice for choice in choices if choice is not None})
    assert street_jobs(work, replace(config, route="paper")) == []
    assert [group.accepted for group in anchors.groups] == [True, True]
    for group in anchors.groups:
        ours = rigid.centres_in_world([anchor.cam_from_world for anchor in group.poses])
        true = rigid.centres_in_world([street_poses()[anchor.frame] for anchor in group.poses])
        assert 0.0 < np.linalg.norm(ours - true, axis=1).max() < 0.12
    stored = DepthFolder(site.prepared.root / parts.DEPTH, tuple(one.name for one in maps))  # to 16 bits
    camera = like(walk.camera, config.places.width)
    with SUMS.in_one_thread():  # as every job
        here = localised(prepared_here(scaffold, stored, camera, config), walk, config)
    for group, same in zip(anchors.groups, here.groups, strict=True):  # jobs or not: one path, the same bits
        assert codec.dumps(group.figures) == codec.dumps(same.figures)
        assert [a.frame for a in group.poses] == [a.frame for a in same.poses]
        for a, b in zip(group.poses, same.poses, strict=True):
            assert np.array_equal(a.cam_from_world.rotation, b.cam_from_world.rotation)
            assert np.array_equal(a.cam_from_world.translation, b.cam_from_world.translation)
            assert np.array_equal(a.covariance, b.covariance)
    seconds = files.load(tmp_path / "run" / records.ANCHOR_SECONDS_FILE, records.AnchorSeconds)
    assert sorted({look.group for look in seconds.looks}) == [0, 1]
    for look in seconds.looks:
        assert {"places", "bridge views", "matches with bridges", "adjustment"} <= set(look.seconds)
        assert min(look.seconds.values()) > 0.0
        tried = [(one.frame, rigid.centre_in_world(one.cam_from_world)) for one in look.tried]
        off = [np.linalg.norm(centre - rigid.centre_in_world(street_poses()[frame])) for frame, centre in tried]
        assert min(off) < 3.0 and {frame for frame, _ in tried} <= set(walk.groups[look.group].frames)
    assert [event.stage for event in told if isinstance(event, StageSkipped)] == [ANCHORS]
