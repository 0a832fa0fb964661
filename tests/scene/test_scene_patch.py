"""Patches: applied and removed, the original .ply comes back byte for byte."""

from __future__ import annotations

import io
import tracemalloc
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from mutations import mutated

from skyanchor.errors import InputError
from skyanchor.gaussians import ply
from skyanchor.gaussians.splats import Splats, concat, owned, select
from skyanchor.scene import patch as patches
from skyanchor.scene.patch import Change, Patch
from skyanchor.scene.patch_head import PatchSummary
from skyanchor.storage import codec
from skyanchor.storage.digests import file_digest


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


def monday(base: Path) -> Patch:
    held = ply.read_bytes(base)
    return patches.make_patch(held, "monday", some_change(held.splats()), "{}")


@pytest.fixture
def base(tmp_path: Path) -> Path:
    path = tmp_path / "aerial.ply"
    ply.write_ply(path, random_splats(20, seed=1))
    return path


def test_apply_and_remove_returns_every_byte(base: Path, tmp_path: Path) -> None:
    patches.save_patch(tmp_path / "p.npz", monday(base))
    loaded = patches.load_patch(tmp_path / "p.npz")
    patches.apply_patch(ply.read_bytes(base), loaded, tmp_path / "updated.ply")
    patches.remove_patch(ply.read_bytes(tmp_path / "updated.ply"), loaded, tmp_path / "back.ply")
    assert (tmp_path / "back.ply").read_bytes() == base.read_bytes()
    assert (tmp_path / "updated.ply").read_bytes() != base.read_bytes()


def test_updated_file_reads_as_the_change_says(base: Path, tmp_path: Path) -> None:
    aerial = ply.read_ply(base)
    change = some_change(aerial)
    held = ply.read_bytes(base)
    patches.apply_patch(held, patches.make_patch(held, "monday", change, "{}"), tmp_path / "updated.ply")
    updated = ply.read_ply(tmp_path / "updated.ply")
    expected = concat([change.aerial, change.ground])
    np.testing.assert_array_equal(updated.means, expected.means)
    np.testing.assert_array_equal(updated.sh, expected.sh)
    untouched = ~(change.moved | change.hidden)
    for name in ("means", "quats", "log_scales", "logit_opacities", "sh"):
        np.testing.assert_array_equal(getattr(updated, name)[:20][untouched], getattr(aerial, name)[untouched])
    np.testing.assert_array_equal(patches.visible(updated).means[:18], expected.means[:20][~change.hidden])
    stack = patches.applied_patches(ply.read_bytes(tmp_path / "updated.ply"))
    assert stack == (PatchSummary("monday", 4, 1, 2),)


def test_a_stack_that_overlaps_comes_off_in_reverse_order_only(base: Path, tmp_path: Path) -> None:
    held = ply.read_bytes(base)
    first = patches.make_patch(held, "first", some_change(held.splats()), "{}")
    one, two = tmp_path / "one.ply", tmp_path / "two.ply"
    patches.apply_patch(held, first, one)
    held = ply.read_bytes(one)
    second = patches.make_patch(held, "second", some_change(held.splats(), ground_seed=3), "{}")
    assert patches.summary(second) == PatchSummary("second", 4, 2, 0), "hidden already: not hidden again"
    patches.apply_patch(held, second, two)
    with pytest.raises(InputError, match=r"first.*second|holds: first, second"):
        patches.remove_patch(ply.read_bytes(two), first, tmp_path / "x.ply")
    assert not (tmp_path / "x.ply").exists()
    patches.remove_patch(ply.read_bytes(two), second, tmp_path / "y.ply")
    assert (tmp_path / "y.ply").read_bytes() == one.read_bytes()


def stack_of(base: Path, tmp_path: Path, rows: tuple[list[int], ...]) -> tuple[Path, list[Patch]]:
    """A file with a patch per list of rows, each moving these and adding two Gaussians, made one upon the other."""
    made: list[Patch] = []
    for k, moved_rows in enumerate(rows):
        held = ply.read_bytes(base)
        moved = np.isin(np.arange(held.header.count), moved_rows)
        shifted = replace(held.splats(), means=held.splats().means + moved[:, None].astype(np.float32))
        change = Change(shifted, moved, np.zeros(len(moved), bool), random_splats(2, 50 + k))
        made.append(patches.make_patch(held, f"walk{k + 1}", change, "{}"))
        patches.apply_patch(held, made[-1], tmp_path / f"{k}.ply")
        base = tmp_path / f"{k}.ply"
    return base, made


