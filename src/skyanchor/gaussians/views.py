"""Photos for training: seeded sampling that depends on the iteration alone, and a bounded, prefetching stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from skyanchor.ahead import made_ahead
from skyanchor.geometry import cameras
from skyanchor.photos import PhotoCache, resized
from skyanchor.types import Bools, Bytes, Camera, Ints, Pose, View

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class TrainingView:
    """A posed photo and how it takes part in the training."""

    view: View
    exposure: int | None = None
    """Index of its own affine exposure; None = the photo shows the model's colours."""
    weight: float = 1.0
    """Of its loss."""
    pixels: Bytes | None = None
    """(H, W, 3) of a picture that is not a file; the camera is then PINHOLE and of this size."""
    use: Bools | None = None
    """(H, W) of such a picture, where it counts; None = everywhere."""


@dataclass(frozen=True, eq=False)
class TrainingScene:
    """What a set of Gaussians is trained on."""

    pools: tuple[tuple[TrainingView, ...], ...]
    """Sampled in turn, each without replacement: (aerial, ground) is a 1:1 mix."""
    extent: float
    """Typical distance from camera to surface, metres; learning rates and size limits are fractions of it."""


@dataclass(frozen=True, eq=False)
class Target:
    """One photo as numbers, at the size it is trained at."""

    camera: Camera
    """PINHOLE."""
    cam_from_world: Pose
    pixels: Bytes
    """(H, W, 3)."""
    use: Bools | None
    """(H, W); None = everywhere."""
    exposure: int | None
    weight: float = 1.0
    placed: Placed | None = None
    """The same numbers where the Gaussians are; None where nobody has put them there."""


@dataclass(frozen=True, eq=False)
class Placed:
    """Pixels and mask of a target as tensors on the device of a training."""

    pixels: Tensor
    """(H, W, 3) uint8."""
    use: Tensor | None
    """(H, W) bool."""


def placed(target: Target, device: str) -> Placed:
    """The numbers of a target on a device; to a GPU through pinned memory, so that no one waits for the copy."""
    import torch

    if target.placed is not None:
        return target.placed
    arrays = [torch.from_numpy(target.pixels)] + ([] if target.use is None else [torch.from_numpy(target.use)])
    if device != "cpu":
        arrays = [array.pin_memory().to(device, non_blocking=True) for array in arrays]
    return Placed(arrays[0], arrays[1] if len(arrays) > 1 else None)


def aerial_pool(views: tuple[View, ...], weight: float = 1.0) -> tuple[TrainingView, ...]:
    """Views that show the model's own colours."""
    return tuple(TrainingView(view, weight=weight) for view in views)


def exposure_count(pools: tuple[tuple[TrainingView, ...], ...]) -> int:
    """How many affine exposures the pools refer to."""
    return max((one.exposure + 1 for pool in pools for one in pool if one.exposure is not None), default=0)


