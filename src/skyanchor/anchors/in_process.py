"""The anchor stage without jobs: the same functions that the jobs call, one after the other in this process."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from skyanchor.anchors.config import AnchorConfig
from skyanchor.anchors.earlier_walks.keyframes import EarlierWalks
from skyanchor.anchors.focal import FocalVotes, vote_focal
from skyanchor.anchors.frames import GroundFrames, Lens
from skyanchor.anchors.group import seeds_of
from skyanchor.anchors.odometry import Steps, measure_steps
from skyanchor.anchors.place_description import Describer, described_places
from skyanchor.anchors.prepared_scaffold import PreparedScaffold, prepared_for
from skyanchor.anchors.search import Glances, Search
from skyanchor.anchors.walk import GroupTask, GroupVerdict, verdict_on
from skyanchor.anchors.walk_votes import Looks, Said
from skyanchor.bridges.fusion import DepthMaps, SurfaceConfig, fuse_surface
from skyanchor.bridges.ground import find_ground
from skyanchor.events import ANCHORS, Listener, Progress, silent
from skyanchor.matching.global_descriptors import described
from skyanchor.matching.retrieval import vlad
from skyanchor.types import Camera, Scaffold


@dataclass(frozen=True, eq=False)
class LocalRunner:
    """A `Runner` over one prepared scaffold and the frames of one walk."""

    prepared: PreparedScaffold
    frames: GroundFrames
    config: AnchorConfig
    listen: Listener = silent
    earlier: EarlierWalks | None = None
    """Walks that were located before; None without any."""
    glances: Glances = field(default_factory=Glances)

    def groups(self, tasks: tuple[GroupTask, ...]) -> tuple[GroupVerdict, ...]:
        """The verdict on each group."""
        verdicts: list[GroupVerdict] = []
        for task in tasks:
            verdicts.append(verdict_on(self.search(task), task))
            self.listen(Progress(ANCHORS, "groups", len(verdicts), len(tasks), verdicts[-1].seconds))
        return tuple(verdicts)

    def votes(self, tasks: tuple[GroupTask, ...], factors: tuple[float, ...]) -> tuple[FocalVotes, ...]:
        """What each group says of the focal lengths that are tried."""
        looks = [(self.search(task), task.group) for task in tasks]
        return tuple(vote_focal(search, group, seeds_of(search, group.frames), factors) for search, group in looks)

    def steps(self, lens: Lens) -> tuple[Steps, ...]:
        """The motion between all consecutive frames, in one stretch."""
        last = len(self.frames.sequence.frames) - 1
        return (measure_steps(self.frames, 0, last, lens, self.config.odometry),)

    def looks(self, frames: tuple[int, ...]) -> Said:
        """How much the frames are like all described places."""
        rows = dict(zip(frames, self.look(frames).likeness, strict=True))
        return lambda asked: np.stack([rows[frame] for frame in asked])

    def look(self, frames: tuple[int, ...]) -> Looks:
        """The same of a few frames, at once."""
        index, descriptor = self.prepared.places, self.prepared.descriptor
        if index.vocabulary is None:
            assert descriptor is not None, "views that a global descriptor described"
            own = described(descriptor, [self.frames.photo(k) for k in frames])
        else:
            choice = self.config.places.features
            own = np.stack([vlad(self.frames.features(k, choice).descriptors, index.vocabulary) for k in frames])
        return Looks(index.likeness(own))

    def search(self, task: GroupTask) -> Search:
        """The look for the group of a task."""
        frames, lens = self.frames.through(task.lens)
        looked = (lens, task.near, task.hints)
        return Search(self.prepared, frames, self.config, *looked, earlier=self.earlier, glances=self.glances)


def prepared_here(
    scaffold: Scaffold, maps: DepthMaps, camera: Camera, config: AnchorConfig, listen: Listener = silent
) -> PreparedScaffold:
    """The scaffold made ready for a street camera from its depth maps; `config.prior.near` in its coordinates."""
    surface = fuse_surface(maps, scaffold.up, SurfaceConfig(), listen)
    ground = find_ground(surface)
    describer = Describer(scaffold, surface, camera, config.places)
    places = described_places(describer, ground, config.prior.near, listen)
    return prepared_for(scaffold, surface, ground, places, config)
