"""What an evaluation says: frozen results that know their form in JSON."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from jaxtyping import Int
from torch import Tensor

from dnc.errors import InvalidSetting


@dataclass(frozen=True)
class ClassResult:
    """How well one class is recognised.

    Attributes:
        name: the name of the class.
        images: images of the class.
        recall: share of them that were given this class; NaN without an image.
        precision: share of the images given this class that are of it; NaN if none was.
        f1: harmonic mean of the two; NaN if the class has no image and was given to none.

    """

    name: str
    images: int
    recall: float
    precision: float
    f1: float


@dataclass(frozen=True)
class Calibration:
    """How far a classifier's confidence is from its accuracy, over the images it decided.

    Attributes:
        error: expected calibration error: mean over images of the gap of their bin.
        max_error: the largest gap of any bin.
        edges: bounds of the bins; a confidence on a bound belongs to the bin above, 1 to the last.
        counts: images in each bin.
        confidence: mean confidence in each bin; NaN where it is empty.
        accuracy: share of right answers in each bin; NaN where it is empty.

    """

    error: float
    max_error: float
    edges: tuple[float, ...]
    counts: tuple[int, ...]
    confidence: tuple[float, ...]
    accuracy: tuple[float, ...]


class Mistake(NamedTuple):
    """How many images of one class were given another."""

    true: str
    predicted: str
    images: int


@dataclass(frozen=True)
class Evaluation:
    """How well a classifier does on a set of labelled images.

    Attributes:
        images: how many there are.
        undecided: images for which no class could win; they count as wrong.
        top1: share of images that were given their class.
        top5: share whose class is among the best five; None with five classes or fewer.
        mean_recall: mean recall over the classes that have images (balanced accuracy).
        mean_loss: mean cross-entropy; infinite if an image's class could never win.
        per_class: a result for each class.
        confusion: images of each true class (row) by the class they were given (column); images
            that are undecided are in no column.
        calibration: confidence against accuracy.

    """

    images: int
    undecided: int
    top1: float
    top5: float | None
    mean_recall: float
    mean_loss: float
    per_class: tuple[ClassResult, ...]
    confusion: Int[Tensor, "c c"]
    calibration: Calibration

    def most_confused(self, limit: int) -> list[Mistake]:
        """The most frequent mistakes, most frequent first, equal ones in the order of classes."""
        names = [result.name for result in self.per_class]
        return [Mistake(*pair) for pair in confused_pairs(self.confusion, names, limit=limit)]

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON knows it; what is not defined or not finite is None."""
        return {
            **jsonable_fields(self),
            "per_class": [jsonable_fields(result) for result in self.per_class],
            "confusion": self.confusion.tolist(),
            "calibration": jsonable_fields(self.calibration),
        }


def confused_pairs(
    confusion: Int[Tensor, "c c"], names: Sequence[str], *, limit: int
) -> list[tuple[str, str, int]]:
    """True class, class given and how often, most frequent first, equal ones in their order."""
    if limit < 0:
        raise InvalidSetting(f"limit is {limit}; it must be 0 or more.")
    wrong = confusion.clone().fill_diagonal_(0)
    pairs = wrong.nonzero()
    counts, order = wrong[pairs[:, 0], pairs[:, 1]].sort(descending=True, stable=True)
    return [
        (names[true], names[predicted], count)
        for (true, predicted), count in zip(
            pairs[order[:limit]].tolist(), counts[:limit].tolist(), strict=True
        )
    ]


def jsonable_fields(result: object) -> dict[str, object]:
    """The fields of a result, None where a number is not finite."""
    return {name: _jsonable(value) for name, value in vars(result).items()}


def _jsonable(value: object) -> object:
    if isinstance(value, tuple):
        return [_jsonable(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
