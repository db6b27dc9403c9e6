"""`dnc diff`."""

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table


def diff(
    before: Annotated[Path, typer.Argument(help="A run, or the folder of a checkpoint.")],
    after: Annotated[Path, typer.Argument(help="Another one, with the same classes.")],
    data: Annotated[Path, typer.Argument(help="Images with labels, in any layout dnc knows.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", file_okay=False, help="Folder for page and JSON.")
    ] = Path("diff"),
    part: Annotated[
        Literal["auto", "train", "validation", "test"],
        typer.Option(help="Which images: test if there are any, else validation, else train."),
    ] = "auto",
    kind: Annotated[
        str | None, typer.Option(help="The layout, if it is not recognised by itself.")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=0, help="Processes that read images.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, mps, ...")] = "cpu",
) -> None:
    """Compare two models: which cases came, went, moved, and which decisions changed.

    Examples:
    - `dnc diff runs/photos runs/photos-anchored photos/`
    """
    from dnc.cli.bars import counted
    from dnc.report.comparison import require_comparable
    from dnc.report.differing import Difference
    from dnc.report.looking import looked_at
    from dnc.training.checkpoint import load
    from dnc.training.results import part_to_evaluate, split_of_training

    console = Console()
    one, other = load(before, device=device), load(after, device=device)
    require_comparable(one, other)
    splits = split_of_training(one, data, kind=kind)
    chosen, images = part_to_evaluate(splits, data, wanted=None if part == "auto" else part)
    names = _names(before, after)
    with counted(console, names[0]) as on_progress:
        first = looked_at(one, chosen, images, workers=workers, on_progress=on_progress)
    with counted(console, names[1]) as on_progress:
        second = looked_at(other, chosen, images, workers=workers, on_progress=on_progress)
    difference = Difference(names, (one, other), (first, second))
    table = Table(title=f"{len(first):,} {chosen} images")
    table.add_column("")
    table.add_column("number", justify="right")
    for name, value in difference.figures():
        table.add_row(escape(name), value)
    console.print(table)
    for file in difference.write(output):
        console.print(f"Written: {file}", highlight=False, markup=False, soft_wrap=True)


def _names(before: Path, after: Path) -> tuple[str, str]:
    """The last parts of the paths that tell them apart."""
    one, other = before.resolve(), after.resolve()
    if one.name != other.name:
        return one.name, other.name
    return str(before), str(after)
