"""Published data sets of scenes, in the layouts that they come in."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from dnc.data.collection import BadFile
from dnc.data.listing import visible_entries
from dnc.data.masks import MaskCoding
from dnc.data.scene_classes import SceneClasses
from dnc.data.scene_listing import ListedScene, SceneListing
from dnc.data.scene_pairing import FolderPair, paired_scenes
from dnc.errors import InvalidData

ADE_CLASSES = 150
_ADE_FOLDER, _ADE_NAMES = "ADEChallengeData2016", "objectInfo150.txt"
_ADE_PARTS = {"training": "train", "validation": "validation"}

# Name, number in labelIds and colour of those that count, in the order of their train ids.
_CITYSCAPES = (
    ("road", 7, (128, 64, 128)),
    ("sidewalk", 8, (244, 35, 232)),
    ("building", 11, (70, 70, 70)),
    ("wall", 12, (102, 102, 156)),
    ("fence", 13, (190, 153, 153)),
    ("pole", 17, (153, 153, 153)),
    ("traffic light", 19, (250, 170, 30)),
    ("traffic sign", 20, (220, 220, 0)),
    ("vegetation", 21, (107, 142, 35)),
    ("terrain", 22, (152, 251, 152)),
    ("sky", 23, (70, 130, 180)),
    ("person", 24, (220, 20, 60)),
    ("rider", 25, (255, 0, 0)),
    ("car", 26, (0, 0, 142)),
    ("truck", 27, (0, 0, 70)),
    ("bus", 28, (0, 60, 100)),
    ("train", 31, (0, 80, 100)),
    ("motorcycle", 32, (0, 0, 230)),
    ("bicycle", 33, (119, 11, 32)),
)
_CITYSCAPES_IDS = 34
_CITYSCAPES_PARTS = {"train": "train", "val": "validation"}
_TRAIN_IDS, _LABEL_IDS = "_gtFine_labelTrainIds", "_gtFine_labelIds"

# COCO numbered 91 things and then left these out; stuff follows from 92 on.
_COCO_UNUSED = frozenset({12, 26, 29, 30, 45, 66, 68, 69, 71, 83, 91})
COCO_IDS = tuple(number for number in range(1, 183) if number not in _COCO_UNUSED)
_COCO_NAMES = "labels.txt"
_COCO_LISTS = {"imageLists/train.txt": "train", "imageLists/test.txt": "test"}
_COCO_PARTS = {"train2014": "train", "test2014": "test"}


@dataclass(frozen=True)
class PublishedScenes:
    """How a published data set is recognised and listed."""

    is_there: Callable[[Path], bool]
    listing: Callable[[Path], SceneListing]


def ade20k_listing(root: Path) -> SceneListing:
    """ADE20K with 150 classes: `images` and `annotations`, each in `training` and `validation`."""
    folder = _ade_folder(root)
    if folder is None:
        raise InvalidData(
            f"images/training and annotations/training were looked for in {root} and "
            f"{root / _ADE_FOLDER} and are not there. Get ADEChallengeData2016.zip from "
            f"http://sceneparsing.csail.mit.edu and unpack it in {root}."
        )
    numbers = range(1, ADE_CLASSES + 1)
    names = _ade_names(folder / _ADE_NAMES) or tuple(map(str, numbers))
    classes = SceneClasses.numbered(names, MaskCoding.by_number(numbers, ignored=[0]))
    pairs = [
        FolderPair(part, _folder(folder / "images" / name), _folder(folder / "annotations" / name))
        for name, part in _ADE_PARTS.items()
    ]
    return _paired_listing(folder, pairs, classes)


def cityscapes_listing(root: Path) -> SceneListing:
    """Cityscapes with its 19 classes; its test images have no labels and are left out."""
    images, masks = root / "leftImg8bit", root / "gtFine"
    if not is_cityscapes(root):
        raise InvalidData(
            f"{images} and {masks} were looked for and are not both there. Get "
            "leftImg8bit_trainvaltest.zip and gtFine_trainvaltest.zip from "
            f"https://www.cityscapes-dataset.com (an account is needed) and unpack them in {root}."
        )
    names, ids, colours = zip(*_CITYSCAPES, strict=True)
    by_train_id = next(masks.rglob(f"*{_TRAIN_IDS}.png"), None) is not None
    if by_train_id:
        coding = MaskCoding.by_number(range(len(names)), ignored=[255])
    else:
        others = [number for number in range(_CITYSCAPES_IDS) if number not in ids]
        coding = MaskCoding.by_number(ids, ignored=others)
    pairs = [
        FolderPair(
            part,
            _folder(images / name),
            _folder(masks / name),
            image_ending="_leftImg8bit",
            mask_ending=_TRAIN_IDS if by_train_id else _LABEL_IDS,
        )
        for name, part in _CITYSCAPES_PARTS.items()
    ]
    return _paired_listing(root, pairs, SceneClasses(names, colours, coding))


def cocostuff10k_listing(root: Path) -> SceneListing:
    """COCO-Stuff 10k (version 1.1), as published with `.mat` files, or converted to PNG."""
    if _is_converted_coco(root):
        numbers = range(1, len(COCO_IDS) + 1)
        pairs = [
            FolderPair(
                part,
                _folder(root / "images" / name),
                _folder(root / "annotations" / name),
                mask_ending="_labelTrainIds",
            )
            for name, part in _COCO_PARTS.items()
        ]
        coding = MaskCoding.by_number(numbers, ignored=[0, 255])
        return _paired_listing(root, pairs, _coco_classes(root, coding))
    if not is_cocostuff10k(root):
        raise InvalidData(
            f"{', '.join(_COCO_LISTS)}, images and annotations were looked for in {root} and are "
            "not all there. Get cocostuff-10k-v1.1.zip (see "
            f"https://github.com/nightrome/cocostuff10k) and unpack it in {root}."
        )
    scenes = [
        ListedScene(f"images/{name}.jpg", f"annotations/{name}.mat", part)
        for listed, part in _COCO_LISTS.items()
        for name in _lines(root / listed)
    ]
    scenes.sort(key=lambda scene: scene.image)
    coding = MaskCoding.by_number(COCO_IDS, ignored=[0])
    return SceneListing(root, tuple(scenes), _coco_classes(root, coding))


def is_ade20k(root: Path) -> bool:
    """Whether a folder holds ADE20K, and not another data set in the same layout."""
    folder = _ade_folder(root)
    return folder is not None and (
        folder.name == _ADE_FOLDER
        or (folder / _ADE_NAMES).is_file()
        or any(e.name.startswith("ADE_") for e in visible_entries(folder / "images" / "training"))
    )


def is_cityscapes(root: Path) -> bool:
    """Whether a folder holds Cityscapes."""
    return (root / "leftImg8bit").is_dir() and (root / "gtFine").is_dir()


def is_cocostuff10k(root: Path) -> bool:
    """Whether a folder holds COCO-Stuff 10k, as published or converted."""
    folders = (root / "images").is_dir() and (root / "annotations").is_dir()
    listed = all((root / name).is_file() for name in _COCO_LISTS)
    return (folders and listed) or _is_converted_coco(root)


PUBLISHED_SCENES: Mapping[str, PublishedScenes] = {
    "ade20k": PublishedScenes(is_ade20k, ade20k_listing),
    "cityscapes": PublishedScenes(is_cityscapes, cityscapes_listing),
    "cocostuff10k": PublishedScenes(is_cocostuff10k, cocostuff10k_listing),
}
"""The published data sets, by their kinds."""


def _paired_listing(root: Path, pairs: list[FolderPair], classes: SceneClasses) -> SceneListing:
    aside: list[BadFile] = []
    scenes = [scene for pair in pairs for scene in paired_scenes(pair, root, aside)]
    scenes.sort(key=lambda scene: scene.image)
    return SceneListing(root, tuple(scenes), classes, tuple(aside))


def _folder(path: Path) -> Path | None:
    return path if path.is_dir() else None


def _ade_folder(root: Path) -> Path | None:
    for folder in (root, root / _ADE_FOLDER):
        if all((folder / name / "training").is_dir() for name in ("images", "annotations")):
            return folder
    return None


def _ade_names(path: Path) -> tuple[str, ...] | None:
    """The first of the words for each class, from a table that may come with the images."""
    if not path.is_file():
        return None
    rows = [line.split("\t") for line in _lines(path)]
    names = {row[0].strip(): row[-1].split(",")[0].strip() for row in rows if len(row) > 1}
    try:
        ordered = tuple(names[str(number)] for number in range(1, ADE_CLASSES + 1))
    except KeyError as error:
        raise InvalidData(
            f"{path}: there is no line for class {error}; each of 1 to {ADE_CLASSES} needs one, "
            "with its number first and its name last. Unpack the file again, or take it away."
        ) from error
    return ordered


def _coco_classes(root: Path, coding: MaskCoding) -> SceneClasses:
    """Names from COCO-Stuff's own list if it lies beside the images; else the ids."""
    path = root / _COCO_NAMES
    numbered = (
        [re.fullmatch(r"(\d+):\s*(.+)", line) for line in _lines(path)] if path.is_file() else []
    )
    name_of = {int(found[1]): found[2] for found in numbered if found}
    return SceneClasses.numbered((name_of.get(i, str(i)) for i in COCO_IDS), coding)


def _is_converted_coco(root: Path) -> bool:
    return all((root / name / "train2014").is_dir() for name in ("images", "annotations"))


def _lines(path: Path) -> list[str]:
    """The lines of a text that are not empty."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidData(f"{path} cannot be read as text: {error}.") from error
    return [line.strip() for line in lines if line.strip()]
