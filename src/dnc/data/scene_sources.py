"""Opens a data set of scenes: recognises its layout and gives its parts."""

from dataclasses import replace
from pathlib import Path

from dnc.data.folder import require_folder
from dnc.data.listing import Progress
from dnc.data.scene_folder import WANTED, is_scene_folder, scene_folder_listing
from dnc.data.scene_listing import scene_splits_of
from dnc.data.scene_published import PUBLISHED_SCENES
from dnc.data.scenes import SceneSplits
from dnc.data.splitting import at_most_scenes, split_scenes_off
from dnc.errors import InvalidData, InvalidSetting

SCENE_KINDS: tuple[str, ...] = ("scenes", *PUBLISHED_SCENES)
"""The layouts that `open_scenes` knows."""


def open_scenes(
    path: str | Path,
    *,
    kind: str | None = None,
    validation_share: float = 0.2,
    seed: int = 0,
    train_images: int | None = None,
    check: bool = True,
    on_progress: Progress | None = None,
) -> SceneSplits:
    """The training, validation and test scenes of a data set.

    Args:
        path: a folder.
        kind: one of `SCENE_KINDS`; None recognises the layout.
        validation_share: the share of the training scenes that becomes the validation part, where
            the data set has none of its own; 0 for no validation. Published ones are never split.
        seed: of that split and of `train_images`.
        train_images: keep at most so many training scenes.
        check: look at the header of each image, decode each mask, and set aside what is bad.
        on_progress: is told how many of how many scenes were looked at.

    """
    path = Path(path).expanduser()
    require_folder(path, WANTED)
    kind = recognised_scene_kind(path) if kind is None else kind
    if kind is None:
        raise InvalidData(
            f"{path} holds no scenes that are known: wanted are the folders images and masks with "
            f"files of the same names, or one of {', '.join(PUBLISHED_SCENES)}. If it is one of "
            "these, say its kind to be told what is missing."
        )
    if kind not in SCENE_KINDS:
        raise InvalidSetting(f"There is no kind {kind!r}; allowed are {', '.join(SCENE_KINDS)}.")
    published = PUBLISHED_SCENES.get(kind)
    listing = scene_folder_listing(path) if published is None else published.listing(path)
    splits = scene_splits_of(listing, kind, check=check, on_progress=on_progress)
    train, validation = splits.train, splits.validation
    if train is not None and validation is None and published is None:
        train, validation = split_scenes_off(train, validation_share, seed=seed)
    if train is not None and train_images is not None:
        train = at_most_scenes(train, train_images, seed=seed)
    return replace(splits, train=train, validation=validation)


def recognised_scene_kind(path: str | Path) -> str | None:
    """The kind of the scenes in a folder, by what is there; None if it does not look like any."""
    path = Path(path).expanduser()
    if not path.is_dir():
        return None
    found = [kind for kind, source in PUBLISHED_SCENES.items() if source.is_there(path)]
    if len(found) > 1:
        raise InvalidData(f"{path} holds {', '.join(found)}; say which kind is meant.")
    if found:
        return found[0]
    return "scenes" if is_scene_folder(path) else None
