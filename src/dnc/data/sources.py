"""Opens a data set: recognises its layout and gives its parts."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from dnc.data.coarse import coarsened
from dnc.data.collection import DataSplits
from dnc.data.folder import folder_listing, require_folder, table_listing
from dnc.data.listing import Progress, splits_of
from dnc.data.packed import (
    CIFARS,
    cifar_folder,
    cifar_splits,
    digits_splits,
    is_pickled_cifar,
)
from dnc.data.published import (
    IMAGENETV2_FOLDERS,
    cub_folder,
    cub_listing,
    imagenet_listing,
    imagenetv2_listing,
    is_imagenet,
)
from dnc.data.scene_sources import recognised_scene_kind
from dnc.data.splitting import at_most_per_class, split_off
from dnc.errors import InvalidData, InvalidSetting

KINDS: tuple[str, ...] = (
    "folder",
    "csv",
    "digits",
    "cifar10",
    "cifar100",
    "cifar100-coarse",
    "imagenet",
    *IMAGENETV2_FOLDERS,
    "cub200",
)
"""The layouts that `open_data` knows."""


def open_data(
    path: str | Path,
    *,
    kind: str | None = None,
    validation_share: float = 0.2,
    seed: int = 0,
    train_per_class: int | None = None,
    coarse: str | Mapping[str, str] | None = None,
    coarse_known: Sequence[str] = (),
    download: bool = False,
    check: bool = True,
    on_progress: Progress | None = None,
) -> DataSplits:
    """The training, validation and test images of a data set.

    Args:
        path: a folder, or a CSV file; `digits` needs none.
        kind: one of `KINDS`; None recognises the layout.
        validation_share: the share of each class's training images that becomes the validation
            part, where the data set has none of its own; 0 for no validation. ImageNet is never
            split.
        seed: of that split and of `train_per_class`.
        train_per_class: keep at most so many training images of each class.
        coarse: which coarse classes to learn in the place of finer ones, as for `coarsened`. Parts
            and choices above are those of the data set as it is.
        coarse_known: the same classes, where they are known: images that are labelled with them
            already are taken as they are.
        download: fetch or unpack what is missing, where torchvision can.
        check: look at the header of each file and set aside those that are no images.
        on_progress: is told how many of how many headers were looked at.

    """
    path = Path(path).expanduser()
    kind = recognised_kind(path) if kind is None else kind
    if kind not in KINDS:
        raise InvalidSetting(f"There is no kind {kind!r}; allowed are {', '.join(KINDS)}.")
    splits = _opened(path, kind, download=download, check=check, on_progress=on_progress)
    train, validation = splits.train, splits.validation
    if train is not None and validation is None and kind != "imagenet":
        train, validation = split_off(train, validation_share, seed=seed)
    if train is not None and train_per_class is not None:
        train = at_most_per_class(train, train_per_class, seed=seed)
    splits = replace(splits, train=train, validation=validation)
    return splits if coarse is None else coarsened(splits, coarse, known=coarse_known)


def recognised_kind(path: Path) -> str:
    """The kind of the data set at a path, by the files that are there."""
    if path.suffix.lower() == ".csv" and not path.is_dir():
        return "csv"
    if str(path) == "digits" and not path.exists():
        return "digits"
    require_folder(path)
    found = [kind for kind in ("cifar10", "cifar100") if cifar_folder(path, kind) is not None]
    found += [
        kind
        for kind, folder in IMAGENETV2_FOLDERS.items()
        if path.name == folder or (path / folder).is_dir()
    ]
    if cub_folder(path) is not None:
        found.append("cub200")
    if is_imagenet(path):
        found.append("imagenet")
    if len(found) > 1:
        raise InvalidData(f"{path} holds {', '.join(found)}; say which kind is meant.")
    if not found and is_pickled_cifar(path):
        found.append("cifar100" if "100" in path.name else "cifar10")
    if not found and recognised_scene_kind(path) is not None:
        raise InvalidData(
            f"{path} holds scenes, images with masks, which are for a segmenter (`dnc train` with "
            "a recipe of scenes; `open_scenes`). If its folders are classes all the same, say so "
            "with the kind folder."
        )
    return found[0] if found else "folder"


def _opened(
    path: Path, kind: str, *, download: bool, check: bool, on_progress: Progress | None
) -> DataSplits:
    if kind == "digits":
        return digits_splits()
    if kind in CIFARS:
        return cifar_splits(path, kind, download=download)
    if kind == "csv":
        listing = table_listing(path)
    elif kind == "imagenet":
        listing = imagenet_listing(path, download=download)
    elif kind in IMAGENETV2_FOLDERS:
        listing = imagenetv2_listing(path, kind)
    elif kind == "cub200":
        listing = cub_listing(path, download=download)
    else:
        listing = folder_listing(path)
    return splits_of(listing, kind, check=check, on_progress=on_progress)
