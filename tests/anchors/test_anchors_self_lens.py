"""A group that stands tells the distortion of its lens and the readout of its shutter, and nothing without them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cv2
import numpy as np
import pytest
from street_bundle import LENS, scene

from skyanchor.anchors.config import AnchorConfig
from skyanchor.anchors.frames import GroundFrames, Lens, camera_of
from skyanchor.anchors.self_lens import (
    agreed_k1,
    agreed_k1_k2,
    bends,
    estimate_lens,
    is_needed,
    joint_estimate,
    lens_advice,
    motions,
    rolls,
)
from skyanchor.anchors.walk import GroupTask, GroupVerdict, _unbent, without_needless_k2
from skyanchor.geometry import cameras, rigid
from skyanchor.sfm.adjustment import adjust
from skyanchor.sfm.bundle import Bundle
from skyanchor.sfm.dense import Dense
from skyanchor.storage import codec
from skyanchor.types import (
    AnchorGroup,
    AnchorPose,
    Bytes,
    Frame,
    GroupFigures,
    LensEstimate,
    LocalisedGroup,
    Pose,
    RadialEstimate,
    Reason,
    Refusal,
    Sequence,
)

FRAMES = (4, 5, 6, 7)
WIDE = cameras.pinhole(640, 360, 400.0)


def seen_by(seed: int, k1: float = 0.0, readout: float = 0.0) -> Bundle:
    """Street and flight with photos as a bent lens and a slow shutter take them, adjusted as if they did not."""
    truth, observed = scene(seed)
    motion, ground = motions(truth, FRAMES), truth.camera < len(FRAMES)
    xy = truth.xy.copy()
    for _ in range(3):  # the row says when a point was seen, which says in what row it was seen
        for k in np.flatnonzero(ground).tolist():
            late = xy[k, 1] / LENS.height - 0.5
            step = motion[truth.camera[k]] * readout * late
            pose = Pose(rigid.rotation_exp(step[:3]), step[3:]) @ truth.cams_from_world[truth.camera[k]]
            lens = cameras.with_bend(LENS, 1.0, k1)
            xy[k] = cameras.project(lens, pose(truth.points[truth.point[k]][None]))[0]
    return adjust(replace(observed, xy=xy + (observed.xy - truth.xy)), Dense()).bundle


NOTHING = LensEstimate(0.0, 0.005, 0.0, 1.0)


def estimate(bundle: Bundle) -> LensEstimate:
    found = estimate_lens(bundle, FRAMES)
    assert found is not None
    return found


@pytest.mark.parametrize("k1", [-0.06, 0.04])
def test_distortion_is_told_from_points_that_the_flight_holds(k1: float) -> None:
    said = estimate(seen_by(1, k1=k1))
    assert 0.6 < said.k1 / k1 < 1.1  # what fits worst without it weighs least, so it takes turns
    assert bends(said) and not rolls(said)


def test_a_shutter_that_reads_row_by_row_is_told_and_is_no_distortion() -> None:
    said = estimate(seen_by(2, readout=0.4))
    assert said.readout == pytest.approx(0.4, abs=0.08)
    assert rolls(said) and not bends(said)


def test_what_is_not_there_is_not_told_and_the_sigmas_say_how_sure() -> None:
    said = [estimate(seen_by(seed)) for seed in range(12)]
    assert not any(bends(one) or rolls(one) for one in said)
    for off in ([one.k1 / one.k1_sigma for one in said], [one.readout / one.readout_sigma for one in said]):
        assert 0.3 < np.sqrt(np.mean(np.square(off))) < 1.6


def seen_wide(seed: int, k1: float, k2: float) -> Bundle:
    """Many points in photos of a wider lens as it bends them, adjusted as if it did not."""
    truth, observed = scene(seed, 400, lens=WIDE)
    bent, xy = cameras.with_bend(WIDE, 1.0, k1, k2), observed.xy.copy()
    for k in range(len(FRAMES)):
        rows = truth.camera == k
        there = truth.cams_from_world[k](truth.points[truth.point[rows]])
        xy[rows] += cameras.project(bent, there) - truth.xy[rows]
    return adjust(replace(observed, xy=xy), Dense()).bundle


def test_k1_and_k2_are_told_within_what_they_are_said_to_be_off() -> None:
    true = np.array([0.01, -0.035])
    said = [both for seed in range(6) if (both := estimate(seen_wide(seed, *true)).both) is not None]
    assert sum(is_needed(both) for both in said) >= 5  # by three standard deviations or more
    off = np.array([(one.k1, one.k2) for one in said]) - true
    sigmas = np.array([(one.k1_sigma, one.k2_sigma) for one in said])
    spread = np.sqrt(np.mean((off / sigmas) ** 2, axis=0))
    assert (spread > 0.3).all() and (spread < 1.6).all()
    both = agreed_k1_k2([replace(NOTHING, both=one) for one in said])
    assert both is not None and abs(both.k2 - true[1]) < 3.0 * both.k2_sigma < 0.4 * abs(true[1])


@pytest.mark.parametrize("k1", [0.0, -0.01, 0.02])
def test_k2_is_not_told_where_there_is_none(k1: float) -> None:
    said = [estimate(seen_wide(seed, k1, 0.0)) for seed in range(4)]
    assert not any(one.both is None or is_needed(one.both) for one in said)
    together = joint_estimate(said)
    assert together is not None and together.both is None and lens_advice(joint_estimate(said[:1]), True) == ()
    group = LocalisedGroup(AnchorGroup(0, (0,), ()), (), None, lens=said[0])
    kept = without_needless_k2([group, replace(group, lens=None)], together)
    assert [one.lens for one in kept] == [replace(said[0], both=None), None]
    assert "both" not in str(codec.to_json(kept)) and "k2" not in str(codec.to_json(Lens(k1=k1)))  # no byte of it


def test_k2_that_moves_no_pixel_is_not_told() -> None:
    """Sure by many standard deviations, since nothing is noisy: a tenth of a pixel beyond k1."""
    truth, _ = scene(1, 400, 0.02, lens=WIDE)
    bundle = replace(seen_wide(1, 0.0, 0.0), xy=truth.xy, sigma=truth.sigma)
    radius = np.linalg.norm((bundle.xy - [320.0, 180.0]) / 400.0, axis=1)[:, None]
    ground = (bundle.camera < len(FRAMES))[:, None]
    for k2, told in ((0.001, False), (0.03, True)):
        bent = bundle.xy + np.where(ground, k2 * radius**4 * (bundle.xy - [320.0, 180.0]), 0.0)
        both = estimate(adjust(replace(bundle, xy=bent), Dense()).bundle).both
        assert both is not None and abs(both.k2) > 3.0 * both.k2_sigma and is_needed(both) is told


def test_k2_is_what_most_groups_need_and_all_are_sure_of() -> None:
    need = replace(NOTHING, both=RadialEstimate(-0.03, 0.02, 0.05, 0.01, 0.004))
    more = replace(NOTHING, both=RadialEstimate(-0.06, 0.02, 0.07, 0.01, 0.006))
    unsure = replace(NOTHING, both=RadialEstimate(-0.03, 0.03, 0.04, 0.02, 0.003))
    both = agreed_k1_k2([need, more, NOTHING])
    assert both is not None and (both.k1, both.k2, both.moved) == pytest.approx((-0.045, 0.06, 0.005))
    assert both.k2_sigma == pytest.approx(0.01)  # they differ by more than they say
    fewer = agreed_k1_k2([need, more, unsure])
    assert fewer is not None and both.k2 > fewer.k2 > 0.05  # it is heard too
    assert agreed_k1_k2([need, unsure]) is agreed_k1_k2([NOTHING]) is agreed_k1_k2([]) is None
    alone = replace(NOTHING, both=RadialEstimate(-0.03, 0.02, 0.035, 0.01, 0.004))
    assert agreed_k1_k2([alone]) is None  # not sure
    against = replace(NOTHING, both=RadialEstimate(0.03, 0.02, -0.05, 0.01, 0.004))
    assert agreed_k1_k2([need, against]) is agreed_k1_k2([need, more, against]) is None
    far, near = (
        replace(NOTHING, both=RadialEstimate(-0.07, 0.02, k2, sigma, 0.003))
        for k2, sigma in ((0.024, 0.005), (0.011, 0.0026))
    )
    differing = joint_estimate([far, near])
    assert differing is not None and differing.both is not None  # both are sure that there is some
    assert lens_advice(differing, True) == ()  # how much is another matter
    together = joint_estimate([need, more, None])
    assert together is not None and together.both == agreed_k1_k2([need, more])
    stands = LocalisedGroup(AnchorGroup(0, (0,), ()), (), None, lens=need)
    assert without_needless_k2([stands], together)[0].lens == need


def test_groups_that_contradict_each_other_are_less_sure_than_either() -> None:
    a, b = LensEstimate(-0.10, 0.01, 0.0, 0.02), LensEstimate(-0.02, 0.01, 0.0, 0.02)
    both = joint_estimate([a, None, b])
    assert both is not None and both.k1 == pytest.approx(-0.06)
    assert bends(a) and not bends(both)
    assert both.readout_sigma == pytest.approx(0.02 / np.sqrt(2.0))
    assert joint_estimate([None, None]) is None and joint_estimate([]) is None


def test_distortion_is_what_most_groups_are_sure_of() -> None:
    much, some, none = (LensEstimate(k1, 0.006, 0.0, 1.0) for k1 in (-0.10, -0.05, 0.0))
    assert agreed_k1([much, some]) == pytest.approx(-0.075)  # both are sure that there is some
    assert agreed_k1([much, some, none]) == pytest.approx(-0.075)
    assert agreed_k1([much, none]) == agreed_k1([none]) == agreed_k1([]) == 0.0
    assert agreed_k1([much, replace(much, k1=0.1)]) == 0.0


def test_the_user_is_told_what_was_measured_and_nothing_else() -> None:
    assert lens_advice(None, True) == ()
    assert lens_advice(LensEstimate(0.001, 0.002, -0.01, 0.01), True) == ()
    given, rolled = lens_advice(LensEstimate(-0.08, 0.004, 0.3, 0.02), False)
    assert "k1 = -0.080 ± 0.004" in given and "given camera" in given
    assert "30% ± 2%" in rolled and "rolling shutter" in rolled
    (both,) = lens_advice(replace(NOTHING, both=RadialEstimate(-0.03, 0.01, 0.05, 0.012, 0.004)), True)
    assert "k1 = -0.030 ± 0.010 and k2 = 0.050 ± 0.012 are left" in both and "OPENCV" in both


def bent_photo(folder: Path, lens: Lens) -> tuple[Sequence, Bytes]:
    """(a walk of one photo taken through a lens, with a guessed camera; the photo without distortion)."""
    guessed, rng = cameras.pinhole(320, 180, 260.0), np.random.default_rng(0)
    straight = cv2.resize(rng.integers(0, 255, (18, 32), np.uint8), (320, 180), interpolation=cv2.INTER_CUBIC)
    walk = Sequence(folder, (Frame(0, "a.png", folder / "a.png"),), guessed, True, (), ())
    true = camera_of(walk, lens)
    x, y = np.meshgrid(np.arange(320) + 0.5, np.arange(180) + 0.5)
    rays = cameras.unproject(true, np.stack([x.ravel(), y.ravel()], axis=1))
    source = (cameras.project(cameras.undistorted(true), rays) - 0.5).astype(np.float32).reshape(180, 320, 2)
    cv2.imwrite(str(folder / "a.png"), cv2.remap(straight, source, None, cv2.INTER_LINEAR))
    return walk, straight


@pytest.mark.parametrize("k2", [0.0, 0.1])
def test_frames_seen_through_a_bent_lens_are_straight(tmp_path: Path, k2: float) -> None:
    lens = Lens(0.9, known=False, k1=-0.15, k2=k2)
    walk, straight = bent_photo(tmp_path, lens)
    frames = GroundFrames(walk)
    freed, left = frames.through(lens)
    assert left == Lens(1.0, known=False)
    bend = (-0.15,) if k2 == 0.0 else (-0.15, 0.1)
    assert freed.sequence.camera.model == ("SIMPLE_RADIAL" if k2 == 0.0 else "RADIAL")
    assert freed.sequence.camera.params == pytest.approx((234.0, 160.0, 90.0, *bend))
    inner = (slice(30, -30), slice(40, -40))

    def off(photo: Bytes) -> float:
        return float(np.abs(photo[inner][..., 0].astype(float) - straight[inner]).mean())

    assert off(freed.photo(0).pixels) < 3.0 < 10.0 < off(frames.photo(0).pixels)
    assert frames.through(Lens(0.9)) == (frames, Lens(0.9))
    assert frames.through(lens)[0] is freed


class Told:
    """Groups that tell seven tenths of the distortion that is left, and of k2 what is not there while k1 is."""

    def __init__(self, true: float, k2: float = 0.0, lost: bool = False) -> None:
        self.true, self.k2, self.lost, self.asked = true, k2, lost, list[Lens]()

    def groups(self, tasks: tuple[GroupTask, ...]) -> tuple[GroupVerdict, ...]:
        self.asked.append(tasks[0].lens)
        return self.verdicts(tasks[0].lens.k1, k2=tasks[0].lens.k2)

    def verdicts(self, k1: float, sigma: float = 0.005, k2: float = 0.0) -> tuple[GroupVerdict, ...]:
        k1, k2 = self.true - k1, self.k2 - k2  # what is left
        alone, apart = 0.7 * (k1 + 0.7 * k2), 0.9 * k2 + 0.3 * k1
        both = RadialEstimate(0.9 * k1, 0.01, apart, 0.005, 0.1 * abs(apart)) if abs(apart) > 0.015 else None
        lens = LensEstimate(alone, sigma, 0.0, 1.0, both)
        pose = AnchorPose(0, rigid.identity(), np.eye(6))
        group = LocalisedGroup(AnchorGroup(0, (0,), ()), (pose,), None, GroupFigures(ratio=0.8), lens=lens)
        refused = replace(group, refusal=Refusal(Reason.NO_PLACE, "by design"))
        return GroupVerdict(group, 1.0, {}), GroupVerdict(refused if self.lost else group, 1.0, {})


class Scripted(Told):
    """Groups that say one thing after the other."""

    def __init__(self, *estimates: LensEstimate) -> None:
        super().__init__(0.0)
        self.estimates = list(estimates)

    def groups(self, tasks: tuple[GroupTask, ...]) -> tuple[GroupVerdict, ...]:
        self.asked.append(tasks[0].lens)
        return self.next()

    def next(self) -> tuple[GroupVerdict, ...]:
        one, lens = self.verdicts(0.0)[0], self.estimates.pop(0)
        return (replace(one, localised=replace(one.localised, lens=lens)),) * 2


def outing(told: Told) -> Any:
    ground, groups = SimpleNamespace(across=np.eye(3)[:2]), (AnchorGroup(0, (0,), ()), AnchorGroup(1, (0,), ()))
    prepared, walk = SimpleNamespace(ground=ground), SimpleNamespace(groups=groups)
    return SimpleNamespace(
        config=AnchorConfig(), runner=told, prepared=prepared, sequence=walk, tell=lambda text, warning=False: None
    )


def walk_of_nothing() -> Sequence:
    return Sequence(Path(), (), LENS, True, (), ())


def test_distortion_is_taken_out_turn_by_turn_until_none_is_left() -> None:
    told = Told(-0.1)
    verdicts, lens = _unbent(outing(told), told.verdicts(0.0), Lens(0.9, known=False))
    assert lens.k1 == pytest.approx(-0.091) and lens.factor == 0.9 and not lens.known  # the rest is below the least
    assert [one.k1 for one in told.asked] == pytest.approx([-0.07, -0.091])
    assert verdicts[0].localised.lens == LensEstimate(pytest.approx(-0.0063), 0.005, 0.0, 1.0)
    assert camera_of(walk_of_nothing(), lens).model == "SIMPLE_RADIAL"


def test_k2_is_taken_out_once_k1_alone_leaves_nothing() -> None:
    told = Told(-0.1, k2=0.06)
    verdicts, lens = _unbent(outing(told), told.verdicts(0.0), Lens())
    assert [one.k2 != 0.0 for one in told.asked] == [False, True, True]
    assert lens.k1 == pytest.approx(-0.1, abs=0.01) and lens.k2 == pytest.approx(0.06, abs=0.015)
    assert verdicts[0].localised.lens is not None and verdicts[0].localised.lens.both is None
    assert camera_of(walk_of_nothing(), lens).model == "RADIAL"


def saying(k1: float, k2: float, moved: float) -> LensEstimate:
    return replace(NOTHING, both=RadialEstimate(k1, 0.01, k2, 0.004, moved))


def test_a_first_estimate_of_k2_may_be_far_too_small_and_k1_has_the_last() -> None:
    rest = replace(NOTHING, k1=-0.02, k1_sigma=0.003)
    told = Scripted(saying(-0.04, 0.02, 0.002), saying(-0.08, 0.03, 0.004), rest, NOTHING)
    _, lens = _unbent(outing(told), told.next(), Lens())
    assert (lens.k1, lens.k2) == pytest.approx((-0.14, 0.05)) and not told.estimates
    assert [one.k2 for one in told.asked] == pytest.approx([0.02, 0.05, 0.05])


def test_k2_that_is_against_itself_once_it_is_taken_out_is_left_in() -> None:
    told = Scripted(saying(-0.04, 0.02, 0.002), saying(0.08, -0.03, 0.004))
    before = told.next()
    assert _unbent(outing(told), before, Lens()) == (before, Lens()) and not told.estimates


def test_k2_is_left_alone_where_k1_could_not_be_taken_out() -> None:
    said, wrong = Told(-0.1, k2=0.06).verdicts(0.0), Told(0.2, k2=0.06)
    assert _unbent(outing(wrong), said, Lens()) == (said, Lens())
    assert [one.k2 for one in wrong.asked] == [0.0]


def test_k2_without_which_fewer_groups_stand_is_left_in() -> None:
    said, told = Told(0.0, k2=0.06), Told(0.0, k2=0.06, lost=True)
    before = said.verdicts(0.042)  # k1 alone is at its best
    assert _unbent(outing(told), before, Lens(k1=0.042)) == (before, Lens(k1=0.042))
    assert [one.k2 != 0.0 for one in told.asked] == [True]


def test_a_lens_without_distortion_costs_nothing() -> None:
    told = Told(0.006)
    before = told.verdicts(0.0)
    assert _unbent(outing(told), before, Lens()) == (before, Lens())
    assert told.asked == []


def test_distortion_that_is_larger_once_it_is_taken_out_is_left_in() -> None:
    said, wrong = Told(-0.1).verdicts(0.0), Told(0.2)  # groups that say otherwise when they are asked again
    verdicts, lens = _unbent(outing(wrong), said, Lens())
    assert [one.k1 for one in wrong.asked] == pytest.approx([-0.07])
    assert lens == Lens() and verdicts is said


def test_distortion_without_which_fewer_groups_stand_is_left_in() -> None:
    told, said = Told(-0.1, lost=True), Told(-0.1).verdicts(0.0)
    verdicts, lens = _unbent(outing(told), said, Lens())
    assert len(told.asked) == 1 and lens == Lens() and verdicts is said
