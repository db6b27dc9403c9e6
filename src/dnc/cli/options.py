"""Arguments and options that several commands have."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from dnc.models import Views
    from dnc.scene_recognition import AnyRecognizer

Checkpoint = Annotated[Path, typer.Argument(help="A run, or the folder of a checkpoint.")]
LabelledImages = Annotated[
    Path, typer.Argument(help="Images with labels, in any layout dnc knows.")
]
GivenImages = Annotated[
    list[str],
    typer.Argument(help="Files, folders, patterns like 'a/*.jpg', or - for paths on stdin."),
]
Kind = Annotated[str | None, typer.Option(help="The layout, if it is not recognised by itself.")]
Part = Annotated[
    Literal["auto", "train", "validation", "test"],
    typer.Option(help="Which images: test if there are any, else validation, else train."),
]
Workers = Annotated[int | None, typer.Option(min=0, help="Processes that read images.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, mps, ...")]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace a model that is there already.")
]
Window = Annotated[
    int | None,
    typer.Option(min=16, help="Of a segmenter: look at images in windows of so many pixels."),
]
Flip = Annotated[bool, typer.Option("--flip", help="Of a segmenter: look at the mirror image too.")]
Scales = Annotated[
    str | None,
    typer.Option(
        metavar="NUMBERS", help="Of a segmenter: look at images at these scales, as in 0.75,1,1.25."
    ),
]


def views_of(
    window: int | None, flip: bool, scales: str | None, *, recognizer: "AnyRecognizer"
) -> "Views | None":
    """How a segmenter is to look at images; None if nothing is said about it.

    Unless a window is given, it is the one that the model was trained to use, if there is one.
    """
    from dnc.models import Views
    from dnc.scene_recognition import SceneRecognizer

    if window is None and not flip and scales is None:
        return None
    if window is None and isinstance(recognizer, SceneRecognizer):
        window = recognizer.views.window
    try:
        numbers = (1.0,) if scales is None else tuple(float(n) for n in scales.split(","))
    except ValueError as error:
        raise typer.BadParameter(
            f"{scales!r} came; give numbers with commas, as in 0.75,1,1.25.", param_hint="--scales"
        ) from error
    return Views(window=window, flip=flip, scales=numbers)
