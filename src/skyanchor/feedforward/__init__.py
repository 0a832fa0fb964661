"""Poses and depth of a few photos from a feed-forward network or a folder made elsewhere, behind one protocol.

May touch: the foundation, backends, sequence.
"""

from skyanchor.feedforward.choices import AnyLocal, FeedForward, FreeFolder, Incremental, Vggt
from skyanchor.feedforward.free_frames import (
    FolderReconstruction,
    FreeFrame,
    FreeFrames,
    LocalReconstruction,
    read_free_frames,
    write_free_frames,
)

__all__ = [
    "AnyLocal",
    "FeedForward",
    "FolderReconstruction",
    "FreeFolder",
    "FreeFrame",
    "FreeFrames",
    "Incremental",
    "LocalReconstruction",
    "Vggt",
    "read_free_frames",
    "write_free_frames",
]
