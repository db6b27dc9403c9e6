"""Coarse classes in the place of finer ones, which stay with the images to be looked for later."""

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dnc.data.collection import DataSplits, Images
from dnc.data.folder import readable_name
from dnc.data.packed import cifar_splits
from dnc.errors import InvalidData

SHIPPED = Path(__file__).parent / "coarse_classes"
FOLDERS, PUBLISHED = "folders", "published"
MOST_TOLD = 8


def shipped_coarse_classes() -> dict[str, Path]:
    """The files of coarse classes that come with dnc, by name."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.csv"))}


def is_file_of_classes(coarse: str) -> bool:
    """Whether this names a file of one's own, and not something that dnc knows."""
    return coarse not in (FOLDERS, PUBLISHED, *shipped_coarse_classes())


def coarsened(
    splits: DataSplits, coarse: str | Mapping[str, str], *, known: Sequence[str] = ()
) -> DataSplits:
    """The same images with coarse labels; the finer ones are `Images.fine_labels`.

    Args:
        splits: a data set.
        coarse: a CSV file with the columns fine and coarse, or one of `shipped_coarse_classes`:
            which coarse class each class belongs to. `folders`: the classes are coarse already, and
            the folders inside their folders are the finer ones. `published`: CIFAR-100's own. Or
            the coarse class of each class.
        known: coarse classes, of a model for example. Images that are labelled with these and
            nothing finer stay as they are.

    """
    is_coarse = set(splits.classes) <= set(known)
    if coarse == FOLDERS:
        if is_coarse and not _has_finer_folders(splits):
            return splits
        if known and not is_coarse:
            strange = [name for name in splits.classes if name not in known]
            raise InvalidData(
                f"The model was trained on the classes {', '.join(known[:5])}"
                f"{', ...' if len(known) > 5 else ''}, with finer ones in folders inside theirs; "
                f"here are also {', '.join(strange[:5])}. Give images at CLASS/FINER/IMAGE or at "
                "CLASS/IMAGE."
            )
        return _by_part(splits, _finer_by_folder(splits))
    if is_coarse and coarse == PUBLISHED:
        return splits
    names = coarse_classes(splits, coarse)
    missing = [name for name in splits.classes if name not in names]
    if missing and is_coarse:
        return splits
    if missing:
        raise InvalidData(
            f"The coarse classes say nothing of {', '.join(missing[:5])}"
            f"{', ...' if len(missing) > 5 else ''} ({len(missing)} of {len(splits.classes)} "
            "classes). Give a file with a line 'fine,coarse' for every class."
        )
    classes = tuple(sorted({names[name] for name in splits.classes}))
    number = {name: i for i, name in enumerate(classes)}
    of_fine = np.array([number[names[name]] for name in splits.classes], dtype=np.int64)

    def part(images: Images) -> Images:
        return replace(
            images,
            labels=of_fine[images.labels],
            classes=classes,
            fine_labels=images.labels,
            fine_classes=images.classes,
        )

    return _by_part(splits, part)


def coarse_classes(splits: DataSplits, coarse: str | Mapping[str, str]) -> Mapping[str, str]:
    """The coarse class of each class of a data set; not for `folders`, where they are coarse."""
    if not isinstance(coarse, str):
        return coarse
    return _published(splits) if coarse == PUBLISHED else read_coarse_classes(coarse)


def coarse_of(images: Images, coarse: str | None) -> str | Mapping[str, str] | None:
    """How images got their coarse classes, to do the same elsewhere: a word, or class by class.

    A file may name classes that these images do not have; other images may.
    """
    if coarse is None or coarse == FOLDERS:
        return coarse
    if coarse != PUBLISHED:
        return read_coarse_classes(coarse)
    assert images.fine_labels is not None
    pairs = sorted(set(zip(images.fine_labels.tolist(), images.labels.tolist(), strict=True)))
    return {images.fine_classes[fine]: images.classes[label] for fine, label in pairs}


