"""AnyLoc and other whole-image descriptors: parity with upstream networks, VLAD against a slow twin, clear refusals."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import cv2
import numpy as np
import pytest
import torch

from skyanchor.backends.checkpoints import read_state
from skyanchor.errors import BackendError
from skyanchor.matching import anyloc
from skyanchor.matching.dinov2 import Dinov2, block, hub_names, positions
from skyanchor.matching.global_descriptors import AnyLoc, HubModel, MegaLoc, Salad, SceneVlad, described
from skyanchor.matching.retrieval import ranked
from skyanchor.types import Photo

WIDTH, DEPTH, HEAD = 32, 3, 16


def tiny(swiglu: bool, seed: int = 0, side: int = 5) -> dict[str, torch.Tensor]:
    """A random checkpoint under torch.hub's names."""
    torch.manual_seed(seed)

    def near(value: float, *shape: int) -> torch.Tensor:
        return value + 0.2 * torch.randn(*shape)

    state = {
        "cls_token": near(0, 1, 1, WIDTH),
        "pos_embed": near(0, 1, 1 + side**2, WIDTH),
        "mask_token": near(0, 1, WIDTH),
        "patch_embed.proj.weight": near(0, WIDTH, 3, 14, 14),
        "patch_embed.proj.bias": near(0, WIDTH),
        "norm.weight": near(1, WIDTH),
        "norm.bias": near(0, WIDTH),
    }
    shapes = {"attn.qkv": (3 * WIDTH, WIDTH), "attn.proj": (WIDTH, WIDTH)}
    shapes |= {"mlp.w12": (176, WIDTH), "mlp.w3": (WIDTH, 88)} if swiglu else {}
    shapes |= {} if swiglu else {"mlp.fc1": (4 * WIDTH, WIDTH), "mlp.fc2": (WIDTH, 4 * WIDTH)}
    for k in range(DEPTH):
        for name, shape in shapes.items():
            state[f"blocks.{k}.{name}.weight"] = near(0, *shape)
            state[f"blocks.{k}.{name}.bias"] = near(0, shape[0])
        for name in ("norm1", "norm2"):
            state[f"blocks.{k}.{name}.weight"], state[f"blocks.{k}.{name}.bias"] = near(1, WIDTH), near(0, WIDTH)
        for name in ("ls1", "ls2"):
            state[f"blocks.{k}.{name}.gamma"] = near(1, WIDTH)
    return state


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    torch.manual_seed(7)
    return torch.randn(1, 3, 4 * 14, 6 * 14)


# --- parity ---------------------------------------------------------------------------------------------------------


def test_a_block_equals_torchs_own_layers():
    state = tiny(False)
    layer = torch.nn.MultiheadAttention(WIDTH, WIDTH // HEAD, batch_first=True)
    mapping = {"in_proj_weight": "qkv.weight", "in_proj_bias": "qkv.bias"}
    mapping |= {"out_proj.weight": "proj.weight", "out_proj.bias": "proj.bias"}
    layer.load_state_dict({theirs: state[f"blocks.1.attn.{ours}"] for theirs, ours in mapping.items()})
    x = torch.randn(2, 9, WIDTH)

    def norm(name: str, y: torch.Tensor) -> torch.Tensor:
        weight, bias = state[f"blocks.1.{name}.weight"], state[f"blocks.1.{name}.bias"]
        return (y - y.mean(-1, keepdim=True)) / torch.sqrt(y.var(-1, keepdim=True, correction=0) + 1e-6) * weight + bias

    with torch.no_grad():
        seen = norm("norm1", x)
        middle = x + state["blocks.1.ls1.gamma"] * layer(seen, seen, seen)[0]
        hidden = norm("norm2", middle) @ state["blocks.1.mlp.fc1.weight"].T + state["blocks.1.mlp.fc1.bias"]
        hidden = hidden * 0.5 * (1 + torch.erf(hidden / 2**0.5))
        told = hidden @ state["blocks.1.mlp.fc2.weight"].T + state["blocks.1.mlp.fc2.bias"]
        assert torch.allclose(
            block(state, "blocks.1.", x, HEAD), middle + state["blocks.1.ls2.gamma"] * told, atol=1e-4
        )


def upstream_dinov2():
    """The authors' network as romatch carries it, without the package's own start-up, which needs torchvision."""
    spec = importlib.util.find_spec("romatch")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("needs the package romatch, which carries DINOv2's own code")
    root = Path(next(iter(spec.submodule_search_locations)))
    names = {"romatch": root, "romatch.models": root / "models"}
    names |= {"romatch.models.transformer": root / "models" / "transformer"}
    for name, folder in names.items():
        module = ModuleType(name)
        module.__path__ = [str(folder)]
        sys.modules[name] = module
    try:
        return importlib.import_module("romatch.models.transformer.dinov2")
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] == "romatch"]:
            del sys.modules[name]


