"""Which walk `benchmarks/wrong_walks.py` tries on which scaffold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from hard_conditions import CONDITIONS

from skyanchor.town import CLEAR, PRESETS
from skyanchor.town.presets import TownPreset

STREETS = (
    ((0.0, 0.3), (0.0, 1.0)), ((2.0, 0.3), (2.0, 1.0)), ((0.3, 2.0), (1.0, 2.0)),
    ((1.0, 1.9), (1.0, 1.2)), ((0.2, 1.0), (0.9, 1.0)), ((0.4, 0.0), (1.0, 0.0)),
)  # fmt: skip
"""Ways in other streets than the mini town's walk, in street numbers."""
DAYS = (
    "sun-mild", "leaves-mild", "traffic-middle", "snow-mild", "sun-middle", "shadows-middle", "wet-middle",
    "passers-middle", "dusk-middle", "leaves-middle", "works-middle", "compression-middle", "snow-middle",
    "bare-middle",
)  # fmt: skip
"""Conditions of `benchmarks/hard.py` with their severity, and leaf shade."""
LEAVES = ("leaves-mild", "leaves-middle")
"""Days of leaf shade, which is laid over the photos of the clear one."""
KINDS = ("twin", "own", "foreign", "street", "mirrored", "upside-down", "reversed", "half", "woven")


@dataclass(frozen=True)
class Walk:
    """A walk and where it was taken."""

    town: str
    """Seed, or the name of a scene on disk."""
    designs: int = 9
    designs_of: int | None = None
    street: int | None = None
    """Of `STREETS`; the walk of the preset without it."""
    day: str = ""
    """Of `DAYS`; clear without it."""

    @property
    def name(self) -> str:
        """Of its folder."""
        return "-".join(
            [self.town, f"{self.designs}designs"]
            + ([] if self.designs_of is None else [f"of{self.designs_of}"])
            + ([] if self.street is None else [f"street{self.street}"])
            + ([self.day] if self.day else [])
        )

    @property
    def is_town(self) -> bool:
        """Whether it is built here."""
        return self.town.isdigit()

    @property
    def rendered(self) -> Walk:
        """The walk that its photos are rendered for: leaf shade is laid over those of the clear day."""
        return self if self.day.rpartition("-")[0] in CONDITIONS else replace(self, day="")

    @property
    def preset(self) -> TownPreset:
        """The town it is taken in, with its weather."""
        plan = PRESETS["mini"]
        streets = replace(plan.streets, designs=self.designs, designs_of=self.designs_of)
        way = plan.walk if self.street is None else replace(plan.walk, corners=STREETS[self.street])
        condition, _, severity = self.day.rpartition("-")
        weather = CONDITIONS[condition].weather(severity) if condition in CONDITIONS else CLEAR
        return replace(plan, streets=streets, walk=way, weather=weather, depth_photos=1)


@dataclass(frozen=True)
class Pairing:
    """A walk on a scaffold."""

    kind: str
    scaffold: Walk
    """Whose flight."""
    walk: Walk
    after: Walk | None = None
    """What goes on from the middle, for half right walks."""

    @property
    def name(self) -> str:
        """Of its files."""
        return f"{self.kind}-{self.scaffold.name}-{self.walk.name}{f'-{self.after.name}' if self.after else ''}"

    @property
    def needs(self) -> tuple[Walk, ...]:
        """What must be built: its scaffold, and where its photos come from."""
        return (self.scaffold, *(walk.rendered for walk in (self.walk, self.after) if walk is not None))


def is_day(day: str) -> bool:
    """Whether walks can be taken on such a day: in leaf shade, or under a condition of theirs at one of its severities.

    All others would be walks of the clear day by another name, those under which a flight is another one as well.
    """
    condition, _, severity = day.rpartition("-")
    known = CONDITIONS.get(condition)
    return day in LEAVES or (known is not None and not known.flown and severity in known.severities)


def pairings(scaffolds: list[Walk], more: int, days: Iterable[str] = DAYS) -> list[Pairing]:
    """All of them, every kind and scaffold in turn, so that a part of the list is a part of everything.

    ValueError for a day that is none, and for a scaffold that is there twice: its own walk would be a foreign one.
    """
    days = tuple(days)
    odd = [day for day in days if not is_day(day)]
    twice = [here.name for here, count in Counter(scaffolds).items() if count > 1]
    if odd or twice:
        raise ValueError(f"{odd[0]} is no day of a walk" if odd else f"{twice[0]} is given twice")
    twins = [[_twin(here, n) for n in range(1, more + 1)] if here.is_town else [] for here in scaffolds]
    rows = [list(_of_scaffold(scaffolds, twins, k, days)) for k in range(len(scaffolds))]
    return [row[turn] for turn in range(max(map(len, rows))) for row in rows if turn < len(row)]


def of_kinds(some: list[Pairing], kinds: list[str]) -> list[Pairing]:
    """Those of the kinds named, of KIND=N the first N on each scaffold; all of them where none is named.

    ValueError for a kind that there is not.
    """
    most = {kind: int(count) if count else len(some) for kind, _, count in (word.partition("=") for word in kinds)}
    if odd := sorted(set(most) - set(KINDS)):
        raise ValueError(f"{odd[0]} is no kind of pairing")
    kept: list[Pairing] = []
    taken: Counter[tuple[str, Walk]] = Counter()
    for pairing in some:
        if not kinds or taken[pairing.kind, pairing.scaffold] < most.get(pairing.kind, 0):
            taken[pairing.kind, pairing.scaffold] += 1
            kept.append(pairing)
    return kept


def _twin(here: Walk, number: int) -> Walk:
    return replace(here, town=str(int(here.town) + 100 * number), designs_of=int(here.town))


def _of_scaffold(scaffolds: list[Walk], twins: list[list[Walk]], k: int, named: tuple[str, ...]) -> Iterator[Pairing]:
    here, own = scaffolds[k], twins[k]
    after = [(k + n) % len(scaffolds) for n in range(1, len(scaffolds))]
    foreign = [*(scaffolds[j] for j in after), *(walk for j in after for walk in twins[j])]
    days = [replace(here, day=day) for day in named if here.is_town or day in LEAVES]
    streets = [replace(here, street=n) for n in range(len(STREETS))] if here.is_town else []
    columns = (
        [Pairing("twin", here, walk) for walk in own],
        [Pairing("own", here, walk) for walk in (here, *days)],
        [Pairing("foreign", here, walk) for walk in foreign],
        [
            *(Pairing("street", here, walk) for walk in streets),
            *(Pairing(kind, here, here) for kind in ("mirrored", "upside-down", "reversed")),
            *(Pairing("mirrored", here, walk) for walk in own),
        ],
        [Pairing("half" if n % 2 else "woven", here, here, walk) for n, walk in enumerate([*own, *foreign])],
    )
    for turn in range(max(map(len, columns))):
        yield from (column[turn] for column in columns if turn < len(column))
