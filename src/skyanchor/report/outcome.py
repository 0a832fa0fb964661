"""What became of the anchor groups, in sentences that the page and the terminal share."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from skyanchor.presets import read_settings
from skyanchor.report.advice import FLOWN, WHERE_SAID, Known, explained
from skyanchor.report.words import counted, length
from skyanchor.run.results import Run
from skyanchor.sfm.uncertainty import centre_sigma_m, position_sigma_m, radius_95_m
from skyanchor.types import LocalisedGroup, PosedFrame


def placed(groups: Sequence[LocalisedGroup], frames: Sequence[PosedFrame], left_out: int = 0) -> str:
    """How many photos were located and groups placed, and how sure the positions are; no full stop."""
    tied = f"{sum(group.accepted for group in groups)} of {len(groups)} anchor groups were placed in the aerial model"
    if left_out:
        tied += f", {left_out} of them left out because the walk contradicts them"
    if not frames:
        poses = [pose for group in groups for pose in group.poses]
        sigmas = [centre_sigma_m(pose.covariance) for pose in poses]
        return f"{tied}, {counted(len(poses), 'photo')} in all{_sure(sigmas)}"
    sigmas = [frame.sigma_m for frame in frames if frame.cam_from_world is not None]
    share = f"All {len(frames)}" if len(sigmas) == len(frames) else f"{len(sigmas)} of {len(frames)}"
    return f"{share} photos located{_sure(sigmas)}. {tied}"


def _sure(sigmas: Sequence[float]) -> str:
    """The radius for 95 % and the sigma it comes from; empty where nothing was located."""
    if not any(math.isfinite(sigma) for sigma in sigmas):
        return ""
    radius, sigma = radius_95_m(sigmas), position_sigma_m(sigmas)
    each = f"standard deviation {length(sigma)} per axis, the shift that all photos share included"
    return f"; 95 % of the positions are expected within {length(radius)} ({each})"


def known(run: Run) -> Known:
    """What the user said of the walk and its camera; nothing where the settings are those of another version."""
    config = read_settings(run.root)
    return Known() if config is None else Known(bool(config.anchors.prior.near), config.sequence.camera is not None)


def none_placed(groups: Sequence[LocalisedGroup], known: Known) -> str:
    """That none was placed, the most likely cause, and what to try."""
    if not groups:
        return "There is no anchor group, so nothing could be placed in the aerial model."
    one = "The only anchor group could not be placed in the aerial model, so no pose is given."
    several = f"None of the {len(groups)} anchor groups could be placed in the aerial model, so no pose is given."
    reason, count = Counter(group.refusal.reason for group in groups if group.refusal is not None).most_common(1)[0]
    advice = explained(reason, known)
    share = "" if count == len(groups) else f" (so with {count} of them)"
    cause = f"The most likely cause: {advice.meaning}{share}."
    question = WHERE_SAID if known.place else FLOWN
    asked = "" if question in advice.remedy else f" And {question}"
    return f"{one if len(groups) == 1 else several} {cause} {tried(advice.remedy)}".rstrip() + asked


def refused(groups: Sequence[LocalisedGroup], names: Sequence[str], known: Known) -> tuple[str, ...]:
    """A sentence per refused group: which stretch of the walk, why, and what to try."""
    return tuple(_refused(group, names, known) for group in groups if group.refusal is not None)


def _refused(group: LocalisedGroup, names: Sequence[str], known: Known) -> str:
    assert group.refusal is not None
    first, last = group.group.frames[0], group.group.frames[-1]
    advice = explained(group.refusal.reason, known)
    detail = f" ({group.refusal.detail.rstrip('.')})" if group.refusal.detail else ""
    stretch = f"Photos {first} to {last} ({names[first]} to {names[last]})"
    return f"{stretch} were refused: {advice.meaning}{detail}. {tried(advice.remedy)}".rstrip()


def tried(remedy: str) -> str:
    """A remedy as a sentence; empty for none."""
    return "" if not remedy else f"Try {remedy}" + ("" if remedy.endswith((".", "?")) else ".")
