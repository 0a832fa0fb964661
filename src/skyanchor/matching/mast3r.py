"""MASt3R and Aerial-MASt3R: the architecture's code comes from the user's own copy, the weights from a checkpoint.

The code and the weights are CC BY-NC-SA: no commercial use. None of it is part of SkyAnchor. The architecture is fixed
here; settings stored in a checkpoint are never evaluated.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch

from skyanchor.backends import weights
from skyanchor.backends.checkpoints import load_into, read_state
from skyanchor.backends.packages import Package, imported, quietly
from skyanchor.errors import BackendError
from skyanchor.matching.choices import MAST3R_CODE, Mast3r
from skyanchor.matching.dense import SIGMA, Crops, DenseMatcher
from skyanchor.types import Bytes, Matches

GENERIC = ("models", "utils")
"""Top-level modules of the upstream tree whose names are too common to leave behind."""
BLOCK = 1 << 24
"""Descriptor products held at a time."""


@dataclass(frozen=True)
class Architecture:
    """Sizes of the network, as its authors train it."""

    img_size: tuple[int, int] = (512, 512)
    enc_embed_dim: int = 1024
    enc_depth: int = 24
    enc_num_heads: int = 16
    dec_embed_dim: int = 768
    dec_depth: int = 12
    dec_num_heads: int = 12


LARGE = Architecture()
"""MASt3R_ViTLarge_BaseDecoder_512_catmlpdpt_metric, and Aerial-MASt3R."""


def load(choice: Mast3r, device: str) -> DenseMatcher:
    """The matcher of a choice."""
    path = weights.resolve(choice.checkpoint, choice.weights)
    network = load_network(path, choice.code, device, LARGE)
    pair = Mast3rNetwork(network, device, choice.stride, choice.side)
    return DenseMatcher(pair, f"mast3r {choice.variant}", choice.keypoints, choice.longest, Crops(choice.crops))


# --- network --------------------------------------------------------------------------------------------------------


def code_folder(given: Path | None = None) -> Path:
    """Folder that holds MASt3R's code: the given clone, or the copy inside an installed vismatch."""
    if given is not None:
        if not (given / "mast3r" / "model.py").is_file():
            raise BackendError(f"{given} has no mast3r/model.py. Give a clone of MASt3R with its submodules")
        return given
    spec = find_spec("vismatch")
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        if (Path(place) / "third_party" / "mast3r" / "mast3r" / "model.py").is_file():
            return Path(place) / "third_party" / "mast3r"
    advice = f"{MAST3R_CODE.command}, or give a clone of MASt3R"
    raise BackendError(f"MASt3R's code is not here (CC BY-NC-SA 4.0, no commercial use). Get it: {advice}")


@contextmanager
def _importing(folder: Path) -> Iterator[None]:
    """While inside, the upstream tree is importable and silent; afterwards paths, names and torch are as before."""
    with quietly():  # first: one thread at a time, for all of a process share its paths and modules too
        paths, switch = list(sys.path), torch.backends.cuda.matmul.allow_tf32
        parked = {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] in GENERIC}
        sys.path.insert(0, str(folder))
        try:
            yield
        finally:
            sys.path[:] = paths
            torch.backends.cuda.matmul.allow_tf32 = switch
            for name in [name for name in sys.modules if name.split(".")[0] in GENERIC]:
                del sys.modules[name]
            sys.modules.update(parked)


def build(architecture: Architecture, code: Path | None = None) -> Any:
    """The network with random weights."""
    folder = code_folder(code)
    with _importing(folder):
        model = imported(Package("MASt3R's code", "mast3r.model", MAST3R_CODE.command))
    infinity = float("inf")
    return model.AsymmetricMASt3R(
        pos_embed="RoPE100",
        patch_embed_cls="PatchEmbedDust3R",
        head_type="catmlp+dpt",
        output_mode="pts3d+desc24",
        depth_mode=("exp", -infinity, infinity),
        conf_mode=("exp", 1, infinity),
        desc_conf_mode=("exp", 0, infinity),
        two_confs=True,
        landscape_only=False,
        **asdict(architecture),
    )


@lru_cache(maxsize=1)
def load_network(path: Path, code: Path | None, device: str, architecture: Architecture) -> Any:
    """The network with the weights of a checkpoint, on a device."""
    state = read_state(path)
    with torch.device("meta"):  # no time and memory for random weights
        network = build(architecture, code)
    load_into(network, state, path, "MASt3R (ViT-L encoder, base decoder)")
    return network.eval().to(device)


# --- matching -------------------------------------------------------------------------------------------------------


