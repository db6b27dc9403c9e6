"""What is in a data set, and what is wrong with it."""

import hashlib
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dnc.data.collection import BadFile, DataSplits, Images
from dnc.data.images import decode_image
from dnc.data.inspecting import (
    SameImages,
    Seen,
    Spread,
    in_several_parts,
    looked_at,
    spread,
    with_the_same_bytes,
)
from dnc.data.listing import Progress
from dnc.data.sources import open_data
from dnc.errors import UnreadableImage


@dataclass(frozen=True)
class Duplicates(SameImages):
    """Images with the same bytes.

    Attributes:
        names: their names.
        parts: the parts they are in; more than one lets the evaluation see what was learnt.
        classes: the classes they are in; more than one is a contradiction.

    """

    classes: tuple[str, ...]


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
        return in_several_parts(self.duplicates)

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
class _SeenImage(Seen):
    label: int
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
    seen, bad = looked_at(parts, _seen, things="images", on_progress=on_progress)
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


def _seen(images: Images, part: str, position: int) -> _SeenImage | BadFile:
    name, label = images.names[position], int(images.labels[position])
    path = images.path(position)
    if path is None:
        assert images.pixels is not None
        height, width = images.pixels.shape[1:3]
        digest = hashlib.sha256(images.pixels[position].tobytes()).digest()
        return _SeenImage(name, part, digest, width, height, label, "array")
    try:
        content = path.read_bytes()
    except OSError as error:
        return BadFile(name, error.strerror or "it cannot be read")
    try:
        image, header = decode_image(content, path)
    except UnreadableImage as error:
        return BadFile(name, error.reason)
    digest = hashlib.sha256(content).digest()
    return _SeenImage(name, part, digest, image.width, image.height, label, header.format)


def _duplicates(seen: list[_SeenImage], classes: tuple[str, ...]) -> tuple[Duplicates, ...]:
    return tuple(
        Duplicates(
            names=same.names,
            parts=same.parts,
            classes=tuple(classes[label] for label in sorted({one.label for one in group})),
        )
        for same, group in with_the_same_bytes(seen)
    )
