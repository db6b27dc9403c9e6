"""Images and masks that belong together because their names do."""

import unicodedata
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from dnc.data.collection import BadFile
from dnc.data.listing import image_files
from dnc.data.scene_listing import ListedScene


@dataclass(frozen=True)
class FolderPair:
    """A folder of images and the folder of their masks, for one part.

    Attributes:
        part: `train`, `validation` or `test`.
        images: the folder of images; None if there is none.
        masks: the folder of masks; None if there is none.
        image_ending: what the names of images end in, before the extension; others are left alone.
        mask_ending: likewise for masks.

    """

    part: str
    images: Path | None
    masks: Path | None
    image_ending: str = ""
    mask_ending: str = ""


def paired_scenes(pair: FolderPair, root: Path, aside: list[BadFile]) -> Iterator[ListedScene]:
    """Images and masks with the same name; what has no counterpart, or two, is set aside."""
    images = _by_stem(pair.images, root, pair.image_ending, aside)
    masks = _by_stem(pair.masks, root, pair.mask_ending, aside)
    for stem, names in images.items():
        counterparts = masks.pop(stem, [])
        if len(names) == len(counterparts) == 1:
            yield ListedScene(names[0], counterparts[0], pair.part)
        elif len(names) > 1:
            told = f"{' and '.join(names)} have the same name but for the extension; keep one"
            aside += [BadFile(name, told) for name in names]
        elif counterparts:
            told = f"it has the masks {' and '.join(counterparts)}; keep one"
            aside.append(BadFile(names[0], told))
        else:
            wanted = _wanted(pair.masks, root, f"{stem}{pair.mask_ending}")
            aside.append(BadFile(names[0], f"it has no mask: {wanted}"))
    for stem, names in masks.items():
        wanted = _wanted(pair.images, root, f"{stem}{pair.image_ending}")
        aside += [BadFile(name, f"it has no image: {wanted}") for name in names]


def _by_stem(
    folder: Path | None, root: Path, ending: str, aside: list[BadFile]
) -> dict[str, list[str]]:
    """Names relative to the root, by what they are in the folder without ending and extension."""
    by_stem: defaultdict[str, list[str]] = defaultdict(list)
    if folder is not None:
        inner = folder.relative_to(root).as_posix()
        for name in image_files(folder, root, unlistable=aside):
            stem = str(PurePosixPath(name).relative_to(inner).with_suffix(""))
            if stem.endswith(ending):
                # One and the same name may be encoded in two ways; file systems do not agree.
                normal = unicodedata.normalize("NFC", stem.removesuffix(ending))
                by_stem[normal].append(name)
    return by_stem


def _wanted(folder: Path | None, root: Path, stem: str) -> str:
    if folder is None:
        return "there is no folder of them"
    return f"looked for was {folder.relative_to(root).as_posix()}/{stem}.*"