def read_coarse_classes(name_or_path: str) -> dict[str, str]:
    """The coarse class of each finer one, by names, from a file or one that is shipped."""
    shipped = shipped_coarse_classes()
    path = shipped.get(name_or_path, Path(name_or_path).expanduser())
    if not path.is_file():
        raise InvalidData(
            f"There is no file {name_or_path} of coarse classes; give a CSV file with the columns "
            f"fine and coarse, '{FOLDERS}', '{PUBLISHED}', or one of {', '.join(shipped)}."
        )
    coarse: dict[str, str] = {}
    try:
        with path.open(encoding="utf-8-sig", newline="") as opened:
            table = csv.DictReader(opened, strict=True)
            table.fieldnames = [name.strip() for name in table.fieldnames or ()]
            if not {"fine", "coarse"} <= set(table.fieldnames or ()):
                came = ", ".join(table.fieldnames or ()) or "none"
                raise InvalidData(
                    f"{path}: the first line names the columns {came!r}; it must name fine and "
                    "coarse, with a comma between them."
                )
            for row in table:
                if None in row:
                    raise InvalidData(
                        f"{path}, line {table.line_num} has more values than the first line has "
                        'names; write a name with a comma in it in "quotes".'
                    )
                fine, above = (readable_name((row[n] or "").strip()) for n in ("fine", "coarse"))
                if not fine or not above:
                    raise InvalidData(
                        f"{path}, line {table.line_num}: fine is {fine!r} and coarse {above!r}; "
                        "each line needs both."
                    )
                if coarse.setdefault(fine, above) != above:
                    raise InvalidData(
                        f"{path}, line {table.line_num}: {fine!r} belongs to two coarse classes; "
                        "keep one."
                    )
        _require_different(set(coarse.values()), path)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidData(f"{path} cannot be read as a CSV table in UTF-8: {error}") from error
    return coarse


def coarse_text(images: Images) -> str:
    """The coarse classes of images, each with how many finer ones it has."""
    assert images.fine_labels is not None
    pairs = set(zip(images.labels.tolist(), images.fine_labels.tolist(), strict=True))
    numbers = np.bincount([label for label, _ in pairs], minlength=len(images.classes))
    told = [f"{name} ({n} finer)" for name, n in zip(images.classes, numbers, strict=True)]
    more = f", {len(told) - MOST_TOLD} more" if len(told) > MOST_TOLD else ""
    return f"{len(told)} coarse classes: {', '.join(told[:MOST_TOLD])}{more}"


def _require_different(names: set[str], path: Path) -> None:
    """Raises if coarse classes are alike but for capital letters: a slip, most likely."""
    alike: dict[str, str] = {}
    for name in sorted(names):
        other = alike.setdefault(name.casefold(), name)
        if other != name:
            raise InvalidData(
                f"{path} has the coarse classes {other} and {name}; write them alike, or "
                "give one of them another name."
            )


def _by_part(splits: DataSplits, change: Callable[[Images], Images]) -> DataSplits:
    return replace(
        splits,
        train=None if splits.train is None else change(splits.train),
        validation=None if splits.validation is None else change(splits.validation),
        test=None if splits.test is None else change(splits.test),
    )


def _published(splits: DataSplits) -> dict[str, str]:
    """CIFAR-100's own coarse classes, as its files have them beside the finer ones."""
    if splits.kind != "cifar100":
        raise InvalidData(
            f"The data set is {splits.kind}, and only cifar100 has published coarse classes; give "
            "a CSV file with the columns fine and coarse."
        )
    images = next(iter(splits.parts().values()))
    coarse = cifar_splits(images.root, "cifar100-coarse", download=False)
    fine = cifar_splits(images.root, "cifar100", download=False)
    assert coarse.train is not None
    assert fine.train is not None
    pairs = set(zip(fine.train.labels.tolist(), coarse.train.labels.tolist(), strict=True))
    if len(pairs) != len(set(fine.train.labels.tolist())):
        raise InvalidData(f"{images.root} has finer classes in several coarse ones; fetch it anew.")
    return {fine.classes[one]: coarse.classes[other] for one, other in pairs}


def _has_finer_folders(splits: DataSplits) -> bool:
    """Whether the images are in folders inside those of their classes."""
    try:
        _finer_by_folder(splits)
    except InvalidData:
        return False
    return True


def _finer_by_folder(splits: DataSplits) -> Callable[[Images], Images]:
    """Finds the finer class of images by the folder inside the folder of their class."""

    def names(images: Images) -> list[str]:
        return [_finer_name(images, i) for i in range(len(images))]

    every = splits.parts().values()
    classes = tuple(sorted({name for images in every for name in names(images)}))
    number = {name: i for i, name in enumerate(classes)}

    def labels(images: Images) -> NDArray[np.int64]:
        return np.array([number[name] for name in names(images)], dtype=np.int64)

    return lambda images: replace(images, fine_labels=labels(images), fine_classes=classes)


def _finer_name(images: Images, position: int) -> str:
    """The finer class of an image, as `coarse/fine`."""
    own = images.classes[images.labels[position]]
    *folders, _ = (readable_name(part) for part in images.names[position].split("/"))
    # The folder of the class comes first, or behind that of a part such as `train`.
    for place in range(min(2, len(folders))):
        if folders[place] == own and len(folders) > place + 1:
            return f"{own}/{folders[place + 1]}"
    raise InvalidData(
        f"{images.names[position]} is not in a folder inside that of its class ({own}); with finer "
        "classes by folders every image is at CLASS/FINER/IMAGE."
    )
