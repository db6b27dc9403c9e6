"""`dnc data`: a look at images before anything is trained on them, and scenes to try it with."""

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dnc.cli.options import Kind
from dnc.files import whole_file

if TYPE_CHECKING:
    from dnc.data import Inspection, SceneInspection, Spread

MOST_CLASSES, MOST_FILES = 40, 20

data = typer.Typer(
    help="Look at a data set, or draw one.", no_args_is_help=True, rich_markup_mode="markdown"
)


@data.callback()
def options() -> None:
    """Look at a data set, or draw one."""


@data.command()
def inspect(
    path: Annotated[Path, typer.Argument(help="Folder of images, or a CSV of paths and labels.")],
    kind: Kind = None,
    picture: Annotated[
        Path | None, typer.Option("--picture", "-p", help="Write samples of each class as PNG.")
    ] = None,
    report: Annotated[Path | None, typer.Option("--json", help="Write all of it as JSON.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Which samples are drawn.")] = 0,
) -> None:
    """Count, measure and check images: classes, sizes, duplicates, unreadable files, imbalance.

    Of images with masks: pixels of each class, missing and wrong masks. Every file is decoded once.
    Nothing is changed.

    Examples:
    - `dnc data inspect photos/ --picture samples.png`

    - `dnc data inspect scenes/ --picture samples.png`
    """
    from dnc.cli.bars import counted
    from dnc.data import (
        SCENE_KINDS,
        inspect_data,
        inspect_scenes,
        open_data,
        open_scenes,
        recognised_scene_kind,
        samples_figure,
        scene_samples_figure,
    )

    console = Console()
    is_of_scenes = kind in SCENE_KINDS or (kind is None and recognised_scene_kind(path) is not None)
    found: Inspection | SceneInspection
    with counted(console, "reading") as on_progress:
        if is_of_scenes:
            scenes = open_scenes(path, kind=kind, validation_share=0.0)
            found = inspect_scenes(scenes, on_progress=on_progress)
            first = next(iter(scenes.parts().values()))
            drawn = partial(scene_samples_figure, first)
        else:
            splits = open_data(path, kind=kind, validation_share=0.0)
            found = inspect_data(splits, on_progress=on_progress)
            drawn = partial(samples_figure, next(iter(splits.parts().values())))
    _print_inspection(console, found, path)
    if picture is not None:
        with whole_file(picture) as unfinished:
            drawn(seed=seed).savefig(unfinished, dpi=110, format="png")
        console.print(f"Samples: {picture}", highlight=False, soft_wrap=True)
    if report is not None:
        with whole_file(report) as unfinished:
            text = json.dumps(found.to_dict(), indent=1, ensure_ascii=False)
            unfinished.write_text(text + "\n", encoding="utf-8")
        console.print(f"Report: {report}", highlight=False, soft_wrap=True)


@data.command()
def draw(
    folder: Annotated[Path, typer.Argument(help="A new folder, for images and masks.")],
    training: Annotated[int, typer.Option(help="Scenes to train with.")] = 120,
    test: Annotated[int, typer.Option(help="Scenes to test with.")] = 30,
    seed: Annotated[int, typer.Option(min=0, help="Which scenes are drawn.")] = 0,
) -> None:
    """Draw scenes with masks, to try segmentation with: lakesides with houses, trees and boats.

    Six classes, images of 192x144 pixels. The same seed gives the same scenes.

    Example:
    - `dnc data draw lakes/`, then `dnc train lakes/ --recipe small-scenes`
    """
    from dnc.cli.bars import counted
    from dnc.data import draw_scenes

    console = Console()
    with counted(console, "drawing") as on_progress:
        draw_scenes(folder, training=training, test=test, seed=seed, on_progress=on_progress)
    _tell(console, f"{folder}: {training:,} training and {test:,} test scenes")


