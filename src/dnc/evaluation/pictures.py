"""Pictures of an evaluation; matplotlib without global state."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from dnc.evaluation.figures import (
    BAR,
    FAINT,
    INK,
    PALE,
    RIGHT,
    WRONG,
    ClassBar,
    bars_figure,
    calm,
    percent,
    percents,
    shares_figure,
)
from dnc.evaluation.results import Evaluation

# The colours are for other pictures of the project.
__all__ = [
    "FAINT",
    "INK",
    "PALE",
    "RIGHT",
    "confusion_figure",
    "per_class_figure",
    "reliability_figure",
]


def confusion_figure(evaluation: Evaluation) -> Figure:
    """The images of each true class (a row) by the class that they were given (a column).

    Colour is the share of the row. Up to 20 classes the counts are written in, up to 60 every
    class is named; with more, names stand at regular steps.
    """
    counts = evaluation.confusion.numpy()
    images = np.array([result.images for result in evaluation.per_class])
    return shares_figure(
        counts / np.maximum(images, 1)[:, None],
        counts.astype(str),
        names=[result.name for result in evaluation.per_class],
        title=_summary(evaluation),
        unit="images",
    )


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
        f"calibration error {percent(calibration.error)}, "
        f"largest in a bin {percent(calibration.max_error)}",
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
    upper.yaxis.set_major_formatter(percents())
    lower.bar(left, counts, width, align="edge", color=PALE, edgecolor="white", zorder=2)
    lower.set_ylabel("images", fontsize=9, color=INK)
    lower.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    lower.yaxis.set_major_formatter("{x:,.0f}")
    lower.set_xlabel("confidence", fontsize=9, color=INK)
    lower.xaxis.set_major_formatter(percents())
    for ax in (upper, lower):
        calm(ax)
    figure.align_ylabels()
    return figure


def per_class_figure(evaluation: Evaluation, *, limit: int = 200) -> Figure:
    """Recall (bar) and precision (dot) of each class, lowest recall first, at most `limit`.

    Classes without an image come last.
    """
    bars = [
        ClassBar(one.name, one.recall, one.precision, f"{one.images:,}" if one.images else "none")
        for one in evaluation.per_class
    ]
    return bars_figure(
        bars,
        title=_summary(evaluation),
        key="bar: recall    dot: precision    dashed: mean recall    right: images",
        line=evaluation.mean_recall,
        limit=limit,
    )


def _summary(evaluation: Evaluation) -> str:
    top5 = "" if evaluation.top5 is None else f", top-5 {percent(evaluation.top5)}"
    undecided = f", {evaluation.undecided:,} undecided" if evaluation.undecided else ""
    return f"top-1 {percent(evaluation.top1)}{top5}, {evaluation.images:,} images{undecided}"
