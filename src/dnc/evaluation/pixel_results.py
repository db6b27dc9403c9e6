"""What the evaluation of a segmenter says: frozen results that know their form in JSON."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from jaxtyping import Int
from torch import Tensor

from dnc.evaluation.results import confused_pairs, jsonable_fields


@dataclass(frozen=True)
class PixelClassResult:
    """How well the pixels of one class are found.

    Attributes:
        name: the name of the class.
        pixels: pixels of the class that count.
        iou: pixels rightly given this class, as a share of those that are of it or were given it
            (intersection over union); NaN if there are none.
        accuracy: share of the class's pixels that were given it (recall); NaN without a pixel.
        precision: share of the pixels given this class that are of it; NaN if none was.

    """

    name: str
    pixels: int
    iou: float
    accuracy: float
    precision: float


class PixelMistake(NamedTuple):
    """How many pixels of one class were given another."""

    true: str
    predicted: str
    pixels: int


@dataclass(frozen=True)
class PixelEvaluation:
    """How well a segmenter does on a set of labelled images; all shares are of pixels that count.

    The sums are over all images before anything is divided, as the field reports them: a mean over
    images would give a class that is rare in an image another weight.

    Attributes:
        images: how many there are.
        pixels: pixels that count, which are those with a label.
        ignored_pixels: pixels without one; nothing below knows of them.
        undecided: pixels that count and for which no class could win; they are wrong.
        miou: mean IoU over the classes that have a pixel or were given to one. A class with
            neither is left out; one without a pixel that was given to any has an IoU of 0 and
            counts, and so does one with pixels that was given to none.
        mean_accuracy: mean accuracy over the classes that have pixels.
        pixel_accuracy: share of pixels that were given their class.
        frequency_weighted_iou: mean IoU over the classes, each by its share of the pixels.
        per_class: a result for each class.
        confusion: pixels of each true class (row) by the class they were given (column); pixels
            that are undecided are in no column.

    """

    images: int
    pixels: int
    ignored_pixels: int
    undecided: int
    miou: float
    mean_accuracy: float
    pixel_accuracy: float
    frequency_weighted_iou: float
    per_class: tuple[PixelClassResult, ...]
    confusion: Int[Tensor, "c c"]

    def most_confused(self, limit: int) -> list[PixelMistake]:
        """The most frequent mistakes, most frequent first, equal ones in the order of classes."""
        names = [result.name for result in self.per_class]
        return [PixelMistake(*pair) for pair in confused_pairs(self.confusion, names, limit=limit)]

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON knows it; what is not defined is None."""
        return {
            **jsonable_fields(self),
            "per_class": [jsonable_fields(result) for result in self.per_class],
            "confusion": self.confusion.tolist(),
        }
