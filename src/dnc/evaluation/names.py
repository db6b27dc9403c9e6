"""Class names as a picture can show them: short, distinct, in characters that a font has."""

from collections.abc import Sequence
from functools import cache

from matplotlib import font_manager
from matplotlib.ft2font import FT2Font

# Of the installed families, those that matplotlib always has come first; the others are common
# ones that have Chinese, Japanese, Korean or many other characters.
FAMILIES = (
    "DejaVu Sans",
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans CJK KR", "Source Han Sans SC"),
    *("WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "Droid Sans Fallback"),
    *("Microsoft YaHei", "Yu Gothic", "Malgun Gothic", "Segoe UI Symbol", "Nirmala UI"),
    *("PingFang SC", "Hiragino Sans", "Apple SD Gothic Neo", "Arial Unicode MS"),
    *("Noto Sans Arabic", "Noto Sans Hebrew", "Noto Sans Thai", "Noto Sans Devanagari"),
)
UNKNOWN = "\N{WHITE SQUARE}"
ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"


def shown_names(names: Sequence[str], *, longest: int) -> list[str]:
    """The names, the middle of long ones left out.

    A name with characters that no font here can draw begins with the number of its class, or
    several such names could look the same.
    """
    return [_shortened(_drawn(name, number), longest) for number, name in enumerate(names)]


@cache
def installed_families() -> tuple[str, ...]:
    """The families of fonts to draw names with, the first first."""
    installed = set(font_manager.get_font_names())
    return tuple(family for family in FAMILIES if family in installed)


def font_with(text: str) -> str:
    """The file of the font that has the most characters of a text, for what draws with one."""
    fonts = _fonts()
    return max(fonts, key=lambda font: sum(ord(letter) in fonts[font] for letter in text))


@cache
def _fonts() -> dict[str, frozenset[int]]:
    """The characters of each font, by its file."""
    files = (str(font_manager.findfont(family)) for family in installed_families())
    return {file: frozenset(FT2Font(file).get_charmap()) for file in files}


@cache
def _characters() -> frozenset[int]:
    """The characters that can be drawn."""
    return frozenset().union(*_fonts().values())


def _drawn(name: str, number: int) -> str:
    line = " ".join(name.split())
    drawn = "".join(letter if ord(letter) in _characters() else UNKNOWN for letter in line)
    return drawn if drawn == line and line else f"#{number} {drawn}".rstrip()


def _shortened(name: str, longest: int) -> str:
    if len(name) <= longest:
        return name
    end = (longest - 1) // 3
    return name[: longest - 1 - end].rstrip() + ELLIPSIS + name[len(name) - end :].lstrip()
