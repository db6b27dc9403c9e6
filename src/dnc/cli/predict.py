"""`dnc predict`."""

import csv
import glob
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import IO, Annotated, Literal

import typer
from rich.console import Console

from dnc.cli.options import Checkpoint, Device, Flip, GivenImages, Scales, Window, views_of
from dnc.errors import InvalidInput
from dnc.files import whole_file


def predict(
    checkpoint: Checkpoint,
    images: GivenImages,
    form: Annotated[
        Literal["csv", "jsonl"],
        typer.Option("--format", "-f", help="Of a classifier: a table, or JSON lines."),
    ] = "csv",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="A file instead of the terminal; of a segmenter the folder for its pictures "
            "[segmentation].",
        ),
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Images at a time, of a classifier.")] = 32,
    window: Window = None,
    flip: Flip = False,
    scales: Scales = None,
    device: Device = "cpu",
) -> None:
    """Say what images show, and which case made it say so; a segmenter says it of every pixel.

    A segmenter writes two pictures for each image: `NAME.labels.png`, whose pixels are the numbers
    of the classes, and `NAME.overlay.png`, the image in the colours of the classes; `dnc explain`
    shows its cases. A classifier prints a table: each row has the class, its probability, the case
    (a sub-centroid of the class) with its similarity, the margin to the best case of another class,
    and that rival. An image that cannot be read gets a row with the reason, or is told; if that is
    all of them, the exit code is 1.

    Examples:
    - `dnc predict runs/photos holiday/ > holiday.csv`

    - `find . -name '*.jpg' | dnc predict runs/photos - --format jsonl`

    - `dnc predict runs/scenes street/ -o segmented/ --flip`
    """
    from dnc.recognition import Prediction
    from dnc.scene_recognition import SceneRecognizer
    from dnc.training.checkpoint import load

    paths: Iterable[Path] = image_paths(images, sys.stdin)
    if "-" not in images:
        paths = list(paths)  # what is missing is told before anything is written
        if not paths:
            raise InvalidInput(f"There are no images in {', '.join(images)}.")
    recognizer = load(checkpoint, device=device)
    views = views_of(window, flip, scales, recognizer=recognizer)
    if isinstance(recognizer, SceneRecognizer):
        from dnc.cli.scenes import SceneCommand

        command = SceneCommand(Console(), recognizer, views=views)
        if command.predict(paths, output or Path("segmentation")):
            raise typer.Exit(1)
        return
    if views is not None:
        raise InvalidInput("--window, --flip and --scales are for segmenters.")
    made = failed = 0
    with _opened(output) as file:
        names = [field.name for field in fields(Prediction)]
        table = csv.DictWriter(file, names, lineterminator="\n")
        if form == "csv":
            table.writeheader()
        for prediction in recognizer.predictions(paths, batch_size=batch_size):
            made += 1
            failed += prediction.error is not None
            row = {name: _rounded(value) for name, value in asdict(prediction).items()}
            if form == "csv":
                table.writerow(row)
            else:
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
            if output is None:
                file.flush()
    if failed:
        told = f"{failed} of {made} could not be read; the column `error` says why."
        Console(stderr=True).print(told, style="yellow")
    if not made:
        where = "what came on stdin" if images == ["-"] else ", ".join(images)
        raise InvalidInput(f"There are no images in {where}.")
    if failed == made:
        raise typer.Exit(1)


def _rounded(value: object) -> object:
    """Float32 has no more digits than these."""
    return round(value, 6) if isinstance(value, float) else value


def image_paths(given: Iterable[str], stdin: Iterable[str]) -> Iterator[Path]:
    """The files that are meant by files, folders, patterns and `-`."""
    from dnc.data.listing import image_files

    for name in given:
        path = Path(name)
        if name == "-":
            yield from (Path(line) for line in (line.rstrip("\r\n") for line in stdin) if line)
        elif path.is_dir():
            yield from (path / name for name in image_files(path, path))
        elif path.exists():
            yield path
        else:
            matches = sorted(glob.glob(name, recursive=True))
            if not matches and glob.has_magic(name):
                raise InvalidInput(
                    f"There is no file that matches {name!r}. Patterns may use *, ? and **."
                )
            # A file that is not there gets a row that says so, like one that cannot be read.
            yield from image_paths(matches, stdin) if matches else (path,)


@contextmanager
def _opened(output: Path | None) -> Iterator[IO[str]]:
    if output is None:
        yield sys.stdout
    else:
        output.parent.mkdir(parents=True, exist_ok=True)
        with (
            whole_file(output) as unfinished,
            unfinished.open("w", newline="", encoding="utf-8") as file,
        ):
            yield file