def view_at(pools: tuple[tuple[TrainingView, ...], ...], iteration: int, seed: int) -> TrainingView:
    """The view of one iteration: pools in turn, each in a fresh seeded order per round."""
    filled = [pool for pool in pools if pool]
    pool = filled[iteration % len(filled)]
    round_, place = divmod(iteration // len(filled), len(pool))
    return pool[_order(len(pool), seed, iteration % len(filled), round_)[place]]


@lru_cache(maxsize=16)
def _order(count: int, seed: int, pool: int, round_: int) -> Ints:
    return np.random.default_rng([seed, pool, round_]).permutation(count)


def load_target(cache: PhotoCache, training_view: TrainingView, width: int) -> Target:
    """The photo undistorted at most `width` pixels wide, with its masks."""
    view = training_view.view
    if training_view.pixels is not None:
        return _target_of_pixels(training_view, training_view.pixels, width)
    photo, camera = cache.photo(view.name, view.path, view.camera, width, view.mask_path)
    use = photo.mask
    if not cameras.is_pinhole(view.camera):
        inside = _inside(view.camera, camera.width)
        use = inside if use is None else use & inside
    return Target(camera, view.cam_from_world, photo.pixels, use, training_view.exposure, training_view.weight)


def targets(cache: PhotoCache, views: Iterable[View | TrainingView], width: int) -> Iterator[Target]:
    """The photos of all views in order, at most `width` pixels wide, the next ones decoded meanwhile."""
    items = (view if isinstance(view, TrainingView) else TrainingView(view) for view in views)
    return made_ahead(lambda item: load_target(cache, item, width), items)


def _target_of_pixels(one: TrainingView, pixels: Bytes, width: int) -> Target:
    """A picture that is held in memory, at most `width` pixels wide."""
    camera = cameras.scaled(one.view.camera, min(width, one.view.camera.width))
    shown = resized(pixels, camera.width)
    use = None if one.use is None else resized(np.uint8(255) * one.use, camera.width) > 127
    return Target(camera, one.view.cam_from_world, shown, use, one.exposure, one.weight)


@lru_cache(maxsize=8)
def _inside(camera: Camera, width: int) -> Bools:
    """Where the undistorted image shows the photo and not what lies beyond its border."""
    white = np.full((camera.height, camera.width, 3), 255, np.uint8)
    return resized(cameras.undistort(white, camera), width)[..., 0] > 250


@dataclass
class TrainingPhotos:
    """The targets of a training on its device, for one thread.

    A GPU keeps as many of them as its room holds, from the first on: each is seen as often as any other, so none is
    worth another's place. The rest are sent again at every visit.
    """

    cache: PhotoCache
    device: str
    _held: dict[tuple[int, int], tuple[TrainingView, Target]] = field(default_factory=dict)
    """By identity of the view, which is held so that none other can have it, and width."""
    _bytes: int = 0

    def target(self, one: TrainingView, width: int) -> Target:
        """A view at most `width` pixels wide, its numbers on the device."""
        key = (id(one), width)
        if key in self._held:
            return self._held[key][1]
        target = load_target(self.cache, one, width)
        target = replace(target, placed=placed(target, self.device))
        size = target.pixels.nbytes + (0 if target.use is None else target.use.nbytes)
        if self.device != "cpu" and self._bytes + size <= self.cache.limit_bytes:
            self._bytes += size
            self._held[key] = (one, target)
        return target


@dataclass
class PhotoStream:
    """Targets by iteration, the next few made ahead on one thread; memory is bounded by the photos' room."""

    pools: tuple[tuple[TrainingView, ...], ...]
    seed: int
    photos: TrainingPhotos
    worker: ThreadPoolExecutor
    ahead: int = 4
    waiting: dict[tuple[int, int], Future[Target]] = field(default_factory=dict)

    def target(self, iteration: int, width: int) -> Target:
        """The photo of an iteration at a width; the following ones are on their way."""
        for later in range(iteration, iteration + self.ahead):
            key = (later, width)
            if key not in self.waiting:
                one = view_at(self.pools, later, self.seed)
                self.waiting[key] = self.worker.submit(self.photos.target, one, width)
        found = self.waiting.pop((iteration, width))
        for stale in [key for key in self.waiting if key[0] <= iteration or key[1] != width]:
            self.waiting.pop(stale).cancel()
        return found.result()


@contextmanager
def photo_stream(
    pools: tuple[tuple[TrainingView, ...], ...], seed: int, photos: TrainingPhotos
) -> Iterator[PhotoStream]:
    """A stream whose thread ends with the block."""
    worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="photos")
    try:
        yield PhotoStream(pools, seed, photos, worker)
    finally:
        worker.shutdown(wait=True, cancel_futures=True)


def matrix(cam_from_world: Pose, device: str) -> Tensor:
    """(4, 4) float32 of a pose."""
    import torch

    return torch.tensor(cam_from_world.matrix, dtype=torch.float32).to(device, non_blocking=True)
