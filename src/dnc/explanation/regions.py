"""Regions of a map of numbers as outlines that a page can draw."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

MOST_CELLS = 240

Point = tuple[int, int]


@dataclass(frozen=True)
class Outlines:
    """Regions on a grid of cells.

    Attributes:
        width: of the map, in cells, of which the last one may be cut.
        height: likewise.
        step: pixels of a side of a cell.
        paths: for each number that a cell has, the outlines of its regions as the path of an SVG,
            in cells; filled by the rule `evenodd` it covers just these cells.
    """

    width: float
    height: float
    step: int
    paths: dict[int, str]


def outlines(numbers: NDArray[np.integer], *, most_cells: int = MOST_CELLS) -> Outlines:
    """The regions of each number above 0, on a grid of at most so many cells along a side.

    A cell has the number of the pixel in its middle, so that a region of few pixels may have none.
    """
    height, width = numbers.shape
    step = -(-max(height, width) // most_cells)
    rows, columns = (
        np.minimum(np.arange(0, side, step) + step // 2, side - 1) for side in (height, width)
    )
    cells = numbers[np.ix_(rows, columns)].astype(np.int32)
    paths = {}
    for number, box in enumerate(ndimage.find_objects(cells), start=1):
        if box is not None:
            inside = np.pad(cells[box] == number, 1)
            corner = (box[1].start - 1, box[0].start - 1)
            paths[number] = "".join(_path(loop, corner) for loop in _loops(inside))
    return Outlines(width / step, height / step, step, paths)


def _loops(inside: NDArray[np.bool_]) -> Iterator[list[Point]]:
    """The borders of a mask whose margin is empty: corners in order, the mask to the right."""
    leads_to: dict[Point, list[Point]] = {}

    def add(border: NDArray[np.bool_], begin: Point, end: Point) -> None:
        for y, x in np.argwhere(border).tolist():
            begins = (x + begin[0], y + begin[1])
            leads_to.setdefault(begins, []).append((x + end[0], y + end[1]))

    add(inside & ~np.roll(inside, 1, axis=0), (0, 0), (1, 0))
    add(inside & ~np.roll(inside, -1, axis=1), (1, 0), (1, 1))
    add(inside & ~np.roll(inside, -1, axis=0), (1, 1), (0, 1))
    add(inside & ~np.roll(inside, 1, axis=1), (0, 1), (0, 0))
    while leads_to:
        first = at = next(iter(leads_to))
        loop = []
        while True:
            following = leads_to[at].pop()
            if not leads_to[at]:
                del leads_to[at]
            loop.append(at)
            at = following
            if at == first:
                break
        yield loop


def _path(loop: list[Point], corner: Point) -> str:
    """A closed outline, from turn to turn."""
    turns = [
        point
        for before, point, after in zip([loop[-1], *loop], loop, [*loop[1:], loop[0]], strict=False)
        if (before[0] == point[0]) != (point[0] == after[0])
    ]
    x, y = turns[0]
    parts = [f"M{x + corner[0]} {y + corner[1]}"]
    for point in turns[1:]:
        parts.append(f"h{point[0] - x}" if point[1] == y else f"v{point[1] - y}")
        x, y = point
    return "".join([*parts, "z"])
