"""`dnc train`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

MAY_CHANGE = (
    "training.epochs",
    "training.accelerator",
    "training.devices",
    "training.nodes",
    "training.tensorboard",
    "data.path",
    "data.workers",
    "data.store",
    "data.evaluate_on",
)
FAR_FROM_MEAN = 0.9
"""Cosine to the mean of its images below which a case says little about them."""


def train(
    data: Annotated[
        str | None,
        typer.Argument(help="Folder of images, of images and masks, or a CSV of paths and labels."),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            "--recipe",
            "-r",
            help="A shipped recipe by name, or a YAML file [photos; for images and masks scenes].",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", metavar="FIELD=VALUE", help="Set any field of the recipe."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Folder of the run [runs/RECIPE; if that is there, RECIPE-2, ...].",
        ),
    ] = None,
    start_from: Annotated[
        Path | None,
        typer.Option("--from", help="Continue from the network of this checkpoint, all of it."),
    ] = None,
    resume: Annotated[
        Path | None, typer.Option("--resume", help="Go on with the run in this folder.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Train a network on your images, evaluate it and keep it.

    Ctrl-C ends a run so that it can go on later, with the same result, from its last whole epoch.

    Examples:
    - `dnc train photos/` fine-tunes a small pretrained network on a folder of folders.

    - `dnc train scenes/` trains a segmenter on the folders images/ and masks/ in it.

    - `dnc train cifar10/ --recipe cifar10-laptop --set model.classifier=softmax`

    - `dnc train --resume runs/photos`

    - `dnc train birds/ --from runs/photos --set training.epochs=10`
    """
    from dnc.cli.figures import discovery_text, results_table
    from dnc.errors import InvalidRecipe
    from dnc.training.recipe import Recipe
    from dnc.training.run import RECIPE
    from dnc.training.run import train as run

    console = Console(quiet=quiet)
    if resume is not None:
        if any(given is not None for given in (data, recipe, output, start_from)):
            raise InvalidRecipe(
                "--resume goes on with a run as it is; give it no data, recipe or other folder."
            )
        if not (resume / RECIPE).is_file():
            raise InvalidRecipe(f"{resume} holds no run to resume: it has no {RECIPE}.")
        _require_resumable(settings or [])
        chosen, folder = Recipe.read(resume / RECIPE), resume
    else:
        chosen = Recipe.read(recipe or _default_recipe(data))
        folder = output or _free_folder(Path("runs") / chosen.name)
    chosen = chosen.with_settings(settings or [])
    if data is not None:
        chosen = chosen.with_path(data)
    if start_from is not None:
        chosen = chosen.with_start(str(start_from))
    try:
        report = run(chosen, folder, console=console, resume=resume is not None)
    except (SystemExit, KeyboardInterrupt) as stopped:  # the first is Lightning's answer to Ctrl-C
        told = "Interrupted."
        if (folder / RECIPE).is_file():
            told += f" Go on with: dnc train --resume {folder}"
        console.print(told, highlight=False, soft_wrap=True)
        raise SystemExit(130) from stopped
    if report is None:
        return
    title = f"{chosen.name}, {chosen.model.classifier}"
    console.print(results_table(title, report.results))
    for result in report.results:
        if result.discovery is not None:
            text = f"{result.images}: {discovery_text(result.discovery)}"
            console.print(text, highlight=False, soft_wrap=True)
    cosine = report.cosine_to_mean
    is_on_purpose = chosen.head.settle or chosen.first_anchored_epoch is not None
    if cosine is not None and cosine < FAR_FROM_MEAN and not is_on_purpose:
        told = (
            f"The cases have not reached the means of what they hold (cosine {cosine:.2f}): the "
            "run was short for its momentum. They decide as measured, but stand for little; train "
            "longer, or with --set head.settle=true."
        )
        console.print(told, style="yellow", highlight=False, soft_wrap=True)
    if report.set_aside:
        console.print(f"{len(report.set_aside)} files were set aside: {folder / 'set-aside.csv'}")
    console.print(f"Model, curves and evaluation: {folder}", highlight=False, soft_wrap=True)


def _default_recipe(data: str | None) -> str:
    """What suits the data: a folder of images and masks is for a segmenter."""
    from dnc.data import recognised_scene_kind

    return "scenes" if data is not None and recognised_scene_kind(data) else "photos"


def _free_folder(wanted: Path) -> Path:
    """The folder, or the first of `name-2`, `name-3`, ... that is not there."""
    folder, number = wanted, 1
    while folder.exists():
        number += 1
        folder = wanted.with_name(f"{wanted.name}-{number}")
    return folder


def _require_resumable(settings: list[str]) -> None:
    """A run that goes on may take longer or run elsewhere, but not become another."""
    from dnc.errors import InvalidRecipe

    for setting in settings:
        field = setting.partition("=")[0].strip()
        if field not in MAY_CHANGE:
            raise InvalidRecipe(
                f"{field} cannot change in a run that is resumed; only {', '.join(MAY_CHANGE)} can."
            )
