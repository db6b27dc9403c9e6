"""`dnc evaluate`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from dnc.cli.options import (
    Checkpoint,
    Device,
    Flip,
    Kind,
    LabelledImages,
    Part,
    Scales,
    Window,
    Workers,
    views_of,
)

if TYPE_CHECKING:
    from dnc.data import BadFile
    from dnc.recognition import Recognizer


def evaluate(
    checkpoint: Checkpoint,
    data: LabelledImages,
    kind: Kind = None,
    part: Part = "auto",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for JSON, tables and pictures.")
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Images at a time, of a classifier.")] = 64,
    window: Window = None,
    flip: Flip = False,
    scales: Scales = None,
    pictures: Annotated[
        int,
        typer.Option(min=0, help="Of a segmenter: so many scenes with truth and decision, in -o."),
    ] = 0,
    beside: Annotated[
        list[Path] | None,
        typer.Option(help="Of a segmenter: draw another model beside it; more than once."),
    ] = None,
    workers: Workers = None,
    device: Device = "cpu",
) -> None:
    """Measure a model on labelled images.

    Of a classifier: top 1, top 5, each class, confusion, calibration. Of a segmenter: mean IoU,
    accuracies, each class, confusion; and pictures of scenes with truth and decision.
    Where a folder has no test or validation images, and the model was made from it, the images
    that were kept out of its training are the validation images.

    Examples:
    - `dnc evaluate runs/photos photos/`

    - `dnc evaluate runs/imagenet imagenetv2/ --kind imagenetv2-top-images -o shifted/`

    - `dnc evaluate runs/scenes scenes/ -o evaluation/ --pictures 6 --beside runs/scenes-softmax`
    """
    from dnc.cli.scenes import SceneCommand
    from dnc.errors import InvalidSetting
    from dnc.scene_recognition import SceneRecognizer
    from dnc.training.checkpoint import load, load_segmenter

    console = Console()
    recognizer = load(checkpoint, device=device)
    views = views_of(window, flip, scales, recognizer=recognizer)
    is_scene = isinstance(recognizer, SceneRecognizer)
    if not is_scene and (views is not None or pictures or beside):
        raise InvalidSetting(
            "--window, --flip, --scales, --pictures and --beside are for segmenters; this model "
            "is a classifier."
        )
    if (pictures or beside) and output is None:
        raise InvalidSetting("Pictures go to a folder; say which with --output.")
    wanted = None if part == "auto" else part
    if isinstance(recognizer, SceneRecognizer):
        others = [load_segmenter(other, device=device) for other in beside or []]
        shown = SceneCommand(console, recognizer, views=views, workers=workers)
        bad_files = shown.evaluate(checkpoint, data, kind=kind, part=wanted, output=output)
        if pictures and output is not None:
            named = [checkpoint, *(beside or [])]
            shown.write_comparisons(output, pictures, [recognizer, *others], named)
    else:
        bad_files = _of_images(
            console, recognizer, checkpoint, data, kind, wanted, output, batch_size, workers
        )
    for bad in bad_files:
        told = f"Set aside: {bad.path}: {bad.reason}"
        console.print(told, style="yellow", markup=False, soft_wrap=True)
    if output is not None:
        console.print(f"Written: {output}", highlight=False, soft_wrap=True)


def _of_images(
    console: Console,
    recognizer: "Recognizer",
    checkpoint: Path,
    data: Path,
    kind: str | None,
    wanted: str | None,
    output: Path | None,
    batch_size: int,
    workers: int | None,
) -> "list[BadFile]":
    from dnc.cli.bars import counted
    from dnc.cli.figures import evaluation_table, print_weakest
    from dnc.evaluation import evaluate as evaluated
    from dnc.evaluation import write_evaluation
    from dnc.training.results import part_to_evaluate, split_of_training, was_trained_on

    splits = split_of_training(recognizer, data, kind=kind, wanted=wanted)
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
    if output is not None:
        write_evaluation(evaluation, output)
    return bad_files
