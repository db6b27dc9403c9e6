"""Which files a model was made of, and which were set aside, as tables beside it."""

import csv
from pathlib import Path
from typing import TextIO

from dnc.data import BadFile, DataSplits
from dnc.files import whole_file


def write_listing(splits: DataSplits, path: Path) -> None:
    """Writes which image has which id, label and part: an id leads back to its file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as unfinished, _table(unfinished) as file:
        table = csv.writer(file)
        table.writerow(["id", "file", "label", "part"])
        for part, images in splits.parts().items():
            for number, name, label in zip(
                images.ids.tolist(), images.names, images.labels.tolist(), strict=True
            ):
                table.writerow([number, name, images.classes[label], part])


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
