"""Trained weights that a user may already have: where they lie, under which licence, and how to get what is missing.

Nothing is downloaded unless somebody asks for it: `fetch` is the only function here that opens a connection.
"""

from __future__ import annotations

import hashlib
import logging
import os
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from skyanchor.errors import BackendError
from skyanchor.storage import files

VARIABLE = "SKYANCHOR_WEIGHTS"
"""Environment variable that names folders of weights, separated as in PATH."""
SIBLINGS = ("weights", "checkpoints", "models", "mast3r/checkpoints", "dust3r/checkpoints", "vggt", "AnyLoc/cache")
"""Folders beside the working folder, or in it, in which other projects keep their checkpoints."""
CHUNK = 1 << 20

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Weights:
    """One published set of trained weights."""

    name: str
    """What it is called on the command line."""
    purpose: str
    files: tuple[str, ...]
    """File names (or paths below a folder) it is found under; the first is what a download is called."""
    url: str
    """Where the first of the files comes from."""
    licence: str
    commercial: bool
    """Whether the licence allows commercial use."""
    megabytes: int
    """Size of the file, about."""
    hub_id: str = ""
    """Hugging Face repository that holds the same weights."""
    hub_files: tuple[str, ...] = ("model.safetensors",)
    """File names in that repository."""
    sha256: str = ""
    """Digest of the first file where it is known, or its leading digits; empty where it is not."""
    part: str = ""
    """How the names of some of its tensors begin, and of no other network's; empty where its reader looks closer."""

    @property
    def label(self) -> str:
        """What it is, and what it is called."""
        return f"weights {self.name}"

    @property
    def command(self) -> str:
        """What to type to get them."""
        return f"skyanchor weights {self.name} --download"

    def place(self) -> str | None:
        """The file and its licence; None where it is not here."""
        found = find(self)
        return None if found is None else f"{found} ({terms(self)})"


CC_NC = "CC BY-NC-SA 4.0"
DINOV2_URL = "https://dl.fbaipublicfiles.com/dinov2"


def _dinov2(size: str, megabytes: int) -> Weights:
    name = f"dinov2_vit{size}14"
    file, hub = f"{name}_pretrain.pth", {"s": "small", "b": "base", "l": "large", "g": "giant"}[size]
    purpose = f"AnyLoc with ViT-{size.upper()}/14" + ("; RoMa's encoder" if size == "l" else "")
    url = f"{DINOV2_URL}/{name}/{file}"
    hub_id = f"facebook/dinov2-{hub}"
    return Weights(f"dinov2-{size}", purpose, (file,), url, "Apache-2.0", True, megabytes, hub_id)


def _anyloc(domain: str, sha256: str = "") -> Weights:
    file = f"dinov2_vitg14_l31_value_c32_{domain}_c_centers.pt"
    layout = f"vocabulary/dinov2_vitg14/l31_value_c32/{domain}/c_centers.pt"
    url = f"https://github.com/AnyLoc/DINO/releases/download/v1/{file}"
    purpose = f"AnyLoc's published centres for ViT-G/14, {domain}"
    return Weights(f"anyloc-{domain}", purpose, (file, layout), url, "BSD-3-Clause", True, 1, sha256=sha256)


