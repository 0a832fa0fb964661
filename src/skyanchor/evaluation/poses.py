"""How far recovered cameras are from the truth: ATE and RPE without alignment, and after a similarity on request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from skyanchor.geometry import rigid
from skyanchor.run.metrics import PoseMetrics
from skyanchor.types import Floats, Ints, Pose

NOTHING = PoseMetrics(0, 0, None, None, None)


@dataclass(frozen=True)
class PoseError:
    """How far one camera is from the truth."""

    position_m: float
    """Distance of the camera centres, metres."""
    rotation_deg: float
    """Angle between the orientations, degrees."""


@dataclass(frozen=True)
class PoseErrors:
    """Errors of the frames that have a pose and a truth; nothing is aligned."""

    frames: dict[str, PoseError]
    """By name, in the order of the sequence."""

    @property
    def position_m(self) -> float:
        """Root mean square over the frames, metres: the ATE."""
        return float(np.sqrt(np.mean([error.position_m**2 for error in self.frames.values()])))

    @property
    def rotation_deg(self) -> float:
        """Root mean square over the frames, degrees."""
        return float(np.sqrt(np.mean([error.rotation_deg**2 for error in self.frames.values()])))

    def __getitem__(self, name: str) -> PoseError:
        """The error of one frame."""
        return self.frames[name]

    def __len__(self) -> int:
        """Frames measured."""
        return len(self.frames)

    def __repr__(self) -> str:
        """The two figures, and the frame that is farthest off."""
        if not self.frames:
            return "PoseErrors(no frame with a pose and a truth)"
        worst = max(self.frames, key=lambda name: self.frames[name].position_m)
        sums = f"RMS {self.position_m:.3f} m, {self.rotation_deg:.3f} deg"
        return f"PoseErrors({len(self)} frames, {sums}; worst {worst} {self.frames[worst].position_m:.3f} m)"


def pose_errors(estimated: Mapping[str, Pose], true: Mapping[str, Pose]) -> PoseErrors:
    """|c_est - c_true| and the angle of R_est R_trueᵀ per frame, cam_from_world by name in one frame of reference."""
    names = [name for name in true if name in estimated]
    if not names:
        return PoseErrors({})
    ours, theirs = ([poses[name] for name in names] for poses in (estimated, true))
    gaps = np.linalg.norm(rigid.centres_in_world(tuple(ours)) - rigid.centres_in_world(tuple(theirs)), axis=1)
    turns = _angles(np.stack([a.rotation @ b.rotation.T for a, b in zip(ours, theirs, strict=True)]))
    errors = [PoseError(float(gap), float(turn)) for gap, turn in zip(gaps, np.degrees(turns), strict=True)]
    return PoseErrors(dict(zip(names, errors, strict=True)))


def pose_metrics(
    estimated: Mapping[str, Pose], true: Mapping[str, Pose], sequence: Sequence[str], asked: Sequence[str]
) -> PoseMetrics:
    """Errors of the estimated poses, cam_from_world by frame name, in the frame they were given in.

    `sequence` holds all frame names in order and `asked` those that were to get a pose. Consecutive means next to each
    other among the frames of the sequence that have a truth: a gap in the estimate never makes a long pair.
    """
    known = [name for name in sequence if name in true]
    measured = np.array([index for index, name in enumerate(known) if name in estimated], dtype=np.int64)
    first = measured[np.isin(measured + 1, measured)]
    errors = _errors(estimated, true, known, measured, first) if len(measured) else (None, None, None)
    return PoseMetrics(len(set(asked) & set(estimated)), len(asked), *errors)


def _errors(
    estimated: Mapping[str, Pose], true: Mapping[str, Pose], known: Sequence[str], measured: Ints, first: Ints
) -> tuple[float | None, float | None, float | None]:
    ours = [estimated.get(name, rigid.identity()) for name in known]
    theirs = [true[name] for name in known]
    ate = absolute_error_m([ours[k] for k in measured], [theirs[k] for k in measured])
    if not len(first):
        return ate, None, None
    pairs_ours = ([ours[k] for k in first], [ours[k + 1] for k in first])
    pairs_theirs = ([theirs[k] for k in first], [theirs[k + 1] for k in first])
    return ate, *relative_error(pairs_ours, pairs_theirs)


def absolute_error_m(estimated: Sequence[Pose], true: Sequence[Pose]) -> float:
    """sqrt(mean |c_est - c_true|²) over the camera centres, metres."""
    gaps = rigid.centres_in_world(tuple(estimated)) - rigid.centres_in_world(tuple(true))
    return float(np.sqrt((gaps**2).sum(axis=1).mean()))


def relative_error(
    estimated: tuple[Sequence[Pose], Sequence[Pose]], true: tuple[Sequence[Pose], Sequence[Pose]]
) -> tuple[float, float]:
    """Root mean square of the relative error E = (a_from_b true)⁻¹ (a_from_b est): |t| in metres, angle in degrees."""
    rotations, translations = _relative(*estimated)
    true_rotations, true_translations = _relative(*true)
    gaps = ((translations - true_translations) ** 2).sum(axis=1)  # |Rᵀ(t_est - t_true)| = |t_est - t_true|
    turns = _angles(np.swapaxes(true_rotations, 1, 2) @ rotations)
    return float(np.sqrt(gaps.mean())), float(np.degrees(np.sqrt((turns**2).mean())))


def _relative(a: Sequence[Pose], b: Sequence[Pose]) -> tuple[Floats, Floats]:
    """a_from_b of camera pairs: R = R_a R_bᵀ (N, 3, 3), t = t_a - R t_b (N, 3)."""
    rotation_a, rotation_b = (np.stack([pose.rotation for pose in poses]) for poses in (a, b))
    shift_a, shift_b = (np.stack([pose.translation for pose in poses]) for poses in (a, b))
    rotation = rotation_a @ np.swapaxes(rotation_b, 1, 2)
    return rotation, shift_a - (rotation @ shift_b[..., None])[..., 0]


def _angles(rotations: Floats) -> Floats:
    """Rotation angles, radians, (N, 3, 3) -> (N,): atan2(sin, cos), accurate near 0."""
    skewed = rotations - np.swapaxes(rotations, 1, 2)
    sine = np.linalg.norm(np.stack([skewed[:, 2, 1], skewed[:, 0, 2], skewed[:, 1, 0]], axis=1), axis=1) / 2.0
    cosine = (np.trace(rotations, axis1=1, axis2=2) - 1.0) / 2.0
    return np.asarray(np.arctan2(sine, cosine))
