"""Pictures of an evaluation; matplotlib without global state."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import LinearSegmentedColormap, PowerNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter
from numpy.typing import NDArray

from dnc.errors import InvalidSetting
from dnc.evaluation.names import installed_families, shown_names
from dnc.evaluation.results import ClassResult, Evaluation

INK, FAINT, PALE = "#222222", "#8a8a8a", "#dddddd"
RIGHT, WRONG, BAR = "#1b7837", "#b2452f", "#9fc5a8"

NUMBERS_UP_TO, NAMES_UP_TO = 20, 60
CLASSES_IN_A_COLUMN = 50


def confusion_figure(evaluation: Evaluation) -> Figure:
    """The images of each true class (a row) by the class that they were given (a column).

    Colour is the share of the row. Up to 20 classes the counts are written in, up to 60 every
    class is named; with more, names stand at regular steps.
    """
    counts = evaluation.confusion.numpy()
    classes = len(counts)
    images = np.array([result.images for result in evaluation.per_class])
    share = counts / np.maximum(images, 1)[:, None]
    side = float(np.clip(0.42 * classes, 2.0, 9.0))
    beside = 3.3 if classes > NUMBERS_UP_TO else 2.4
    figure = Figure(figsize=(side + beside, side + 2.0), layout="compressed")
    ax = figure.subplots()
    ax.set_title(_summary(evaluation), fontsize=10, color=INK, pad=8)
    diagonal = np.eye(classes, dtype=bool)
    for label, colour, shown in (("mistaken", WRONG, ~diagonal), ("right", RIGHT, diagonal)):
        cmap = LinearSegmentedColormap.from_list(label, ["white", colour])
        # The square root makes a few mistakes among many images visible. Where a scale beside the
        # picture says what a colour means, it ends at the largest share.
        largest = max(float(share[shown].max(initial=0)), 0.1)
        norm = PowerNorm(0.5, vmin=0, vmax=largest if classes > NUMBERS_UP_TO else 1)
        picture = ax.imshow(np.ma.masked_array(share, ~shown | (counts == 0)), cmap=cmap, norm=norm)
        if classes > NUMBERS_UP_TO:
            bar = figure.colorbar(picture, ax=ax, fraction=0.025, pad=0.015, shrink=0.5)
            bar.set_label(f"{label}, share of the class's images", fontsize=7.5, color=FAINT)
            bar.ax.yaxis.set_major_formatter(_percents())
            bar.ax.tick_params(labelsize=7, colors=FAINT)
            bar.outline.set_edgecolor(PALE)
    names = shown_names([result.name for result in evaluation.per_class], longest=24)
    _name_axis(ax.xaxis, names, rotation=90)
    _name_axis(ax.yaxis, names, rotation=0)
    ax.set_xlabel("class given", fontsize=9, color=INK)
    ax.set_ylabel("true class", fontsize=9, color=INK)
    ax.spines[:].set_color(PALE)
    if classes <= NAMES_UP_TO:
        borders = np.arange(classes + 1) - 0.5
        ax.hlines(borders, -0.5, classes - 0.5, color=PALE, linewidth=0.5)
        ax.vlines(borders, -0.5, classes - 0.5, color=PALE, linewidth=0.5)
    if classes <= NUMBERS_UP_TO:
        _write_counts(ax, counts, share)
    return figure


def reliability_figure(evaluation: Evaluation) -> Figure:
    """Accuracy against confidence, bin by bin, above the number of images in each bin.

    A calibrated classifier's bars end on the diagonal; the gap to it is drawn in red.
    """
    calibration = evaluation.calibration
    left, width = np.array(calibration.edges[:-1]), 1 / len(calibration.counts)
    counts = np.array(calibration.counts)
    filled = counts > 0
    accuracy = np.array(calibration.accuracy)[filled]
    confidence = np.array(calibration.confidence)[filled]

    figure = Figure(figsize=(4.6, 5.4), layout="constrained")
    figure.suptitle(
        f"calibration error {_percent(calibration.error)}, "
        f"largest in a bin {_percent(calibration.max_error)}",
        fontsize=10,
        color=INK,
    )
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[3.0, 1.0])
    upper.bar(left[filled], accuracy, width, align="edge", color=BAR, edgecolor="white", zorder=2)
    upper.vlines(confidence, accuracy, confidence, color=WRONG, linewidth=1.4, zorder=4)
    upper.plot(confidence, accuracy, "o", color=RIGHT, markersize=4, zorder=5, clip_on=False)
    upper.plot([0, 1], [0, 1], color=FAINT, linewidth=1, linestyle=(0, (4, 3)), zorder=3)
    upper.set(xlim=(0, 1), ylim=(0, 1))
    upper.set_ylabel("share of right answers", fontsize=9, color=INK)
    upper.yaxis.set_major_formatter(_percents())
    lower.bar(left, counts, width, align="edge", color=PALE, edgecolor="white", zorder=2)
    lower.set_ylabel("images", fontsize=9, color=INK)
    lower.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    lower.yaxis.set_major_formatter("{x:,.0f}")
    lower.set_xlabel("confidence", fontsize=9, color=INK)
    lower.xaxis.set_major_formatter(_percents())
    for ax in (upper, lower):
        _calm(ax)
    figure.align_ylabels()
    return figure


def per_class_figure(evaluation: Evaluation, *, limit: int = 200) -> Figure:
    """Recall (bar) and precision (dot) of each class, lowest recall first, at most `limit`.

    Classes without an image come last.
    """
    if limit < 1:
        raise InvalidSetting(f"limit is {limit}; it must be at least 1.")
    results, all_names = evaluation.per_class, [result.name for result in evaluation.per_class]
    names = shown_names(all_names, longest=28)
    order = sorted(
        range(len(results)),
        key=lambda number: (not results[number].images, results[number].recall, number),
    )[:limit]
    columns = math.ceil(len(order) / CLASSES_IN_A_COLUMN)
    rows = math.ceil(len(order) / columns)
    figure = Figure(figsize=(4.4 * columns + 0.4, 0.19 * rows + 1.3))
    figure.set_layout_engine("constrained", wspace=0.06)
    which = f", the {limit} lowest of {len(results)}" if limit < len(results) else ""
    figure.suptitle(f"{_summary(evaluation)}{which}", fontsize=10, color=INK)
    figure.supxlabel(
        "bar: recall    dot: precision    dashed: mean recall    right: images",
        fontsize=8,
        color=FAINT,
    )
    for number, ax in enumerate(figure.subplots(1, columns, squeeze=False)[0]):
        part = order[number * rows : (number + 1) * rows]
        _draw_classes(ax, [results[one] for one in part], [names[one] for one in part], rows)
        ax.axvline(evaluation.mean_recall, color=FAINT, linewidth=0.8, linestyle=(0, (4, 3)))
    return figure


def _draw_classes(
    ax: Axes, results: Sequence[ClassResult], names: Sequence[str], rows: int
) -> None:
    places = np.arange(len(results))
    recall = np.array([result.recall for result in results])
    precision = np.array([result.precision for result in results])
    ax.barh(places, np.nan_to_num(recall), height=0.72, color=BAR, zorder=2)
    ax.plot(precision, places, "o", color=RIGHT, markersize=3, zorder=3, clip_on=False)
    ax.set_yticks(places, names, fontfamily=installed_families(), parse_math=False)
    for place, result in enumerate(results):
        said = f"{result.images:,}" if result.images else "none"
        ax.text(1.03, place, said, fontsize=6.5, color=FAINT, va="center")
    ax.set(xlim=(0, 1), ylim=(rows - 0.4, -0.6))
    ax.xaxis.set_major_formatter(_percents())
    _calm(ax)
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


def _write_counts(ax: Axes, counts: NDArray[np.int64], share: NDArray[np.floating]) -> None:
    size = min(9.0, 36 / max(len(str(counts.max())), 1))
    for true, given in zip(*counts.nonzero(), strict=True):
        ax.text(
            given,
            true,
            str(counts[true, given]),
            ha="center",
            va="center",
            fontsize=size,
            color="white" if share[true, given] > 0.45 else INK,
        )


def _summary(evaluation: Evaluation) -> str:
    top5 = "" if evaluation.top5 is None else f", top-5 {_percent(evaluation.top5)}"
    undecided = f", {evaluation.undecided:,} undecided" if evaluation.undecided else ""
    return f"top-1 {_percent(evaluation.top1)}{top5}, {evaluation.images:,} images{undecided}"


def _percent(share: float) -> str:
    return "not defined" if math.isnan(share) else f"{100 * share:.1f} %"


def _percents() -> PercentFormatter:
    return PercentFormatter(1.0, symbol=" %")


def _calm(ax: Axes) -> None:
    ax.spines[:].set_visible(False)
    ax.grid(color="#eeeeee", linewidth=0.8, zorder=0)
    ax.set_axisbelow(True)
    ax.tick_params(length=0, labelsize=8, labelcolor=FAINT)
