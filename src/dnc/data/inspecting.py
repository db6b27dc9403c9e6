"""What inspections of any data set share: every file is looked at, and what is twice is told."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sized
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

from dnc.data.collection import BadFile
from dnc.data.listing import Progress, in_threads
from dnc.errors import InvalidData


@dataclass(frozen=True)
class Seen:
    """What one image turned out to be."""

    name: str
    part: str
    digest: bytes
    width: int
    height: int


@dataclass(frozen=True)
class Spread:
    """The smallest, the middle and the largest of some numbers."""

    smallest: int
    median: float
    largest: int


@dataclass(frozen=True)
class SameImages:
    """Images with the same bytes.

    Attributes:
        names: their names.
        parts: the parts they are in; more than one lets the evaluation see what was learnt.

    """

    names: tuple[str, ...]
    parts: tuple[str, ...]


Part = TypeVar("Part", bound=Sized)
Found = TypeVar("Found", bound=Seen)
Same = TypeVar("Same", bound=SameImages)


def looked_at(
    parts: Mapping[str, Part],
    look: Callable[[Part, str, int], Found | BadFile],
    *,
    things: str,
    on_progress: Progress | None,
) -> tuple[list[Found], list[BadFile]]:
    """What every image of every part turned out to be, and those that cannot be read.

    Args:
        parts: the parts of a data set by their names.
        look: what an image is, by its part, the name of that, and its position in it.
        things: what to call them if none can be read.
        on_progress: is told how many of how many were looked at.

    """
    places = [(part, i) for part, images in parts.items() for i in range(len(images))]

    def look_at(place: tuple[str, int]) -> Found | BadFile:
        part, position = place
        return look(parts[part], part, position)

    seen, bad = [], []
    for result in in_threads(look_at, places, on_progress=on_progress):
        if isinstance(result, BadFile):
            bad.append(result)
        else:
            seen.append(result)
    if not seen:
        raise InvalidData(
            f"None of the {len(places)} {things} can be decoded; the first is {bad[0].path}: "
            f"{bad[0].reason}."
        )
    return seen, bad


def spread(values: list[int]) -> Spread:
    """The spread of some numbers, of which there is at least one."""
    return Spread(min(values), float(median(values)), max(values))


def with_the_same_bytes(seen: Iterable[Found]) -> list[tuple[SameImages, list[Found]]]:
    """Groups of images that are the same, and what each of them is."""
    groups = defaultdict(list)
    for one in seen:
        groups[one.digest].append(one)
    return [
        (
            SameImages(
                names=tuple(one.name for one in group),
                parts=tuple(dict.fromkeys(one.part for one in group)),
            ),
            group,
        )
        for group in groups.values()
        if len(group) > 1
    ]


def in_several_parts(groups: Iterable[Same]) -> tuple[Same, ...]:
    """Those of the images that an evaluation would see though they were learnt."""
    return tuple(group for group in groups if len(group.parts) > 1)
