"""Arguments and options that several commands have."""

from pathlib import Path
from typing import Annotated, Literal

import typer

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
