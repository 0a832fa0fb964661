"""Ground frames as the anchor stage uses them: photos and features, read and extracted once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from skyanchor.anchors.config import AnchorConfig
from skyanchor.feedforward import FreeFrames, Incremental, LocalReconstruction
from skyanchor.geometry import cameras
from skyanchor.matching import FeatureCache, Features
from skyanchor.photos import PhotoCache, read_frame
from skyanchor.step_clock import StepClock
from skyanchor.types import Camera, Photo, Sequence

FREE_KEPT = 4
"""Groups whose feed-forward poses and depth are kept: all rungs and focal lengths of one group share them."""


@dataclass
class GroundFrames:
    """The frames of one sequence; photos and features are kept while memory lasts."""

    sequence: Sequence
    config: AnchorConfig
    focal: float = 1.0
    """Factor on the focal length of the sequence's camera."""
    focal_known: bool = True
    """Whether that is the camera's focal length, or one to be refined."""
    clock: StepClock = field(default_factory=StepClock)
    """Where the time goes."""
    _photos: PhotoCache = field(default_factory=lambda: PhotoCache(limit_bytes=256 << 20))
    _ground: FeatureCache = field(init=False)
    _cross: FeatureCache = field(init=False)
    _place: FeatureCache = field(init=False)
    _free: dict[tuple[int, ...], FreeFrames] = field(default_factory=dict)
    _system: LocalReconstruction | None = None

    def __post_init__(self) -> None:
        """Load the matchers."""
        self._ground = FeatureCache(self.config.ground_matcher.load(), limit_bytes=128 << 20)
        self._cross = FeatureCache(self.config.refine.matcher.load(), limit_bytes=256 << 20)
        self._place = FeatureCache(self.config.places.features.load(), limit_bytes=64 << 20)

    def free(self, indices: tuple[int, ...]) -> FreeFrames | None:
        """The frames as the feed-forward choice sees them in one pass; None without such a choice."""
        choice = self.config.shape
        if isinstance(choice, Incremental):
            return None
        if indices not in self._free:
            self._system = self._system or choice.load("auto", self.sequence)
            while len(self._free) >= FREE_KEPT:
                self._free.pop(next(iter(self._free)))
            photos = [read_frame(self.sequence, i) for i in indices]
            self._free[indices] = self._system.reconstruct(indices, photos)
        return self._free[indices]

    @property
    def camera(self) -> Camera:
        """PINHOLE camera of the undistorted photos at full resolution."""
        return with_focal(cameras.undistorted(self.sequence.camera), self.focal)

    def photo(self, index: int) -> Photo:
        """The undistorted photo at full resolution."""
        frame, camera = self.sequence.frames[index], self.sequence.camera
        return self._photos.photo(frame.name, frame.path, camera, camera.width, frame.mask_path)[0]

    def ground(self, index: int) -> Features:
        """Keypoints for matches between frames, full-resolution pixels."""
        with self.clock.step("features of frames"):
            return self._ground.features(self.photo(index))

    def cross(self, index: int) -> Features:
        """Features for matches with bridges, full-resolution pixels."""
        with self.clock.step("features of frames"):
            return self._cross.features(self.photo(index))

    def place(self, index: int) -> Features:
        """Features that vote for places, full-resolution pixels."""
        with self.clock.step("features of frames"):
            return self._place.features(self.photo(index))


def with_focal(camera: Camera, factor: float) -> Camera:
    """A PINHOLE camera with both focal lengths multiplied."""
    fx, fy, cx, cy = camera.params
    return replace(camera, params=(fx * factor, fy * factor, cx, cy))
