"""`dnc anchor`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console

from dnc.cli.options import Checkpoint, Device, Kind, Overwrite, Workers

if TYPE_CHECKING:
    from dnc.scene_recognition import AnyRecognizer
    from dnc.training.job import Result


def anchor(
    checkpoint: Checkpoint,
    data: Annotated[Path, typer.Argument(help="The images that the model was made from.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the anchored model.")
    ] = Path("runs/anchored"),
    choice: Annotated[
        Literal["together", "nearest"] | None,
        typer.Option(
            help="Images near to the sub-centroids that decide the training images best together, "
            "or simply the nearest. [together; of scenes nearest]",
            show_default=False,
        ),
    ] = None,
    whitening: Annotated[
        bool,
        typer.Option(
            "--whiten",
            help="Whiten the features first, so that what is special about one image counts for "
            "less. A model of `dnc fit` has whitened features already.",
        ),
    ] = False,
    kind: Kind = None,
    workers: Workers = None,
    device: Device = "cpu",
    overwrite: Overwrite = False,
) -> None:
    """Put each sub-centroid of a trained model on a real training image, without training.

    Each goes to a training image of its class that is near, no image twice; those of a segmenter go
    to places in training images. From then on the cases that decide are real and not means of many.
    The accuracy before and after is told; training with `--set head.anchored_share=0.1` costs less.

    Examples:
    - `dnc anchor runs/photos photos/ -o runs/photos-anchored`
    """
    from dnc.cli.figures import results_table
    from dnc.errors import InvalidData, InvalidSetting
    from dnc.scene_recognition import SceneRecognizer
    from dnc.training.anchoring import anchored, require_free_subcentroids
    from dnc.training.casebase import write_case_table
    from dnc.training.checkpoint import load, save
    from dnc.training.results import (
        kept_for_validation,
        part_to_evaluate,
        split_of_training,
        was_trained_on,
    )
    from dnc.training.scene_anchoring import anchored_scenes

    console = Console()
    if output.exists() and not overwrite:
        raise InvalidSetting(f"{output} is there already; give another --output or --overwrite.")
    recognizer = load(checkpoint, device=device)
    require_free_subcentroids(recognizer)
    if isinstance(recognizer, SceneRecognizer) and (whitening or choice == "together"):
        raise InvalidSetting(
            "--whiten and --choice together are for classifiers; the sub-centroids of a segmenter "
            "go to the nearest places."
        )
    splits: Any = split_of_training(recognizer, data, kind=kind)
    if splits.train is None or not len(splits.train):
        raise InvalidData(f"{data} ({splits.kind}) has no training images to take cases from.")
    if splits.train.classes != recognizer.classes:
        raise InvalidData(
            f"{data} has the classes {_some(splits.train.classes)}; the model has "
            f"{_some(recognizer.classes)}. Give the images that it was trained on."
        )
    if not was_trained_on(recognizer, splits.train):
        kept = kept_for_validation(recognizer, data, kind=kind)
        told = "These are not the very images that the model was trained on; they are taken as is."
        if kept:
            told = f"Cases are taken from all training images, the {kept:,} that validated it too."
        console.print(told, style=None if kept else "yellow", highlight=False)
    part, images = part_to_evaluate(splits, data, recognizer=recognizer)
    before = _measured(console, recognizer, images, f"{part}, before", workers)
    with console.status("tying sub-centroids to images"):
        if isinstance(recognizer, SceneRecognizer):
            recognizer = anchored_scenes(recognizer, splits, workers=workers)
        else:
            recognizer = anchored(
                recognizer,
                splits,
                choice=choice or "together",
                whitening=whitening,
                workers=workers,
            )
    after = _measured(console, recognizer, images, f"{part}, after", workers)
    recognizer.notes["results"] = {part: after.success}
    save(recognizer.to("cpu"), output / "model")
    write_case_table(recognizer, output / "cases.csv")
    assert recognizer.cases is not None
    what = "a place in a" if isinstance(recognizer, SceneRecognizer) else "a"
    title = f"{len(recognizer.cases.cases)} cases, each {what} training image"
    console.print(results_table(title, [before, after]))
    console.print(f"Model: {output}", highlight=False, soft_wrap=True)


def _measured(
    console: Console, recognizer: "AnyRecognizer", images: Any, what: str, workers: int | None
) -> "Result":
    from dnc.cli.bars import counted
    from dnc.evaluation import evaluate
    from dnc.evaluation.scene_evaluating import evaluate_scenes
    from dnc.scene_recognition import SceneRecognizer
    from dnc.training.job import Result

    with counted(console, what) as on_progress:
        if isinstance(recognizer, SceneRecognizer):
            return Result(
                what,
                evaluate_scenes(recognizer, images, workers=workers, on_progress=on_progress),
            )
        return Result(what, evaluate(recognizer, images, workers=workers, on_progress=on_progress))


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
