"""The paper preset is the paper's: every value that it gives, and none of our additions."""

from __future__ import annotations

from skyanchor import PAPER, PipelineConfig
from skyanchor.gaussians.densify import SplitGrowth
from skyanchor.storage import codec


def test_groups_and_trajectory() -> None:
    config = PAPER.trajectory
    assert not PAPER.sequence.cut.join_boundaries and PAPER.sequence.cut.group_size == 6
    assert config.matcher.keypoints == PAPER.anchors.paper.matcher.keypoints == 6000
    assert (config.verify.threshold, config.verify.confidence, config.verify.trials[1]) == (1.0, 0.999999, 50_000)
    assert config.verify.estimator == "magsac" and not config.last_adjustment and config.loop_pairs == 0
    register, adjust, tracks = config.register, config.adjust, config.tracks
    assert (register.bootstrap, tracks.bootstrap_tracks, adjust.bootstrap_iterations) == (8, 6000, 350)
    assert (register.references, register.retry_references, register.window) == (4, 6, 6)
    assert (register.pnp_trials, register.pnp_threshold, register.least_inliers) == (8000, 3.0, 30)
    assert (tracks.registration_tracks, adjust.registration_iterations) == (6000, 300)
    assert (adjust.online_every, tracks.online_tracks, adjust.online_iterations) == (10, 6000, 100)
    assert (tracks.final_tracks, adjust.final_iterations, adjust.final_rounds) == (10_000, 400, 1)
    assert (adjust.loss_px, tracks.most_depth_m, config.tail_window) == (1.5, 100.0, 8)


def test_anchors() -> None:
    support, verify = PAPER.anchors.paper, PAPER.anchors.paper.verify
    assert (support.retrieved, support.near) == (20, 3)
    assert (verify.threshold, verify.confidence, verify.trials) == (2.0, 0.9999, (200, 20_000))
    assert (verify.least_inliers, verify.least_ratio) == (30, 0.30)
    mixed = PAPER.anchors.mixed
    assert (mixed.least_views, mixed.most_reprojection, mixed.orientations) == (4, 4.0, False)


def test_splats() -> None:
    aerial, update = PAPER.scene.aerial, PAPER.scene.update
    assert aerial is not None and update is not None and update.joint is not None
    trainings = (aerial.train, update.insertion, update.joint)
    assert [training.iterations for training in trainings] == [30_000, 30_000, 40_000]
    assert all(training.sh_degree == 3 and training.coarse_until == () for training in trainings)
    assert aerial.train.growth == update.insertion.growth == SplitGrowth() and update.joint.growth is None
    assert SplitGrowth().reset_every == 3_000 and aerial.from_points
    assert (update.guard, update.guard_weight, update.guard_pictures, update.exposures) == (False, 1.0, 0, False)
    assert update.floaters is None and update.in_the_air is None and (update.sky_radius, update.finer_views) == (0.0, 0)
    assert update.refined == "all" and update.patience == 0 and update.most_aerial_loss_db == float("inf")


def test_it_is_kept_as_it_is() -> None:
    assert codec.from_json(PipelineConfig, codec.to_json(PAPER)) == PAPER
