"""From a list of images and their masks to the parts of a data set."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dnc.data.collection import BadFile
from dnc.data.listing import Progress, in_threads
from dnc.data.masks import MOST_CLASSES, MaskCoding
from dnc.data.scene_classes import FILES, USUALLY_IGNORED, SceneClasses
from dnc.data.scene_making import bad_file
from dnc.data.scenes import Scenes, SceneSplits
from dnc.errors import InvalidData, UnreadableImage


@dataclass(frozen=True)
class ListedScene:
    """An image and its mask, by their names relative to the root, and their part."""

    image: str
    mask: str
    part: str = "train"


@dataclass(frozen=True)
class SceneListing:
    """All scenes of a data set, in the order of their ids.

    Attributes:
        root: the folder that the names are relative to.
        scenes: the scenes.
        classes: the classes; None for the numbers that the training masks have.
        set_aside: what was found and is no scene.

    """

    root: Path
    scenes: tuple[ListedScene, ...]
    classes: SceneClasses | None = None
    set_aside: tuple[BadFile, ...] = ()


def scene_splits_of(
    listing: SceneListing, kind: str, *, check: bool, on_progress: Progress | None
) -> SceneSplits:
    """The parts that the scenes of a listing were given; bad ones are set aside."""
    if listing.classes is None:
        classes, bad = _classes_found(listing, check=check, on_progress=on_progress)
        scenes = _all_scenes(listing, classes)
    else:
        scenes = _all_scenes(listing, listing.classes)
        read = _highest_classes(scenes, range(len(scenes)) if check else (), on_progress)
        bad = _bad(read)
    aside = (*listing.set_aside, *(bad[position] for position in sorted(bad)))
    if len(bad) == len(scenes):
        raise _nothing_usable(listing, aside)

    def part(name: str) -> Scenes | None:
        chosen = [i for i, scene in enumerate(listing.scenes) if scene.part == name]
        chosen = [i for i in chosen if i not in bad]
        return scenes.subset(chosen) if chosen else None

    return SceneSplits(
        train=part("train"),
        validation=part("validation"),
        test=part("test"),
        set_aside=aside,
        kind=kind,
        listing=scenes.names,
    )


def _classes_found(
    listing: SceneListing, *, check: bool, on_progress: Progress | None
) -> tuple[SceneClasses, dict[int, BadFile]]:
    """The numbers that the training masks have as classes, and the scenes that are bad.

    Every mask is read once; again only where it has a class that is in no training mask.
    """
    everything = range(len(listing.scenes))
    training = [i for i in everything if listing.scenes[i].part == "train"] or everything
    scenes = _all_scenes(listing, _any_number())
    read = _highest_classes(scenes, everything if check else training, on_progress)
    highest = [found for i in training if isinstance(found := read[i], int)]
    if not highest:
        raise _nothing_usable(listing, (*listing.set_aside, *_bad(read).values()))
    count = max(highest) + 1
    if count < 2:
        raise InvalidData(
            f"{listing.root}: the training masks have no number above 0 but {USUALLY_IGNORED}, "
            "which is for pixels without a class; at least two classes are needed. If the numbers "
            f"mean something else, say it in {listing.root / FILES[0]}."
        )
    coding = MaskCoding.by_number(range(count), ignored=[USUALLY_IGNORED])
    classes = SceneClasses.numbered(map(str, range(count)), coding)
    beyond = [i for i, found in read.items() if isinstance(found, int) and found >= count]
    read |= _highest_classes(_all_scenes(listing, classes), beyond, None)
    return classes, _bad(read)


def _highest_classes(
    scenes: Scenes, positions: Sequence[int], on_progress: Progress | None
) -> dict[int, int | BadFile]:
    """The highest class in the mask of each scene, or what is wrong with the scene."""

    def highest(position: int) -> int | BadFile:
        try:
            return int(scenes.read_mask(position).max())
        except UnreadableImage as error:
            return bad_file(scenes, position, error)

    found = in_threads(highest, positions, on_progress=on_progress)
    return dict(zip(positions, found, strict=True))


def _bad(read: dict[int, int | BadFile]) -> dict[int, BadFile]:
    return {position: found for position, found in read.items() if isinstance(found, BadFile)}


def _all_scenes(listing: SceneListing, classes: SceneClasses) -> Scenes:
    return Scenes(
        root=listing.root,
        names=tuple(scene.image for scene in listing.scenes),
        masks=tuple(scene.mask for scene in listing.scenes),
        ids=np.arange(len(listing.scenes)),
        classes=classes.names,
        colours=classes.colours,
        coding=classes.coding,
    )


def _any_number() -> SceneClasses:
    coding = MaskCoding.by_number(range(MOST_CLASSES), ignored=[USUALLY_IGNORED])
    return SceneClasses(("",) * MOST_CLASSES, ((0, 0, 0),) * MOST_CLASSES, coding)


def _nothing_usable(listing: SceneListing, aside: Sequence[BadFile]) -> InvalidData:
    found = f"{len(aside)} files, none of which can be used" if aside else "no image with a mask"
    example = ""
    if aside:
        [(reason, count)] = Counter(bad.reason for bad in aside).most_common(1)
        first = next(bad.path for bad in aside if bad.reason == reason)
        example = f" ({count} of them, such as {first}: {reason})"
    return InvalidData(
        f"{listing.root} has {found}{example}. Expected are images and masks of the same names, in "
        "the folders images and masks, or one of the published data sets."
    )
