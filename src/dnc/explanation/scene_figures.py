"""A segmentation as one picture: the image, its classes, the cases, and the crops behind them."""

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke

from dnc.data.pictures import drawable, installed_families, shortened
from dnc.explanation.cases import decoded
from dnc.explanation.scene_pictures import (
    NUMBERED,
    page_size,
    scaled_image,
    with_cases,
    with_classes,
)
from dnc.explanation.scenes import (
    DecidingCase,
    ExplainedScene,
    SceneExplainer,
    class_shares,
    hexadecimal,
)

INK, FAINT = "#222222", "#767676"
MOST_CLASSES, CLASSES_IN_A_LINE = 24, 6
# In inches.
WIDTH, GAP, LINE = 10.8, 0.1, 0.24
COLUMNS, ABOVE, BELOW = 6, 0.42, 0.22


def scene_figure(explainer: SceneExplainer, one: ExplainedScene) -> Figure:
    """The image, its classes and its cases in a row; below, the crops of the largest cases."""
    image, shown = one.segmentation.image, one.cases[:NUMBERED]
    across = (WIDTH - 4 * GAP) / 3
    down = across * min(max(image.height / image.width, 0.25), 1.5)
    classes = min(len(np.unique(one.segmentation.labels)), MOST_CLASSES + 1)
    legend = LINE * math.ceil(classes / CLASSES_IN_A_LINE) + GAP
    crop = (WIDTH - (COLUMNS + 1) * GAP) / COLUMNS
    row = ABOVE + crop + BELOW
    height = 2.6 * LINE + down + legend + row * math.ceil(len(shown) / COLUMNS)
    figure = Figure(figsize=(WIDTH, height))
    figure.text(0.5, 1 - 0.6 * LINE / height, _title(explainer, one), **_text(10, INK))

    def axes(left: float, top: float, width: float, high: float) -> Axes:
        place = (left / WIDTH, 1 - (top + high) / height, width / WIDTH, high / height)
        return figure.add_axes(place)

    top = 2.4 * LINE
    pictures = [axes(GAP + i * (across + GAP), top, across, down) for i in range(3)]
    _draw_pictures(pictures, explainer, one)
    top += down
    _draw_legend(axes(0, top, WIDTH, legend), explainer, one)
    top += legend
    for rank, case in enumerate(shown):
        left = GAP + rank % COLUMNS * (crop + GAP)
        under = top + rank // COLUMNS * row + ABOVE
        _draw_crop(axes(left, under, crop, crop), explainer, case, rank + 1)
    return figure


def _draw_pictures(axes: list[Axes], explainer: SceneExplainer, one: ExplainedScene) -> None:
    found = one.segmentation
    size = page_size(found.image.size)
    pictures = {
        "the picture": scaled_image(found.image, size),
        "its classes": with_classes(found.image, found.labels, explainer.recognizer.colours),
        "the cases that have decided": with_cases(
            found.image, found.labels, one.numbers, explainer.colours
        ),
    }
    for ax, (title, picture) in zip(axes, pictures.items(), strict=True):
        ax.imshow(np.asarray(picture))
        ax.set_title(title, fontsize=9, color=FAINT, pad=3)
        ax.set_axis_off()
    scale = size[0] / found.image.width
    for number, case in one.marks:
        axes[2].text(
            (case.middle[1] + 0.5) * scale,
            (case.middle[0] + 0.5) * scale,
            str(number),
            **_text(8, INK),
            fontweight="bold",
            path_effects=[withStroke(linewidth=2.5, foreground="white")],
        )


def _draw_legend(ax: Axes, explainer: SceneExplainer, one: ExplainedScene) -> None:
    recognizer = explainer.recognizer
    shares = class_shares(one)
    handles = [
        Patch(
            facecolor=hexadecimal(recognizer.colours[label]),
            label=f"{_short(recognizer.classes[label])} {100 * share:.1f} %",
        )
        for label, share in shares[:MOST_CLASSES]
    ]
    if len(shares) > MOST_CLASSES:
        handles.append(Patch(facecolor="none", label=f"and {len(shares) - MOST_CLASSES} more"))
    ax.set_axis_off()
    legend = ax.legend(
        handles=handles, loc="center", ncols=CLASSES_IN_A_LINE, frameon=False, fontsize=8
    )
    for text in legend.get_texts():
        text.set(color=INK, **_font())


def _draw_crop(ax: Axes, explainer: SceneExplainer, case: DecidingCase, number: int) -> None:
    known = explainer.case_of(case.number)
    ax.set(xticks=[], yticks=[])
    if known is None or known.thumbnail is None:
        ax.text(0.5, 0.5, "no picture", **_text(8, FAINT), transform=ax.transAxes)
    else:
        ax.imshow(np.asarray(decoded(known.thumbnail)), aspect="auto")
    ax.spines[:].set_color(hexadecimal(explainer.colours[case.number - 1]))
    ax.spines[:].set_linewidth(4)
    told = f"{100 * case.share:.1f} % of it, cosine {case.similarity:.3f}"
    title = f"{number}. {_short(explainer.name(case.number))}\n{told}"
    ax.set_title(title, fontsize=8, color=INK, **_font())
    if known is not None:
        file = _short(known.file.rpartition("/")[2])
        ax.set_xlabel(file, fontsize=6.5, color=FAINT, labelpad=3, **_font())


def _title(explainer: SceneExplainer, one: ExplainedScene) -> str:
    name = _short(one.segmentation.source.rpartition("/")[2])
    told = f"{name}: {len(one.cases)} of {len(explainer.places):,} cases have decided"
    if explainer.recognizer.cases is None:
        return told
    if explainer.is_anchored:
        return f"{told}, each a place in a training image"
    return f"{told}, each a moving mean of training places and shown by the nearest of them"


def _short(name: str) -> str:
    return drawable(shortened(name))


def _text(size: float, colour: str) -> dict[str, Any]:
    return {"fontsize": size, "color": colour, "ha": "center", "va": "center", **_font()}


def _font() -> dict[str, Any]:
    return {"fontfamily": installed_families(), "parse_math": False}
