"""From a list of labelled files to the parts of a data set."""

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from dnc.data.collection import BadFile, DataSplits, Images
from dnc.data.images import EXTENSIONS, quiet_pillow, read_header
from dnc.errors import InvalidData, UnreadableImage

Progress = Callable[[int, int], None]
"""Is told how many of how many are done."""

PART_OF_FOLDER = {
    "train": "train",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
    "test": "test",
}
"""The part of a data set that a folder, or a word in a table, stands for."""

PORTION = 4096

Given = TypeVar("Given")
Result = TypeVar("Result")


@dataclass(frozen=True)
class ListedFile:
    """A file of a data set: its name relative to the root, its class and its part."""

    name: str
    label: str
    part: str = "train"


@dataclass(frozen=True)
class Listing:
    """All labelled files of a data set, in the order of their ids.

    Attributes:
        root: the folder that the names are relative to.
        files: the files.
        classes: the classes in the order of their labels; None for those that have images, sorted.
        set_aside: what was found and cannot belong to any class.

    """

    root: Path
    files: tuple[ListedFile, ...]
    classes: tuple[str, ...] | None = None
    set_aside: tuple[BadFile, ...] = ()


def splits_of(
    listing: Listing, kind: str, *, check: bool, on_progress: Progress | None
) -> DataSplits:
    """The parts that the files of a listing were given; bad files are set aside."""
    files = listing.files
    bad = dict(_bad_files(listing, on_progress)) if check else {}
    usable = [position for position in range(len(files)) if position not in bad]
    aside = (*listing.set_aside, *(BadFile(files[i].name, reason) for i, reason in bad.items()))
    if not usable:
        found = f"{len(aside)} image files, none of which can be used" if aside else "no image file"
        example = f" (the first: {aside[0].path}: {aside[0].reason})" if aside else ""
        raise InvalidData(
            f"{listing.root} has {found}{example}. Expected are images in a folder for each class, "
            "or one of the published data sets."
        )
    classes = listing.classes or _classes_with_images([files[i] for i in usable])
    label_of = {name: label for label, name in enumerate(classes)}

    def part(name: str) -> Images | None:
        chosen = [i for i in usable if files[i].part == name]
        if not chosen:
            return None
        return Images(
            root=listing.root,
            names=tuple(files[i].name for i in chosen),
            labels=np.array([label_of[files[i].label] for i in chosen], dtype=np.int64),
            ids=np.array(chosen, dtype=np.int64),
            classes=classes,
        )

    return DataSplits(
        train=part("train"),
        validation=part("validation"),
        test=part("test"),
        set_aside=aside,
        kind=kind,
        listing=tuple(file.name for file in files),
    )


def image_files(folder: Path, root: Path, *, unlistable: list[BadFile] | None = None) -> list[str]:
    """Names relative to the root, sorted, of all files below a folder that look like images.

    Links are followed, but no folder is entered twice, nor one that the folder itself lies in:
    links may run in circles. Hidden files and folders are left out.
    """
    entered = {_identity(parent) for parent in (folder.resolve(), *folder.resolve().parents)}
    names: list[str] = []
    waiting = [folder]
    while waiting:
        current = waiting.pop()
        try:
            entries = visible_entries(current)
        except OSError as error:
            if unlistable is not None:
                reason = error.strerror or "the folder cannot be listed"
                unlistable.append(BadFile(current.relative_to(root).as_posix(), reason))
            continue
        for entry in reversed(entries):
            path = current / entry.name
            if is_folder(entry):
                identity = _identity(path)
                if identity not in entered:
                    entered.add(identity)
                    waiting.append(path)
            elif path.suffix.lower() in EXTENSIONS:
                names.append(path.relative_to(root).as_posix())
    return sorted(names)


def visible_entries(folder: Path) -> list[os.DirEntry[str]]:
    """What a folder holds, hidden entries apart, sorted by name."""
    with os.scandir(folder) as entries:
        return sorted((e for e in entries if not e.name.startswith(".")), key=lambda e: e.name)


def is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a folder, or a link that leads to one."""
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def in_threads(
    function: Callable[[Given], Result], given: Sequence[Given], *, on_progress: Progress | None
) -> Iterator[Result]:
    """The results of a function, in order; reading and decoding let threads run side by side."""
    with ThreadPoolExecutor(max(4, os.cpu_count() or 1)) as pool, quiet_pillow():
        done = 0
        # In portions: what waits takes memory, and data sets may have millions of files.
        for start in range(0, len(given), PORTION):
            try:
                for result in pool.map(function, given[start : start + PORTION]):
                    yield result
                    done += 1
                    if on_progress is not None:
                        on_progress(done, len(given))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise


def _bad_files(listing: Listing, on_progress: Progress | None) -> Iterator[tuple[int, str]]:
    def problem(file: ListedFile) -> str | None:
        try:
            read_header(listing.root / file.name)
        except UnreadableImage as error:
            return error.reason
        return None

    problems = in_threads(problem, listing.files, on_progress=on_progress)
    return ((i, reason) for i, reason in enumerate(problems) if reason is not None)


def _classes_with_images(files: Iterable[ListedFile]) -> tuple[str, ...]:
    by_part: dict[str, set[str]] = {}
    for file in files:
        by_part.setdefault(file.part, set()).add(file.label)
    everywhere = set().union(*by_part.values())
    unknown = sorted(everywhere - by_part.get("train", everywhere))
    if unknown:
        raise InvalidData(
            f"{', '.join(map(repr, unknown[:5]))}{' and more' if len(unknown) > 5 else ''}: there "
            "are images to evaluate on, but none to train with. Every class needs usable training "
            "images; add some or take the class out."
        )
    return tuple(sorted(everywhere))


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    if not stat.S_ISDIR(found.st_mode):
        raise InvalidData(f"{path} is no folder.")
    return found.st_dev, found.st_ino
