"""Pictures of segmentations by cases: shades of the classes over the image, with borders."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dnc.explanation.shades import Colour

# Sides of a picture on a page, in pixels: larger ones are reduced, smaller ones enlarged.
LARGEST, SMALLEST = 720, 320
STRENGTH, BETWEEN_CLASSES, BETWEEN_CASES = 0.66, 0.85, 0.45
WRONG: Colour = (213, 30, 30)
# The largest cases carry a number in a picture, unless their share of it is too small to hold one,
# or the number of a larger case is nearer than this share of the picture's longer side.
NUMBERED, LEAST_NUMBERED, CLOSEST = 12, 0.004, 0.035


def page_size(size: tuple[int, int]) -> tuple[int, int]:
    """Width and height of a picture on a page; a small one becomes a multiple of itself."""
    longest = max(size)
    scale = LARGEST / longest if longest > LARGEST else -(-SMALLEST // longest)
    width, height = (max(1, round(side * scale)) for side in size)
    return width, height


def numbered(
    middles: Sequence[tuple[int, int]], shares: Sequence[float], size: tuple[int, int]
) -> list[int]:
    """Which cases of a picture carry a number in their middle, the largest cases first."""
    chosen: list[int] = []
    for rank, share in enumerate(shares[:NUMBERED]):
        gaps = (math.dist(middles[rank], middles[other]) for other in chosen)
        if share >= LEAST_NUMBERED and min(gaps, default=math.inf) >= CLOSEST * max(size):
            chosen.append(rank)
    return chosen


def scaled_image(image: Image.Image, size: tuple[int, int]) -> Image.Image:
    """An image of another width and height; where it is enlarged, its pixels stay squares."""
    is_enlarged = size[0] > image.width
    return image.resize(size, Image.Resampling.NEAREST if is_enlarged else Image.Resampling.LANCZOS)


def scaled_map(values: NDArray[np.integer], size: tuple[int, int]) -> NDArray[np.integer]:
    """A map of numbers of another width and height: of each pixel the nearest number."""
    rows, columns = (
        ((np.arange(wanted) + 0.5) * given / wanted).astype(np.int64)
        for wanted, given in zip(size[::-1], values.shape, strict=True)
    )
    return values[np.ix_(rows, columns)]


def with_classes(
    image: Image.Image, labels: NDArray[np.integer], colours: Sequence[Colour]
) -> Image.Image:
    """The classes over an image, with borders between them; below 0 there is none."""
    labels = scaled_map(labels, page_size(image.size))
    tints = np.array([*colours, (0, 0, 0)])[np.maximum(labels, -1)]
    mixed = _tinted(image, tints, labels >= 0)
    _draw_borders_(mixed, labels, BETWEEN_CLASSES)
    return _picture(mixed)


def with_cases(
    image: Image.Image,
    labels: NDArray[np.integer],
    numbers: NDArray[np.integer],
    colours: Sequence[Colour],
) -> Image.Image:
    """The cases over an image, with faint borders between them and clear ones between classes.

    Args:
        image: the image.
        labels: the class of each pixel.
        numbers: the number of the case that has decided it, from 1.
        colours: of the cases.

    """
    size = page_size(image.size)
    labels, numbers = scaled_map(labels, size), scaled_map(numbers, size)
    tints = np.array([(0, 0, 0), *colours])[numbers]
    mixed = _tinted(image, tints, numbers > 0)
    _draw_borders_(mixed, numbers, BETWEEN_CASES)
    _draw_borders_(mixed, labels, BETWEEN_CLASSES)
    return _picture(mixed)


def with_mistakes(
    image: Image.Image, labels: NDArray[np.integer], truth: NDArray[np.integer]
) -> Image.Image:
    """An image in grey, in which pixels that were given a wrong class are red."""
    wrong = (labels != truth) & (truth >= 0)
    wrong = scaled_map(wrong.astype(np.int8), page_size(image.size)) > 0
    tints = np.broadcast_to(np.array(WRONG), (*wrong.shape, 3))
    return _picture(_tinted(image, tints, wrong))


def _tinted(
    image: Image.Image, tints: NDArray[np.integer], shown: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Colours over an image in pale grey: its own hues would turn them into others."""
    grey = scaled_image(image.convert("L"), shown.shape[::-1])
    pale = 70 + 0.72 * np.asarray(grey, dtype=np.float64)[..., None]
    strength = STRENGTH * shown[..., None]
    mixed: NDArray[np.float64] = (1 - strength) * pale + strength * tints
    return mixed


def _draw_borders_(
    mixed: NDArray[np.float64], values: NDArray[np.integer], strength: float
) -> None:
    """Makes pixels above or left of one with another number whiter."""
    borders = np.zeros(values.shape, dtype=bool)
    borders[:-1] |= values[:-1] != values[1:]
    borders[:, :-1] |= values[:, :-1] != values[:, 1:]
    mixed[borders] += strength * (255 - mixed[borders])


def _picture(mixed: NDArray[np.float64]) -> Image.Image:
    return Image.fromarray(np.round(mixed).astype(np.uint8))
