"""A picture of what is in a data set; matplotlib without global state."""

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ft2font import FT2Font
from numpy.typing import NDArray
from PIL import Image

from dnc.data.collection import Images
from dnc.data.preparation import middle_square
from dnc.data.settings import Preprocessing
from dnc.errors import UnreadableImage

INK, FAINT = "#222222", "#8a8a8a"
MOST_CLASSES, COLUMNS, SIDE, LONGEST_NAME = 12, 8, 128, 24
_MISSING = "\N{WHITE SQUARE}"
# After matplotlib's own font, those that usually have what it lacks.
_FAMILIES = (
    *("DejaVu Sans", "Noto Sans", "Noto Sans CJK JP", "Noto Sans CJK SC", "Hiragino Sans"),
    *("PingFang SC", "Yu Gothic", "Microsoft YaHei", "Malgun Gothic", "WenQuanYi Micro Hei"),
    *("Noto Sans Devanagari", "Noto Sans Thai", "Nirmala UI", "Arial Unicode MS"),
)


@dataclass(frozen=True)
class Strip:
    """A row of a picture: some images of a data set with a name and what is known of them."""

    name: str
    note: str
    positions: Sequence[int]


def samples_figure(images: Images, *, seed: int = 0) -> Figure:
    """A row of images for each class, chosen by the seed; of many classes a dozen."""
    rng = np.random.default_rng(seed)
    counts = images.counts()
    present = np.flatnonzero(counts)
    shown = present
    if len(present) > MOST_CLASSES:
        shown = np.sort(rng.choice(present, MOST_CLASSES, replace=False))
    strips = []
    for label in shown:
        own = np.flatnonzero(images.labels == label)
        chosen = np.sort(rng.choice(own, min(COLUMNS, len(own)), replace=False))
        strips.append(Strip(images.classes[label], f"{counts[label]:,}", chosen.tolist()))
    title = f"{len(images):,} images of {len(present):,} classes"
    if len(shown) < len(present):
        title += f"; {len(shown)} of the classes, chosen at random"
    return strips_figure(images, strips, title)


def strips_figure(images: Images, strips: Sequence[Strip], title: str) -> Figure:
    """Rows of images, each with its name and note beside it."""
    columns = max((len(strip.positions) for strip in strips), default=1)
    names = [drawable(shortened(strip.name)) for strip in strips]
    figure, grid = _empty_grid(names, [strip.note for strip in strips], columns, title)
    for axes, strip, name in zip(grid, strips, names, strict=True):
        for ax, position in zip(axes, strip.positions, strict=False):
            _show(ax, images, position)
        _note(axes[0], (-0.1, 0.6), name, colour=INK, size=9)
        _note(axes[0], (-0.1, 0.28), strip.note, colour=FAINT, size=7.5)
    return figure


def _empty_grid(
    names: Sequence[str], notes: Sequence[str], columns: int, title: str
) -> tuple[Figure, NDArray[np.object_]]:
    """A figure with a place for each image, and as much room on the left as the names need."""
    cell, above = 0.8, 0.35
    beside = max([0.4, *(0.085 * _width(name) for name in names), *(0.07 * len(n) for n in notes)])
    beside += 0.2
    # The title may need more room than the images of a class with a single one.
    width = max(beside + cell * columns, 0.075 * len(title) + 0.3)
    height = above + cell * max(len(names), 1)
    figure = Figure(figsize=(width, height))
    figure.suptitle(title, fontsize=10, color=INK, y=1 - 0.35 * above / height, va="center")
    edges = {
        "left": beside / width,
        "right": (beside + cell * columns - 0.04) / width,
        "top": 1 - above / height,
        "bottom": 0.04 / height,
    }
    grid = figure.subplots(
        max(len(names), 1),
        columns,
        squeeze=False,
        gridspec_kw={**edges, "wspace": 0.06, "hspace": 0.06},
    )
    for ax in grid.flat:
        ax.set_axis_off()
    return figure, grid[: len(names)]


def _show(ax: Axes, images: Images, position: int) -> None:
    try:
        image = images.read(position, shorter_side=SIDE)
    except UnreadableImage:
        ax.imshow(np.full((1, 1, 3), 235, np.uint8))
        _note(ax, (0.5, 0.5), "unreadable", colour=FAINT, size=6.5, align="center")
        return
    ax.imshow(_thumbnail(image), interpolation="nearest")


def _note(
    ax: Axes,
    place: tuple[float, float],
    text: str,
    *,
    colour: str,
    size: float,
    align: Literal["right", "center"] = "right",
) -> None:
    ax.text(
        *place,
        text,
        transform=ax.transAxes,
        ha=align,
        va="center",
        fontsize=size,
        color=colour,
        fontfamily=installed_families(),
        parse_math=False,
    )


def drawable(text: str) -> str:
    """A text of one line, with a square for each character that no installed font has."""
    unseen = ("Cc", "Cf", "Zl", "Zp", "Zs")
    visible = (" " if unicodedata.category(sign) in unseen else sign for sign in text)
    glyphs = _glyphs()
    return "".join(sign if ord(sign) in glyphs else _MISSING for sign in visible)


def shortened(name: str) -> str:
    """The beginning and the end of a long name: either may be what tells it from the others."""
    if len(name) <= LONGEST_NAME:
        return name
    half = (LONGEST_NAME - 1) // 2
    return f"{name[: LONGEST_NAME - 1 - half]}…{name[-half:]}"


def _thumbnail(image: Image.Image) -> NDArray[np.uint8]:
    if min(image.size) < SIDE:  # small images as they are, in sharp pixels
        return np.asarray(_square(image))
    plain = Preprocessing(size=SIDE, resize=SIDE, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
    return middle_square(image, plain)


def _width(name: str) -> int:
    """Width in letters, of which some are twice as wide."""
    return sum(1 + (unicodedata.east_asian_width(sign) in "WF") for sign in name)


def _square(image: Image.Image) -> Image.Image:
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    return image.crop((left, top, left + side, top + side))


@cache
def installed_families() -> tuple[str, ...]:
    """The families of fonts to draw names with, the first first."""
    installed = {font.name for font in font_manager.fontManager.ttflist}
    return tuple(family for family in _FAMILIES if family in installed)


@cache
def _glyphs() -> frozenset[int]:
    def of_font(family: str) -> Iterable[int]:
        return FT2Font(font_manager.findfont(family)).get_charmap()

    return frozenset().union(*(of_font(family) for family in installed_families()))
