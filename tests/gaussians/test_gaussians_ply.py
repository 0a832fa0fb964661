"""Splat files: exact round trips, foreign conventions, and one clear line for everything that cannot be read."""

from __future__ import annotations

import weakref
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from skyanchor.errors import InputError
from skyanchor.gaussians import ply, splats
from skyanchor.gaussians.splat_file import SplatFile
from skyanchor.gaussians.splats import Splats
from skyanchor.storage import codec


def random_splats(count: int = 50, degree: int = 3, seed: int = 0) -> Splats:
    rng = np.random.default_rng(seed)
    shapes = ((count, 3), (count, 4), (count, 3), (count,), (count, (degree + 1) ** 2, 3))
    arrays = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
    return Splats(*arrays, owner=rng.integers(0, 3, count).astype(np.int32))


def assert_same_bits(a: Splats, b: Splats) -> None:
    for name in ("means", "quats", "log_scales", "logit_opacities", "sh", "owner"):
        first, second = getattr(a, name), getattr(b, name)
        assert first.dtype == second.dtype
        assert first.tobytes() == second.tobytes(), name


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
def test_ply_round_trip_is_exact(tmp_path: Path, degree: int) -> None:
    before = random_splats(degree=degree)
    ply.write_ply(tmp_path / "a.ply", before, owners=True)
    after = ply.read_splats(tmp_path / "a.ply")
    assert_same_bits(before, after)
    ply.write_ply(tmp_path / "b.ply", after, owners=True)
    assert (tmp_path / "a.ply").read_bytes() == (tmp_path / "b.ply").read_bytes()