class Mast3rNetwork:
    """Pair network: descriptors of every pixel, reciprocal nearest neighbours."""

    def __init__(self, network: Any, device: str, stride: int = 4, side: int = 512) -> None:
        self.network = network
        self.device = device
        self.stride = stride
        self.side = side

    def match_pixels(self, a: Bytes, b: Bytes) -> Matches:
        """Correspondences; the score is the geometric mean of both descriptors' confidences."""
        small_a, small_b = fitted(a, self.side), fitted(b, self.side)
        seen_a, seen_b = self.describe(small_a, small_b)
        at_a, at_b = reciprocal(seen_a.descriptors, seen_b.descriptors, small_a.shape, small_b.shape, self.stride)
        score = torch.sqrt(seen_a.confidence[at_a] * seen_b.confidence[at_b]).cpu().numpy().astype(np.float64)
        xy_a, xy_b = _pixels(at_a, small_a.shape, a.shape), _pixels(at_b, small_b.shape, b.shape)
        sigma = SIGMA * max(max(a.shape[:2]) / max(small_a.shape[:2]), max(b.shape[:2]) / max(small_b.shape[:2]))
        return Matches(xy_a, xy_b, score, sigma)

    def describe(self, a: Bytes, b: Bytes) -> tuple[Described, Described]:
        """Descriptors and confidences of all pixels of two pictures whose sides are multiples of 16."""
        views = [self._view(pixels, k) for k, pixels in enumerate((a, b))]
        with torch.inference_mode(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = self.network(*views)
        return tuple(Described(f["desc"][0].flatten(0, 1), f["desc_conf"][0].flatten()) for f in found)  # type: ignore

    def _view(self, pixels: Bytes, number: int) -> dict[str, Any]:
        """A picture as the network takes it: values in -1..1, batch of one."""
        image = torch.from_numpy(np.ascontiguousarray(pixels)).to(self.device).permute(2, 0, 1)[None].float()
        shape = torch.tensor([pixels.shape[:2]], dtype=torch.int32)
        return {"img": image / 127.5 - 1.0, "idx": [number], "instance": [str(number)], "true_shape": shape}


@dataclass(frozen=True, eq=False)
class Described:
    """What the network says of the pixels of one picture, row by row."""

    descriptors: Any
    """(H W, 24) tensor, unit."""
    confidence: Any
    """(H W,) tensor, positive."""


def fitted(pixels: Bytes, side: int, multiple: int = 16) -> Bytes:
    """The picture with its longer side `side`, both sides rounded to multiples (aspect changes by a few per cent)."""
    height, width = pixels.shape[:2]
    scale = side / max(height, width)
    new = [max(multiple, round(length * scale / multiple) * multiple) for length in (width, height)]
    how = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(pixels, (new[0], new[1]), interpolation=how), dtype=np.uint8)


def _pixels(at: Any, small: tuple[int, ...], full: tuple[int, ...]) -> Any:
    """(N, 2), where the centres of pixels, numbered row by row in a resized picture, lie in the full one."""
    index = at.cpu().numpy().astype(np.int64)
    xy = np.stack([index % small[1], index // small[1]], axis=1) + 0.5
    return xy * np.array([full[1] / small[1], full[0] / small[0]])


def nearest(queries: Any, keys: Any) -> Any:
    """(N,), for each query (N, D) the row of keys (M, D) with the largest dot product."""
    step = max(1, BLOCK // len(keys))
    return torch.cat([(queries[i : i + step] @ keys.T).argmax(dim=1) for i in range(0, len(queries), step)])


def grid(shape: tuple[int, ...], stride: int, device: Any) -> Any:
    """Numbers of every stride-th pixel of a picture (H, W, ...), row by row."""
    rows = torch.arange(stride // 2, shape[0], stride, device=device)
    columns = torch.arange(stride // 2, shape[1], stride, device=device)
    return (rows[:, None] * shape[1] + columns[None, :]).flatten()


def reciprocal(
    a: Any, b: Any, shape_a: tuple[int, ...], shape_b: tuple[int, ...], stride: int, rounds: int = 6
) -> tuple[Any, Any]:
    """Pixels of a and b that are each other's nearest, found from grids on both sides, each pair once.

    From a seed the walk a -> b -> a settles where it returns to where it was; few rounds do.
    """
    forth = settled(grid(shape_a, stride, a.device), a, b, rounds)
    back = settled(grid(shape_b, stride, b.device), b, a, rounds)
    both = torch.unique(torch.cat([torch.stack(forth, 1), torch.stack(back[::-1], 1)]), dim=0)
    return both[:, 0], both[:, 1]


def settled(seeds: Any, a: Any, b: Any, rounds: int) -> tuple[Any, Any]:
    """(pixels of a, pixels of b) at which the walks from seeds in a came to rest."""
    at, found_a, found_b = torch.unique(seeds), [], []
    for _ in range(rounds):
        there = nearest(a[at], b)
        home = nearest(b[there], a)
        rests = home == at
        found_a.append(at[rests])
        found_b.append(there[rests])
        at = torch.unique(home[~rests])
        if not len(at):
            break
    return torch.cat(found_a), torch.cat(found_b)
