"""MASt3R: safe loading, reciprocal matching against a slow twin, and parity with the package's own network."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from skyanchor.backends.checkpoints import read_safetensors, read_state, read_tensor
from skyanchor.errors import BackendError
from skyanchor.matching import Mast3r, mast3r

TINY = mast3r.Architecture((64, 64), 32, 1, 2, 32, 12, 2)


def test_only_tensors_leave_a_checkpoint(tmp_path: Path):
    held = {"model": {"a": torch.arange(3.0)}, "args": argparse.Namespace(model="__import__('os')"), "epoch": 7}
    torch.save(held, tmp_path / "good.pth")
    state = read_state(tmp_path / "good.pth")
    assert list(state) == ["a"] and torch.equal(state["a"], torch.arange(3.0))


class Evil:
    def __reduce__(self):
        return (Path.touch, (Path("evil-was-here"),))


def test_code_in_a_checkpoint_is_refused_and_does_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"model": {"a": torch.zeros(1)}, "args": Evil()}, tmp_path / "evil.pth")
    with pytest.raises(BackendError, match="could run code"):
        read_state(tmp_path / "evil.pth")
    assert not (tmp_path / "evil-was-here").exists()
    (tmp_path / "cut.pth").write_bytes((tmp_path / "evil.pth").read_bytes()[:200])
    with pytest.raises(BackendError):
        read_state(tmp_path / "cut.pth")
    torch.save(torch.eye(2), tmp_path / "one.pt")
    assert torch.equal(read_tensor(tmp_path / "one.pt"), torch.eye(2))
    with pytest.raises(BackendError, match="no weights by name"):
        read_state(tmp_path / "one.pt")


def write_safetensors(path: Path, tensors: dict[str, np.ndarray], kinds: dict[str, str]) -> None:
    header, body = {"__metadata__": {"format": "pt"}}, b""
    for name, value in tensors.items():
        data = value.tobytes()
        header[name] = {
            "dtype": kinds[name],
            "shape": list(value.shape),
            "data_offsets": [len(body), len(body) + len(data)],
        }
        body += data
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + body)


def test_safetensors_are_read_without_the_package(tmp_path: Path):
    rng = np.random.default_rng(0)
    tensors = {"b": np.array([True]), "w": rng.normal(size=(2, 3)).astype(np.float32), "i": np.arange(4)}
    write_safetensors(tmp_path / "m.safetensors", tensors, {"b": "BOOL", "w": "F32", "i": "I64"})
    found = read_safetensors(tmp_path / "m.safetensors")
    assert all(np.array_equal(found[name].numpy(), value) for name, value in tensors.items())
    (tmp_path / "cut.safetensors").write_bytes((1 << 40).to_bytes(8, "little") + b"{}")
    with pytest.raises(BackendError, match="cut off"):
        read_safetensors(tmp_path / "cut.safetensors")
    for junk in (b"junk", (4).to_bytes(8, "little") + b"junk", (2).to_bytes(8, "little") + b"[]"):
        (tmp_path / "junk.safetensors").write_bytes(junk)
        with pytest.raises(BackendError, match=r"no whole \.safetensors file|cut off"):
            read_safetensors(tmp_path / "junk.safetensors")
    whole = (tmp_path / "m.safetensors").read_bytes()
    (tmp_path / "short.safetensors").write_bytes(whole[:-8])
    with pytest.raises(BackendError, match=r"no whole \.safetensors file"):
        read_safetensors(tmp_path / "short.safetensors")


def test_reciprocal_pairs_equal_the_slow_twin():
    torch.manual_seed(0)
    a = torch.nn.functional.normalize(torch.randn(12 * 10, 24), dim=1)
    b = torch.nn.functional.normalize(a[torch.randperm(120)][:99] + 0.3 * torch.randn(99, 24), dim=1)
    at_a, at_b = mast3r.reciprocal(a, b, (12, 10), (9, 11), stride=1)
    likeness = a @ b.T
    expected = {
        (i, int(likeness[i].argmax())) for i in range(120) if int(likeness[:, likeness[i].argmax()].argmax()) == i
    }
    assert set(zip(at_a.tolist(), at_b.tolist(), strict=True)) == expected and len(expected) > 50
    some_a, some_b = mast3r.reciprocal(a, b, (12, 10), (9, 11), stride=3)
    some = set(zip(some_a.tolist(), some_b.tolist(), strict=True))
    assert some <= expected and 20 <= len(some) < len(expected)


def test_missing_code_and_weights_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SKYANCHOR_WEIGHTS", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BackendError, match="skyanchor weights aerial-mast3r --download"):
        Mast3r().load("cpu")
    with pytest.raises(BackendError, match=r"no mast3r/model\.py"):
        mast3r.code_folder(tmp_path)


@pytest.fixture(scope="module")
def network():
    try:
        torch.manual_seed(0)
        return mast3r.build(TINY).eval()
    except BackendError as error:
        pytest.skip(str(error))


def photo(seed: int, height: int = 48, width: int = 64) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3)).astype(np.uint8)


def test_descriptors_are_those_of_the_package(network, tmp_path: Path):
    """The checkpoint goes through our loader, the pictures through our adapter; the package's own route is the twin."""
    from dust3r.inference import inference  # type: ignore[import-not-found]

    path = tmp_path / "tiny.pth"
    torch.save({"model": network.state_dict(), "args": argparse.Namespace(model="never evaluated")}, path)
    ours = mast3r.Mast3rNetwork(mast3r.load_network(path, None, "cpu", TINY), "cpu")
    a, b = photo(1), photo(2)
    found = ours.describe(a, b)
    views = tuple(
        {
            "img": (torch.from_numpy(p).permute(2, 0, 1)[None] / 255.0 - 0.5) / 0.5,
            "idx": k,
            "instance": k,
            "true_shape": np.int32([p.shape[:2]]),
        }
        for k, p in enumerate((a, b))
    )
    theirs = inference([views], network, "cpu", batch_size=1, verbose=False)
    for k in (0, 1):
        expected = theirs[f"pred{k + 1}"]
        assert torch.allclose(found[k].descriptors, expected["desc"][0].reshape(-1, 24), atol=1e-4)
        assert torch.allclose(found[k].confidence, expected["desc_conf"][0].reshape(-1), rtol=1e-4)
    assert len(torch.unique(found[0].descriptors, dim=0)) > 1000


