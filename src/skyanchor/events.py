"""What stages tell a listener while they work. The same events feed the progress bar, the log file and the viewer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

SCAFFOLD, ANCHORS, TRAJECTORY, SCENE = "1-scaffold", "2-anchors", "3-trajectory", "4-scene"
"""The stages, as every event, folder and text calls them."""
MESH = "5-mesh"
"""What `skyanchor mesh` adds to a run."""
CHANGES = "6-changes"
"""What `skyanchor changes` adds to a run."""


@dataclass(frozen=True)
class StageStarted:
    """A stage begins."""

    stage: str
    what: str
    """One line for people."""


@dataclass(frozen=True)
class StageSkipped:
    """A stage was already in the run folder with the same recipe."""

    stage: str


@dataclass(frozen=True)
class Progress:
    """`done` of `total` units of a step are finished."""

    stage: str
    step: str
    done: int
    total: int
    figures: dict[str, float] = field(default_factory=dict)
    """Current values worth showing, e.g. psnr."""


@dataclass(frozen=True)
class Note:
    """Something a person should read."""

    stage: str
    text: str
    warning: bool = False


@dataclass(frozen=True)
class StageFinished:
    """A stage ended well."""

    stage: str
    seconds: float
    figures: dict[str, float] = field(default_factory=dict)


Event: TypeAlias = StageStarted | StageSkipped | Progress | Note | StageFinished
Listener: TypeAlias = Callable[[Event], None]


def silent(event: Event) -> None:
    """Ignore the event."""
