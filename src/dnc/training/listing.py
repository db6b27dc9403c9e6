"""Which files a model was made of, and which were set aside, as tables beside it."""

import csv
from pathlib import Path
from typing import Any, TextIO

from dnc.data import BadFile, Scenes, Splits
from dnc.files import whole_file


def write_listing(splits: Splits[Any], path: Path) -> None:
    """Writes which image has which id, label (or mask) and part: an id leads back to its file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as unfinished, _table(unfinished) as file:
        table = csv.writer(file)
        is_of_scenes = isinstance(next(iter(splits.parts().values())), Scenes)
        table.writerow(["id", "file", "mask" if is_of_scenes else "label", "part"])
        for part, images in splits.parts().items():
            told = (
                images.masks
                if isinstance(images, Scenes)
                else [images.classes[label] for label in images.labels.tolist()]
            )
            for number, name, label in zip(images.ids.tolist(), images.names, told, strict=True):
                table.writerow([number, name, label, part])


def write_set_aside(files: tuple[BadFile, ...], path: Path) -> None:
    """Writes the files that could not be read and why; no file if there are none."""
    if not files:
        return
    with whole_file(path) as unfinished, _table(unfinished) as file:
        table = csv.writer(file)
        table.writerow(["file", "reason"])
        table.writerows((bad.path, bad.reason) for bad in files)


def read_set_aside(path: Path) -> tuple[BadFile, ...]:
    """What `write_set_aside` wrote; nothing if there is no such file."""
    if not path.is_file():
        return ()
    with path.open(newline="", encoding="utf-8") as file:
        return tuple(BadFile(row["file"], row["reason"]) for row in csv.DictReader(file))


def _table(path: Path) -> TextIO:
    # Names of files need not be text.
    return path.open("w", newline="", encoding="utf-8", errors="backslashreplace")
