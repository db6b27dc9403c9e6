"""`dnc explain`."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from dnc.cli.options import Checkpoint, Device, Flip, GivenImages, Scales, Window, views_of

if TYPE_CHECKING:
    from PIL import Image

    from dnc.cli.bars import Told
    from dnc.errors import UnreadableImage
    from dnc.explanation.explanation import Explanation
    from dnc.explanation.reasons import Form
    from dnc.explanation.scene_explanation import SceneExplanation
    from dnc.models import Views
    from dnc.scene_recognition import AnyRecognizer

# A page of more is too large to be read; JSON has no such limit.
MOST_ON_A_PAGE, MOST_SCENES_ON_A_PAGE = 200, 50


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
        typer.Option(
            help="Of a classifier: where the training images are, if not where they were in "
            "training."
        ),
    ] = None,
    maps: Annotated[
        bool | None,
        typer.Option(
            "--maps/--no-maps",
            help="Of a classifier: where the similarity comes from [maps].",
            show_default=False,
        ),
    ] = None,
    window: Window = None,
    flip: Flip = False,
    scales: Scales = None,
    device: Device = "cpu",
) -> None:
    """Show why images are given their classes: the cases, the rule, the similarity maps.

    What is shown is what decides: a query goes to the class of the nearest case. Of a segmenter
    every pixel does: one points at a region of the page and sees the training place behind it, and
    a PNG says the case of every pixel. The page needs no network and no script.
    docs/explanations.md says how to read it. Files that cannot be read are told and left out; if
    that is all of them, the exit code is 1.

    Examples:
    - `dnc explain runs/photos holiday/beach.jpg`

    - `dnc explain runs/photos holiday/ --format json --no-maps -o reasons/`

    - `dnc explain runs/scenes street.jpg -o why/`
    """
    from dnc.cli.bars import counted
    from dnc.cli.predict import image_paths
    from dnc.errors import InvalidInput, UnreadableImage
    from dnc.scene_recognition import SceneRecognizer
    from dnc.training.checkpoint import load

    console = Console()
    wanted = _forms(form)
    paths = list(image_paths(images, sys.stdin))
    if not paths:
        raise InvalidInput(f"There are no images in {', '.join(images)}.")
    recognizer = load(checkpoint, device=device)
    views = views_of(window, flip, scales, recognizer=recognizer)
    is_scene = isinstance(recognizer, SceneRecognizer)
    most = MOST_SCENES_ON_A_PAGE if is_scene else MOST_ON_A_PAGE
    if len(paths) > most and set(wanted) != {"json"}:
        raise InvalidInput(
            f"{len(paths):,} images are more than the {most} that fit on a page; give fewer, or "
            "--format json. `dnc report` shows a model on a whole data set."
        )
    failed: list[UnreadableImage] = []
    with counted(console, "explaining") as on_progress:
        explanation = _explanation(
            recognizer,
            paths,
            failed,
            data=data,
            maps=maps,
            views=views,
            on_progress=on_progress,
        )
    for error in failed:
        console.print(f"Set aside: {error}", style="yellow", markup=False, soft_wrap=True)
    if not explanation.images:
        raise InvalidInput(f"None of the {len(paths)} files can be read as an image.")
    files = explanation.save(output, forms=wanted)
    for line in _told(explanation, limit=10):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if len(explanation.images) > 10:
        console.print(f"... and {len(explanation.images) - 10} more", highlight=False)
    for file in files[:3]:
        console.print(f"Written: {file}", markup=False, highlight=False, soft_wrap=True)
    if len(files) > 3:
        console.print(f"... and {len(files) - 3} more in {output}", highlight=False)


def _explanation(
    recognizer: "AnyRecognizer",
    paths: list[Path],
    failed: "list[UnreadableImage]",
    *,
    data: Path | None,
    maps: bool | None,
    views: "Views | None",
    on_progress: "Told",
) -> "Explanation | SceneExplanation":
    """The reasons, whatever the task; options that are for the other one are refused."""
    from dnc.errors import InvalidSetting
    from dnc.explanation.explanation import Explanation
    from dnc.explanation.scene_explanation import SceneExplanation
    from dnc.recognition import Recognizer

    def on_done(done: int) -> None:
        on_progress(done + len(failed), len(paths))

    images = _readable(paths, failed)
    if isinstance(recognizer, Recognizer):
        if views is not None:
            raise InvalidSetting("--window, --flip and --scales are for segmenters.")
        explainer = recognizer.explainer(data=data)
        return Explanation.of(explainer, images, with_maps=maps is not False, on_done=on_done)
    if maps is not None or data is not None:
        raise InvalidSetting(
            "--maps and --data are for classifiers of whole images; of a segmenter every pixel has "
            "a case of its own, and the crops of the cases are in the checkpoint."
        )
    return SceneExplanation.of(recognizer, images, views=views, on_done=on_done)


def _told(explanation: "Explanation | SceneExplanation", *, limit: int) -> list[str]:
    from dnc.explanation.explanation import Explanation

    if isinstance(explanation, Explanation):
        return [explanation.explainer.told(image) for image in explanation.images[:limit]]
    return [explanation.explainer.told(image) for image in explanation.images[:limit]]


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
