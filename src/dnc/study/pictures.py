"""The rows of a study as a plot: every seed a dot, the mean with its standard error beside it."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dnc.evaluation.pictures import FAINT, INK, PALE, RIGHT
from dnc.study.definition import Study
from dnc.study.summary import PERCENT, RowSummary

REFERENCE = "#762a83"


def rows_figure(study: Study, rows: Sequence[RowSummary], images: str) -> Figure:
    """The metric of each row, in the order of the study; the reference is a line through all."""
    longest = max((len(row.name) for row in rows), default=10)
    figure = Figure(figsize=(4.6 + 0.075 * longest, 1.2 + 0.34 * len(rows)), layout="constrained")
    ax = figure.subplots()
    scale = 100.0 if study.metric in PERCENT else 1.0
    for place, row in enumerate(rows):
        if row.metric is not None:
            _draw_row(ax, place, row, scale, is_reference=row.name == study.reference)
    for row in rows:
        if row.name == study.reference and row.metric is not None:
            ax.axvline(
                scale * row.metric.mean, color=REFERENCE, linewidth=0.9, linestyle=(0, (4, 3))
            )
    names = [row.name if row.metric is not None else f"{row.name} (no run yet)" for row in rows]
    ax.set_yticks(range(len(rows)), names, fontsize=8.5, color=INK)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    unit = " (%)" if study.metric in PERCENT else ""
    better = "higher" if study.higher_is_better else "lower"
    drawn = ["small above: each seed; large: their mean"]
    if any(row.metric is not None and row.metric.error is not None for row in rows):
        drawn[0] += " with its standard error"
    if study.reference is not None:
        drawn.append(f"dashed: {study.reference}")
    ax.set_xlabel(
        f"{study.metric}{unit} on {images} images, {better} is better\n{'; '.join(drawn)}",
        fontsize=8,
        color=FAINT,
    )
    ax.tick_params(axis="x", labelsize=8, colors=FAINT)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x", color=PALE, linewidth=0.7)
    ax.set_axisbelow(True)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.spines["bottom"].set_color(PALE)
    return figure


def _draw_row(ax: Axes, place: int, row: RowSummary, scale: float, *, is_reference: bool) -> None:
    assert row.metric is not None
    colour = REFERENCE if is_reference else RIGHT
    values = [scale * value for value in row.values.values()]
    ax.scatter(values, [place - 0.22] * len(values), s=14, color=colour, alpha=0.5, linewidths=0)
    error = None if row.metric.error is None else scale * row.metric.error
    ax.errorbar(
        scale * row.metric.mean,
        place,
        xerr=error,
        fmt="o",
        color=colour,
        markersize=5,
        capsize=3,
        linewidth=1.4,
    )