@pytest.mark.parametrize("swiglu", [False, True], ids=["gelu", "swiglu"])
def test_facets_equal_those_of_the_authors_code(swiglu: bool, images: torch.Tensor):
    code = upstream_dinov2()
    kind = "swiglufused" if swiglu else "mlp"
    network = code.DinoVisionTransformer(
        img_size=70, patch_size=14, embed_dim=WIDTH, depth=DEPTH, num_heads=WIDTH // HEAD, init_values=1.0,
        ffn_layer=kind, block_chunks=0,
    ).eval()  # fmt: skip
    state = tiny(swiglu)
    network.load_state_dict(state)
    for layer in range(DEPTH):
        held: list[torch.Tensor] = []
        hook = network.blocks[layer].attn.qkv.register_forward_hook(lambda _, __, out, held=held: held.append(out))
        with torch.no_grad():
            network(images)
        hook.remove()
        for k, facet in enumerate(("query", "key", "value")):
            found = Dinov2(state, HEAD).facet(images, layer, facet)
            assert torch.allclose(found, held[0][:, 1:, k * WIDTH : (k + 1) * WIDTH], atol=1e-4)


@pytest.mark.parametrize("swiglu", [False, True], ids=["gelu", "swiglu"])
def test_facets_equal_those_of_transformers(swiglu: bool, tmp_path: Path):
    transformers = pytest.importorskip("transformers", reason="needs the package transformers")
    settings = {"hidden_size": WIDTH, "num_hidden_layers": DEPTH, "num_attention_heads": WIDTH // HEAD}
    settings |= {"image_size": 70, "patch_size": 14, "mlp_ratio": 4, "use_swiglu_ffn": swiglu}
    torch.manual_seed(3)
    network = transformers.Dinov2Model(transformers.Dinov2Config(**settings)).eval()
    images = torch.randn(1, 3, 70, 70)  # the grid of positions as it is: the two resample it differently
    network.save_pretrained(tmp_path)  # a file as on the Hugging Face hub
    state = hub_names(read_state(tmp_path / "model.safetensors"))
    held: list[torch.Tensor] = []
    values = [m for name, m in network.named_modules() if name.endswith("value") or name.endswith("v_proj")]
    values[2].register_forward_hook(lambda _, __, out: held.append(out))
    with torch.no_grad():
        network(images)
    assert torch.allclose(Dinov2(state, HEAD).facet(images, 2, "value"), held[0][:, 1:], atol=1e-4)


def test_positions_of_the_trained_size_are_left_alone():
    grid = torch.randn(1, 26, 8)
    assert positions(grid, 5, 5) is grid
    assert positions(grid, 4, 7).shape == (1, 29, 8)
    flat = torch.ones(1, 26, 8)
    assert torch.allclose(positions(flat, 9, 3), torch.ones(1, 28, 8), atol=1e-5)


# --- the descriptor -------------------------------------------------------------------------------------------------


def picture(seed: int, shift: int = 0) -> Photo:
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (12, 16, 3)).astype(np.uint8)
    pixels = cv2.resize(coarse, (220, 160), interpolation=cv2.INTER_CUBIC)
    noise = np.random.default_rng(seed + 100).normal(0, 4, (140, 180, 3))
    part = pixels[shift : shift + 140, shift : shift + 180]
    return Photo(f"p{seed}", np.clip(part + noise, 0, 255).astype(np.uint8))


@pytest.fixture()
def checkpoint(tmp_path: Path) -> Path:
    path = tmp_path / "dinov2_vits14_pretrain.pth"
    torch.save(tiny(False), path)
    return path


