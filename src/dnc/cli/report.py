"""`dnc report`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from dnc.cli.options import Checkpoint, Device, Kind, LabelledImages, Part, Workers


def report(
    checkpoint: Checkpoint,
    data: LabelledImages,
    output: Annotated[
        Path, typer.Option("--output", "-o", dir_okay=False, help="The HTML file.")
    ] = Path("report.html"),
    part: Part = "auto",
    kind: Kind = None,
    workers: Workers = None,
    device: Device = "cpu",
) -> None:
    """Write a model as a whole on one page: its cases, its mistakes, its doubts.

    All cases by class with what each has decided; accuracy, calibration, confusion with the two
    cases behind each mistake; a map of images and cases; the most ambiguous images; training images
    that may be labelled wrongly; images that are in both training and test set. The page is one
    file, needs no network, and can be searched.

    Examples:
    - `dnc report runs/photos photos/`
    """
    from dnc.cli.bars import counted
    from dnc.data.splitting import at_most_per_class
    from dnc.report.looking import looked_at
    from dnc.report.writing import Report
    from dnc.training.checkpoint import load
    from dnc.training.features import most_per_class
    from dnc.training.results import part_to_evaluate, split_of_training

    console = Console()
    recognizer = load(checkpoint, device=device)
    splits = split_of_training(recognizer, data, kind=kind)
    wanted = None if part == "auto" else part
    chosen, images = part_to_evaluate(splits, data, wanted=wanted, recognizer=recognizer)
    with counted(console, f"{chosen} images") as on_progress:
        evaluated = looked_at(recognizer, chosen, images, workers=workers, on_progress=on_progress)
    trained = evaluated if chosen == "train" else None
    if chosen not in ("train", "given") and splits.train is not None and len(splits.train):
        some = at_most_per_class(splits.train, most_per_class(len(recognizer.classes)), seed=0)
        with counted(console, "training images") as on_progress:
            trained = looked_at(recognizer, "train", some, workers=workers, on_progress=on_progress)
    with console.status("writing the page"):
        title = checkpoint.resolve().name
        written = Report(recognizer, evaluated, trained, title=title).write(output)
    told = f"Written: {written.path} ({written.size / 1e6:.1f} MB)"
    console.print(told, highlight=False, markup=False, soft_wrap=True)
