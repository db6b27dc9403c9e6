"""Pictures of the evaluation of a segmenter; matplotlib without global state."""

import numpy as np
from matplotlib.figure import Figure

from dnc.evaluation.figures import NUMBERS_UP_TO, ClassBar, bars_figure, percent, shares_figure
from dnc.evaluation.pixel_results import PixelEvaluation


def pixel_confusion_figure(evaluation: PixelEvaluation) -> Figure:
    """The pixels of each true class (a row) by the class that they were given (a column).

    As that of a classifier, but the numbers are percents of the row: counts of pixels are too long
    to be read and say less.
    """
    pixels = np.array([result.pixels for result in evaluation.per_class])
    share = evaluation.confusion.numpy() / np.maximum(pixels, 1)[:, None]
    written = ", in % of a row" if len(share) <= NUMBERS_UP_TO else ""
    return shares_figure(
        share,
        np.vectorize(_written, otypes=[str])(share),
        names=[result.name for result in evaluation.per_class],
        title=_summary(evaluation) + written,
        unit="pixels",
    )


def pixel_classes_figure(evaluation: PixelEvaluation, *, limit: int = 200) -> Figure:
    """IoU (bar) and accuracy (dot) of each class, lowest IoU first, at most `limit`.

    Classes that neither have a pixel nor were given to one come last.
    """
    bars = [
        ClassBar(
            one.name,
            one.iou,
            one.accuracy,
            f"{_written(one.pixels / evaluation.pixels) or '< 0.1'} %" if one.pixels else "none",
        )
        for one in evaluation.per_class
    ]
    return bars_figure(
        bars,
        title=_summary(evaluation),
        key="bar: IoU    dot: accuracy    dashed: mean IoU    right: share of the pixels",
        line=evaluation.miou,
        limit=limit,
    )


def _written(share: float) -> str:
    """Percents to about two digits; nothing where they would be rounded to 0."""
    if share < 0.0005:
        return ""
    return f"{100 * share:.1f}" if share < 0.0995 else f"{100 * share:.0f}"


def _summary(evaluation: PixelEvaluation) -> str:
    undecided = f", {percent(evaluation.undecided / evaluation.pixels)} undecided"
    return (
        f"mIoU {percent(evaluation.miou)}, {percent(evaluation.pixel_accuracy)} of pixels right\n"
        f"{evaluation.images:,} images{undecided if evaluation.undecided else ''}"
    )
