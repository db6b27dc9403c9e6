"""`dnc data`: a look at images before anything is trained on them."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from dnc.cli.options import Kind
from dnc.files import whole_file

if TYPE_CHECKING:
    from dnc.data import Inspection, Spread

MOST_CLASSES, MOST_FILES = 40, 20

data = typer.Typer(help="Look at a data set.", no_args_is_help=True, rich_markup_mode="markdown")


@data.callback()
def options() -> None:
    """Look at a data set."""


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

    Every file is decoded once. Nothing is changed.

    Examples:
    - `dnc data inspect photos/ --picture samples.png`
    """
    from dnc.cli.bars import counted
    from dnc.data import inspect_data, open_data, samples_figure

    console = Console()
    splits = open_data(path, kind=kind, validation_share=0.0)
    with counted(console, "reading") as on_progress:
        found = inspect_data(splits, on_progress=on_progress)
    _print_inspection(console, found, path)
    if picture is not None:
        images = splits.train or splits.validation or splits.test
        assert images is not None
        with whole_file(picture) as unfinished:
            samples_figure(images, seed=seed).savefig(unfinished, dpi=110, format="png")
        console.print(f"Samples: {picture}", highlight=False, soft_wrap=True)
    if report is not None:
        with whole_file(report) as unfinished:
            text = json.dumps(found.to_dict(), indent=1, ensure_ascii=False)
            unfinished.write_text(text + "\n", encoding="utf-8")
        console.print(f"Report: {report}", highlight=False, soft_wrap=True)


def _print_inspection(console: Console, found: "Inspection", path: Path) -> None:
    console.print(f"{path}: {found.images:,} images, {found.kind}", highlight=False, markup=False)
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

    def told(text: str, *, bad: bool = False) -> None:
        style = "yellow" if bad else None
        console.print(text, style=style, highlight=False, markup=False, soft_wrap=True)

    formats = ", ".join(f"{count:,} {name}" for name, count in found.formats.items())
    told(f"Width {_spread(found.widths)}, height {_spread(found.heights)} pixels; {formats}")
    if found.imbalance is not None:
        told(f"Largest class / smallest class: {found.imbalance:.1f}", bad=found.imbalance > 10)
    for name, groups in (
        ("Same file in training and elsewhere (a leak)", found.leaks),
        ("Same file under different labels", found.contradictions),
        ("Same file more than once", found.duplicates),
    ):
        if groups:
            told(f"{name}: {len(groups)} groups, such as {', '.join(groups[0].names)}", bad=True)
    if found.unreadable:
        told(f"Cannot be read: {len(found.unreadable)} files", bad=True)
    for bad_file in found.unreadable[:MOST_FILES]:
        told(f"  {bad_file.path}: {bad_file.reason}")
    if len(found.unreadable) > MOST_FILES:
        told(f"  ... and {len(found.unreadable) - MOST_FILES} more (--json has all)")


def _spread(spread: "Spread") -> str:
    if spread.smallest == spread.largest:
        return str(spread.smallest)
    return f"{spread.smallest} to {spread.largest} (median {spread.median:g})"