def test_patches_that_do_not_overlap_come_off_and_go_on_in_any_order(base: Path, tmp_path: Path) -> None:
    top, (one, two, three) = stack_of(base, tmp_path, ([1, 2], [5, 9], [12, 22]))  # row 22 is walk2's own
    for patch, source, target in ((one, top, "a"), (three, tmp_path / "a", "b"), (two, tmp_path / "b", "c")):
        patches.remove_patch(ply.read_bytes(source), patch, tmp_path / target)
    assert (tmp_path / "c").read_bytes() == base.read_bytes()
    patches.apply_patch(ply.read_bytes(base), two, tmp_path / "d")
    assert (tmp_path / "d").read_bytes() == (tmp_path / "b").read_bytes()
    patches.apply_patch(ply.read_bytes(tmp_path / "d"), three, tmp_path / "e")
    assert (tmp_path / "e").read_bytes() == (tmp_path / "a").read_bytes()
    patches.apply_patch(ply.read_bytes(tmp_path / "e"), one, tmp_path / "f")
    again = ply.read_bytes(tmp_path / "f")
    assert [facts.name for facts in patches.applied_patches(again)] == ["walk2", "walk3", "walk1"]
    np.testing.assert_array_equal(np.sort(again.splats().means, axis=0), np.sort(ply.read_ply(top).means, axis=0))
    patches.remove_patch(again, one, tmp_path / "g")
    assert (tmp_path / "g").read_bytes() == (tmp_path / "a").read_bytes()


@pytest.mark.parametrize(("rows", "said"), [([1, 2], "2 Gaussians"), ([2, 7], "1 Gaussians"), ([21], "1 Gaussians")])
def test_patches_that_overlap_say_so(base: Path, tmp_path: Path, rows: list[int], said: str) -> None:
    top, (one, _) = stack_of(base, tmp_path, ([1, 2], rows))  # rows 20 and 21 are those that walk1 added
    with pytest.raises(InputError, match=f"has {said} that both patch walk1 and walk2 changed. They overlap"):
        patches.remove_patch(ply.read_bytes(top), one, tmp_path / "x.ply")
    assert not (tmp_path / "x.ply").exists()


def test_a_patch_made_beside_another_goes_on_it_unless_they_overlap(base: Path, tmp_path: Path) -> None:
    _, (one,) = stack_of(base, tmp_path, ([1, 2],))
    _, (beside,) = stack_of(base, tmp_path, ([5],))
    _, (across,) = stack_of(base, tmp_path, ([2],))
    patches.apply_patch(ply.read_bytes(base), one, tmp_path / "one.ply")
    held = ply.read_bytes(tmp_path / "one.ply")
    patches.apply_patch(held, replace(beside, name="beside"), tmp_path / "both.ply")
    both = ply.read_bytes(tmp_path / "both.ply")
    assert patches.owners(both).tolist() == [0] * 20 + [1, 1, 2, 2]
    assert [layer.name for layer in patches.layers(both)] == ["", "walk1", "beside"]
    with pytest.raises(InputError, match="1 Gaussians that both patch across and walk1 changed"):
        patches.apply_patch(held, replace(across, name="across"), tmp_path / "x.ply")
    _, (_, upon) = stack_of(base, tmp_path, ([1, 2], [20]))
    with pytest.raises(InputError, match="lacks patch walk1, whose Gaussians patch walk2 changes"):
        patches.apply_patch(ply.read_bytes(base), upon, tmp_path / "x.ply")
    with pytest.raises(InputError, match="does not hold patch walk2"):
        patches.remove_patch(held, upon, tmp_path / "x.ply")


