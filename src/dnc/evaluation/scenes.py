"""Pictures of segmentations: classes as colours, over the image, and side by side."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dnc.errors import InvalidInput, InvalidLabels, InvalidSetting
from dnc.evaluation.lettering import legend_image, titles_image
from dnc.evaluation.panels import levelled, row_image, row_width, stacked

Colour = tuple[int, int, int]
Panel = tuple[str, Image.Image]

BLACK, WHITE = (0, 0, 0), (255, 255, 255)
NO_CLASS = "no class"
NO_CLASS_IN_8_BITS, NO_CLASS_IN_16_BITS = 255, 65535
BORDER = 0.6
SMALLEST_TEXT, LARGEST_TEXT = 15, 32


def coloured(labels: NDArray[np.integer], colours: Sequence[Colour]) -> Image.Image:
    """Each pixel in the colour of its class; a label below 0 is a pixel without one.

    These are black, or white where black is the colour of a class.
    """
    _require_labels(labels, len(colours))
    return Image.fromarray(_palette(colours)[np.maximum(labels, -1)])


def overlaid(
    image: Image.Image,
    labels: NDArray[np.integer],
    colours: Sequence[Colour],
    *,
    strength: float = 0.55,
) -> Image.Image:
    """The colours of the classes over an image in pale grey, with thin borders between regions.

    Args:
        image: of the size of the labels.
        labels: the class of each pixel, `(h w)`, as in `coloured`.
        colours: of the classes.
        strength: of the colours, from 0 (the image alone) to 1 (nothing of it).

    """
    if not 0 <= strength <= 1:
        raise InvalidSetting(f"strength is {strength}; it must be from 0 to 1.")
    colour = np.asarray(coloured(labels, colours), dtype=np.float64)
    if image.size != labels.shape[::-1]:
        raise InvalidInput(
            f"The image has {image.width} x {image.height} pixels, the labels {labels.shape[1]} x "
            f"{labels.shape[0]}; bring one to the size of the other first."
        )
    # Hues of the image would turn those of the classes into others, and its shadows into black.
    pale = 60 + 0.76 * np.asarray(image.convert("L"), dtype=np.float64)[..., None]
    mixed = (1 - strength) * pale + strength * colour
    borders = _borders(labels)
    mixed[borders] = (1 - BORDER) * mixed[borders] + BORDER * np.array(WHITE)
    return Image.fromarray(np.round(mixed).astype(np.uint8))


def label_image(labels: NDArray[np.integer], colours: Sequence[Colour] = ()) -> Image.Image:
    """The numbers of the classes as the values of pixels, to be saved as PNG.

    Up to 255 classes make 8 bits, in which 255 stands for no class, with the colours as palette
    where they are given; more make 16 bits, in which 65535 does.
    """
    _require_labels(labels, len(colours) or NO_CLASS_IN_16_BITS)
    if max(len(colours), int(labels.max()) + 1) > NO_CLASS_IN_8_BITS:
        return Image.fromarray(np.where(labels < 0, NO_CLASS_IN_16_BITS, labels).astype(np.uint16))
    image = Image.fromarray(np.where(labels < 0, NO_CLASS_IN_8_BITS, labels).astype(np.uint8))
    if colours:
        palette = _palette(colours)
        unused = np.repeat(palette[-1:], 256 - len(palette), axis=0)
        image.putpalette(np.concatenate([palette, unused]).tobytes())
    return image


def legend_of(
    label_maps: Iterable[NDArray[np.integer]], names: Sequence[str], colours: Sequence[Colour]
) -> list[tuple[str, Colour]]:
    """Names and colours of the classes that occur in any of the maps, in the order of classes.

    Where pixels have no class, that comes last.
    """
    occurring: set[int] = set()
    for labels in label_maps:
        _require_labels(labels, min(len(names), len(colours)))
        occurring |= set(np.unique(np.maximum(labels, -1)).tolist())
    legend = [(names[number], colours[number]) for number in sorted(occurring - {-1})]
    return legend + [(NO_CLASS, _colour_of_no_class(colours))] * (-1 in occurring)


def side_by_side(
    panels: Sequence[Panel], *, legend: Sequence[tuple[str, Colour]] = ()
) -> Image.Image:
    """Pictures of equal height in a row, each below its title, above a legend."""
    return comparison_sheet([panels], legend=legend)


def comparison_sheet(
    rows: Sequence[Sequence[Panel]], *, legend: Sequence[tuple[str, Colour]] = ()
) -> Image.Image:
    """Rows of pictures with the same titles, which stand above the first, and a legend below."""
    titles = _common_titles(rows)
    pictures = [levelled([image for _, image in row]) for row in rows]
    widths = [max(image.width for image in column) for column in zip(*pictures, strict=True)]
    width = row_width(widths)
    # A page shows a wide sheet smaller, so that its text must be larger.
    size = int(np.clip(width // 75, SMALLEST_TEXT, LARGEST_TEXT))
    above = titles_image(titles, widths, size=size)
    below = [legend_image(legend, width=width, size=size)] if legend else []
    return stacked([above, *(row_image(row, widths) for row in pictures), *below])


def _colour_of_no_class(colours: Sequence[Colour]) -> Colour:
    return WHITE if BLACK in map(tuple, colours) else BLACK


def _palette(colours: Sequence[Colour]) -> NDArray[np.uint8]:
    """The colours, and last that of no class, where an index of -1 finds it."""
    palette = np.array([*colours, _colour_of_no_class(colours)])
    if palette.ndim != 2 or palette.shape[1] != 3 or palette.min() < 0 or palette.max() > 255:
        raise InvalidInput("Colours must be (red, green, blue), each a number from 0 to 255.")
    return palette.astype(np.uint8)


def _borders(labels: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Pixels above or left of one of another class."""
    borders = np.zeros(labels.shape, dtype=bool)
    borders[:-1] |= labels[:-1] != labels[1:]
    borders[:, :-1] |= labels[:, :-1] != labels[:, 1:]
    return borders


def _common_titles(rows: Sequence[Sequence[Panel]]) -> list[str]:
    """The titles of the first row, which all have."""
    titles = [[title for title, _ in row] for row in rows]
    if not titles or not titles[0]:
        raise InvalidInput("There is no picture to show; give at least one row of one panel.")
    for number, others in enumerate(titles, start=1):
        if others != titles[0]:
            raise InvalidInput(
                f"Row {number} has the titles {others}, the first {titles[0]}; a sheet shows them "
                "once, so that all rows must have the same."
            )
    return titles[0]


def _require_labels(labels: object, classes: int) -> None:
    if not isinstance(labels, np.ndarray) or not np.issubdtype(labels.dtype, np.integer):
        came = labels.dtype if isinstance(labels, np.ndarray) else type(labels).__name__
        raise InvalidLabels(f"Labels are {came}; they must be a numpy array of whole numbers.")
    if labels.ndim != 2 or not labels.size:
        raise InvalidLabels(f"Labels have shape {labels.shape}; expected (h, w), one for a pixel.")
    if labels.max() >= classes:
        raise InvalidLabels(
            f"Labels reach {labels.max()}; allowed are 0 to {classes - 1}, a number for each "
            "class, and below 0 for pixels without one, which files often give as 255."
        )
