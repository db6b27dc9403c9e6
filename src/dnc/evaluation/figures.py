"""Confusion and class by class, whatever is counted; matplotlib without global state."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import LinearSegmentedColormap, PowerNorm
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from numpy.typing import NDArray

from dnc.errors import InvalidSetting
from dnc.evaluation.names import installed_families, shown_names

INK, FAINT, PALE = "#222222", "#8a8a8a", "#dddddd"
RIGHT, WRONG, BAR = "#1b7837", "#b2452f", "#9fc5a8"

NUMBERS_UP_TO, NAMES_UP_TO = 20, 60
CLASSES_IN_A_COLUMN = 50


@dataclass(frozen=True)
class ClassBar:
    """One class in a picture of all: two shares of it, and what is written on the right."""

    name: str
    bar: float
    dot: float
    note: str


def shares_figure(
    share: NDArray[np.floating],
    texts: NDArray[np.str_],
    *,
    names: Sequence[str],
    title: str,
    unit: str,
) -> Figure:
    """The share of each true class (a row) that was given each class (a column), as colour.

    Up to 20 classes the texts are written in, up to 60 every class is named; with more, names
    stand at regular steps.
    """
    classes = len(share)
    side = float(np.clip(0.42 * classes, 2.0, 9.0))
    beside = 3.3 if classes > NUMBERS_UP_TO else 2.4
    figure = Figure(figsize=(side + beside, side + 2.0), layout="compressed")
    ax = figure.subplots()
    ax.set_title(title, fontsize=10, color=INK, pad=8)
    diagonal = np.eye(classes, dtype=bool)
    for label, colour, shown in (("mistaken", WRONG, ~diagonal), ("right", RIGHT, diagonal)):
        cmap = LinearSegmentedColormap.from_list(label, ["white", colour])
        # The square root makes a few mistakes among many images visible. Where a scale beside the
        # picture says what a colour means, it ends at the largest share.
        largest = max(float(share[shown].max(initial=0)), 0.1)
        norm = PowerNorm(0.5, vmin=0, vmax=largest if classes > NUMBERS_UP_TO else 1)
        picture = ax.imshow(np.ma.masked_array(share, ~shown | (share == 0)), cmap=cmap, norm=norm)
        if classes > NUMBERS_UP_TO:
            bar = figure.colorbar(picture, ax=ax, fraction=0.025, pad=0.015, shrink=0.5)
            bar.set_label(f"{label}, share of the class's {unit}", fontsize=7.5, color=FAINT)
            bar.ax.yaxis.set_major_formatter(percents())
            bar.ax.tick_params(labelsize=7, colors=FAINT)
            bar.outline.set_edgecolor(PALE)
    shown_as = shown_names(names, longest=24)
    _name_axis(ax.xaxis, shown_as, rotation=90)
    _name_axis(ax.yaxis, shown_as, rotation=0)
    ax.set_xlabel("class given", fontsize=9, color=INK)
    ax.set_ylabel("true class", fontsize=9, color=INK)
    ax.spines[:].set_color(PALE)
    if classes <= NAMES_UP_TO:
        borders = np.arange(classes + 1) - 0.5
        ax.hlines(borders, -0.5, classes - 0.5, color=PALE, linewidth=0.5)
        ax.vlines(borders, -0.5, classes - 0.5, color=PALE, linewidth=0.5)
    if classes <= NUMBERS_UP_TO:
        _write_texts(ax, texts, share)
    return figure


def bars_figure(
    bars: Sequence[ClassBar], *, title: str, key: str, line: float, limit: int
) -> Figure:
    """A bar and a dot for each class, the lowest bar first, at most `limit`; a line at `line`.

    Classes for which the bar is not defined come last.
    """
    if limit < 1:
        raise InvalidSetting(f"limit is {limit}; it must be at least 1.")
    names = shown_names([bar.name for bar in bars], longest=28)
    order = sorted(
        range(len(bars)), key=lambda number: (math.isnan(bars[number].bar), bars[number].bar)
    )[:limit]
    columns = math.ceil(len(order) / CLASSES_IN_A_COLUMN)
    rows = math.ceil(len(order) / columns)
    figure = Figure(figsize=(4.4 * columns + 0.4, 0.19 * rows + 1.3))
    figure.set_layout_engine("constrained", wspace=0.06)
    which = f", the {limit} lowest of {len(bars)}" if limit < len(bars) else ""
    figure.suptitle(f"{title}{which}", fontsize=10, color=INK)
    figure.supxlabel(key, fontsize=8, color=FAINT)
    for number, ax in enumerate(figure.subplots(1, columns, squeeze=False)[0]):
        part = order[number * rows : (number + 1) * rows]
        _draw_bars(ax, [bars[one] for one in part], [names[one] for one in part], rows)
        ax.axvline(line, color=FAINT, linewidth=0.8, linestyle=(0, (4, 3)))
    return figure


def percent(share: float) -> str:
    """A share as a title says it."""
    return "not defined" if math.isnan(share) else f"{100 * share:.1f} %"


def percents() -> PercentFormatter:
    """Shares as an axis says them."""
    return PercentFormatter(1.0, symbol=" %")


def calm(ax: Axes) -> None:
    """Leaves of the frame no more than a pale grid."""
    ax.spines[:].set_visible(False)
    ax.grid(color="#eeeeee", linewidth=0.8, zorder=0)
    ax.set_axisbelow(True)
    ax.tick_params(length=0, labelsize=8, labelcolor=FAINT)


def _draw_bars(ax: Axes, bars: Sequence[ClassBar], names: Sequence[str], rows: int) -> None:
    places = np.arange(len(bars))
    lengths = np.nan_to_num([bar.bar for bar in bars])
    ax.barh(places, lengths, height=0.72, color=BAR, zorder=2)
    dots = np.array([bar.dot for bar in bars])
    ax.plot(dots, places, "o", color=RIGHT, markersize=3, zorder=3, clip_on=False)
    ax.set_yticks(places, names, fontfamily=installed_families(), parse_math=False)
    for place, bar in enumerate(bars):
        ax.text(1.03, place, bar.note, fontsize=6.5, color=FAINT, va="center")
    ax.set(xlim=(0, 1), ylim=(rows - 0.4, -0.6))
    ax.xaxis.set_major_formatter(percents())
    calm(ax)
    ax.tick_params(axis="y", labelsize=7.5, labelcolor=INK)


def _name_axis(axis: Axis, names: Sequence[str], *, rotation: int) -> None:
    """Names every class, or with many classes those at regular steps."""
    step = math.ceil(len(names) / NAMES_UP_TO)
    axis.set_ticks(
        range(0, len(names), step),
        names[::step],
        rotation=rotation,
        fontfamily=installed_families(),
        parse_math=False,
    )
    axis.set_tick_params(
        labelsize=9 if len(names) <= NUMBERS_UP_TO else 6.5,
        length=0 if step == 1 else 2,
        color=PALE,
        labelcolor=INK,
    )


def _write_texts(ax: Axes, texts: NDArray[np.str_], share: NDArray[np.floating]) -> None:
    size = min(9.0, 36 / max(np.strings.str_len(texts).max(), 1))
    for true, given in zip(*share.nonzero(), strict=True):
        ax.text(
            given,
            true,
            str(texts[true, given]),
            ha="center",
            va="center",
            fontsize=size,
            color="white" if share[true, given] > 0.45 else INK,
        )
