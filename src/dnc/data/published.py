"""Published data sets of files, in the layouts that they come in."""

import re
from collections.abc import Iterator
from pathlib import Path

from scipy.io import loadmat
from torchvision.datasets.imagenet import ARCHIVE_META, parse_train_archive, parse_val_archive
from torchvision.datasets.utils import check_integrity, extract_archive

from dnc.data.fetching import fetch_archive
from dnc.data.images import EXTENSIONS
from dnc.data.listing import ListedFile, Listing, image_files, is_folder, visible_entries
from dnc.errors import InvalidData

IMAGENETV2_FOLDERS = {
    f"imagenetv2-{name}": f"imagenetv2-{name}-format-val"
    for name in ("matched-frequency", "threshold0.7", "top-images")
}
IMAGENETV2_CLASSES = 1000

_WNID = re.compile(r"n\d{8}")
_VALIDATION_NAME = re.compile(r"ILSVRC2012_val_(\d{8})\.JPEG", re.IGNORECASE)
_DEVKIT = "ILSVRC2012_devkit_t12"
_TRUTH, _META = "data/ILSVRC2012_validation_ground_truth.txt", "data/meta.mat"
_CUB_ADDRESS = "https://data.caltech.edu/records/65de6-vp158/files/CUB_200_2011.tgz"
_CUB_MD5 = "97eceeb196236b17998738112f37df78"
_CUB_FILES = ("images.txt", "image_class_labels.txt", "train_test_split.txt", "classes.txt")


def imagenet_listing(root: Path, *, download: bool) -> Listing:
    """ImageNet (ILSVRC 2012): `train/<wnid>/*.JPEG`, and `val` in the same way or flat."""
    if download:
        _unpack_imagenet(root)
    train, validation = root / "train", root / "val"
    if not _has_wnids(train) and not validation.is_dir():
        archives = ", ".join(archive for archive, _ in ARCHIVE_META.values())
        raise InvalidData(
            f"{train}/<wnid> and {validation} were looked for and are not there. Get {archives} "
            f"from https://image-net.org/download (an account is needed), put them into {root} "
            "and ask for the download, which then unpacks them; or unpack them yourself to "
            f"{train}/<wnid>/*.JPEG, {validation}/*.JPEG and {root / _DEVKIT}."
        )
    files = list(_by_wnid(train, root, "train"))
    if _has_wnids(validation):
        files += _by_wnid(validation, root, "validation")
    elif validation.is_dir():
        files += _flat_validation(validation, root)
    return Listing(root, tuple(sorted(files, key=lambda file: file.name)))


def imagenetv2_listing(root: Path, kind: str) -> Listing:
    """One of the three sets of ImageNetV2: folders 0 to 999, named after ImageNet's labels."""
    name = IMAGENETV2_FOLDERS[kind]
    folder = root if root.name == name else root / name
    if not folder.is_dir():
        raise InvalidData(
            f"{folder} was looked for and is not there. Get {kind}.tar.gz from "
            "https://huggingface.co/datasets/vaishaal/ImageNetV2 and unpack it in "
            f"{root}."
        )
    files: list[tuple[int, ListedFile]] = []
    for entry in visible_entries(folder):
        if is_folder(entry):
            if not (entry.name.isascii() and entry.name.isdigit()) or (
                int(entry.name) >= IMAGENETV2_CLASSES
            ):
                raise InvalidData(
                    f"{folder / entry.name}: the folders of {kind} are named 0 to "
                    f"{IMAGENETV2_CLASSES - 1}; take this one out."
                )
            label = int(entry.name)
            found = image_files(folder / entry.name, folder)
            files += [(label, ListedFile(name, str(label), "test")) for name in found]
    files.sort(key=lambda file: (file[0], file[1].name))
    classes = tuple(map(str, range(IMAGENETV2_CLASSES)))
    return Listing(folder, tuple(file for _, file in files), classes)


def cub_listing(root: Path, *, download: bool) -> Listing:
    """CUB-200-2011, with the training and test images that its own file says."""
    folder = cub_folder(root)
    if folder is None and download:
        fetch_archive(_CUB_ADDRESS, root, md5=_CUB_MD5)
        folder = cub_folder(root)
    if folder is None:
        raise InvalidData(
            f"{', '.join(_CUB_FILES)} were looked for in {root} and {root / 'CUB_200_2011'} and "
            f"are not all there. Fetch {_CUB_ADDRESS} (md5 {_CUB_MD5}) and unpack it in {root}, or "
            "ask for the download."
        )
    paths, label_of, is_train, classes = (_numbered_lines(folder / name) for name in _CUB_FILES)
    files = []
    for number, path in paths.items():
        try:
            label = classes[label_of[number]]
            part = {"1": "train", "0": "test"}[is_train[number]]
        except KeyError as error:
            raise InvalidData(
                f"{folder}: image {number} ({path}) has no class or part in {_CUB_FILES[1]}, "
                f"{_CUB_FILES[2]} and {_CUB_FILES[3]}. Unpack CUB_200_2011.tgz again."
            ) from error
        files.append(ListedFile(f"images/{path}", label, part))
    return Listing(folder, tuple(files), tuple(classes.values()))


