"""Scenes of one's own: a folder of images, and one of masks with the same names."""

from pathlib import Path

from dnc.data.collection import BadFile
from dnc.data.folder import require_folder
from dnc.data.images import EXTENSIONS
from dnc.data.listing import PART_OF_FOLDER, image_files, is_folder, visible_entries
from dnc.data.scene_classes import described_classes
from dnc.data.scene_listing import SceneListing
from dnc.data.scene_pairing import FolderPair, paired_scenes
from dnc.errors import InvalidData

IMAGES, MASKS = "images", "masks"


WANTED = "a folder with the folders images and masks"


def scene_folder_listing(root: Path) -> SceneListing:
    """The scenes of `images/**` and `masks/**`, or of both in each of train, val and test."""
    require_folder(root, WANTED)
    pairs = _pairs(root)
    if not pairs:
        raise InvalidData(
            f"{root / IMAGES} and {root / MASKS} were looked for, and both in train, val and test; "
            "they are not there. Put images into the one, masks of the same names into the other."
        )
    aside: list[BadFile] = []
    scenes = [scene for pair in pairs for scene in paired_scenes(pair, root, aside)]
    scenes.sort(key=lambda scene: scene.image)
    return SceneListing(root, tuple(scenes), described_classes(root), tuple(aside))


def is_scene_folder(root: Path) -> bool:
    """Whether a folder has images and masks, beside each other or in one of its parts."""
    folders = _folders(root)
    parts = [_folders(path) for name, path in folders.items() if name in PART_OF_FOLDER]
    return any(IMAGES in found and MASKS in found for found in (folders, *parts))


def _pairs(root: Path) -> list[FolderPair]:
    folders = _folders(root)
    if IMAGES in folders and MASKS in folders:
        images, masks = folders[IMAGES], folders[MASKS]
        of_images = _parts_alone(images)
        if not of_images:
            return [FolderPair("train", images, masks)]
        of_masks = _parts(masks)
        parts = (*of_images, *(part for part in of_masks if part not in of_images))
        return [FolderPair(part, of_images.get(part), of_masks.get(part)) for part in parts]
    inner = {part: _folders(folder) for part, folder in _parts(root).items()}
    pairs = [FolderPair(part, found.get(IMAGES), found.get(MASKS)) for part, found in inner.items()]
    return pairs if any(pair.images and pair.masks for pair in pairs) else []


def _folders(root: Path) -> dict[str, Path]:
    """The folders in a folder, by their names in lower case."""
    return {e.name.lower(): root / e.name for e in visible_entries(root) if is_folder(e)}


def _parts(folder: Path) -> dict[str, Path]:
    """The folders in a folder that are named after a part."""
    parts: dict[str, Path] = {}
    for name, path in _folders(folder).items():
        part = PART_OF_FOLDER.get(name)
        if part in parts:
            raise InvalidData(
                f"{folder} has the folders {parts[part].name} and {path.name}, which mean the same "
                "part. Keep one of them."
            )
        if part is not None:
            parts[part] = path
    return parts


def _parts_alone(folder: Path) -> dict[str, Path]:
    """The parts of a folder; none if it has one of them beside other images: that is a name."""
    parts = _parts(folder)
    if not parts:
        return {}
    others = [folder / entry.name for entry in visible_entries(folder)]
    beside = [path.name for path in others if path not in parts.values() and _holds_images(path)]
    if beside and len(parts) > 1:
        raise InvalidData(
            f"{folder} has {', '.join(path.name for path in parts.values())} beside "
            f"{', '.join(map(repr, beside[:5]))}. It must hold either parts or none; move the "
            "others away."
        )
    return {} if beside else parts


def _holds_images(path: Path) -> bool:
    return bool(image_files(path, path)) if path.is_dir() else path.suffix.lower() in EXTENSIONS
