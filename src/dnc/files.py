"""Files and folders that are written whole or not at all."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A place to write to that becomes the file, whole or not at all."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the name of a file in it.")
    unfinished = _unfinished(path)
    try:
        yield unfinished
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A new folder to fill that takes the place of `path`, whole or not at all.

    What was there before stays until the new one is complete.
    """
    restore_folder(path)
    unfinished, replaced = _unfinished(path), _replaced(path)
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    try:
        yield unfinished
        for file in unfinished.rglob("*"):
            if file.is_file():
                _flush_to_disk(file)
        if path.exists():
            path.rename(replaced)
        unfinished.rename(path)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
        restore_folder(path)


def restore_folder(path: Path) -> None:
    """Puts back what a process that died between two renames has left beside a folder."""
    replaced = _replaced(path)
    if replaced.exists() and not path.exists():
        replaced.rename(path)
    shutil.rmtree(replaced, ignore_errors=True)


def standing_folder(path: Path) -> Path:
    """The folder to read: `path`, or what it was while the new one is not in its place yet.

    Nothing is renamed, since the process that writes may well be alive.
    """
    replaced = _replaced(path)
    return replaced if replaced.is_dir() and not path.exists() else path


def _unfinished(path: Path) -> Path:
    return _beside(path, ".unfinished")


def _replaced(path: Path) -> Path:
    return _beside(path, ".replaced")


def _beside(path: Path, ending: str) -> Path:
    # `.` has no name of its own to which the ending could be added.
    whole = Path(os.path.abspath(path))
    return whole.parent / (whole.name + ending)


def _flush_to_disk(file: Path) -> None:
    with file.open("rb") as opened:
        os.fsync(opened.fileno())
