"""Labelled images, each with an id that leads back to its file."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dnc.data.images import MAX_PIXELS, read_image
from dnc.errors import InvalidData, UnreadableImage


@dataclass(frozen=True)
class BadFile:
    """A file that was set aside, and why."""

    path: str
    reason: str


@dataclass(frozen=True, eq=False)
class Images:
    """Labelled images in a fixed order.

    Attributes:
        root: the folder that the names are relative to.
        names: POSIX paths, or such as `data_batch_1.bin#17` for an image inside a file of many.
        labels: the class of each image, `(n)`.
        ids: the position of each in the whole listing of its source, `(n)`. Parts of a data set
            keep it, so an id always leads to the same name.
        classes: names of the classes.
        pixels: `(n h w 3)` where the source is an array and not files.
        fine_labels: a finer class of each, `(n)`, which nothing is trained on; None for none.
        fine_classes: their names.

    """

    root: Path
    names: tuple[str, ...]
    labels: NDArray[np.int64]
    ids: NDArray[np.int64]
    classes: tuple[str, ...]
    pixels: NDArray[np.uint8] | None = None
    fine_labels: NDArray[np.int64] | None = None
    fine_classes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raises unless all parts fit together."""
        n = len(self.names)
        if self.labels.shape != (n,) or self.ids.shape != (n,):
            raise InvalidData(
                f"{n} names came with labels of shape {self.labels.shape} and ids of shape "
                f"{self.ids.shape}; each image needs one of each."
            )
        if n and not (self.labels.min() >= 0 and self.labels.max() < len(self.classes)):
            raise InvalidData(
                f"Labels from {self.labels.min()} to {self.labels.max()} came for "
                f"{len(self.classes)} classes; allowed are 0 to {len(self.classes) - 1}."
            )
        if self.pixels is not None and (
            self.pixels.dtype != np.uint8
            or self.pixels.ndim != 4
            or len(self.pixels) != n
            or self.pixels.shape[-1] != 3
        ):
            raise InvalidData(
                f"Pixels {self.pixels.dtype} of shape {self.pixels.shape} came for {n} images; "
                "they must be uint8 and (n h w 3)."
            )

    def __len__(self) -> int:
        """How many images there are."""
        return len(self.names)

    def subset(self, positions: Sequence[int] | NDArray[np.integer]) -> "Images":
        """The images at these positions, in this order; ids and classes stay what they are."""
        chosen = chosen_positions(positions, len(self))
        return replace(
            self,
            names=tuple(self.names[i] for i in chosen),
            labels=self.labels[chosen],
            ids=self.ids[chosen],
            pixels=None if self.pixels is None else self.pixels[chosen],
            fine_labels=None if self.fine_labels is None else self.fine_labels[chosen],
        )

    def path(self, position: int) -> Path | None:
        """The file of an image; None where the source is an array."""
        return self.root / self.names[position] if self.pixels is None else None

    def read(
        self, position: int, *, max_pixels: int = MAX_PIXELS, shorter_side: int | None = None
    ) -> Image.Image:
        """The RGB image at a position, as `read_image` gives it."""
        if self.pixels is not None:
            return Image.fromarray(self.pixels[position])
        path = self.root / self.names[position]
        return read_image(path, max_pixels=max_pixels, shorter_side=shorter_side)

    def counts(self) -> NDArray[np.int64]:
        """How many images each class has, `(c)`."""
        return np.bincount(self.labels, minlength=len(self.classes)).astype(np.int64)

    def fingerprint(self) -> str:
        """The SHA-256 of ids, names, classes, and the files' sizes in bytes or the pixels."""
        digest = hashlib.sha256()
        for position, (name, label) in enumerate(zip(self.names, self.labels, strict=True)):
            size = self._size_in_bytes(position)
            record = f"{len(name)}:{name}\0{self.classes[label]}\0{size}\0"
            # File names need not be text: surrogates stand for bytes that are not UTF-8.
            digest.update(record.encode("utf-8", "surrogatepass"))
        digest.update(np.ascontiguousarray(self.ids).data)
        if self.pixels is not None:
            digest.update(repr(self.pixels.shape).encode())
            digest.update(np.ascontiguousarray(self.pixels).data)
        return digest.hexdigest()

    def _size_in_bytes(self, position: int) -> int:
        path = self.path(position)
        return 0 if path is None else size_in_bytes(path)


def chosen_positions(
    positions: Sequence[int] | NDArray[np.integer], count: int
) -> NDArray[np.int64]:
    """Positions as an array; any that are not there raise `InvalidData`."""
    chosen = np.asarray(positions, dtype=np.int64).reshape(-1)
    if len(chosen) and not (chosen.min() >= 0 and chosen.max() < count):
        raise InvalidData(
            f"Positions from {chosen.min()} to {chosen.max()} came; there are {count} images, "
            "counted from 0."
        )
    return chosen


def size_in_bytes(path: Path) -> int:
    """How large a file is; one that is not there raises `UnreadableImage`."""
    try:
        return path.stat().st_size
    except OSError as error:
        raise UnreadableImage(path, error.strerror or "its size is not known") from error


class OfClasses(Protocol):
    """Anything that knows the names of its classes."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes."""


Part = TypeVar("Part", bound=OfClasses)


@dataclass(frozen=True, eq=False)
class Splits(Generic[Part]):
    """The parts of a data set.

    Attributes:
        train: images to learn from; None where a source is for evaluation only.
        validation: images to choose by; None if there are none.
        test: images to report on; None if there are none.
        set_aside: files that cannot be used, each with the reason.
        kind: one of `KINDS`, or of `SCENE_KINDS`.
        listing: the name that each id leads to, files that were set aside included.

    """

    train: Part | None
    validation: Part | None
    test: Part | None
    set_aside: tuple[BadFile, ...]
    kind: str
    listing: tuple[str, ...]

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes."""
        return next(iter(self.parts().values())).classes

    def parts(self) -> dict[str, Part]:
        """The parts that exist, by the names `train`, `validation` and `test`."""
        parts = {"train": self.train, "validation": self.validation, "test": self.test}
        return {name: images for name, images in parts.items() if images is not None}


@dataclass(frozen=True, eq=False)
class DataSplits(Splits[Images]):
    """The parts of a data set of labelled images."""
