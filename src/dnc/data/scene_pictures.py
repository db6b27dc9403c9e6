"""A picture of scenes: images beside their masks, and what the colours mean."""

from collections.abc import Sequence
from pathlib import Path
from statistics import median

import numpy as np
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Patch
from numpy.typing import NDArray
from PIL import Image

from dnc.data.collection import BadFile
from dnc.data.masks import IGNORED, Colour, colour_picture
from dnc.data.pictures import FAINT, INK, drawable, installed_families, shortened
from dnc.data.scene_making import DecodedScene, decoded_scene
from dnc.data.scenes import Scenes
from dnc.errors import InvalidData

MOST_SCENES, COLUMNS, MOST_NAMES, LARGEST = 8, 2, 36, 480
NO_CLASS = (0, 0, 0)
_WIDTH, _ABOVE, _CAPTION, _LINE, _WIDTH_OF_NAME = 2.1, 0.42, 0.2, 0.2, 1.2


def scene_samples_figure(scenes: Scenes, *, seed: int = 0) -> Figure:
    """Some scenes, chosen by the seed: each image beside its mask, and a legend of the classes."""
    if not len(scenes):
        raise InvalidData(f"There is no scene to show from {scenes.root}.")
    rng = np.random.default_rng(seed)
    count = min(MOST_SCENES, len(scenes))
    chosen = np.sort(rng.choice(len(scenes), count, replace=False)).tolist()
    shown = [decoded_scene(scenes, position) for position in chosen]
    handles = _legend(scenes, shown)
    title = f"{len(scenes):,} scene{'s' * (len(scenes) > 1)} of {len(scenes.classes):,} classes"
    if count < len(scenes):
        title += f"; {count} of them, chosen at random"

    columns, rows = min(COLUMNS, count), -(-count // COLUMNS)
    width = 2 * _WIDTH * columns
    in_line = max(1, int(width / _WIDTH_OF_NAME))
    below = _LINE * -(-len(handles) // in_line) + 0.15
    height = _ABOVE + rows * (_WIDTH * _height_over_width(shown) + _CAPTION) + below
    figure = Figure(figsize=(width, height))
    figure.suptitle(title, fontsize=10, color=INK, y=1 - 0.35 * _ABOVE / height, va="center")
    edges = {"left": 0.012, "right": 0.988, "top": 1 - _ABOVE / height, "bottom": below / height}
    # A narrow column after each image and its mask tells them from the next.
    grid = figure.subplots(
        rows,
        3 * columns - 1,
        squeeze=False,
        width_ratios=[1, 1, 0.03, 1, 1, 0.03][: 3 * columns - 1],
        gridspec_kw={**edges, "wspace": 0.02, "hspace": 0.12},
    )
    for ax in grid.flat:
        ax.set_axis_off()
    for place, (position, scene) in enumerate(zip(chosen, shown, strict=True)):
        row, column = divmod(place, COLUMNS)
        _show(grid[row, 3 * column : 3 * column + 2], scenes, position, scene)
    legend = figure.legend(
        handles=handles,
        loc="lower center",
        ncols=in_line,
        frameon=False,
        handlelength=1.0,
        handleheight=1.0,
        columnspacing=1.2,
        labelcolor=INK,
        prop=FontProperties(family=list(installed_families()), size=7.5),
    )
    for text in legend.get_texts():
        text.set_parse_math(False)
    return figure


def _show(
    axes: NDArray[np.object_], scenes: Scenes, position: int, scene: DecodedScene | BadFile
) -> None:
    """An image and its mask; or in their place which file is bad."""
    caption = drawable(shortened(Path(scenes.names[position]).name))
    axes[0].set_title(caption, fontsize=6.5, color=FAINT, loc="left", pad=2, parse_math=False)
    if isinstance(scene, BadFile):
        for ax in axes:
            ax.imshow(np.full((3, 4, 3), 235, np.uint8))
        axes[0].text(1.5, 1, "unreadable", ha="center", va="center", fontsize=7, color=FAINT)
        return
    image, mask = scene
    coloured = colour_picture(mask, scenes.colours, ignored=NO_CLASS)
    # Scaled here: matplotlib would first turn the whole of a large image into numbers.
    small = _size_within(image.size)
    axes[0].imshow(np.asarray(image.resize(small, Image.Resampling.BILINEAR)))
    axes[1].imshow(np.asarray(coloured.resize(small, Image.Resampling.NEAREST)))


def _legend(scenes: Scenes, shown: Sequence[DecodedScene | BadFile]) -> list[Patch]:
    """A patch for each class that is seen, and one for pixels without a class."""
    masks = [scene[1] for scene in shown if not isinstance(scene, BadFile)]
    seen = sorted({int(number) for mask in masks for number in np.unique(mask)} - {IGNORED})
    named = seen[:MOST_NAMES]
    patches = [_patch(scenes.classes[number], scenes.colours[number]) for number in named]
    if len(named) < len(seen):
        patches.append(_patch(f"and {len(seen) - len(named)} more", None))
    if any((mask == IGNORED).any() for mask in masks):
        patches.append(_patch("no class", NO_CLASS))
    return patches


def _patch(name: str, colour: Colour | None) -> Patch:
    face = "none" if colour is None else "#{:02x}{:02x}{:02x}".format(*colour)
    return Patch(facecolor=face, label=drawable(shortened(name)))


def _height_over_width(shown: Sequence[DecodedScene | BadFile]) -> float:
    """Of most of the images; a few that are different find room in it, but smaller."""
    sizes = [scene[0].size for scene in shown if not isinstance(scene, BadFile)]
    ratio = median(height / width for width, height in sizes) if sizes else 0.75
    return min(max(ratio, 0.4), 1.6)


def _size_within(size: tuple[int, int]) -> tuple[int, int]:
    scale = min(1.0, LARGEST / max(size))
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))
