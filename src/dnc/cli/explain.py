"""`dnc explain`."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from dnc.cli.options import Checkpoint, Device, GivenImages

if TYPE_CHECKING:
    from PIL import Image

    from dnc.errors import UnreadableImage
    from dnc.explanation.explanation import Form

# A page of more is too large to be read; JSON has no such limit.
MOST_ON_A_PAGE = 200


def explain(
    checkpoint: Checkpoint,
    images: GivenImages,
    output: Annotated[
        Path, typer.Option("--output", "-o", file_okay=False, help="Folder for the explanation.")
    ] = Path("explanation"),
    form: Annotated[
        str, typer.Option("--format", "-f", help="What to write, of html, json and png.")
    ] = "html,json,png",
    data: Annotated[
        Path | None,
        typer.Option(help="Where the training images are, if not where they were in training."),
    ] = None,
    maps: Annotated[
        bool, typer.Option("--maps/--no-maps", help="Where the similarity comes from.")
    ] = True,
    device: Device = "cpu",
) -> None:
    """Show why images are given their classes: the cases, the rule, the similarity maps.

    What is shown is what decides: a query goes to the class of the nearest case. The page needs no
    network and no script. docs/explanations.md says how to read it. Files that cannot be read are
    told and left out; if that is all of them, the exit code is 1.

    Examples:
    - `dnc explain runs/photos holiday/beach.jpg`

    - `dnc explain runs/photos holiday/ --format json --no-maps -o reasons/`
    """
    from dnc.cli.bars import counted
    from dnc.cli.predict import image_paths
    from dnc.errors import InvalidInput, UnreadableImage
    from dnc.explanation.explanation import Explanation
    from dnc.training.checkpoint import load

    console = Console()
    wanted = _forms(form)
    paths = list(image_paths(images, sys.stdin))
    if not paths:
        raise InvalidInput(f"There are no images in {', '.join(images)}.")
    if len(paths) > MOST_ON_A_PAGE and set(wanted) != {"json"}:
        raise InvalidInput(
            f"{len(paths):,} images are more than the {MOST_ON_A_PAGE} that fit on a page; give "
            "fewer, or --format json. `dnc report` shows a model on a whole data set."
        )
    recognizer = load(checkpoint, device=device)
    failed: list[UnreadableImage] = []
    with counted(console, "explaining") as on_progress:
        explanation = Explanation.of(
            recognizer.explainer(data=data),
            _readable(paths, failed),
            with_maps=maps,
            on_done=lambda done: on_progress(done + len(failed), len(paths)),
        )
    for error in failed:
        console.print(f"Set aside: {error}", style="yellow", markup=False, soft_wrap=True)
    if not explanation.images:
        raise InvalidInput(f"None of the {len(paths)} files can be read as an image.")
    files = explanation.save(output, forms=wanted)
    for image in explanation.images[:10]:
        told = explanation.explainer.told(image)
        console.print(told, markup=False, highlight=False, soft_wrap=True)
    if len(explanation.images) > 10:
        console.print(f"... and {len(explanation.images) - 10} more", highlight=False)
    for file in files[:3]:
        console.print(f"Written: {file}", markup=False, highlight=False, soft_wrap=True)
    if len(files) > 3:
        console.print(f"... and {len(files) - 3} more in {output}", highlight=False)


def _forms(given: str) -> "list[Form]":
    known: dict[str, Form] = {"html": "html", "json": "json", "png": "png"}
    names = [name.strip().lower() for name in given.split(",") if name.strip()]
    if not names or any(name not in known for name in names):
        raise typer.BadParameter(
            f"{given!r} came; give html, json or png, or several with commas.",
            param_hint="--format",
        )
    return [known[name] for name in names]


def _readable(
    paths: list[Path], failed: "list[UnreadableImage]"
) -> "Iterator[tuple[str, Image.Image]]":
    """The images that can be read, one by one, with their paths; the others go to `failed`."""
    from dnc.data import read_image
    from dnc.errors import UnreadableImage

    for path in paths:
        try:
            yield str(path), read_image(path)
        except UnreadableImage as error:
            failed.append(error)
