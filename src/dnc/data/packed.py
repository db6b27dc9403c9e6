"""Data sets whose images are arrays: CIFAR's binary files and scikit-learn's digits."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from dnc.data.collection import DataSplits, Images
from dnc.data.fetching import fetch_archive
from dnc.data.splitting import split_off
from dnc.errors import InvalidData

SIDE = 32
DIGITS_TEST_SHARE = 0.25


@dataclass(frozen=True)
class _Cifar:
    """Where a published archive is and what is in it."""

    address: str
    md5: str
    folder: str
    train: tuple[str, ...]
    test: str
    names: str
    label_bytes: int
    label_byte: int
    classes: int

    @property
    def archive(self) -> str:
        return self.address.rsplit("/", 1)[-1]

    @property
    def files(self) -> tuple[str, ...]:
        return (*self.train, self.test, self.names)


def _cifar100(names: str, label_byte: int, classes: int) -> _Cifar:
    return _Cifar(
        address="https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
        md5="03b5dce01913d631647c71ecec9e9cb8",
        folder="cifar-100-binary",
        train=("train.bin",),
        test="test.bin",
        names=names,
        label_bytes=2,
        label_byte=label_byte,
        classes=classes,
    )


CIFARS = {
    "cifar10": _Cifar(
        address="https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
        md5="c32a1d4ab5d03f1284b67883e8d87530",
        folder="cifar-10-batches-bin",
        train=tuple(f"data_batch_{number}.bin" for number in range(1, 6)),
        test="test_batch.bin",
        names="batches.meta.txt",
        label_bytes=1,
        label_byte=0,
        classes=10,
    ),
    # Each record begins with the coarse label and goes on with the fine one.
    "cifar100": _cifar100("fine_label_names.txt", 1, 100),
    "cifar100-coarse": _cifar100("coarse_label_names.txt", 0, 20),
}


def cifar_splits(root: Path, kind: str, *, download: bool) -> DataSplits:
    """CIFAR's published training and test images, from the binary version."""
    cifar = CIFARS[kind]
    folder = cifar_folder(root, kind)
    if folder is None and download:
        fetch_archive(cifar.address, root, md5=cifar.md5)
        folder = cifar_folder(root, kind)
    if folder is None:
        raise InvalidData(_what_is_missing(root, cifar))
    classes = _class_names(folder / cifar.names, cifar.classes)
    names: list[str] = []
    parts: list[Images] = []
    for files in (cifar.train, (cifar.test,)):
        read = [_records(folder / file, cifar) for file in files]
        names_of_part = [
            f"{file}#{i}"
            for file, (labels, _) in zip(files, read, strict=True)
            for i in range(len(labels))
        ]
        parts.append(
            Images(
                root=folder,
                names=tuple(names_of_part),
                labels=np.concatenate([labels for labels, _ in read]),
                ids=np.arange(len(names), len(names) + len(names_of_part)),
                classes=classes,
                pixels=np.concatenate([pixels for _, pixels in read]),
            )
        )
        names += names_of_part
    return DataSplits(parts[0], None, parts[1], (), kind, tuple(names))


def cifar_folder(root: Path, kind: str) -> Path | None:
    """The folder, `root` or the published one in it, that holds all files of a kind."""
    cifar = CIFARS[kind]
    for folder in (root, root / cifar.folder):
        if all((folder / file).is_file() for file in cifar.files):
            return folder
    return None


def is_pickled_cifar(root: Path) -> bool:
    """Whether a folder holds CIFAR's Python version."""
    folders = (root, root / "cifar-10-batches-py", root / "cifar-100-python")
    return any((f / name).is_file() for f in folders for name in ("batches.meta", "meta"))


def digits_splits() -> DataSplits:
    """The digits that scikit-learn ships; a quarter of each class, always the same, is to test."""
    images = all_digits()
    train, test = split_off(images, DIGITS_TEST_SHARE, seed=0)
    return DataSplits(train, None, test, (), "digits", images.names)


def all_digits() -> Images:
    """The 1,797 handwritten digits of 8x8 pixels that scikit-learn ships."""
    values, labels = load_digits(return_X_y=True)
    grey = np.round(values.reshape(-1, 8, 8, 1) * (255 / 16)).astype(np.uint8)
    names = tuple(f"digits#{i}" for i in range(len(labels)))
    return Images(
        root=Path("digits"),
        names=names,
        labels=labels.astype(np.int64),
        ids=np.arange(len(labels)),
        classes=tuple(map(str, range(10))),
        pixels=np.repeat(grey, 3, axis=3),
    )


def _records(path: Path, cifar: _Cifar) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Labels `(n)` and pixels `(n h w 3)` of one file."""
    length = cifar.label_bytes + 3 * SIDE * SIDE
    content = np.fromfile(path, dtype=np.uint8)
    if not len(content) or len(content) % length:
        raise InvalidData(
            f"{path} has {len(content)} bytes, which is not a whole number of records of {length} "
            f"bytes: it is damaged or another file. Unpack {cifar.archive} again."
        )
    records = content.reshape(-1, length)
    labels = records[:, cifar.label_byte].astype(np.int64)
    if labels.max() >= cifar.classes:
        raise InvalidData(
            f"{path} has the label {labels.max()}; allowed are 0 to {cifar.classes - 1}. Unpack "
            f"{cifar.archive} again."
        )
    planes = records[:, cifar.label_bytes :].reshape(-1, 3, SIDE, SIDE)
    return labels, np.ascontiguousarray(planes.transpose(0, 2, 3, 1))


def _class_names(path: Path, expected: int) -> tuple[str, ...]:
    try:
        lines: Sequence[str] = path.read_text(encoding="utf-8").split()
    except UnicodeDecodeError as error:
        raise InvalidData(f"{path} is no text; it should list {expected} names.") from error
    if len(lines) != expected or len(set(lines)) != expected:
        raise InvalidData(f"{path} lists {len(lines)} names; {expected} different ones are needed.")
    return tuple(lines)


def _what_is_missing(root: Path, cifar: _Cifar) -> str:
    advice = (
        f"fetch {cifar.address} (md5 {cifar.md5}) and unpack it in {root}, or ask for the download"
    )
    if is_pickled_cifar(root):
        return (
            f"{root} holds CIFAR's Python version. It consists of pickle files, which can run any "
            f"program when they are read, so dnc reads the binary version only: {advice}."
        )
    return (
        f"{root} and {root / cifar.folder} were searched for {', '.join(cifar.files)}; not all of "
        f"them are there. To get them, {advice}."
    )