def test_a_patch_for_another_file_is_refused(base: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.ply"
    ply.write_ply(other, random_splats(20, seed=2))
    with pytest.raises(InputError, match="not the file"):
        patches.apply_patch(ply.read_bytes(other), monday(base), tmp_path / "x.ply")


def test_the_same_name_twice_is_refused(base: Path, tmp_path: Path) -> None:
    patches.apply_patch(ply.read_bytes(base), monday(base), tmp_path / "one.ply")
    with pytest.raises(InputError, match="already holds"):
        monday(tmp_path / "one.ply")


def test_properties_that_splats_do_not_know_are_kept(base: Path, tmp_path: Path) -> None:
    """A trainer's own columns and odd header survive."""
    splats = select(random_splats(6, seed=4), slice(0, 6))
    ply.write_ply(base, splats, owners=True)
    data = base.read_bytes().replace(b"element vertex", b"comment made by someone\nelement vertex", 1)
    base.write_bytes(data)
    moved = np.zeros(6, bool)
    moved[0] = True
    change = Change(owned(splats, 0), moved, np.zeros(6, bool), owned(random_splats(1, 5), 3))
    held = ply.read_bytes(base)
    patch = patches.make_patch(held, "p", change, "{}")
    patches.apply_patch(held, patch, tmp_path / "u.ply")
    assert ply.read_ply(tmp_path / "u.ply").owner[-1] == 3
    patches.remove_patch(ply.read_bytes(tmp_path / "u.ply"), patch, tmp_path / "b.ply")
    assert (tmp_path / "b.ply").read_bytes() == data


def test_rows_that_are_not_finite_keep_their_place_and_bytes(tmp_path: Path) -> None:
    """The change speaks of the usable Gaussians alone; the patch finds their rows."""
    whole, broken = random_splats(12, seed=6), [0, 4, 11]
    means = whole.means.copy()
    means[broken, 1] = np.nan
    ply.write_ply(tmp_path / "nan.ply", replace(whole, means=means))
    held = ply.read_bytes(tmp_path / "nan.ply")
    usable = held.splats()
    assert len(usable) == 9
    everything, hidden = np.ones(9, bool), np.arange(9) == 8
    change = Change(replace(usable, means=usable.means + np.float32(1)), everything, hidden, random_splats(2, 7))
    patch = patches.make_patch(held, "p", change, "{}")
    patches.apply_patch(held, patch, tmp_path / "u.ply")
    after = ply.read_bytes(tmp_path / "u.ply")
    assert after.rows[broken].tobytes() == held.rows[broken].tobytes()
    np.testing.assert_array_equal(after.splats().means[:9], usable.means + np.float32(1))
    assert patch.hidden.tolist() == [10]
    patches.remove_patch(after, patch, tmp_path / "b.ply")
    assert (tmp_path / "b.ply").read_bytes() == held.data


@pytest.mark.parametrize("part", ["after", "added", "before"])
def test_a_tampered_patch_is_refused_and_nothing_is_written(base: Path, tmp_path: Path, part: str) -> None:
    """One byte of a row is another: apply sees it in the result or in the way back, remove in what comes back."""
    good, held = monday(base), ply.read_bytes(base)
    rows = getattr(good, part).copy()
    rows[0, 3] ^= 1
    bad = replace(good, **{part: rows})
    patches.apply_patch(held, good, tmp_path / "updated.ply")
    with pytest.raises(InputError, match="was altered"):
        patches.apply_patch(held, bad, tmp_path / "x.ply")
    if part == "before":
        with pytest.raises(InputError, match="was altered"):
            patches.remove_patch(ply.read_bytes(tmp_path / "updated.ply"), bad, tmp_path / "x.ply")
    assert not (tmp_path / "x.ply").exists()


def test_a_patch_that_could_not_be_undone_is_refused(base: Path, tmp_path: Path) -> None:
    """Another header that holds the same count: the result would be right, the way back would not."""
    good, held = monday(base), ply.read_bytes(base)
    header = np.frombuffer(held.head.replace(b"ply\n", b"ply\ncomment x\n"), np.uint8)
    with pytest.raises(InputError, match="was altered"):
        patches.apply_patch(held, replace(good, header=header), tmp_path / "x.ply")
    assert not (tmp_path / "x.ply").exists()


def test_the_file_itself_is_never_written_over(base: Path, tmp_path: Path) -> None:
    before, held = base.read_bytes(), ply.read_bytes(base)
    (tmp_path / "same.ply").symlink_to(base)
    for out in (base, tmp_path / "same.ply"):
        with pytest.raises(InputError, match="would be lost"):
            patches.apply_patch(held, monday(base), out)
    assert base.read_bytes() == before


def test_damaged_patches_are_refused_in_one_line(base: Path, tmp_path: Path) -> None:
    patches.save_patch(tmp_path / "p.npz", monday(base))
    data = (tmp_path / "p.npz").read_bytes()
    rng = np.random.default_rng(0)
    cases = [b"", b"PK", data[: len(data) // 2], data[:-1], bytes(range(256)) * 4]
    for place in rng.integers(0, len(data), 300):
        flipped = bytearray(data)
        flipped[place] ^= 1 << int(rng.integers(8))
        cases.append(bytes(flipped))
    refused = 0
    for case in cases:
        (tmp_path / "bad.npz").write_bytes(case)
        try:
            patches.apply_patch(ply.read_bytes(base), patches.load_patch(tmp_path / "bad.npz"), tmp_path / "x.ply")
        except InputError as error:
            assert "\n" not in str(error)
            refused += 1
        else:  # a byte that says nothing, as the date in the archive: then the result is the right one
            assert file_digest(tmp_path / "x.ply") == monday(base).result_digest
    assert refused > 200
    with pytest.raises(InputError, match="does not exist"):
        patches.load_patch(tmp_path / "nowhere.npz")


def test_a_patch_that_claims_more_than_it_holds_takes_no_memory(base: Path, tmp_path: Path) -> None:
    """A deflated bomb, and an array that says it has 2^40 rows."""
    entries = np.load(io.BytesIO(codec.pack(monday(base))))
    np.savez_compressed(tmp_path / "bomb.npz", **{**entries, "array0": np.zeros(200 << 20, np.uint8)})
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": (1 << 40, 248)})
    with zipfile.ZipFile(tmp_path / "claim.npz", "w") as archive:
        for name in entries.files:
            member = io.BytesIO()
            np.save(member, entries[name])
            archive.writestr(f"{name}.npy", header.getvalue() if name == "array1" else member.getvalue())
    for name in ("bomb.npz", "claim.npz"):
        tracemalloc.start()
        with pytest.raises(InputError, match=r"compressed|not as large as it says"):
            patches.load_patch(tmp_path / name)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
        tracemalloc.stop()


def members(data: bytes) -> dict[str, bytes]:
    """The files in an archive."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def archived(held: list[tuple[str, bytes]]) -> bytes:
    """An archive of these files, its checksums as they should be."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in held:
            archive.writestr(zipfile.ZipInfo(name), data)
    return buffer.getvalue()


def relied(data: bytes, rng: np.random.Generator) -> bytes:
    """A .npy that says another size, another type, or holds more or less than it says."""
    end = data.index(b"\n") + 1
    head, body = data[:end], data[end:]
    lies = (
        (b"'shape': (", b"'shape': (-1, "), (b"'shape': (", b"'shape': (1099511627776, "), (b"|u1", b"|O"),
        (b"|u1", b"<f8"), (b"<i8", b"<u4"), (b"False", b"True"), (b"'shape': (", b"'shape': (0, "),
    )  # fmt: skip
    before, after = lies[rng.integers(len(lies))]
    how = int(rng.integers(4))
    if how == 0:
        return head.replace(before, after) + body
    if how == 1:
        return head + body[: int(rng.integers(len(body) + 1))]
    return head + body + body[: int(rng.integers(1, len(body) + 2))] if how == 2 else data[int(rng.integers(1, 20)) :]


@pytest.mark.filterwarnings("ignore")
def test_patches_that_are_cut_spliced_or_lie_about_their_sizes(base: Path, tmp_path: Path) -> None:
    """Refused in a line, or applied to what they say themselves, and then they come off again byte by byte."""
    held, rng, refused = ply.read_bytes(base), np.random.default_rng(3), 0
    other = patches.make_patch(held, "friday", some_change(held.splats(), ground_seed=4), "{}")
    packed = [codec.pack(one) for one in (monday(base), other)]
    own, foreign = (members(data) for data in packed)
    bad = list(mutated(packed[0], 150, seed=5))
    bad += [packed[0][:cut] + packed[1][cut:] for cut in rng.integers(0, len(packed[0]), 40)]
    for _ in range(250):
        names = list(own)
        name = names[rng.integers(len(names))]
        how = int(rng.integers(4))
        parts = dict(own)
        if how == 0:
            parts[name] = foreign[names[rng.integers(len(names))]]
        elif how == 1:
            parts[name] = relied(parts[name], rng)
        elif how == 2:
            parts.pop(name)
        listed = [*parts.items(), *([(name, foreign[name])] if how == 3 else [])]
        bad.append(archived(listed))
    for case in bad:
        (tmp_path / "bad.npz").write_bytes(case)
        try:
            patch = patches.load_patch(tmp_path / "bad.npz")
            result = patches.patched(held, patch)
        except InputError as error:
            assert "\n" not in str(error) and len(str(error)) < 1000
            refused += 1
        else:
            (tmp_path / "updated.ply").write_bytes(result)
            assert patches.before_last(ply.read_bytes(tmp_path / "updated.ply"), patch).data == held.data
    assert refused > 0.8 * len(bad)


def test_rows_that_do_not_fit_each_other_are_refused(base: Path, tmp_path: Path) -> None:
    good = monday(base)
    wrong = [
        replace(good, changed=good.changed + 40), replace(good, changed=good.changed[::-1].copy()),
        replace(good, after=good.after[:, :-4]), replace(good, hidden=np.array([3])), replace(good, count=-1),
        replace(good, count=10**40), replace(good, before=good.before[:1]), replace(good, added=good.added[0]),
    ]  # fmt: skip
    for patch in wrong:
        patches.save_patch(tmp_path / "bad.npz", patch)
        with pytest.raises(InputError, match="damaged"):
            patches.load_patch(tmp_path / "bad.npz")
