"""Dead reckoning between groups: a look-alike place elsewhere is told from the right one by the way there."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import cv2
import numpy as np
import pytest
from anchors_street import GROUND, street_poses
from PIL import Image

from skyanchor.anchors.agreement import borne_out, disagreeing, neighbour_prior
from skyanchor.anchors.config import AnchorConfig, OdometryConfig
from skyanchor.anchors.frames import GroundFrames, Lens
from skyanchor.anchors.odometry import Steps, Walk, measure_steps, reckoned, walked
from skyanchor.bridges.ground import Ground
from skyanchor.geometry import rigid
from skyanchor.types import AnchorGroup, AnchorPose, GroupFigures, LocalisedGroup, Pose, Reason, Refusal, Sequence

UP = np.array([0.0, 0.0, 1.0])
PACE = 0.7


def true_walk(count: int) -> list[Pose]:
    """North for half the way, then east."""
    poses, eye = [], np.array([0.0, 0.0, 1.7])
    for k in range(count):
        ahead = np.array([0.0, 1.0, 0.0]) if k < count // 2 else np.array([1.0, 0.0, 0.0])
        poses.append(rigid.look_at(eye, eye + ahead, UP))
        eye = eye + PACE * ahead
    return poses


def reckoning(poses: list[Pose], turn_error: float = 0.0) -> Walk:
    steps = []
    for a, b in pairwise(poses):
        step = b @ a.inverse
        turn = rigid.rotation_exp(np.array([0.0, turn_error, 0.0]))
        length = float(np.linalg.norm(step.translation))
        steps.append(Pose(turn @ step.rotation, step.translation / length))
    return walked((Steps(tuple(steps), (True,) * len(steps)),))


def localised(poses: list[Pose], first: int, index: int, shift: float = 0.0, support: int = 500) -> LocalisedGroup:
    frames = tuple(range(first, first + 6))
    moved = [Pose(poses[k].rotation, poses[k].translation + poses[k].rotation @ [shift, 0.0, 0.0]) for k in frames]
    anchors = tuple(AnchorPose(k, pose, np.eye(6) * 1e-4) for k, pose in zip(frames, moved, strict=True))
    group, figures = AnchorGroup(index, frames, (0,)), GroupFigures(support, step_m=PACE)
    return LocalisedGroup(group, anchors, None, figures)


def test_the_way_leads_to_the_next_group() -> None:
    poses = true_walk(80)
    known, wanted = localised(poses, 0, 0), localised(poses, 70, 1)
    place, within = reckoned(reckoning(poses), known, wanted.group, OdometryConfig())
    true = rigid.centre_in_world(poses[72])
    assert np.linalg.norm(place - true) < 0.01
    assert 10.0 < within < 30.0
    drifting, _ = reckoned(reckoning(poses, np.radians(0.2)), known, wanted.group, OdometryConfig())
    assert 0.1 < np.linalg.norm(drifting - true) < within


def test_a_group_elsewhere_is_named() -> None:
    poses = true_walk(80)
    walk = reckoning(poses, np.radians(0.1))
    right = [localised(poses, 0, 0), localised(poses, 36, 1), localised(poses, 70, 2)]
    assert disagreeing(right, walk, OdometryConfig()) == []
    loud = [*right[:2], localised(poses, 70, 2, shift=60.0, support=9000)]
    assert disagreeing(loud, walk, OdometryConfig()) == [2]
    pair = [right[0], localised(poses, 70, 2, shift=60.0, support=100)]
    assert disagreeing(pair, walk, OdometryConfig()) == [1]
    told = [
        replace(group, figures=replace(group.figures, log_odds=odds))
        for group, odds in zip(pair, (1.2, 4.0), strict=True)
    ]
    assert disagreeing(told, walk, OdometryConfig()) == [0], "odds before support"


def test_doubtful_groups_need_a_sure_one() -> None:
    """A look-alike front fills half of the pictures; with a sure group on the walk, or a prior, it may be right.

    Two that stood at one look-alike, 45 m off, had odds of 10^0.87 and 10^0.34, and agreed with the walk between them.
    """
    poses, config = true_walk(80), AnchorConfig()

    def with_odds(group: LocalisedGroup, odds: float) -> LocalisedGroup:
        return replace(group, figures=replace(group.figures, ratio=0.8, confirmed=0.6, log_odds=odds))

    doubtful, sure = with_odds(localised(poses, 0, 0), 0.5), with_odds(localised(poses, 0, 0), 3.0)
    other = with_odds(localised(poses, 70, 1), 0.9)
    refused = replace(other, poses=(), refusal=Refusal(Reason.NO_PLACE, "nothing there"))
    asked = Sequence(Path(), (), GROUND, False, (), (doubtful.group, other.group))
    (alone, _) = borne_out([doubtful, refused], asked, config, 0)
    assert alone.refusal is not None and alone.refusal.reason == Reason.NOT_BORNE_OUT and not alone.poses
    assert "60%" in alone.refusal.detail and "80%" in alone.refusal.detail
    assert borne_out([sure, refused], asked, config, 0)[0].accepted
    assert all(group.accepted for group in borne_out([sure, other], asked, config, 0))
    assert not any(group.accepted for group in borne_out([doubtful, other], asked, config, 0)), "0.5 and 0.9"
    apart = replace(asked, cuts=(40,))  # what lies beyond a cut bears nothing out
    assert [g.accepted for g in borne_out([sure, other], apart, config, 0)] == [True, True]
    assert [g.accepted for g in borne_out([sure, other], apart, config, 1)] == [True, False]
    assert borne_out([doubtful, refused], asked, config, 0, prior=1.0)[0].accepted
    assert not borne_out([doubtful, refused], asked, config, 0, prior=0.9)[0].accepted
    assert all(group.accepted for group in borne_out([doubtful, other], asked, config, 0, prior=0.6)), "0.9 and 0.6"


@pytest.mark.parametrize(("refused", "stands"), [(-0.4, False), (-9.0, False), (0.2, True), (float("nan"), True)])
def test_a_neighbour_that_is_not_recognised_where_the_walk_leads_is_a_doubt(refused: float, stands: bool) -> None:
    """Two walks through towns with houses of the same design stood by one group each, of 10^1.6 and 10^1.4; the other
    had 10^-0.4 and 10^-0.5 a few metres on. At the right place one may be refused too: a doubt costs ten at most."""
    poses, config = true_walk(80), AnchorConfig()

    def told(index: int, odds: float) -> LocalisedGroup:
        group = localised(poses, 12 * index, index)
        return replace(group, figures=replace(group.figures, ratio=0.8, confirmed=0.6, log_odds=odds))

    other = replace(told(1, refused), poses=(), refusal=Refusal(Reason.LOOK_ALIKE, "elsewhere"))
    asked = Sequence(Path(), (), GROUND, False, (), (told(0, 0.0).group, other.group))
    assert borne_out([told(0, 1.6), other], asked, config, 0)[0].accepted is stands
    assert borne_out([told(0, 2.6), other], asked, config, 0)[0].accepted
    assert borne_out([told(0, 1.6), other], replace(asked, cuts=(10,)), config, 0)[0].accepted, "a cut leads anywhere"


def test_in_a_large_model_two_groups_that_see_other_houses_bear_each_other_out() -> None:
    """Each would be sure in a small one; of two side by side both may look at one copy of a house."""
    config, north = AnchorConfig(), np.array([0.0, 1.0, 0.0])
    poses = [rigid.look_at(PACE * k * north, (PACE * k + 1.0) * north, UP) for k in range(80)]

    def stand(odds: tuple[float, float], second: int = 70, prior: float = -2.0) -> bool:
        groups = [
            replace(group, figures=replace(group.figures, log_odds=one))
            for group, one in zip((localised(poses, 0, 0), localised(poses, second, 1)), odds, strict=True)
        ]
        asked = Sequence(Path(), (), GROUND, False, (), tuple(group.group for group in groups))
        return all(group.accepted for group in borne_out(groups, asked, config, 0, prior))

    assert stand((2.0, 1.6)) and stand((2.0, 2.0), prior=-2.5)
    assert not stand((2.0, 1.4)), "one of them is not sure in any model"
    assert not stand((2.0, 1.6), second=40), "28 m apart"
    assert not stand((2.0, 1.6), prior=-3.0), "too large a model for both together"


def northward(frames: list[int], odds: list[float], refusals: dict[int, Refusal] | None = None) -> list[LocalisedGroup]:
    """Groups on a straight walk, from the given frames on, 0.7 m apart; some of them refused."""
    north = np.array([0.0, 1.0, 0.0])
    poses = [rigid.look_at(PACE * k * north, (PACE * k + 1.0) * north, UP) for k in range(max(frames) + 6)]
    groups = []
    for index, (first, one) in enumerate(zip(frames, odds, strict=True)):
        group = localised(poses, first, index)
        group = replace(group, figures=replace(group.figures, ratio=0.8, log_odds=one))
        refusal = (refusals or {}).get(index)
        groups.append(group if refusal is None else replace(group, poses=(), refusal=refusal))
    return groups


def stand(groups: list[LocalisedGroup], prior: float) -> bool:
    """Whether those that were recognised are accepted: all of them or none."""
    asked = Sequence(Path(), (), GROUND, False, (), tuple(group.group for group in groups))
    verdicts = borne_out(groups, asked, AnchorConfig(), 0, prior)
    (word,) = {after.accepted for before, after in zip(groups, verdicts, strict=True) if before.accepted}
    return word


def test_in_a_square_kilometre_a_walk_is_sure_by_all_its_groups() -> None:
    """Groups 42 m apart see other houses: their odds multiply, and the size of the model is paid once."""
    apart, odds = [0, 60, 120], [1.6, 1.7, 1.6]
    assert stand(northward(apart, odds), -2.0), "no two of them are enough"
    assert stand(northward(apart, odds), -3.3) and not stand(northward(apart, odds), -3.5)
    assert not stand(northward(apart[:2], odds[:2]), -2.0)
    assert not stand(northward(apart, [1.6, 1.7, 1.4]), -2.0), "one of them is not sure in any model"
    assert stand(northward(apart, [float("nan"), 0.5, 0.5]), -2.0), "by a share alone, as ever"


def test_groups_near_each_other_count_once() -> None:
    """A walk past one look-alike is put beside it again and again."""
    assert not stand(northward([0, 20, 40, 55], [3.4, 3.4, 3.4, 3.4]), -2.0), "all within 40 m"
    assert stand(northward([0, 20, 40, 100], [3.4, 3.4, 3.4, 1.5]), -2.0)
    assert not stand(northward([0, 40, 80], [2.0, 2.0, 2.0]), -3.0), "two of three at most stand 40 m apart"
    assert stand(northward([0, 40, 80], [1.9, 2.0, 1.9]), -2.0), "the outer two, though the middle one is surest"
    assert stand(northward([0, 60, 120], [2.0, 2.0, 2.0]), -3.0)


OFF = Refusal(Reason.OFF_THE_WALK, "recognised elsewhere")
UNLIKE = Refusal(Reason.LOOK_ALIKE, "where the walk leads")


@pytest.mark.parametrize("tried_again", [False, True])
def test_a_group_that_was_recognised_elsewhere_contradicts_the_others(tried_again: bool) -> None:
    frames, odds = [0, 60, 120, 180], [1.6, 1.7, 1.6, 2.0]
    groups = northward(frames, odds, {3: OFF})
    if tried_again:  # where the walk leads, and nothing was found there
        groups[3] = replace(groups[3], refusal=UNLIKE, figures=GroupFigures(), attempts=(OFF,))
    assert stand(groups[:3], -3.0) and stand(northward(frames, odds), -3.0)
    assert not stand(groups, -3.0), "a factor of ten less"
    found = replace(groups[3], poses=northward(frames, odds)[3].poses, refusal=None, attempts=(OFF,))
    assert stand([*groups[:3], replace(found, figures=replace(found.figures, log_odds=0.5))], -3.0), "it stands now"


def test_in_a_large_model_all_that_is_not_recognised_counts_against_a_walk() -> None:
    """Not only beside a group: the walk leads from those that stand to all others."""
    frames, odds = [0, 60, 120, 180], [1.8, 1.8, 0.6, -0.4]
    groups = northward(frames, odds, {3: UNLIKE})
    assert stand(groups[:3], -2.0) and not stand(groups, -2.0)
    assert stand([*groups[:3], replace(groups[3], figures=GroupFigures())], -2.0), "nothing was measured"
    assert stand(groups, 0.0), "one is sure in a small model"


def test_a_walk_of_which_one_place_is_recognised_is_refused_in_a_large_model() -> None:
    nowhere = dict.fromkeys((1, 2, 3), Refusal(Reason.NO_PLACE, "nothing there"))
    alone = northward([0, 60, 120, 180], [3.4, float("nan"), float("nan"), float("nan")], nowhere)
    assert not stand(alone, -2.0) and stand(alone, -1.9)


def test_a_cut_leads_anywhere() -> None:
    """The second half of the walk lies 60 m off where the steps lead, as after a lift or a ride."""
    poses = true_walk(80)
    whole = reckoning(poses)
    cut = replace(whole, cuts=(40,))
    near, far = localised(poses, 0, 0), [localised(poses, k, 1 + k // 70, shift=60.0, support=400) for k in (44, 70)]
    assert disagreeing([near, *far], whole, OdometryConfig()) == [0]
    assert disagreeing([near, *far], cut, OdometryConfig()) == []
    lost = [near, replace(far[0], poses=(), refusal=Refusal(Reason.NO_PLACE, "nothing there"))]
    flat = np.zeros((100, 100))
    ground = Ground(np.eye(3)[:2], UP, np.array([-50.0, -50.0]), 1.0, flat, np.ones((100, 100), bool))
    assert len(neighbour_prior(lost, 1, whole, ground, OdometryConfig())) == 1
    assert neighbour_prior(lost, 1, cut, ground, OdometryConfig()) == ()
    (here,) = neighbour_prior([*lost, far[1]], 1, cut, ground, OdometryConfig())  # from its own side of the cut
    there = np.mean([rigid.centre_in_world(pose.cam_from_world)[:2] for pose in far[0].poses], axis=0)
    assert np.linalg.norm([here.x, here.y] - there) < here.radius


def test_steps_of_photos(walk: Sequence) -> None:
    frames = GroundFrames(walk)
    steps = measure_steps(frames, 0, 4, Lens(), OdometryConfig())
    true = street_poses()
    assert all(steps.measured)
    for k, step in enumerate(steps.next_from_frame):
        expected = true[k + 1] @ true[k].inverse
        assert rigid.angle_between(step.rotation, expected.rotation) < np.radians(0.5)
        assert step.translation @ expected.translation / np.linalg.norm(expected.translation) > 0.95


@pytest.fixture
def standing(walk: Sequence, tmp_path: Path) -> GroundFrames:
    """Three times the same photo with new noise."""
    pixels = cv2.imread(str(walk.frames[0].path)).astype(np.float32)
    rng = np.random.default_rng(0)
    frames = []
    for k in range(3):
        path = tmp_path / f"{k}.png"
        noisy = np.clip(pixels + rng.normal(0, 2.0, pixels.shape), 0, 255).astype(np.uint8)
        Image.fromarray(noisy[..., ::-1].copy()).save(path)
        frames.append(replace(walk.frames[k], path=path, name=path.name))
    assert GROUND.width == pixels.shape[1]
    return GroundFrames(replace(walk, frames=tuple(frames)))


def test_standing_is_no_step(standing: GroundFrames) -> None:
    steps = measure_steps(standing, 0, 2, Lens(), OdometryConfig())
    assert all(np.linalg.norm(step.translation) == 0.0 for step in steps.next_from_frame)
    assert walked((steps,)).path[-1] == 0.0