def test_a_scene_vocabulary_finds_the_place_again(checkpoint: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(anyloc, "load_network", lambda path, device: Dinov2(tiny(False), HEAD))
    scene = [picture(seed) for seed in range(6)]
    choice = AnyLoc("s", layer=0, centres=6, weights=checkpoint, longest=200)
    descriptor = choice.load("cpu", scene)
    database = described(descriptor, scene)
    assert database.shape == (6, 6 * WIDTH) and np.allclose(np.linalg.norm(database, axis=1), 1.0, atol=1e-5)
    queries = described(descriptor, [picture(seed, shift=14) for seed in range(6)])
    assert ranked(queries, database, 1)[:, 0].tolist() == list(range(6))
    assert descriptor.key == "anyloc s 0 value scene 6"


def test_masked_patches_take_no_part():
    patches = anyloc.PatchFacets(Dinov2(tiny(False), HEAD), AnyLoc("s", layer=1, longest=300), "cpu")
    photo = picture(1)
    mask = np.ones(photo.pixels.shape[:2], bool)
    mask[:, 90:] = False
    full, part = patches.describe(photo), patches.describe(Photo("m", photo.pixels, mask))
    assert full.shape == (10 * 12, WIDTH) and 0 < len(part) < len(full)
    columns = np.arange(12) * 14 + 7 + (180 - 168) // 2
    assert np.array_equal(part, full[np.tile(columns < 90, 10)])


def test_the_default_layer_has_the_published_depth():
    assert anyloc.PatchFacets(Dinov2(tiny(False), HEAD), AnyLoc("s"), "cpu").layer == 31 * DEPTH // 40
    state = tiny(False) | {"blocks.39.norm1.weight": torch.ones(1)}
    assert anyloc.PatchFacets(Dinov2(state, HEAD), AnyLoc("g"), "cpu").layer == 31
    with pytest.raises(BackendError, match="no layer 7"):
        anyloc.PatchFacets(Dinov2(tiny(False), HEAD), AnyLoc("s", layer=7), "cpu")


def test_vlad_equals_the_slow_twin():
    rng = np.random.default_rng(0)
    patches = rng.normal(size=(50, 8)).astype(np.float32)
    patches /= np.linalg.norm(patches, axis=1, keepdims=True)
    centres = (rng.normal(size=(4, 8)) * np.array([[0.1], [1], [2], [5]])).astype(np.float32)
    rows = []
    for k in range(4):
        total = np.zeros(8)
        for patch in patches:
            cosines = [patch @ c / np.linalg.norm(c) for c in centres]
            total += (patch - centres[k]) if int(np.argmax(cosines)) == k else 0.0
        rows.append(total / max(np.linalg.norm(total), 1e-12))
    expected = np.concatenate(rows) / np.linalg.norm(np.concatenate(rows))
    assert np.allclose(anyloc.cosine_vlad(patches, centres), expected, atol=1e-5)
    assert not anyloc.cosine_vlad(patches[:0], centres).any()


def test_published_centres_belong_to_one_network(tmp_path: Path):
    path = tmp_path / "centres.pt"
    torch.save(torch.randn(32, 1536), path)
    good = AnyLoc("g", vocabulary="urban", centres_file=path)
    giant = SimpleNamespace(layer=31, network=SimpleNamespace(width=1536))
    assert anyloc.published_centres(good, giant).shape == (32, 1536)  # type: ignore[arg-type]
    with pytest.raises(BackendError, match="vocabulary of the scene"):
        anyloc.published_centres(AnyLoc("b", vocabulary="urban", centres_file=path), giant)  # type: ignore[arg-type]


def test_other_networks_are_refused(tmp_path: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch):
    state = tiny(False)
    torch.save({name: value for name, value in state.items() if "ls1" not in name}, tmp_path / "vit.pth")
    with pytest.raises(BackendError, match="is no DINOv2 checkpoint"):
        anyloc.load_network(tmp_path / "vit.pth", "cpu")
    torch.save(state | {"register_tokens": torch.zeros(1, 4, WIDTH)}, tmp_path / "reg4.pth")
    with pytest.raises(BackendError, match="is a DINOv2 with registers"):
        anyloc.load_network(tmp_path / "reg4.pth", "cpu")
    torch.save(torch.randn(32, 1536), tmp_path / "centres.pt")
    monkeypatch.setattr(anyloc, "PUBLISHED_LAYER", 0)
    choice = AnyLoc("g", vocabulary="urban", centres_file=tmp_path / "centres.pt", weights=checkpoint, layer=0)
    with pytest.raises(BackendError, match=rf"has {WIDTH} channels here, the centres \(32, 1536\)"):
        choice.load("cpu", [])


def test_both_names_of_the_weights_are_read(checkpoint: Path, tmp_path: Path):
    network = anyloc.load_network(checkpoint, "cpu")
    assert network.depth == DEPTH and network.width == WIDTH
    torch.save({"something": torch.zeros(1)}, tmp_path / "other.pth")
    with pytest.raises(BackendError, match="no DINOv2 checkpoint"):
        anyloc.load_network(tmp_path / "other.pth", "cpu")


def test_the_default_needs_no_weights():
    scene = [picture(seed) for seed in range(4)]
    from skyanchor.matching import Sift

    descriptor = SceneVlad(Sift(keypoints=200), centres=8).load("cpu", scene)
    database = described(descriptor, scene)
    assert ranked(database, database, 1)[:, 0].tolist() == [0, 1, 2, 3]


# --- torch.hub folders ------------------------------------------------------------------------------------------------

HUBCONF = """
dependencies = ["torch"]
import torch

class Mean(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.adaptive_avg_pool2d(x, 4).flatten(1)

def trained():
    return Mean()

def greedy():
    torch.hub.load_state_dict_from_url("https://example.org/unknown.pth")
"""


def test_a_hub_folder_is_used_and_downloads_nothing(tmp_path: Path):
    (tmp_path / "hubconf.py").write_text(HUBCONF)
    descriptor = HubModel(str(tmp_path), "trained", 28).load("cpu", ())
    found = descriptor.describe(picture(0))
    assert found.shape == (48,) and np.linalg.norm(found) == pytest.approx(1.0, abs=1e-5)
    with pytest.raises(BackendError, match="would be downloaded"):
        HubModel(str(tmp_path), "greedy", 28).load("cpu", ())


def test_missing_hub_folders_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    with pytest.raises(BackendError, match=r"git clone https://github\.com/serizba/salad"):
        Salad().load("cpu", ())
    (tmp_path / "hub" / "gmberton_MegaLoc_main").mkdir(parents=True)
    (tmp_path / "hub" / "gmberton_MegaLoc_main" / "hubconf.py").write_text(HUBCONF)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(BackendError, match="skyanchor weights megaloc --download"):
        MegaLoc().load("cpu", ())
