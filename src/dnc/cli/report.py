"""`dnc report`."""

from dataclasses import replace
from functools import partial
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
    from dnc.recognition import Recognizer
    from dnc.report.page import Written
    from dnc.scene_recognition import SceneRecognizer


def report(
    checkpoint: Checkpoint,
    data: LabelledImages,
    output: Annotated[
        Path, typer.Option("--output", "-o", dir_okay=False, help="The HTML file.")
    ] = Path("report.html"),
    part: Part = "auto",
    kind: Kind = None,
    window: Window = None,
    flip: Flip = False,
    scales: Scales = None,
    workers: Workers = None,
    device: Device = "cpu",
) -> None:
    """Write a model as a whole on one page: its cases, its mistakes, its doubts.

    All cases by class with what each has decided; accuracy, calibration, confusion with the two
    cases behind each mistake; a map of images and cases; the most ambiguous images; training images
    that may be labelled wrongly; images that are in both training and test set. Of a segmenter: IoU
    and confusion of the classes, all cases, and scenes with truth and decision, at whose regions
    one points to see the case behind them. The page is one file, needs no network, and can be
    searched.

    Examples:
    - `dnc report runs/photos photos/`

    - `dnc report runs/scenes scenes/ --part validation`
    """
    from dnc.errors import InvalidSetting
    from dnc.scene_recognition import SceneRecognizer
    from dnc.training.checkpoint import load

    console = Console()
    recognizer = load(checkpoint, device=device)
    views = views_of(window, flip, scales, recognizer=recognizer)
    wanted = None if part == "auto" else part
    if isinstance(recognizer, SceneRecognizer):
        if views is not None:
            recognizer = replace(recognizer, views=views)
        write = partial(_write_of_scenes, recognizer)
    elif views is not None:
        raise InvalidSetting("--window, --flip and --scales are for segmenters.")
    else:
        write = partial(_write_of_images, recognizer)
    written = write(
        console,
        data,
        output,
        wanted=wanted,
        kind=kind,
        workers=workers,
        title=checkpoint.resolve().name,
    )
    told = f"Written: {written.path} ({written.size / 1e6:.1f} MB)"
    console.print(told, highlight=False, markup=False, soft_wrap=True)


def _write_of_images(
    recognizer: "Recognizer",
    console: Console,
    data: Path,
    output: Path,
    *,
    wanted: str | None,
    kind: str | None,
    workers: int | None,
    title: str,
) -> "Written":
    from dnc.cli.bars import counted
    from dnc.data.splitting import at_most_per_class
    from dnc.report.looking import looked_at
    from dnc.report.writing import Report
    from dnc.training.features import most_per_class
    from dnc.training.results import part_to_evaluate, split_of_training

    splits = split_of_training(recognizer, data, kind=kind, wanted=wanted)
    chosen, images = part_to_evaluate(splits, data, wanted=wanted, recognizer=recognizer)
    with counted(console, f"{chosen} images") as on_progress:
        evaluated = looked_at(recognizer, chosen, images, workers=workers, on_progress=on_progress)
    trained = evaluated if chosen == "train" else None
    if chosen not in ("train", "given") and splits.train is not None and len(splits.train):
        some = at_most_per_class(splits.train, most_per_class(len(recognizer.classes)), seed=0)
        with counted(console, "training images") as on_progress:
            trained = looked_at(recognizer, "train", some, workers=workers, on_progress=on_progress)
    with console.status("writing the page"):
        return Report(recognizer, evaluated, trained, title=title).write(output)


def _write_of_scenes(
    recognizer: "SceneRecognizer",
    console: Console,
    data: Path,
    output: Path,
    *,
    wanted: str | None,
    kind: str | None,
    workers: int | None,
    title: str,
) -> "Written":
    from dnc.cli.bars import counted
    from dnc.explanation.scenes import SceneExplainer
    from dnc.report.scene_looking import looked_at_scenes
    from dnc.report.scenes import SceneReport
    from dnc.training.results import part_to_evaluate, split_of_training

    explainer = SceneExplainer(recognizer)
    splits = split_of_training(recognizer, data, kind=kind, wanted=wanted)
    chosen, scenes = part_to_evaluate(splits, data, wanted=wanted, recognizer=recognizer)
    with counted(console, f"{chosen} scenes") as on_progress:
        looked = looked_at_scenes(
            explainer, chosen, scenes, workers=workers, on_progress=on_progress
        )
    for bad in (*splits.set_aside, *looked.bad_files):
        told = f"Set aside: {bad.path}: {bad.reason}"
        console.print(told, style="yellow", markup=False, soft_wrap=True)
    with console.status("writing the page"):
        return SceneReport(explainer, looked, title=title).write(output)