def cub_folder(root: Path) -> Path | None:
    """The folder, `root` or the published one in it, that holds the lists of CUB-200-2011."""
    for folder in (root, root / "CUB_200_2011"):
        if all((folder / name).is_file() for name in _CUB_FILES):
            return folder
    return None


def is_imagenet(root: Path) -> bool:
    """Whether a folder looks like ImageNet, unpacked or not."""
    archives = [root / archive for archive, _ in ARCHIVE_META.values()]
    return (
        (root / _DEVKIT).is_dir()
        or any(archive.is_file() for archive in archives)
        # With a labelled test folder it is a subset that somebody divided: an ordinary folder.
        or (
            _has_wnids(root / "train") and (root / "val").is_dir() and not _has_wnids(root / "test")
        )
    )


def _has_wnids(folder: Path) -> bool:
    """Whether all folders in a folder are named like `n01440764`."""
    if not folder.is_dir():
        return False
    names = [entry.name for entry in visible_entries(folder) if is_folder(entry)]
    return bool(names) and all(_WNID.fullmatch(name) for name in names)


def _by_wnid(folder: Path, root: Path, part: str) -> Iterator[ListedFile]:
    if _has_wnids(folder):
        for entry in visible_entries(folder):
            if is_folder(entry):
                for name in image_files(folder / entry.name, root):
                    yield ListedFile(name, entry.name, part)


def _flat_validation(folder: Path, root: Path) -> Iterator[ListedFile]:
    wnids = _validation_wnids(root)
    for entry in visible_entries(folder):
        if Path(entry.name).suffix.lower() in EXTENSIONS:
            numbered = _VALIDATION_NAME.fullmatch(entry.name)
            number = int(numbered[1]) if numbered else 0
            if not 1 <= number <= len(wnids):
                raise InvalidData(
                    f"{folder / entry.name}: flat validation images must be named "
                    f"ILSVRC2012_val_00000001.JPEG to ILSVRC2012_val_{len(wnids):08}.JPEG."
                )
            yield ListedFile(f"{folder.name}/{entry.name}", wnids[number - 1], "validation")


def _validation_wnids(root: Path) -> list[str]:
    """The class of each validation image, by number, from the development kit."""
    truth, meta = root / _DEVKIT / _TRUTH, root / _DEVKIT / _META
    if not truth.is_file() or not meta.is_file():
        raise InvalidData(
            f"The validation images lie flat in {root / 'val'}, so {truth} and {meta} are needed "
            f"to know their classes. Unpack {ARCHIVE_META['devkit'][0]} in {root}."
        )
    try:
        synsets = loadmat(meta, squeeze_me=True)["synsets"]
        wnid_of = {
            int(number): str(wnid)
            for number, wnid in zip(synsets["ILSVRC2012_ID"], synsets["WNID"], strict=True)
        }
        return [wnid_of[int(number)] for number in truth.read_text(encoding="ascii").split()]
    except Exception as error:  # loadmat lets all sorts through when a file is damaged
        raise InvalidData(
            f"{truth} and {meta} do not fit together or are damaged ({error!r}). Unpack "
            f"{ARCHIVE_META['devkit'][0]} again."
        ) from error


def _unpack_imagenet(root: Path) -> None:
    """Unpacks those of ImageNet's archives that are there and not unpacked yet."""
    try:
        archive, md5 = ARCHIVE_META["devkit"]
        if (root / archive).is_file() and not (root / _DEVKIT).is_dir():
            if not check_integrity(str(root / archive), md5):
                raise InvalidData(f"{root / archive} is damaged: its md5 is not {md5}.")
            extract_archive(str(root / archive), str(root))
        if (root / ARCHIVE_META["train"][0]).is_file() and not (root / "train").is_dir():
            parse_train_archive(root)
        if (root / ARCHIVE_META["val"][0]).is_file() and not (root / "val").is_dir():
            parse_val_archive(root, wnids=_validation_wnids(root))
    except (OSError, RuntimeError) as error:
        raise InvalidData(f"ImageNet's archives could not be unpacked: {error}") from error


def _numbered_lines(path: Path) -> dict[str, str]:
    """Lines of a number and a word, as CUB's lists have them, in their order."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise InvalidData(f"{path} is no text.") from error
    pairs = [line.split(maxsplit=1) for line in lines if line.strip()]
    if not all(len(pair) == 2 for pair in pairs):
        raise InvalidData(f"{path}: each line must hold a number and a word.")
    return {number: word.strip() for number, word in pairs}
