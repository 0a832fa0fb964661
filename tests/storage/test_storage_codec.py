"""Values survive JSON and .npz bit for bit."""

from __future__ import annotations

import io
import json
import math
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.testing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyanchor.storage import codec
from skyanchor.types import (
    QUIET,
    AnchorGroup,
    AnchorPose,
    Anchors,
    Camera,
    DepthMap,
    Floats,
    GroupFigures,
    Ints,
    LocalisedGroup,
    Pose,
    PosedFrame,
    Reason,
    Refusal,
    Support,
    View,
)


@dataclass(frozen=True)
class Few:
    count: int = 3


@dataclass(frozen=True)
class Many:
    count: int = 3
    limit: float = math.inf


@dataclass(frozen=True, eq=False)
class Holder:
    choice: Few | Many
    grid: Ints
    name: str | None = None


def _pose(seed: int) -> Pose:
    rng = np.random.default_rng(seed)
    return Pose(np.linalg.qr(rng.normal(size=(3, 3)))[0], rng.normal(size=3) * 1e3)


def _anchors() -> Anchors:
    camera = Camera("PINHOLE", 640, 480, (500.1, 500.2, 1 / 3, 240.0))
    poses = tuple(AnchorPose(frame, _pose(frame), np.eye(6) * 1e-17 / 3) for frame in (4, 5))
    good = LocalisedGroup(AnchorGroup(0, (4, 5), (0, 1)), poses, None, GroupFigures(support=70, ratio=0.1))
    why = Refusal(Reason.TOO_FEW_MATCHES, "3 of 30", {"matches": 3.0, "ratio": math.nan})
    bad = LocalisedGroup(AnchorGroup(1, (8, 9), (1,)), (), why, attempts=(why, why))
    return Anchors((good, bad), camera)


def test_anchors_come_back_bit_for_bit_and_valid_json() -> None:
    before = _anchors()
    text = codec.dumps(before)
    json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    after = codec.loads(Anchors, text)
    assert codec.dumps(after) == text
    assert after.groups[1].refusal is not None and math.isnan(after.groups[1].refusal.figures["ratio"])
    assert after.groups[0].group == before.groups[0].group
    assert after.groups[0].figures.support == 70 and after.groups[0].figures.ratio == 0.1
    assert math.isnan(after.groups[1].figures.ratio) and after.groups[1].refusal.reason is Reason.TOO_FEW_MATCHES
    got, sent = after.groups[0].poses[1], before.groups[0].poses[1]
    npt.assert_array_equal(got.cam_from_world.rotation, sent.cam_from_world.rotation)
    assert got.covariance.dtype == np.float64 and got.covariance.shape == (6, 6)


@given(st.floats(width=64), st.floats(width=32))
def test_every_float_round_trips(wide: float, narrow: float) -> None:
    one = np.array([wide])
    back = codec.from_json(Pose, json.loads(json.dumps(codec.to_json(Pose(one, one)))))
    assert back.rotation.tobytes() == one.tobytes() or math.isnan(wide)
    assert np.float32(codec.from_json(Many, codec.to_json(Many(limit=narrow))).limit).tobytes() == np.float32(
        narrow
    ).tobytes() or math.isnan(narrow)


def test_pack_keeps_types_shapes_and_is_deterministic() -> None:
    rng = np.random.default_rng(0)
    depth = DepthMap(
        "a.jpg",
        Camera("PINHOLE", 4, 3, (1.0, 1.0, 2.0, 1.5)),
        _pose(1),
        rng.random((3, 4)).astype(np.float32),
        np.zeros((3, 4), np.float32),
        np.ones((3, 4), bool),
        np.zeros((3, 4, 3), np.float32),
    )
    data = codec.pack(depth)
    again = codec.unpack(DepthMap, data)
    assert again.depth.dtype == np.float32 and again.completed.dtype == np.bool_
    npt.assert_array_equal(again.depth, depth.depth)
    assert codec.pack(again) == data == codec.pack(depth)


@dataclass(frozen=True)
class Later:
    name: str
    few: Few = field(default_factory=Few, metadata=QUIET)
    count: int = field(default=0, metadata=QUIET)


def test_quiet_fields_are_written_only_where_they_say_something() -> None:
    assert codec.to_json(Later("a")) == {"name": "a"}
    assert codec.to_json(Later("a", Few(4), 1)) == {"name": "a", "few": {"count": 4}, "count": 1}
    for value in (Later("a"), Later("b", Few(5)), Later("c", count=2)):
        assert codec.loads(Later, codec.dumps(value)) == value and codec.unpack(Later, codec.pack(value)) == value