def test_files_are_joined_one_by_one_as_if_they_were_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Degrees differ; more parts, no more of them in memory at a time."""
    whole = [random_splats(count, degree, seed=count) for count, degree in ((20, 1), (0, 0), (30, 2), (7, 0))]
    parts = [tmp_path / f"{k}.ply" for k in range(len(whole))]
    for path, part in zip(parts, whole, strict=True):
        ply.write_ply(path, part)
    alive: list[weakref.ref[Splats]] = []

    def read(path: Path) -> Splats:
        assert not any(one() is not None for one in alive[:-1]), "what is written is let go"
        alive.append(weakref.ref(found := read_ply(path)))
        return found

    read_ply = ply.read_ply
    monkeypatch.setattr(ply, "read_ply", read)
    assert ply.join_plys(tmp_path / "joined.ply", parts) == 57 and len(alive) == 4
    ply.write_ply(tmp_path / "once.ply", splats.concat(whole))
    assert (tmp_path / "joined.ply").read_bytes() == (tmp_path / "once.ply").read_bytes()


def test_ply_without_owners_has_the_inria_layout(tmp_path: Path) -> None:
    before = random_splats(count=2)
    path = tmp_path / "a.ply"
    ply.write_ply(path, before)
    assert not ply.read_splats(path).owner.any()
    header, body = path.read_bytes().split(b"end_header\n")
    names = [line.split()[2].decode() for line in header.split(b"\n") if line.startswith(b"property")]
    assert len(names) == 62
    row = dict(zip(names, np.frombuffer(body, "<f4").reshape(2, 62)[1], strict=True))
    assert row["f_rest_0"] == before.sh[1, 1, 0]
    assert row["f_rest_15"] == before.sh[1, 1, 1]  # channel-major
    assert row["f_rest_44"] == before.sh[1, 15, 2]
    assert (row["nx"], row["rot_0"], row["scale_2"]) == (0.0, before.quats[1, 0], before.log_scales[1, 2])


def rewritten(path: Path, lines: list[str], table: np.ndarray) -> Path:
    path.write_bytes("\n".join(["ply", *lines, "end_header", ""]).encode() + table.tobytes())
    return path


def test_2dgs_discs_get_a_tiny_third_scale(tmp_path: Path) -> None:
    before = random_splats(count=5, degree=0)
    full = ply._table(before, owners=False)
    names = [name for name in full.dtype.names if name != "scale_2"]
    lines = ["format binary_little_endian 1.0", "element vertex 5", *(f"property float {name}" for name in names)]
    table = np.stack([full[name] for name in names], axis=1).astype("<f4")
    after = ply.read_splats(rewritten(tmp_path / "discs.ply", lines, table))
    assert np.array_equal(after.log_scales[:, :2], before.log_scales[:, :2])
    ratio = np.exp(after.log_scales[:, 2] - before.log_scales[:, :2].min(axis=1))
    assert np.allclose(ratio, 1e-3, rtol=1e-4)


def test_big_endian_and_ascii_and_double_positions(tmp_path: Path) -> None:
    before = random_splats(count=4, degree=1)
    full = ply._table(before, owners=False)
    names = full.dtype.names
    big = full.astype([(name, ">f4") for name in names])
    properties = [f"property float {name}" for name in names]
    lines = ["format binary_big_endian 1.0", "element vertex 4", *properties]
    assert np.array_equal(ply.read_splats(rewritten(tmp_path / "big.ply", lines, big)).sh, before.sh)
    text = "\n".join(" ".join(repr(float(value)) for value in row) for row in full)
    (tmp_path / "text.ply").write_text(
        "\n".join(["ply", "format ascii 1.0", "element vertex 4", *properties, "end_header", text])
    )
    assert np.array_equal(ply.read_splats(tmp_path / "text.ply").means, before.means)
    utm = np.array([500_000.0, 4_500_000.0, 100.0])
    wide = full.astype([(name, "<f8") for name in names])
    for k, axis in enumerate("xyz"):
        wide[axis] += utm[k]
    lines = [
        "format binary_little_endian 1.0",
        "element vertex 4",
        *(line.replace("float", "double") for line in properties),
    ]
    moved = ply.read_splats(rewritten(tmp_path / "utm.ply", lines, wide), offset=utm)
    assert np.allclose(moved.means, before.means, atol=1e-6)


def test_gsplat_checkpoint(tmp_path: Path) -> None:
    before = splats.owned(random_splats(), 0)
    parts = {
        "means": before.means, "quats": before.quats, "scales": before.log_scales,
        "opacities": before.logit_opacities, "sh0": before.sh[:, :1], "shN": before.sh[:, 1:],
    }  # fmt: skip
    stored = {name: torch.from_numpy(array.copy()) for name, array in parts.items()}
    torch.save({"step": 7, "splats": stored}, tmp_path / "ckpt.pt")
    assert_same_bits(ply.read_splats(tmp_path / "ckpt.pt"), before)
    torch.save({"step": 7}, tmp_path / "other.pt")
    with pytest.raises(InputError, match=r"other\.pt.*gsplat checkpoint"):
        ply.read_splats(tmp_path / "other.pt")


def header_only(names: list[str]) -> list[str]:
    return ["format binary_little_endian 1.0", "element vertex 1", *(f"property float {name}" for name in names)]


def test_unreadable_files_are_refused_in_one_line(tmp_path: Path) -> None:
    whole = tmp_path / "whole.ply"
    ply.write_ply(whole, random_splats())
    cases = {
        "cut.ply": (whole.read_bytes()[:-100], "cut short: 49 of 50"),
        "garbage.ply": (bytes(range(256)) * 8, "not a .ply"),
        "empty.ply": (b"", "not a .ply"),
        "odd.ply": (b"ply\nformat ascii 1.0\nelement vertex x\nend_header\n", "cannot be understood"),
        "mesh.ply": (b"ply\nformat ascii 1.0\nelement vertex 0\nproperty float x\nend_header\n", "no Gaussians"),
        "none.ply": (whole.read_bytes().replace(b"vertex 50", b"vertex 0"), "no usable Gaussian"),
        "code.pt": (b"cos\nsystem\n(S'true'\ntR.", "not a gsplat checkpoint"),
    }
    for name, (content, problem) in cases.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=problem) as caught:
            ply.read_splats(tmp_path / name)
        assert name in str(caught.value)
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="does not exist"):
        ply.read_splats(tmp_path / "nowhere.ply")


def test_a_compressed_ply_of_supersplat_is_told_as_such(tmp_path: Path) -> None:
    """Its header starts with an element `chunk`."""
    bounds = [f"property float {end}_{axis}" for end in ("min", "max") for axis in ("x", "y", "z")]
    packed = [f"property uint packed_{what}" for what in ("position", "rotation", "scale", "color")]
    lines = ["format binary_little_endian 1.0", "comment Generated by SuperSplat 2.7.1", "element chunk 1", *bounds]
    path = rewritten(tmp_path / "city.ply", [*lines, "element vertex 256", *packed], np.zeros(6 + 4 * 256, "<f4"))
    for read in (ply.read_splats, ply.check_splats):
        with pytest.raises(InputError, match=r"is a compressed splat \.ply"):
            read(path)
    mesh = rewritten(tmp_path / "mesh.ply", [*lines, "element vertex 1", "property float x"], np.zeros(7, "<f4"))
    with pytest.raises(InputError, match="first element is chunk"):
        ply.read_splats(mesh)


def test_what_cannot_be_patched_is_told_before_any_work(tmp_path: Path) -> None:
    whole = tmp_path / "whole.ply"
    ply.write_ply(whole, random_splats())
    assert ply.check_splats(whole) == ply.SplatCheck(50, 0)
    data = whole.read_bytes()
    cases = {
        "cut.ply": (data[:-100], "cut short: 49 of 50"),
        "more.ply": (data + b"faces", "holds more than.*patch export"),
        "text.ply": (data.replace(b"binary_little_endian", b"ascii"), "little-endian.*patch export"),
        "big.ply": (data.replace(b"little_endian", b"big_endian"), "little-endian.*patch export"),
        "model.pt": (b"", "only a .ply can be patched.*patch export"),
        "none.ply": (data[: data.index(b"end_header") + 11].replace(b"vertex 50", b"vertex 0"), "no usable Gaussian"),
    }
    for name, (content, problem) in cases.items():
        (tmp_path / name).write_bytes(content)
        for read in (ply.check_splats, ply.read_bytes):
            with pytest.raises(InputError, match=problem) as caught:
                read(tmp_path / name)
            assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="does not exist"):
        ply.check_splats(tmp_path / "nowhere.ply")


def test_unusable_rows_are_counted_without_holding_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ply, "CHECKED_AT_ONCE", 8)
    before = random_splats()
    sh, scales = before.sh.copy(), before.log_scales.copy()
    sh[[3, 49], 5, 1], scales[[3, 20], 0] = np.nan, np.inf
    ply.write_ply(tmp_path / "a.ply", replace(before, sh=sh, log_scales=scales), owners=True)
    assert ply.check_splats(tmp_path / "a.ply") == ply.SplatCheck(50, 3)
    held = ply.read_bytes(tmp_path / "a.ply")
    assert np.flatnonzero(~held.usable).tolist() == [3, 20, 49]
    assert_same_bits(held.splats(), ply.read_splats(tmp_path / "a.ply"))
    assert_same_bits(held.splats(np.ones(3)), ply.read_splats(tmp_path / "a.ply", np.ones(3)))
    assert held.data == (tmp_path / "a.ply").read_bytes()


def test_a_file_knows_its_frame(tmp_path: Path) -> None:
    """Read into the local frame and written back, a moved file is the same again."""
    local, moved = random_splats(), np.array([400.0, -200.0, 50.0])
    file = SplatFile(tmp_path / "far.ply", moved)
    ply.write_ply(file.path, file.in_file(local), owners=True)
    np.testing.assert_allclose(ply.read_ply(file.path).means, local.means + moved, atol=1e-4)
    np.testing.assert_allclose(file.read().means, local.means, atol=1e-4)
    assert_same_bits(file.local(ply.read_bytes(file.path)), file.read())
    assert_same_bits(file.in_file(file.read()), ply.read_ply(file.path))
    again = codec.loads(SplatFile, codec.dumps(file.at(Path("name.ply"))))
    assert again.path == Path("name.ply") and again.moved.tolist() == moved.tolist()
    near = SplatFile(tmp_path / "near.ply")
    assert near.in_file(local) is local


def test_anchor_models_are_refused_with_advice(tmp_path: Path) -> None:
    names = ["x", "y", "z", "level", "f_offset_0", "f_anchor_feat_0", "opacity", "scale_0", "rot_0"]
    path = rewritten(tmp_path / "anchors.ply", header_only(names), np.zeros(9, "<f4"))
    with pytest.raises(InputError, match=r"Scaffold-GS.*scaffold train"):
        ply.read_splats(path)


def test_rows_that_are_not_finite_are_left_out(tmp_path: Path) -> None:
    before = random_splats()
    means = before.means.copy()
    means[3, 1] = np.nan
    ply.write_ply(tmp_path / "a.ply", replace(before, means=means), owners=True)
    expected = splats.select(before, np.arange(50) != 3)
    assert_same_bits(ply.read_splats(tmp_path / "a.ply"), expected)


def test_splat_export_has_32_bytes_a_gaussian(tmp_path: Path) -> None:
    before = random_splats(count=10)
    ply.write_splat(tmp_path / "a.splat", before)
    data = (tmp_path / "a.splat").read_bytes()
    assert len(data) == 320
    opacity = 1 / (1 + np.exp(-before.logit_opacities))
    first = int(np.argmax(opacity * np.exp(before.log_scales.sum(axis=1))))
    assert np.array_equal(np.frombuffer(data[:12], "<f4"), before.means[first])
    assert data[27] == round(float(opacity[first]) * 255)
