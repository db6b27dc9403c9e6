"""Pictures of cases and of decisions by cases; matplotlib without global state."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from dnc.files import whole_file

INK, FAINT, WINNER, OTHER = "#222222", "#8a8a8a", "#1b7837", "#b8b8b8"


@dataclass(frozen=True)
class Case:
    """A training image that stands for a sub-centroid, and how similar something is to it."""

    image: NDArray[np.floating]
    name: str
    similarity: float


def cases_figure(cases: Sequence[Sequence[Case]], *, title: str) -> Figure:
    """A column for each class with the training images that stand for its sub-centroids."""
    rows = max(len(of_class) for of_class in cases)
    size = 0.85
    figure = Figure(figsize=(size * len(cases) + 0.4, (size + 0.16) * rows + 0.7))
    figure.set_layout_engine("constrained", w_pad=0.02, h_pad=0.02)
    figure.suptitle(title, fontsize=10, color=INK)
    grid = figure.subplots(rows, len(cases), squeeze=False)
    for axes, of_class in zip(grid.T, cases, strict=True):
        for ax, case in zip_longest(axes, of_class):
            if case is None:
                ax.set_axis_off()
            else:
                _show(ax, case.image)
                ax.set_xlabel(f"{case.similarity:.2f}", fontsize=7, color=FAINT, labelpad=2)
        axes[0].set_title(of_class[0].name if of_class else "", fontsize=12, pad=5)
    return figure


def decision_figure(query: NDArray[np.floating], cases: Sequence[Case], *, title: str) -> Figure:
    """A query beside the nearest case of each of the best classes, best first, with its cosine."""
    figure = Figure(figsize=(1.55 * (len(cases) + 1) + 0.4, 2.6), layout="constrained")
    figure.suptitle(title, fontsize=10, color=INK)
    figure.supxlabel(
        "Each training image stands for the nearest sub-centroid of its class; the number is the "
        "cosine of the query to that sub-centroid.",
        fontsize=7.5,
        color=FAINT,
    )
    widths = [1.0, 0.15, *[1.0] * len(cases)]
    grid = figure.subplots(2, len(widths), width_ratios=widths, height_ratios=[1.0, 0.09])
    for ax in (*grid[:, 1], grid[1, 0]):
        ax.set_axis_off()
    _show(grid[0, 0], query)
    grid[0, 0].set_title("query", fontsize=9)
    for rank, case in enumerate(cases):
        picture, bar = grid[:, rank + 2]
        colour = WINNER if rank == 0 else OTHER
        _show(picture, case.image, frame=colour)
        picture.set_title(
            f"{case.name}   {case.similarity:.3f}",
            fontsize=9,
            color=WINNER if rank == 0 else INK,
            weight="bold" if rank == 0 else "normal",
        )
        bar.barh([0], [max(case.similarity, 0.0)], color=colour)
        bar.set(xlim=(0, 1), xticks=[], yticks=[])
        bar.spines[:].set_color("#dddddd")
    return figure


def save(figure: Figure, path: Path) -> None:
    """Writes a PNG file."""
    with whole_file(path) as unfinished:
        figure.savefig(unfinished, dpi=150, format="png", metadata={"Software": None})


def _show(ax: Axes, image: NDArray[np.floating], *, frame: str | None = None) -> None:
    ax.imshow(image, cmap="gray_r", vmin=0, vmax=1)
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_color(frame or "#dddddd")
    ax.spines[:].set_linewidth(2.0 if frame else 0.8)
