"""`dnc diff`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dnc.cli.options import Checkpoint, Device, Kind, LabelledImages, Part, Workers


def diff(
    before: Checkpoint,
    after: Annotated[Path, typer.Argument(help="Another one, with the same classes.")],
    data: LabelledImages,
    output: Annotated[
        Path, typer.Option("--output", "-o", file_okay=False, help="Folder for page and JSON.")
    ] = Path("diff"),
    part: Part = "auto",
    kind: Kind = None,
    workers: Workers = None,
    device: Device = "cpu",
) -> None:
    """Compare two models: which cases came, went, moved, and which decisions changed.

    Examples:
    - `dnc diff runs/photos runs/photos-anchored photos/`
    """
    from dnc.cli.bars import counted
    from dnc.report.comparison import require_comparable
    from dnc.report.differing import Difference
    from dnc.report.looking import looked_at
    from dnc.training.checkpoint import load_classifier
    from dnc.training.results import part_to_evaluate, split_of_training

    console = Console()
    one = load_classifier(before, device=device)
    other = load_classifier(after, device=device)
    require_comparable(one, other)
    wanted = None if part == "auto" else part
    splits = split_of_training(one, data, kind=kind, wanted=wanted)
    chosen, images = part_to_evaluate(splits, data, wanted=wanted, recognizer=one)
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
