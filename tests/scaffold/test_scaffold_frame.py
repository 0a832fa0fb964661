"""Splats in another frame than the aerial model are told by their pictures and brought back."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from gaussians_small_scene import engine, floor, photograph
from small_scaffold import scaffold_of

from skyanchor.gaussians import ply, splats
from skyanchor.gaussians.scoring import score
from skyanchor.gaussians.splats import Splats
from skyanchor.geometry import rigid
from skyanchor.scaffold.frame_check import FrameConfig, FrameFix, check_frame, fix_frame, load_aerial_splats
from skyanchor.scaffold.frame_registration import RegistrationConfig
from skyanchor.types import Georeference, Reason, Refusal, Scaffold, Similarity

QUICK = FrameConfig(
    views=4, width=64, levels=(32, 64), rounds=5,
    registration=RegistrationConfig(turns=16, scene_points=150, survivors=6, guesses=2),
)  # fmt: skip


@pytest.fixture(scope="module")
def truth() -> Splats:
    return floor(400, seed=4)


@pytest.fixture(scope="module")
def scaffold(truth: Splats, tmp_path_factory: pytest.TempPathFactory) -> Scaffold:
    return scaffold_of(truth, photograph(truth, tmp_path_factory.mktemp("photos"), 8))


def test_the_right_frame_fits(truth: Splats, scaffold: Scaffold) -> None:
    verdict = check_frame(truth, scaffold, engine(), QUICK)
    assert verdict.fits
    assert verdict.correlation > 0.99
    assert verdict.elsewhere < 0.7
    assert verdict.misfit_m < 0.005


def test_a_small_shift_is_measured_and_undone(truth: Splats, scaffold: Scaffold) -> None:
    nudge = Similarity(1.004, rigid.rotation_exp(np.array([0.0, 0.004, 0.006])), np.array([0.06, -0.05, 0.03]))
    moved = splats.transformed(truth, nudge)
    verdict = check_frame(moved, scaffold, engine(), QUICK)
    points = truth.means.astype(np.float64)
    real = float(np.median(np.linalg.norm(nudge(points) - points, axis=1)))
    assert not verdict.fits
    assert 0.6 * real < verdict.misfit_m < 1.5 * real
    fix = fix_frame(moved, scaffold, engine(), QUICK)
    assert isinstance(fix, FrameFix)
    assert fix.source == "nearly"
    left = fix.model_from_splats @ nudge
    assert np.median(np.linalg.norm(left(points) - points, axis=1)) < 0.01


@pytest.mark.parametrize("seed", [0, 1])
def test_a_random_similarity_is_found_and_undone(truth: Splats, scaffold: Scaffold, seed: int) -> None:
    rng = np.random.default_rng(seed)
    move = Similarity(
        float(np.exp(rng.normal(0, 1))), rigid.rotation_exp(2 * rng.normal(size=3)), 10 * rng.normal(size=3)
    )
    moved = splats.transformed(truth, move)
    assert not check_frame(moved, scaffold, engine(), QUICK).fits
    fix = fix_frame(moved, scaffold, engine(), QUICK)
    assert isinstance(fix, FrameFix), fix
    assert (fix.source, fix.before.fits, fix.after.fits) == ("points", False, True)
    back = splats.transformed(moved, fix.model_from_splats)
    left = fix.model_from_splats @ move
    assert abs(left.scale - 1) < 2e-3
    assert rigid.angle_between(left.rotation, np.eye(3)) < 2e-3
    assert score(back, scaffold.views, engine(), 64).psnr > 38  # rounding of the photos alone leaves 50


def test_a_trainers_file_is_believed_only_when_the_pictures_agree(
    truth: Splats, scaffold: Scaffold, tmp_path: Path
) -> None:
    turn = rigid.rotation_exp(np.array([0.3, -0.8, 1.0]))
    matrix = np.concatenate([turn, np.array([[1.0], [2.0], [-3.0]])], axis=1)
    move = Similarity(0.05, turn, 0.05 * matrix[:, 3])
    moved = splats.transformed(truth, move)
    ply.write_ply(tmp_path / "model.ply", moved)
    here = replace(scaffold, splats_path=tmp_path / "model.ply")
    transforms = {"transform": matrix.tolist(), "scale": 0.05}
    (tmp_path / "dataparser_transforms.json").write_text(json.dumps(transforms))
    fix = fix_frame(moved, here, engine(), QUICK)
    assert isinstance(fix, FrameFix)
    assert fix.source == "dataparser_transforms.json"
    (tmp_path / "dataparser_transforms.json").write_text('{"transform": "no"}')
    centres = [rigid.centre_in_world(view.cam_from_world) for view in scaffold.views]
    cameras = [
        {"img_name": Path(view.name).stem, "position": move(centre).tolist()}
        for view, centre in zip(scaffold.views, centres, strict=True)
    ]
    (tmp_path / "cameras.json").write_text(json.dumps(cameras))
    fix = fix_frame(moved, here, engine(), QUICK)
    assert isinstance(fix, FrameFix)
    assert fix.source == "cameras.json"


@pytest.mark.slow
def test_another_scene_is_refused(scaffold: Scaffold) -> None:
    other = floor(400, seed=9)
    verdict = fix_frame(other, scaffold, engine(), QUICK)
    assert isinstance(verdict, Refusal)
    assert verdict.reason == Reason.NO_COMMON_FRAME
    assert verdict.figures["correlation"] < 0.6


def test_splats_with_large_coordinates_come_into_the_local_frame(
    truth: Splats, scaffold: Scaffold, tmp_path: Path
) -> None:
    offset = np.array([4000.0, -9000.0, 100.0])
    far = splats.transformed(truth, Similarity(1.0, np.eye(3), offset))
    ply.write_ply(tmp_path / "far.ply", far)
    ply.write_ply(tmp_path / "normalised.ply", truth)
    there = replace(scaffold, georef=Georeference(offset), splats_path=tmp_path / "far.ply")
    loaded = load_aerial_splats(there)
    assert loaded is not None
    assert np.abs(loaded.means - truth.means).max() < 1e-3
    own = load_aerial_splats(replace(there, splats_path=tmp_path / "normalised.ply"))
    assert own is not None
    assert own.means.tobytes() == truth.means.tobytes()
    assert load_aerial_splats(scaffold) is None
