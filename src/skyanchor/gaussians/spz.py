"""The .spz format of Niantic, version 2: a tenth of a .ply, for phones and the web; read by most viewers."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np

from skyanchor.errors import InputError
from skyanchor.gaussians.splats import Splats, transformed
from skyanchor.storage import files
from skyanchor.types import Bytes, Floats, Similarity

MAGIC, VERSION = 0x5053474E, 2
FINEST_BITS, COARSEST_BITS = 12, 7
"""Of a position after the binary point: 0.2 mm for a scene of 2 km, at worst 8 mm for one of 65 km."""
BAND_STEPS = (8, 16, 16)
"""Steps that harmonics of degree 1, 2 and 3 are rounded to, of 256: 5, 4 and 4 bits."""
RUB_FROM_RDF = np.diag([1.0, -1.0, -1.0])
"""SPZ has y up and z to the viewer where a .ply has y down: half a turn about x, as Niantic's own converter does it."""


def write_spz(path: Path, splats: Splats) -> None:
    """Write a .spz; InputError when its 24 bits per coordinate cannot hold the positions to a centimetre."""
    files.write_bytes(path, gzip.compress(spz_bytes(path, splats), mtime=0))


def spz_bytes(path: Path, splats: Splats) -> bytes:
    """The file before it is packed: 16 bytes of header, then each attribute of all Gaussians in turn."""
    turned = transformed(splats, Similarity(1.0, RUB_FROM_RDF, np.zeros(3)))
    names = ("means", "quats", "log_scales", "logit_opacities", "sh")
    means, quats, log_scales, logits, sh = (np.asarray(getattr(turned, name), np.float64) for name in names)
    bits = _fractional_bits(path, means)
    header = struct.pack("<IIIBBBB", MAGIC, VERSION, len(turned), turned.sh_degree, bits, 0, 0)
    parts = (
        _fixed_point(means, bits),
        _byte(255.0 / (1.0 + np.exp(-logits))),
        _byte((sh[:, 0] * 0.15 + 0.5) * 255.0),
        _byte((log_scales + 10.0) * 16.0),
        _byte(_short_quaternions(quats) * 127.5 + 127.5),
        _harmonics(sh[:, 1:]),
    )
    return header + b"".join(part.tobytes() for part in parts)


def _fractional_bits(path: Path, means: Floats) -> int:
    """As many as leave room for the farthest coordinate."""
    farthest = float(np.abs(means).max()) if len(means) else 0.0
    bits = min(FINEST_BITS, int(np.floor(np.log2((2**23 - 1) / max(farthest, 1.0)))))
    if bits < COARSEST_BITS:
        problem = f"a .spz cannot hold coordinates of {farthest:.0f} m to a centimetre"
        raise InputError(path, problem, "Write a .ply, or move the model to an origin of its own.")
    return bits


def _fixed_point(means: Floats, bits: int) -> Bytes:
    """(N, 3, 3), 24 bits per coordinate, the lowest byte first."""
    whole = np.round(means * 2.0**bits).astype("<i4")
    return np.ascontiguousarray(whole[..., None].view(np.uint8)[..., :3])


def _short_quaternions(quats: Floats) -> Floats:
    """(N, 3), x, y, z of the unit quaternions whose w is not negative."""
    unit = quats / np.linalg.norm(quats, axis=1, keepdims=True)
    return np.where(unit[:, :1] < 0.0, -unit, unit)[:, 1:]


def _harmonics(bands: Floats) -> Bytes:
    """(N, K, 3), the bands above the first colour, rounded to the middle of their steps."""
    degree = round((bands.shape[1] + 1) ** 0.5) - 1
    steps = np.repeat(BAND_STEPS[:degree], [2 * band + 1 for band in range(1, degree + 1)])[:, None]
    whole = np.round(bands * 128.0) + 128.0
    return _byte((whole + steps // 2) // steps * steps)


def _byte(values: Floats) -> Bytes:
    return np.clip(np.round(values), 0.0, 255.0).astype(np.uint8)
