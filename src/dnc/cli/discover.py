"""`dnc discover`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from dnc.cli.options import Checkpoint, Device, Kind, Part, Workers


def discover(
    checkpoint: Checkpoint,
    data: Annotated[
        Path, typer.Argument(help="The images that the model was trained on, and some to test it.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", file_okay=False, help="Folder for figures, picture.")
    ] = Path("discovery"),
    part: Part = "auto",
    kind: Kind = None,
    workers: Workers = None,
    device: Device = "cpu",
) -> None:
    """See how much a model of coarse classes has found of the finer ones.

    The model was trained on coarse classes (`dnc train --set data.coarse=...`, `dnc fit --coarse`).
    Of each image it is asked whether the nearest training image has the same finer class
    (induction accuracy), and how well the cases match the finer classes.

    Examples:
    - `dnc train birds/ --set data.coarse=families.csv`, then `dnc discover runs/photos birds/`

    - `dnc fit pets/ --coarse pets-cats-dogs -k 18 --centring standard`

    - `dnc discover runs/fit pets/`
    """
    from dnc.cli.bars import counted
    from dnc.cli.figures import discovery_text
    from dnc.errors import InvalidData
    from dnc.training.checkpoint import load_classifier
    from dnc.training.discovering import discovered
    from dnc.training.results import part_to_evaluate, split_of_training

    console = Console()
    recognizer = load_classifier(checkpoint, device=device)
    wanted = None if part == "auto" else part
    # The nearest training image is looked for among those that the model was trained on, as at the
    # end of a run; validation images are none of them.
    splits = split_of_training(recognizer, data, kind=kind, wanted="validation")
    chosen, images = part_to_evaluate(splits, data, wanted=wanted, recognizer=recognizer)
    if splits.train is None or images is splits.train:
        raise InvalidData(
            f"{data} has no images beside those to train on, or none to train on; finer classes "
            "are looked for in others. Give a folder with train/ and test/."
        )
    with counted(console, "features") as on_progress:
        found = discovered(
            recognizer, splits.train, images, workers=workers, on_progress=on_progress
        )
    console.print(
        f"{len(images):,} {chosen} images. {discovery_text(found.discovery)}", highlight=False
    )
    found.write(output)
    console.print(f"Written: {output}", highlight=False, soft_wrap=True)