MAST3R = Weights(
    "mast3r",
    "MASt3R matching",
    ("MASt3R_ViTLarge_BaseDecoder_512_catmlpdpt_metric.pth",),
    "https://download.europe.naverlabs.com/ComputerVision/MASt3R/MASt3R_ViTLarge_BaseDecoder_512_catmlpdpt_metric.pth",
    CC_NC,
    False,
    2754,
    "naver/MASt3R_ViTLarge_BaseDecoder_512_catmlpdpt_metric",
)
AERIAL_MAST3R = Weights(
    "aerial-mast3r",
    "MASt3R fine-tuned on aerial and ground pairs, the paper's matcher",
    ("checkpoint-aerial-mast3r.pth", "checkpoint-aerial-mast3r.safetensors"),
    "https://huggingface.co/kvuong2711/checkpoint-aerial-mast3r/resolve/main/model.safetensors",
    CC_NC,
    False,
    2754,
    "kvuong2711/checkpoint-aerial-mast3r",
)
ROMA = Weights(
    "roma",
    "RoMa matching",
    ("roma_outdoor.pth",),
    "https://github.com/Parskatt/storage/releases/download/roma/roma_outdoor.pth",
    "MIT",
    True,
    445,
    part="decoder.embedding_decoder.",
)
ROMA_V2 = Weights(
    "romav2",
    "RoMa v2 matching",
    ("romav2.0.1.pt",),
    "https://github.com/Parskatt/RoMaV2/releases/download/v2.0.1/romav2.0.1.pt",
    "MIT; its DINOv3 features under Meta's DINOv3 licence",
    True,
    1200,
    part="refiners.",
)
DINOV2_S, DINOV2_B, DINOV2_L, DINOV2_G = _dinov2("s", 88), _dinov2("b", 346), _dinov2("l", 1218), _dinov2("g", 4546)
ANYLOC_URBAN = _anyloc("urban", "a684e571f05c85c804e7301547d8620c28ae759e824adb9ac88294b080feaba0")
ANYLOC_AERIAL = _anyloc("aerial")
MEGALOC = Weights(
    "megaloc",
    "MegaLoc retrieval",
    ("megaloc.torch",),
    "https://github.com/gmberton/MegaLoc/releases/download/v1.0/megaloc.torch",
    "MIT",
    True,
    915,
    "gberton/MegaLoc",
)
SALAD = Weights(
    "salad",
    "SALAD retrieval",
    ("dino_salad.ckpt",),
    "https://github.com/serizba/salad/releases/download/v1.0.0/dino_salad.ckpt",
    "GPL-3.0",
    True,
    351,
)
VGGT = Weights(
    "vggt",
    "feed-forward local reconstruction",
    ("vggt_1B.pt", "model.pt"),
    "https://huggingface.co/facebook/VGGT-1B/resolve/main/model.pt",
    "CC BY-NC 4.0",
    False,
    5030,
    "facebook/VGGT-1B",
    ("model.pt", "model.safetensors"),
    part="aggregator.",
)

KNOWN = (
    AERIAL_MAST3R,
    MAST3R,
    ROMA,
    ROMA_V2,
    DINOV2_S,
    DINOV2_B,
    DINOV2_L,
    DINOV2_G,
    ANYLOC_URBAN,
    ANYLOC_AERIAL,
    MEGALOC,
    SALAD,
    VGGT,
)
"""All weights that backends ask for."""


# --- finding ------------------------------------------------------------------------------------------------------


def torch_cache() -> Path:
    """Where torch.hub keeps repositories and checkpoints."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("TORCH_HOME") or cache / "torch") / "hub"


def hub_cache() -> Path:
    """Where the Hugging Face hub keeps repositories."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = Path(os.environ.get("HF_HOME") or cache / "huggingface")
    return Path(os.environ.get("HF_HUB_CACHE") or home / "hub")


def folders() -> tuple[Path, ...]:
    """Folders in which weights are looked for, the user's own first."""
    named = [Path(part) for part in os.environ.get(VARIABLE, "").split(os.pathsep) if part]
    here = Path.cwd()
    near = [base / name for base in (here, here.parent) for name in SIBLINGS]
    return (*named, torch_cache() / "checkpoints", *near)


def find(weights: Weights, given: Path | None = None) -> Path | None:
    """The file of the weights: the given one, or the first of the places users keep them; None when it is nowhere.

    `given` is a file, or a folder that holds it; BackendError when it is neither.
    """
    if given is not None:
        return _within(weights, given)
    return next((path for path in _candidates(weights) if path.is_file()), None)


def _within(weights: Weights, given: Path) -> Path:
    if given.is_file():
        return given
    held = [given / name for name in (*weights.files, *weights.hub_files)]
    found = next((path for path in held if path.is_file()), None)
    if found is None:
        what = f"has none of {', '.join(path.name for path in held)}" if given.is_dir() else "does not exist"
        raise BackendError(f"{given} {what}. Give the weights {weights.name} as a file, or the folder that holds it")
    return found


def _candidates(weights: Weights) -> Iterator[Path]:
    for folder in folders():
        yield from (folder / name for name in weights.files)
    if weights.hub_id:
        snapshots = hub_cache() / f"models--{weights.hub_id.replace('/', '--')}" / "snapshots"
        for revision in sorted(snapshots.glob("*")) if snapshots.is_dir() else ():
            yield from (revision / name for name in (*weights.hub_files, *weights.files))


