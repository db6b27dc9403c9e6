"""`dnc evaluate`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from dnc.cli.options import Checkpoint, Device, Kind, LabelledImages, Part, Workers


def evaluate(
    checkpoint: Checkpoint,
    data: LabelledImages,
    kind: Kind = None,
    part: Part = "auto",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for JSON, tables and pictures.")
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Images at a time.")] = 64,
    workers: Workers = None,
    device: Device = "cpu",
) -> None:
    """Measure a model on labelled images: top 1, top 5, each class, confusion, calibration.

    Where a folder has no test or validation images, and the model was made from it, the images
    that were kept out of its training are the validation images.

    Examples:
    - `dnc evaluate runs/photos photos/`

    - `dnc evaluate runs/imagenet imagenetv2/ --kind imagenetv2-top-images -o shifted/`
    """
    from dnc.cli.bars import counted
    from dnc.cli.figures import evaluation_table, print_weakest
    from dnc.evaluation import evaluate as evaluated
    from dnc.evaluation import write_evaluation
    from dnc.training.checkpoint import load
    from dnc.training.results import part_to_evaluate, split_of_training, was_trained_on

    console = Console()
    recognizer = load(checkpoint, device=device)
    splits = split_of_training(recognizer, data, kind=kind)
    wanted = None if part == "auto" else part
    chosen, images = part_to_evaluate(splits, data, wanted=wanted, recognizer=recognizer)
    bad_files = list(splits.set_aside)
    with counted(console, "evaluating") as on_progress:
        evaluation = evaluated(
            recognizer,
            images,
            batch_size=batch_size,
            workers=workers,
            on_progress=on_progress,
            on_bad_file=bad_files.append,
        )
    console.print(evaluation_table(str(checkpoint), {chosen: evaluation}))
    print_weakest(console, evaluation)
    if was_trained_on(recognizer, images):
        console.print("The model was trained on these very images.", style="yellow")
    for bad in bad_files:
        console.print(f"Set aside: {bad.path}: {bad.reason}", style="yellow", markup=False)
    if output is not None:
        write_evaluation(evaluation, output)
        console.print(f"Written: {output}", highlight=False, soft_wrap=True)
