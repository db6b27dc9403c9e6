"""What is in a data set, and what is wrong with it."""

import hashlib
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from dnc.data.collection import BadFile, DataSplits, Images
from dnc.data.images import decode_image
from dnc.data.listing import Progress, in_threads
from dnc.data.sources import open_data
from dnc.errors import InvalidData, UnreadableImage


@dataclass(frozen=True)
class Spread:
    """The smallest, the middle and the largest of some numbers."""

    smallest: int
    median: float
    largest: int


@dataclass(frozen=True)
class Duplicates:
    """Images with the same content.

    Attributes:
        names: their names.
        classes: the classes they are in; more than one is a contradiction.
        parts: the parts they are in; more than one lets the evaluation see what was learnt.

    """

    names: tuple[str, ...]
    classes: tuple[str, ...]
    parts: tuple[str, ...]


@dataclass(frozen=True)
class Inspection:
    """What is in a data set, every image decoded.

    Attributes:
        kind: one of `KINDS`.
        root: the folder of the data set.
        classes: names of the classes.
        counts: images of each class in each part; those that cannot be read are not counted.
        widths: of the images, as they are shown (a photo may be turned).
        heights: likewise.
        formats: how many files there are of each format.
        duplicates: groups of files with the same bytes.
        unreadable: files that cannot be used, with the reasons.
        imbalance: images of the largest class over those of the smallest, in training (or in the
            only part); None if a class has none.

    """

    kind: str
    root: str
    classes: tuple[str, ...]
    counts: dict[str, tuple[int, ...]]
    widths: Spread
    heights: Spread
    formats: dict[str, int]
    duplicates: tuple[Duplicates, ...]
    unreadable: tuple[BadFile, ...]
    imbalance: float | None

    @property
    def images(self) -> int:
        """How many images can be used."""
        return sum(sum(of_part) for of_part in self.counts.values())

    @property
    def leaks(self) -> tuple[Duplicates, ...]:
        """Duplicates that are in more than one part."""
        return tuple(group for group in self.duplicates if len(group.parts) > 1)

    @property
    def contradictions(self) -> tuple[Duplicates, ...]:
        """Duplicates that are in more than one class."""
        return tuple(group for group in self.duplicates if len(group.classes) > 1)

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON can hold it."""
        return {
            **asdict(self),
            "counts": {
                part: dict(zip(self.classes, of_part, strict=True))
                for part, of_part in self.counts.items()
            },
            "images": self.images,
            "leaks": [asdict(group) for group in self.leaks],
            "contradictions": [asdict(group) for group in self.contradictions],
        }


@dataclass(frozen=True)
class _Seen:
    """What one image turned out to be."""

    name: str
    part: str
    label: int
    digest: bytes
    width: int
    height: int
    format: str


def inspect_data(
    data: DataSplits | str | Path, *, on_progress: Progress | None = None
) -> Inspection:
    """Decodes every image of a data set and says what is in it.

    Args:
        data: a data set, or the path of one.
        on_progress: is told how many of how many images were decoded.

    """
    splits = data if isinstance(data, DataSplits) else open_data(data)
    parts = splits.parts()
    places = [(part, i) for part, images in parts.items() for i in range(len(images))]

    def look(place: tuple[str, int]) -> _Seen | BadFile:
        part, position = place
        return _seen(parts[part], part, position)

    results = list(in_threads(look, places, on_progress=on_progress))
    seen = [result for result in results if isinstance(result, _Seen)]
    bad = [result for result in results if isinstance(result, BadFile)]
    if not seen:
        raise InvalidData(
            f"None of the {len(places)} images can be decoded; the first is {bad[0].path}: "
            f"{bad[0].reason}."
        )
    classes = splits.classes
    counts = {
        part: tuple(
            np.bincount(
                [one.label for one in seen if one.part == part], minlength=len(classes)
            ).tolist()
        )
        for part in parts
    }
    first = next(iter(counts.values()))
    return Inspection(
        kind=splits.kind,
        root=str(next(iter(parts.values())).root),
        classes=classes,
        counts=counts,
        widths=spread([one.width for one in seen]),
        heights=spread([one.height for one in seen]),
        formats=dict(Counter(one.format for one in seen).most_common()),
        duplicates=_duplicates(seen, classes),
        unreadable=(*splits.set_aside, *bad),
        imbalance=max(first) / min(first) if min(first) else None,
    )


def _seen(images: Images, part: str, position: int) -> _Seen | BadFile:
    name, label = images.names[position], int(images.labels[position])
    path = images.path(position)
    if path is None:
        assert images.pixels is not None
        height, width = images.pixels.shape[1:3]
        digest = hashlib.sha256(images.pixels[position].tobytes()).digest()
        return _Seen(name, part, label, digest, width, height, "array")
    try:
        content = path.read_bytes()
    except OSError as error:
        return BadFile(name, error.strerror or "it cannot be read")
    try:
        image, header = decode_image(content, path)
    except UnreadableImage as error:
        return BadFile(name, error.reason)
    digest = hashlib.sha256(content).digest()
    return _Seen(name, part, label, digest, image.width, image.height, header.format)


def spread(values: list[int]) -> Spread:
    """The spread of some numbers, of which there is at least one."""
    return Spread(min(values), float(median(values)), max(values))


def _duplicates(seen: list[_Seen], classes: tuple[str, ...]) -> tuple[Duplicates, ...]:
    groups = defaultdict(list)
    for one in seen:
        groups[one.digest].append(one)
    return tuple(
        Duplicates(
            names=tuple(one.name for one in group),
            classes=tuple(classes[label] for label in sorted({one.label for one in group})),
            parts=tuple(dict.fromkeys(one.part for one in group)),
        )
        for group in groups.values()
        if len(group) > 1
    )
