"""Words and legends in pictures made of pixels; Pillow."""

from collections.abc import Sequence
from functools import cache

from PIL import Image, ImageDraw, ImageFont

from dnc.evaluation.figures import FAINT, INK
from dnc.evaluation.names import font_with, shown_names
from dnc.evaluation.panels import GAP, row_width

LONGEST_TITLE, LONGEST_NAME, SHORTEST = 60, 28, 4


def titles_image(titles: Sequence[str], widths: Sequence[int], *, size: int) -> Image.Image:
    """A line of titles, each over the middle of its column."""
    line = Image.new("RGB", (row_width(widths), _line_height(size)), "white")
    draw, left = ImageDraw.Draw(line), 0
    for number, (title, width) in enumerate(zip(titles, widths, strict=True)):
        fitted = _fitted(titles, size=size, width=width, longest=LONGEST_TITLE)
        text = fitted[number] if title else ""
        middle = (left + width / 2, line.height / 2)
        draw.text(middle, text, fill=INK, font=_font(font_with(text), size), anchor="mm")
        left += width + GAP
    return line


def legend_image(
    legend: Sequence[tuple[str, tuple[int, int, int]]], *, width: int, size: int
) -> Image.Image:
    """Names beside fields of their colours, in as few lines as there is room for."""
    field, beside, step = round(1.6 * size), round(0.5 * size), _line_height(size)
    room = width - field - beside
    names = _fitted([name for name, _ in legend], size=size, width=room, longest=LONGEST_NAME)
    widest = field + beside + max(_width(name, size) for name in names)
    # Between columns there is as much room as a field is wide, behind the last one none.
    lines = -(-len(names) // max((width + field) // (widest + field), 1))
    columns = -(-len(names) // lines)
    picture = Image.new("RGB", (width, lines * step), "white")
    draw = ImageDraw.Draw(picture)
    for number, (name, (_, colour)) in enumerate(zip(names, legend, strict=True)):
        left = number % columns * ((width + field) // columns)
        middle = number // columns * step + step // 2
        box = (left, middle - size // 2, left + field - 1, middle + size // 2)
        draw.rectangle(box, fill=colour, outline=FAINT)
        place = (left + field + beside, middle)
        draw.text(place, name, fill=INK, font=_font(font_with(name), size), anchor="lm")
    return picture


def _line_height(size: int) -> int:
    return round(1.5 * size)


def _fitted(names: Sequence[str], *, size: int, width: int, longest: int) -> list[str]:
    """Names as they can be drawn, the middle left out of those that are longer or wider."""
    lengths = range(longest, SHORTEST - 1, -1)
    versions = zip(*(shown_names(names, longest=length) for length in lengths), strict=True)
    return [
        next((shown for shown in of_name if _width(shown, size) <= width), of_name[-1])
        for of_name in versions
    ]


def _width(text: str, size: int) -> int:
    return round(_font(font_with(text), size).getlength(text))


@cache
def _font(file: str, size: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(file, size)
