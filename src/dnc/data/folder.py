"""Data sets of one's own: a folder for each class, or a table of paths and labels."""

import csv
import unicodedata
from itertools import pairwise
from pathlib import Path

from dnc.data.collection import BadFile
from dnc.data.images import EXTENSIONS
from dnc.data.listing import (
    PART_OF_FOLDER,
    ListedFile,
    Listing,
    image_files,
    is_folder,
    visible_entries,
)
from dnc.errors import InvalidData


def folder_listing(root: Path) -> Listing:
    """The files of `root/<class>/**`, or of `root/{train,val,test}/<class>/**`."""
    require_folder(root)
    folders = [root / entry.name for entry in visible_entries(root) if is_folder(entry)]
    parts = _part_folders(root, folders)
    aside: list[BadFile] = []
    files: list[ListedFile] = []
    for part, parent in parts.items():
        for entry in visible_entries(parent):
            path = parent / entry.name
            if is_folder(entry):
                label = readable_name(entry.name)
                files += [
                    ListedFile(name, label, part)
                    for name in image_files(path, root, unlistable=aside)
                ]
            elif path.suffix.lower() in EXTENSIONS:
                name = path.relative_to(root).as_posix()
                aside.append(BadFile(name, "not in a folder that names its class"))
    return Listing(root, tuple(sorted(files, key=lambda file: file.name)), set_aside=tuple(aside))


def table_listing(path: Path) -> Listing:
    """The files of a CSV table with the columns path, label and, if wanted, split."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as opened:
            table = csv.DictReader(opened, strict=True)
            columns = tuple(table.fieldnames or ())
            if not {"path", "label"} <= set(columns):
                raise InvalidData(
                    f"{path}: the first line names the columns {', '.join(columns) or 'none'}; it "
                    "must name path and label, and may name split."
                )
            files = [_file_of_row(path, table.line_num, row) for row in table]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidData(f"{path} cannot be read as a CSV table in UTF-8: {error}") from error
    files.sort(key=lambda file: file.name)
    for one, next_one in pairwise(files):
        if one.name == next_one.name:
            raise InvalidData(f"{path}: {one.name} is listed more than once; keep one line of it.")
    return Listing(path.parent, tuple(files))


def require_folder(
    root: Path,
    wanted: str = "a folder with a folder of images for each class, a .csv file with the columns "
    "path and label",
) -> None:
    """Raises, with what is wanted, unless there is such a folder."""
    if not root.is_dir():
        what = "is a file, not a folder" if root.exists() else "does not exist"
        raise InvalidData(f"{root} {what}. Give {wanted}, or the folder of a published data set.")


def readable_name(name: str) -> str:
    """A file name as text: composed characters (NFC), and a sign for bytes that are no text."""
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return unicodedata.normalize("NFC", text)


def _part_folders(root: Path, folders: list[Path]) -> dict[str, Path]:
    """The folder of each part; the root itself if its folders are the classes."""
    named = [folder for folder in folders if folder.name.lower() in PART_OF_FOLDER]
    others = [f for f in folders if f not in named and image_files(f, root)]
    parts: dict[str, Path] = {}
    for folder in named:
        part = PART_OF_FOLDER[folder.name.lower()]
        if part in parts:
            raise InvalidData(
                f"{root} has the folders {parts[part].name} and {folder.name}, which mean the same "
                "part. Keep one of them."
            )
        parts[part] = folder
    if others and len(parts) > 1:
        raise InvalidData(
            f"{root} has the folders {', '.join(folder.name for folder in named)} beside "
            f"{', '.join(repr(f.name) for f in others[:5])}. It must hold either parts or classes; "
            "move the others away."
        )
    # "train" alone may well be a class; but not if it holds images and no folder.
    holds_classes = any(is_folder(entry) for folder in named for entry in visible_entries(folder))
    return parts if not others and (len(parts) > 1 or holds_classes) else {"train": root}


def _file_of_row(path: Path, line: int, row: dict[str | None, str | None]) -> ListedFile:
    name, label = (row.get("path") or "").strip(), (row.get("label") or "").strip()
    word = (row.get("split") or "").strip().lower() or "train"
    if None in row or not name or not label or "\0" in name:
        raise InvalidData(
            f"{path}, line {line}: path {name!r} and label {label!r}; each line needs both, and no "
            "more fields than the first line names."
        )
    if word not in PART_OF_FOLDER:
        raise InvalidData(
            f"{path}, line {line}: split is {word!r}; allowed are {', '.join(PART_OF_FOLDER)}."
        )
    return ListedFile(Path(name).as_posix(), readable_name(label), PART_OF_FOLDER[word])
