"""Patches: applied and removed, the original .ply comes back byte for byte."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from skyanchor.errors import InputError
from skyanchor.gaussians import ply
from skyanchor.gaussians.splats import Splats, concat, owned, select
from skyanchor.update import patch as patches
from skyanchor.update.patch import Change


def random_splats(count: int, seed: int, degree: int = 3) -> Splats:
    rng = np.random.default_rng(seed)

    def draw(*shape: int) -> np.ndarray:
        return rng.normal(size=shape).astype(np.float32)

    bands = (degree + 1) ** 2
    parts = draw(count, 3), draw(count, 4), draw(count, 3), draw(count), draw(count, bands, 3)
    return Splats(*parts, owner=np.zeros(count, np.int32))


def some_change(aerial: Splats, ground_seed: int = 9) -> Change:
    moved, hidden = np.zeros((2, len(aerial)), bool)
    moved[[2, 5]] = True
    hidden[[5, 7]] = True
    shifted = replace(aerial, means=aerial.means + moved[:, None].astype(np.float32))
    return Change(shifted, moved, hidden, owned(random_splats(4, ground_seed, degree=1), 1))


@pytest.fixture
def base(tmp_path: Path) -> Path:
    path = tmp_path / "aerial.ply"
    ply.write_ply(path, random_splats(20, seed=1))
    return path


def test_apply_and_remove_returns_every_byte(base: Path, tmp_path: Path) -> None:
    patch = patches.make_patch(base, "monday", some_change(ply.read_ply(base)), "{}")
    patches.save_patch(tmp_path / "p.npz", patch)
    loaded = patches.load_patch(tmp_path / "p.npz")
    patches.apply_patch(base, loaded, tmp_path / "updated.ply")
    patches.remove_patch(tmp_path / "updated.ply", loaded, tmp_path / "back.ply")
    assert (tmp_path / "back.ply").read_bytes() == base.read_bytes()
    assert (tmp_path / "updated.ply").read_bytes() != base.read_bytes()


def test_updated_file_reads_as_the_change_says(base: Path, tmp_path: Path) -> None:
    aerial = ply.read_ply(base)
    change = some_change(aerial)
    patches.apply_patch(base, patches.make_patch(base, "monday", change, "{}"), tmp_path / "updated.ply")
    updated = ply.read_ply(tmp_path / "updated.ply")
    expected = concat([change.aerial, change.ground])
    np.testing.assert_array_equal(updated.means, expected.means)
    np.testing.assert_array_equal(updated.sh, expected.sh)
    untouched = ~(change.moved | change.hidden)
    for name in ("means", "quats", "log_scales", "logit_opacities", "sh"):
        np.testing.assert_array_equal(getattr(updated, name)[:20][untouched], getattr(aerial, name)[untouched])
    np.testing.assert_array_equal(patches.visible_rows(tmp_path / "updated.ply")[:20], ~change.hidden)
    assert patches.applied_patches(tmp_path / "updated.ply") == (patches.PatchSummary("monday", 4, 1, 2),)


def test_a_stack_comes_off_in_reverse_order_only(base: Path, tmp_path: Path) -> None:
    first = patches.make_patch(base, "first", some_change(ply.read_ply(base)), "{}")
    one, two = tmp_path / "one.ply", tmp_path / "two.ply"
    patches.apply_patch(base, first, one)
    second = patches.make_patch(one, "second", some_change(ply.read_ply(one), ground_seed=3), "{}")
    patches.apply_patch(one, second, two)
    with pytest.raises(InputError, match=r"first.*second|holds: first, second"):
        patches.remove_patch(two, first, tmp_path / "x.ply")
    assert not (tmp_path / "x.ply").exists()
    patches.remove_patch(two, second, tmp_path / "y.ply")
    assert (tmp_path / "y.ply").read_bytes() == one.read_bytes()


def test_a_patch_for_another_file_is_refused(base: Path, tmp_path: Path) -> None:
    patch = patches.make_patch(base, "monday", some_change(ply.read_ply(base)), "{}")
    other = tmp_path / "other.ply"
    ply.write_ply(other, random_splats(20, seed=2))
    with pytest.raises(InputError, match="not the file"):
        patches.apply_patch(other, patch, tmp_path / "x.ply")


def test_the_same_name_twice_is_refused(base: Path, tmp_path: Path) -> None:
    patch = patches.make_patch(base, "monday", some_change(ply.read_ply(base)), "{}")
    patches.apply_patch(base, patch, tmp_path / "one.ply")
    with pytest.raises(InputError, match="already holds"):
        patches.make_patch(tmp_path / "one.ply", "monday", some_change(ply.read_ply(tmp_path / "one.ply")), "{}")


def test_properties_that_splats_do_not_know_are_kept(base: Path, tmp_path: Path) -> None:
    """A trainer's own columns and odd header survive."""
    splats = select(random_splats(6, seed=4), slice(0, 6))
    ply.write_ply(base, splats, owners=True)
    data = base.read_bytes().replace(b"element vertex", b"comment made by someone\nelement vertex", 1)
    base.write_bytes(data)
    moved = np.zeros(6, bool)
    moved[0] = True
    change = Change(owned(splats, 0), moved, np.zeros(6, bool), owned(random_splats(1, 5), 3))
    patch = patches.make_patch(base, "p", change, "{}")
    patches.apply_patch(base, patch, tmp_path / "u.ply")
    assert ply.read_ply(tmp_path / "u.ply").owner[-1] == 3
    patches.remove_patch(tmp_path / "u.ply", patch, tmp_path / "b.ply")
    assert (tmp_path / "b.ply").read_bytes() == data
