"""A decision as one picture: the query, the closest cases, and where the similarity comes from."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from dnc.data.pictures import drawable, installed_families
from dnc.explanation.cases import SMALL, decoded
from dnc.explanation.explaining import Explained, Explainer
from dnc.explanation.overlays import overlay
from dnc.files import whole_file

INK, FAINT, WINNER, OTHER = "#222222", "#767676", "#1b7837", "#b0b0b0"
LONGEST = 22


def explained_figure(explainer: Explainer, one: Explained) -> Figure:
    """The query beside the nearest case of each of the best classes; below, the similarity maps."""
    contenders = one.evidence.contenders
    has_maps = bool(one.maps)
    heights = [1.0, 0.1, *([1.0, 1.0] if has_maps else [])]
    columns = 1 + len(contenders)
    figure = Figure(figsize=(1.75 * columns + 0.3, 1.75 * sum(heights) + 1.15))
    figure.set_layout_engine("constrained", w_pad=0.04, h_pad=0.04)
    figure.suptitle(_title(explainer, one), fontsize=10, color=INK, **_font())
    grid = figure.subplots(len(heights), columns, squeeze=False, height_ratios=heights)
    for ax in grid.flat:
        ax.set(xticks=[], yticks=[])
        ax.spines[:].set_visible(False)
    _show(grid[0, 0], one.square)
    grid[0, 0].set_title("query", fontsize=9, color=FAINT)
    for rank, contender in enumerate(contenders):
        picture, bar = grid[0, rank + 1], grid[1, rank + 1]
        colour = WINNER if rank == 0 else OTHER
        case = explainer.case_of(contender)
        _show(
            picture,
            None if case is None or case.thumbnail is None else decoded(case.thumbnail),
            frame=colour,
        )
        picture.set_title(
            f"{_short(explainer.name(contender.label, contender.subcentroid))}\n"
            f"cosine {contender.similarity:.3f}",
            fontsize=8.5,
            color=WINNER if rank == 0 else INK,
            **_font(),
        )
        bar.barh([0], [contender.share], color=colour, height=0.9)
        bar.set(xlim=(0, 1), ylim=(-0.6, 0.6))
        bar.spines[:].set_visible(True)
        bar.spines[:].set_color("#dddddd")
        bar.set_xlabel(f"{100 * contender.share:.1f} % of these", fontsize=7.5, color=FAINT)
    if has_maps:
        _draw_maps(grid[2:], one, is_anchored=explainer.is_anchored)
    if explainer.cases is not None and not explainer.is_anchored:
        told = "Each case is a mean of training images; its picture is the one that is nearest."
        figure.supxlabel(told, fontsize=7.5, color=FAINT)
    return figure


def save_figure(figure: Figure, path: Path) -> None:
    """Writes a PNG file."""
    with whole_file(path) as unfinished:
        figure.savefig(unfinished, dpi=150, format="png", metadata={"Software": None})


def _draw_maps(
    grid: "np.ndarray[tuple[int, int], np.dtype[np.object_]]", one: Explained, *, is_anchored: bool
) -> None:
    is_exact = one.maps[0].is_exact
    told = (
        "Where the cosine comes from:\norange adds to it,\nblue takes away.\nPlaces add up to it"
        + ("." if is_anchored else ";\non the picture of a case,\nto its own cosine.")
        if is_exact
        else "An approximation:\nhow the cosine falls\n(orange) or rises (blue)\n"
        "when a part is covered"
    )
    grid[0, 0].text(0.5, 0.5, told, fontsize=7.5, color=FAINT, ha="center", va="center")
    rows = "on the query", "on the case"
    for column, maps in enumerate(one.maps, start=1):
        _show(grid[0, column], overlay(one.square, maps.on_query))
        if maps.on_case is not None and maps.case_square is not None:
            _show(grid[1, column], overlay(maps.case_square, maps.on_case))
        elif column == 1:
            reason = "The file of the case\nis not there" if is_exact else "No map of the case"
            grid[1, column].text(
                0.5, 0.5, reason, fontsize=7.5, color=FAINT, ha="center", va="center"
            )
    for row, name in enumerate(rows):
        grid[row, 1].set_ylabel(name, fontsize=8, color=FAINT)


def _title(explainer: Explainer, one: Explained) -> str:
    winner, margin = one.winner, one.evidence.margin
    name = _short(explainer.classes[winner.label], 40)
    if margin is None:
        return f"{name}: no other class can win"
    case = _short(explainer.name(winner.label, winner.subcentroid), 40)
    return f"{name}: nearer to {case} than to any case of another class, by {margin:.3f} of cosine"


def _show(ax: Axes, image: Image.Image | None, *, frame: str | None = None) -> None:
    if image is None:
        ax.text(0.5, 0.5, "no picture", fontsize=8, color=FAINT, ha="center", va="center")
    else:
        ax.imshow(
            np.asarray(image), interpolation="nearest" if image.width <= SMALL else "antialiased"
        )
    if frame:
        ax.spines[:].set_visible(True)
        ax.spines[:].set_color(frame)
        ax.spines[:].set_linewidth(2.0)


def _short(name: str, longest: int = LONGEST) -> str:
    """A name of one line that a font has all characters of; of a long one beginning and end."""
    if len(name) > longest:
        half = (longest - 1) // 2
        name = f"{name[: longest - 1 - half]}…{name[-half:]}"
    return drawable(name)


def _font() -> dict[str, object]:
    return {"fontfamily": installed_families(), "parse_math": False}
