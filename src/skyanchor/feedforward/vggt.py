"""VGGT as a local reconstruction: poses, intrinsics, depth and confidence of a submap's photos in one pass.

The package `vggt` and its weights are the user's; the published weights are for non-commercial use.
"""

from __future__ import annotations

from collections.abc import Sequence as Ordered
from functools import lru_cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch

from skyanchor.backends import weights
from skyanchor.backends.checkpoints import checked, load_into, read_state
from skyanchor.backends.packages import imported
from skyanchor.feedforward.choices import VGGT, Vggt
from skyanchor.feedforward.free_frames import FreeFrame, FreeFrames, photo_camera
from skyanchor.types import Bytes, Camera, Photo, Pose

MULTIPLE = 14


def check(choice: Vggt) -> None:
    """BackendError where the network could not be made: its weights are read, its package imported."""
    checked(weights.VGGT, choice.weights)
    imported(VGGT)


@lru_cache(maxsize=1)
def load_network(path: Path, device: str) -> Any:
    """The network with its weights on a device."""
    network = imported(VGGT).VGGT()
    load_into(network, read_state(path), path, "VGGT-1B")
    return network.eval().to(device)


class VggtReconstruction:
    """Local reconstruction of `Vggt`."""

    def __init__(self, network: Any, choice: Vggt, device: str) -> None:
        self.network = network
        self.choice = choice
        self.device = device

    def reconstruct(self, frames: Ordered[int], photos: Ordered[Photo]) -> FreeFrames:
        """The photos (of one size) in one free frame, with the mean of the intrinsics that the network sees."""
        from vggt.utils.pose_enc import pose_encoding_to_extri_intri

        images = torch.stack([tensor(photo.pixels, self.choice.side) for photo in photos])[None].to(self.device)
        kind = torch.bfloat16 if self.device.startswith("cuda") else torch.float32
        with torch.inference_mode(), torch.autocast(self.device.split(":")[0], kind, enabled=kind != torch.float32):
            found = self.network(images)
        poses, intrinsics = pose_encoding_to_extri_intri(found["pose_enc"].float(), images.shape[-2:])
        height, width = photos[0].pixels.shape[:2]
        size = Camera("PINHOLE", width, height, ())
        k = intrinsics[0].mean(dim=0).cpu().numpy().astype(np.float64)
        camera = photo_camera(np.array([k[0, 0], k[1, 1], k[0, 2], k[1, 2]]), images.shape[-2:], size)
        return FreeFrames(_frames(frames, poses[0], found), camera)


def _frames(frames: Ordered[int], cams_from_free: Any, found: Any) -> tuple[FreeFrame, ...]:
    """The network's answer frame by frame; cams_from_free (S, 3, 4)."""
    poses = cams_from_free.cpu().numpy().astype(np.float64)
    depth = found["depth"][0, ..., 0].float().cpu().numpy()
    confidence = found["depth_conf"][0].float().cpu().numpy()
    return tuple(
        FreeFrame(frame, Pose(poses[k, :, :3], poses[k, :, 3]), depth[k], confidence[k])
        for k, frame in enumerate(frames)
    )


def tensor(pixels: Bytes, side: int) -> Any:
    """(3, h, w) in 0..1, w = side, h the nearest multiple of 14."""
    height = max(MULTIPLE, round(pixels.shape[0] * side / pixels.shape[1] / MULTIPLE) * MULTIPLE)
    small = cv2.resize(pixels, (side, height), interpolation=cv2.INTER_AREA)
    return torch.from_numpy(np.ascontiguousarray(small)).permute(2, 0, 1).float() / 255.0
