"""Networks of the user's that look at one street photo: ONNX files, which hold numbers and a graph but no code.

OpenCV runs them on the CPU.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np

from skyanchor.errors import BackendError
from skyanchor.storage.foreign import refuse_no_file
from skyanchor.types import Bytes, Floats32

MEAN, SPREAD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of ImageNet's colours, 0..1, which such networks are trained with."""


def load_network(model: Path) -> Any:
    """The network of an ONNX file."""
    refuse_no_file(model, "Give a network as an .onnx file.")
    try:
        return cv2.dnn.readNetFromONNX(str(model))
    except cv2.error as error:
        raise BackendError(
            f"{model} is no network that OpenCV can read ({error.err}). Export it to ONNX again"
        ) from error


def answer_of(network: Any, pixels: Bytes, longest: int, multiple: int) -> Floats32:
    """What a network says of a photo (H, W, 3), in whatever shape it does."""
    network.setInput(blob(pixels, longest, multiple))
    try:
        return np.asarray(network.forward(), dtype=np.float32)
    except cv2.error as error:
        raise BackendError(f"The network cannot be run ({error.err}). Export it for one picture") from error


def blob(pixels: Bytes, longest: int, multiple: int) -> Floats32:
    """(1, 3, h, w), colours as the network was trained with; sides of multiples, the longer one at most `longest`."""
    height, width = pixels.shape[:2]
    scale = min(1.0, longest / max(height, width))
    size = [max(multiple, round(side * scale / multiple) * multiple) for side in (width, height)]
    small = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA).astype(np.float32) / 255.0
    normal = (small - np.array(MEAN, np.float32)) / np.array(SPREAD, np.float32)
    return np.ascontiguousarray(normal.transpose(2, 0, 1)[None], dtype=np.float32)