def test_unions_enums_paths_and_empty_arrays() -> None:
    holder = Holder(Many(limit=2.5), np.empty((0, 2), np.int64))
    back = codec.loads(Holder, codec.dumps(holder))
    document = codec.to_json(holder)
    assert isinstance(document, dict) and "kind" not in document and document["choice"]["kind"] == "Many"
    assert back.choice == Many(limit=2.5) and back.grid.shape == (0, 2) and back.grid.dtype == np.int64
    missing = PosedFrame(3, Support.MISSING, None, 0, math.nan, Refusal(Reason.TOO_FEW_POINTS, "too blurred"))
    frame = codec.loads(PosedFrame, codec.dumps(missing))
    assert frame.support is Support.MISSING and frame.cam_from_world is None and frame.refusal == missing.refusal
    view = View("a/b.jpg", Path("x/a/b.jpg"), Camera("PINHOLE", 1, 1, (1.0,)), _pose(2))
    assert codec.loads(View, codec.dumps(view)).path == Path("x/a/b.jpg")


@pytest.mark.parametrize(
    "document",
    [{"count": "3"}, {"count": True}, {"count": 3, "colour": 1}, {"kind": "Many", "count": 3}, [3]],
)
def test_what_does_not_fit_is_refused(document: codec.Json) -> None:
    with pytest.raises(ValueError):
        codec.from_json(Few, document)


@dataclass(frozen=True)
class Named:
    names: tuple[str, ...] = ()
    others: list[str] = field(default_factory=list)


@pytest.mark.parametrize("document", ["a.jpg", {"a.jpg": 1}, 3])
@pytest.mark.parametrize("name", ["names", "others"])
def test_a_list_is_read_from_a_list_alone(name: str, document: codec.Json) -> None:
    """The letters of a text and the keys of an object could be gone through as well."""
    with pytest.raises(ValueError):
        codec.from_json(Named, {name: document})
    assert codec.from_json(Named, {name: ["a.jpg"]}) == Named(**{name: type(getattr(Named(), name))(["a.jpg"])})


def test_values_without_a_json_form_are_refused() -> None:
    with pytest.raises(TypeError, match="complex"):
        codec.to_json(1j)


def test_large_arrays_keep_every_bit() -> None:
    values: Floats = np.random.default_rng(3).normal(size=(500, 3)) * 10.0 ** np.arange(-1, 2)
    assert codec.loads(Pose, codec.dumps(Pose(values, values))).rotation.tobytes() == values.tobytes()


@dataclass(frozen=True, eq=False)
class Cloud:
    points: Floats
    counts: Ints
    name: str


def test_mapped_arrays_are_the_packed_ones_and_stay_on_the_disk(tmp_path: Path) -> None:
    cloud = Cloud(np.random.default_rng(1).normal(size=(7, 3)), np.arange(5), "a")
    path = tmp_path / "cloud.npz"
    path.write_bytes(codec.pack(cloud))
    held = codec.mapped(Cloud, path)
    npt.assert_array_equal(held.points, cloud.points)
    npt.assert_array_equal(held.counts, cloud.counts)
    assert held.name == "a" and not held.points.flags.owndata and not held.points.flags.writeable
    assert held.points.ctypes.data % 64 == 0
    with np.load(path) as archive:  # numpy reads it as well
        npt.assert_array_equal(archive["array0"], cloud.points)


def test_a_cut_file_is_not_mapped(tmp_path: Path) -> None:
    data = codec.pack(Cloud(np.zeros((50, 3)), np.arange(5), "a"))
    path = tmp_path / "cloud.npz"
    for size in (0, 40, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:size])
        with pytest.raises(ValueError):
            codec.mapped(Cloud, path)


def altered(cloud: Cloud, old: bytes, new: bytes) -> bytes:
    """What is packed of a cloud, with a piece that is there once another one of the same size."""
    data = codec.pack(cloud)
    assert data.count(old) == 1 and len(old) == len(new)
    return data.replace(old, new)


def test_a_mapped_array_does_not_reach_into_what_lies_behind_it(tmp_path: Path) -> None:
    path = tmp_path / "cloud.npz"
    path.write_bytes(altered(Cloud(np.zeros((7, 3)), np.arange(5), "a"), b"'shape': (5,)", b"'shape': (6,)"))
    with pytest.raises(ValueError, match="not as large as it says"):
        codec.mapped(Cloud, path)


def test_an_archive_that_claims_more_than_it_has_is_refused() -> None:
    data = bytearray(codec.pack(Cloud(np.zeros((7, 3)), np.arange(5), "a")))
    listed = data.index(b"PK\x01\x02")
    data[listed + 24 : listed + 28] = (1 << 30).to_bytes(4, "little")
    with pytest.raises(ValueError, match="claims to hold more"):
        codec.unpack(Cloud, bytes(data))


def test_a_compressed_archive_is_refused() -> None:
    """Small as a file, it may fill the memory."""
    file = io.BytesIO()
    with np.load(io.BytesIO(codec.pack(Cloud(np.zeros((7, 3)), np.arange(5), "a")))) as members:
        np.savez_compressed(file, **members)
    with pytest.raises(ValueError, match="compressed"):
        codec.unpack(Cloud, file.getvalue())


@pytest.mark.parametrize("text", ["[" * 200_000, '{"choice":' * 200_000])
def test_what_is_nested_too_deeply_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        codec.loads(Holder, text)
