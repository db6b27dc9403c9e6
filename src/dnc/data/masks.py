"""Masks: files that say the class of every pixel of an image."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dnc.data.mask_values import mask_values
from dnc.errors import InvalidData, UnreadableImage

IGNORED = -100
"""Stands for the class of a pixel that has none; the default of torch's cross-entropy."""

MOST_CLASSES = 32_000
"""Numbers of classes are held in 16 bits."""

HIGHEST_VALUE = 65_535

Colour = tuple[int, int, int]
Value = TypeVar("Value", int, Colour)

_UNKNOWN = np.iinfo(np.int16).min


@dataclass(frozen=True)
class MaskCoding:
    """Which class the pixels of a mask stand for; `IGNORED` for those without one.

    Attributes:
        numbers: pairs of a value and its class.
        colours: pairs of a colour and its class. If there are any, colours count, not numbers.

    """

    numbers: tuple[tuple[int, int], ...] = ()
    colours: tuple[tuple[Colour, int], ...] = ()

    @classmethod
    def by_number(cls, values: Iterable[int], *, ignored: Iterable[int] = (255,)) -> "MaskCoding":
        """Class 0 is the first value, class 1 the second, and so on; ignored ones have none."""
        classes = {value: number for number, value in enumerate(values)}
        return cls(numbers=_pairs({**classes, **dict.fromkeys(ignored, IGNORED)}))

    @classmethod
    def by_colour(
        cls, colours: Iterable[Colour], *, ignored: Iterable[Colour] = ()
    ) -> "MaskCoding":
        """Class 0 has the first colour, class 1 the second, and so on; ignored ones have none."""
        classes = {colour: number for number, colour in enumerate(colours)}
        return cls(colours=_pairs({**classes, **dict.fromkeys(ignored, IGNORED)}))

    def __post_init__(self) -> None:
        """Raises unless every value and class is in its range."""
        if bool(self.numbers) == bool(self.colours):
            raise InvalidData("A mask is coded either by numbers or by colours; give one of them.")
        values = [value for value, _ in self.numbers]
        channels = [channel for colour, _ in self.colours for channel in colour]
        classes = [number for _, number in (*self.numbers, *self.colours) if number != IGNORED]
        if not classes:
            raise InvalidData("Every value of the masks is to be ignored; a class is needed.")
        for what, found, highest in (
            ("Values of a mask", values, HIGHEST_VALUE),
            ("Colours of a mask", channels, 255),
            ("Classes", classes, MOST_CLASSES - 1),
        ):
            if found and not (min(found) >= 0 and max(found) <= highest):
                raise InvalidData(
                    f"{what} from {min(found)} to {max(found)} came; allowed are 0 to {highest}."
                )

    def classes_of(self, values: NDArray[np.integer]) -> NDArray[np.int16]:
        """The class of each value, or packed colour; the lowest 16-bit number for unknown ones."""
        if self.colours:
            known, classes = self._class_of_colour
            places = np.searchsorted(known, values).clip(max=len(known) - 1)
            return np.where(known[places] == values, classes[places], np.int16(_UNKNOWN))
        if values.dtype not in (np.uint8, np.uint16):
            outside = (values < 0) | (values > HIGHEST_VALUE)
            values = np.where(outside, HIGHEST_VALUE + 1, values)
        return np.take(self._class_of_value, values)

    @cached_property
    def _class_of_value(self) -> NDArray[np.int16]:
        """The class of every value, and of one more that stands for all beyond."""
        table = np.full(HIGHEST_VALUE + 2, _UNKNOWN, dtype=np.int16)
        for value, number in self.numbers:
            table[value] = number
        return table

    @cached_property
    def _class_of_colour(self) -> tuple[NDArray[np.int32], NDArray[np.int16]]:
        """Packed colours in ascending order, and their classes."""
        packed = [red << 16 | green << 8 | blue for (red, green, blue), _ in self.colours]
        order = np.argsort(packed)
        classes = np.array([number for _, number in self.colours], dtype=np.int16)
        return np.array(packed, dtype=np.int32)[order], classes[order]


def read_mask(path: str | Path, coding: MaskCoding) -> NDArray[np.int16]:
    """The class of each pixel of a mask, `(h w)`; `IGNORED` where it has none.

    Of a palette the indices count, unless the coding is by colour. A mask is not turned by what its
    EXIF may say. Values that the coding does not know raise `UnreadableImage` with their place.
    """
    values = mask_values(Path(path), by_colour=bool(coding.colours))
    classes = coding.classes_of(values)
    unknown = classes == _UNKNOWN
    if unknown.any():
        raise UnreadableImage(path, _unknown_told(values, unknown, coding))
    return classes


def colour_picture(
    mask: NDArray[np.int16], colours: Sequence[Colour], *, ignored: Colour = (0, 0, 0)
) -> Image.Image:
    """A mask in the colours of its classes, for people to look at."""
    palette = np.array([*colours, ignored], dtype=np.uint8)
    return Image.fromarray(palette[np.where(mask == IGNORED, len(colours), mask)])


def _pairs(classes: dict[Value, int]) -> tuple[tuple[Value, int], ...]:
    return tuple(sorted(classes.items()))


def _unknown_told(
    values: NDArray[np.integer], unknown: NDArray[np.bool_], coding: MaskCoding
) -> str:
    row, column = (int(place) for place in np.argwhere(unknown)[0])
    first = int(values[row, column])
    pixels, others = int((values == first).sum()), int((unknown & (values != first)).sum())
    colour = (first >> 16, first >> 8 & 255, first & 255)
    what = f"colour {colour}" if coding.colours else f"label {first}"
    more = f", other unknown ones at {others:,}" if others else ""
    return (
        f"{what} at {pixels:,} pixel{'s' * (pixels != 1)}, first at row {row}, column {column}"
        f"{more}; {_allowed_told(coding)}"
    )


def _allowed_told(coding: MaskCoding) -> str:
    if coding.colours:
        count = sum(number != IGNORED for _, number in coding.colours)
        return f"allowed are the colours of the {count} classes and those to be ignored"
    named = sorted(value for value, number in coding.numbers if number != IGNORED)
    ignored = [str(value) for value, number in coding.numbers if number == IGNORED]
    consecutive = len(named) == named[-1] - named[0] + 1
    told = f"{named[0]} to {named[-1]}" if consecutive else ", ".join(map(str, named[:20]))
    told += " and more" if not consecutive and len(named) > 20 else ""
    without = f", and {' or '.join(ignored[:20])} for pixels without a class" if ignored else ""
    return f"allowed are {told}{without}"