def test_matches_are_in_pixels_of_the_given_pictures(network):
    pair = mast3r.Mast3rNetwork(network, "cpu", stride=2, side=64)
    found = pair.match_pixels(photo(1, 96, 128), photo(2, 50, 60))
    assert len(found.score) > 5 and (found.score > 0).all()
    assert (found.xy_a >= 0).all() and (found.xy_a <= [128, 96]).all() and (found.xy_b <= [60, 50]).all()
    assert found.sigma_px == pytest.approx(0.5 * 128 / 64)
    steps = found.xy_a / 2.0 - 0.5  # centres of the network's pixels
    assert np.allclose(steps, np.round(steps))


def test_another_architecture_is_refused(network, tmp_path: Path):
    torch.save({"model": {"enc_norm.weight": torch.zeros(32)}}, tmp_path / "few.pth")
    with pytest.raises(BackendError, match="weights are missing"):
        mast3r.load_network(tmp_path / "few.pth", None, "cpu", TINY)
    torch.save({"model": {"enc_norm.weight": torch.zeros(7)}}, tmp_path / "other.pth")
    with pytest.raises(BackendError, match="another architecture"):
        mast3r.load_network(tmp_path / "other.pth", None, "cpu", TINY)


def test_two_threads_leave_paths_and_modules_as_they_were(tmp_path: Path):
    """As workers on threads load the network: the second had taken the first one's paths for those of the process."""
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "__init__.py").write_text("")
    paths, within, second_is_within = list(sys.path), threading.Event(), threading.Event()

    def second() -> None:
        within.wait()
        with mast3r._importing(tmp_path):
            second_is_within.set()
            importlib.import_module("models")

    thread = threading.Thread(target=second)
    thread.start()
    try:
        with mast3r._importing(tmp_path):
            importlib.import_module("models")
            within.set()
            assert not second_is_within.wait(0.3), "one after the other"
        thread.join()
        assert sys.path == paths and "models" not in sys.modules
    finally:
        thread.join()
        sys.path[:] = paths
        sys.modules.pop("models", None)