def resolve(weights: Weights, given: Path | None = None, download: bool = False) -> Path:
    """The file of the weights; BackendError with the command that gets them when they are not here, or not whole."""
    found = find(weights, given)
    if found is None and download:
        found = fetch(weights)
    if found is None:
        raise BackendError(missing(weights))
    flaw = flaw_of(found)
    if flaw:
        raise BackendError(f"{found} {flaw}. Delete it and get it again: {weights.command}")
    state_licence(weights)
    return found


def missing(weights: Weights) -> str:
    """What is missing and the exact commands that help."""
    path = target_folder() / download_name(weights)
    return (
        f"The weights {weights.name} ({weights.purpose}; {weights.megabytes} MB, {terms(weights)}) are not on this "
        f"machine. Get them: {weights.command}, or: curl -L --create-dirs -o "
        f"{path} {weights.url}; if you have them elsewhere, set {VARIABLE} to their folder"
    )


def terms(weights: Weights) -> str:
    """Licence, and whether it forbids commercial use."""
    return weights.licence if weights.commercial else f"{weights.licence}: no commercial use"


@lru_cache(maxsize=64)
def state_licence(weights: Weights) -> None:
    """Tell the log once per process under which licence the weights may be used."""
    _log.info("weights %s (%s) are used under %s", weights.name, weights.purpose, terms(weights))


def flaw_of(path: Path) -> str:
    """What is wrong with a file that should be a checkpoint, by its beginning and end alone; empty if nothing."""
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(64)
    if start.lstrip().lower().startswith((b"<!doctype", b"<html", b"<?xml")):
        return "is a web page, not a checkpoint"
    if start.startswith(b"version https://git-lfs"):
        return "is a Git LFS pointer, not the checkpoint itself"
    if path.suffix == ".safetensors":
        header = int.from_bytes(start[:8], "little")
        return "" if start[8:9] == b"{" and 8 + header <= size else "is no whole .safetensors file"
    if start.startswith(b"PK"):  # torch's format: a zip archive, whose table stands at the end
        return "" if zipfile.is_zipfile(path) else "is cut off"
    return "" if start[:1] == b"\x80" else "is no checkpoint"  # a bare pickle, torch's format before 1.6


# --- fetching -----------------------------------------------------------------------------------------------------


def target_folder() -> Path:
    """Where downloads go: the first folder of SKYANCHOR_WEIGHTS, else torch's cache."""
    named = [part for part in os.environ.get(VARIABLE, "").split(os.pathsep) if part]
    return Path(named[0]) if named else torch_cache() / "checkpoints"


def download_name(weights: Weights) -> str:
    """What the downloaded file is called: the first of the names with the address's extension."""
    suffix = Path(weights.url).suffix
    return next((file for file in weights.files if Path(file).suffix == suffix), weights.files[0])


def fetch(weights: Weights, folder: Path | None = None) -> Path:
    """The downloaded and checked file; BackendError when it cannot be had."""
    name = download_name(weights)
    path = (folder or target_folder()) / name

    def download(draft: Path) -> None:
        with draft.open("wb") as file:
            for chunk in _chunks(weights, path):
                file.write(chunk)
        if name == weights.files[0]:
            check(weights, draft)

    _log.info("downloading %s, about %d MB", weights.url, weights.megabytes)
    files.write_through(path, download)
    return path


def _chunks(weights: Weights, path: Path) -> Iterator[bytes]:
    """The bytes of the file that is to lie at `path`; BackendError when they do not come."""
    try:
        with urllib.request.urlopen(weights.url) as answer:
            while chunk := answer.read(CHUNK):
                yield chunk
    except OSError as error:
        reason = getattr(error, "reason", error)
        advice = f"Get it with another program or machine, as {path}"
        raise BackendError(f"{weights.url} cannot be downloaded from here ({reason}). {advice}") from error


def check(weights: Weights, path: Path) -> None:
    """Nothing when the file's digest is the known one or none is known; BackendError when it differs."""
    if not weights.sha256:
        return
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    if not digest.hexdigest().startswith(weights.sha256):
        seen, known = digest.hexdigest()[:12], weights.sha256[:12]
        advice = "Nothing was kept: try again later, or get it by hand"
        raise BackendError(
            f"{weights.url} gave another file than is published: its SHA-256 begins with {seen}, not {known}. {advice}"
        )
