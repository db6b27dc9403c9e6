"""What the sub-centroids of a segmenter stand for, as a picture of places in training scenes."""

import numpy as np
from matplotlib.figure import Figure

from dnc.data.pictures import drawable, installed_families
from dnc.explanation.cases import Case, decoded
from dnc.scene_recognition import SceneRecognizer

INK, FAINT = "#222222", "#555555"
# Inches of the column of names, of a picture, and of a row.
NAMES, PICTURE, ROW = 1.6, 1.0, 1.25
MOST_CLASSES = 40


def scene_gallery_figure(recognizer: SceneRecognizer) -> Figure:
    """The places behind the cases, a row for each class; of very many classes the first."""
    assert recognizer.cases is not None
    by_class: dict[int, list[Case]] = {}
    for case in recognizer.cases.cases:
        by_class.setdefault(case.label, []).append(case)
    shown = dict(list(by_class.items())[:MOST_CLASSES])
    columns = max(map(len, shown.values()), default=1)
    width, height = NAMES + PICTURE * columns, 0.4 + ROW * max(1, len(shown))
    figure = Figure(figsize=(width, height))
    axes = figure.subplots(max(1, len(shown)), columns, squeeze=False)
    for ax in axes.flatten():
        ax.set_axis_off()
    for row, (label, cases) in zip(axes, shown.items(), strict=False):
        for ax, case in zip(row, cases, strict=False):
            if case.thumbnail is not None:
                ax.imshow(np.asarray(decoded(case.thumbnail)))
            ax.set_title(f"#{case.subcentroid}", fontsize=6.5, color=FAINT, pad=2)
        row[0].text(
            -0.12,
            0.5,
            _short(recognizer.classes[label]),
            transform=row[0].transAxes,
            ha="right",
            va="center",
            fontsize=8,
            color=INK,
            fontfamily=installed_families(),
            parse_math=False,
        )
    left, top = NAMES / width, 1 - 0.3 / height
    figure.subplots_adjust(left=left, right=0.995, top=top, bottom=0.01, wspace=0.06)
    return figure


def _short(name: str, longest: int = 18) -> str:
    return drawable(name if len(name) <= longest else f"{name[: longest - 1]}…")
