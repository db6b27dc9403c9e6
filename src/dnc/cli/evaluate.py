"""`dnc evaluate`."""

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console


def evaluate(
    checkpoint: Annotated[Path, typer.Argument(help="A run, or the folder of a checkpoint.")],
    data: Annotated[Path, typer.Argument(help="Images with labels, in any layout dnc knows.")],
    kind: Annotated[
        str | None, typer.Option(help="The layout, if it is not recognised by itself.")
    ] = None,
    part: Annotated[
        Literal["auto", "train", "validation", "test"],
        typer.Option(help="Which images: test if there are any, else validation, else all."),
    ] = "auto",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for JSON, tables and pictures.")
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Images at a time.")] = 64,
    workers: Annotated[int | None, typer.Option(min=0, help="Processes that read images.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, mps, ...")] = "cpu",
) -> None:
    """Measure a model on labelled images: top 1, top 5, each class, confusion, calibration.

    Examples:
    - `dnc evaluate runs/photos photos/`

    - `dnc evaluate runs/imagenet imagenetv2/ --kind imagenetv2-top-images -o shifted/`
    """
    from dnc.cli.bars import counted
    from dnc.cli.figures import evaluation_table, print_weakest
    from dnc.data import open_data
    from dnc.errors import InvalidData
    from dnc.evaluation import evaluate as evaluated
    from dnc.evaluation import write_evaluation
    from dnc.training.checkpoint import load

    console = Console()
    recognizer = load(checkpoint, device=device)
    splits = open_data(data, kind=kind, validation_share=0.0)
    parts = {"test": splits.test, "validation": splits.validation, "train": splits.train}
    known = {name: images for name, images in parts.items() if images is not None and len(images)}
    chosen = next(iter(known), None) if part == "auto" else part
    if chosen not in known:
        raise InvalidData(
            f"{data} has no {chosen or 'labelled'} images; it has {', '.join(known) or 'none'}."
        )
    with counted(console, "evaluating") as on_progress:
        evaluation = evaluated(
            recognizer,
            known[chosen],
            batch_size=batch_size,
            workers=workers,
            on_progress=on_progress,
        )
    console.print(evaluation_table(str(checkpoint), {chosen: evaluation}))
    print_weakest(console, evaluation)
    for bad in splits.set_aside:
        console.print(f"Set aside: {bad.path}: {bad.reason}", style="yellow", markup=False)
    if output is not None:
        write_evaluation(evaluation, output)
        console.print(f"Written: {output}", highlight=False, soft_wrap=True)