def _print_inspection(console: Console, found: "Inspection | SceneInspection", path: Path) -> None:
    from dnc.data import Inspection

    if isinstance(found, Inspection):
        _print_images(console, found, path)
    else:
        _print_scenes(console, found, path)
    if found.unreadable:
        _tell(console, f"Cannot be used: {len(found.unreadable)} files", bad=True)
    for bad_file in found.unreadable[:MOST_FILES]:
        _tell(console, f"  {bad_file.path}: {bad_file.reason}")
    if len(found.unreadable) > MOST_FILES:
        _tell(console, f"  ... and {len(found.unreadable) - MOST_FILES} more (--json has all)")


def _print_scenes(console: Console, found: "SceneInspection", path: Path) -> None:
    parts = ", ".join(f"{count:,} {part}" for part, count in found.images.items())
    _tell(console, f"{path}: {parts} scenes, {found.kind}")
    table = Table(title="share of the pixels, and images that have the class")
    table.add_column("class", overflow="fold")
    for part in found.images:
        table.add_column(part, justify="right")
    for number in range(min(len(found.classes), MOST_CLASSES)):
        cells = (
            f"{100 * found.pixel_shares[part][number]:.2f} %  {found.occurrences[part][number]:,}"
            for part in found.images
        )
        table.add_row(escape(found.classes[number]), *cells)
    if len(found.classes) > MOST_CLASSES:
        table.add_row(f"... and {len(found.classes) - MOST_CLASSES} more (--json has all)")
    console.print(table)
    _tell(console, f"Width {_spread(found.widths)}, height {_spread(found.heights)} pixels")
    without = ", ".join(
        f"{part} {100 * share:.2f} %" for part, share in found.without_class.items()
    )
    _tell(console, f"Pixels without a class: {without}")
    if found.unseen:
        told = f"Classes that training never shows: {', '.join(found.unseen)}"
        _tell(console, told, bad=True)
    for name, groups in (
        ("Same image in training and elsewhere (a leak)", found.leaks),
        ("Same image more than once", found.duplicates),
    ):
        if groups:
            _tell(
                console,
                f"{name}: {len(groups)} groups, such as {', '.join(groups[0].names)}",
                bad=True,
            )


def _tell(console: Console, text: str, *, bad: bool = False) -> None:
    style = "yellow" if bad else None
    console.print(text, style=style, highlight=False, markup=False, soft_wrap=True)


def _print_images(console: Console, found: "Inspection", path: Path) -> None:
    _tell(console, f"{path}: {found.images:,} images, {found.kind}")
    table = Table()
    table.add_column("class")
    for part in found.counts:
        table.add_column(part, justify="right")
    for number in range(min(len(found.classes), MOST_CLASSES)):
        counts = (f"{of_part[number]:,}" for of_part in found.counts.values())
        table.add_row(found.classes[number], *counts)
    if len(found.classes) > MOST_CLASSES:
        table.add_row(f"... and {len(found.classes) - MOST_CLASSES} more (--json has all)")
    console.print(table)

    formats = ", ".join(f"{count:,} {name}" for name, count in found.formats.items())
    _tell(
        console, f"Width {_spread(found.widths)}, height {_spread(found.heights)} pixels; {formats}"
    )
    if found.imbalance is not None:
        _tell(
            console,
            f"Largest class / smallest class: {found.imbalance:.1f}",
            bad=found.imbalance > 10,
        )
    for name, groups in (
        ("Same file in training and elsewhere (a leak)", found.leaks),
        ("Same file under different labels", found.contradictions),
        ("Same file more than once", found.duplicates),
    ):
        if groups:
            _tell(
                console,
                f"{name}: {len(groups)} groups, such as {', '.join(groups[0].names)}",
                bad=True,
            )


def _spread(spread: "Spread") -> str:
    if spread.smallest == spread.largest:
        return str(spread.smallest)
    return f"{spread.smallest} to {spread.largest} (median {spread.median:g})"
