"""What is in a data set of scenes, and what is wrong with it."""

import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dnc.data.collection import BadFile
from dnc.data.images import decode_image
from dnc.data.inspecting import (
    SameImages,
    Seen,
    Spread,
    in_several_parts,
    looked_at,
    spread,
    with_the_same_bytes,
)
from dnc.data.listing import Progress
from dnc.data.masks import IGNORED
from dnc.data.scene_making import bad_file
from dnc.data.scene_sources import open_scenes
from dnc.data.scenes import Scenes, SceneSplits
from dnc.errors import UnreadableImage


@dataclass(frozen=True)
class SceneInspection:
    """What is in a data set of scenes, every image and mask decoded.

    Attributes:
        kind: one of `SCENE_KINDS`.
        root: the folder of the data set.
        classes: names of the classes.
        images: how many scenes each part has; those that cannot be read are not counted.
        pixel_shares: the share of each class in the pixels that have one, in each part.
        occurrences: in how many images of each part each class occurs.
        without_class: the share of pixels without a class, in each part.
        widths: of the images, as they are shown (a photo may be turned).
        heights: likewise.
        duplicates: groups of images with the same bytes.
        unreadable: files that cannot be used, with the reasons.
        unseen: classes of which training has no pixel.

    """

    kind: str
    root: str
    classes: tuple[str, ...]
    images: dict[str, int]
    pixel_shares: dict[str, tuple[float, ...]]
    occurrences: dict[str, tuple[int, ...]]
    without_class: dict[str, float]
    widths: Spread
    heights: Spread
    duplicates: tuple[SameImages, ...]
    unreadable: tuple[BadFile, ...]
    unseen: tuple[str, ...]

    @property
    def leaks(self) -> tuple[SameImages, ...]:
        """Duplicates that are in more than one part."""
        return in_several_parts(self.duplicates)

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON can hold it."""
        by_class = {
            field: {
                part: dict(zip(self.classes, values, strict=True)) for part, values in parts.items()
            }
            for field, parts in (
                ("pixel_shares", self.pixel_shares),
                ("occurrences", self.occurrences),
            )
        }
        return {**asdict(self), **by_class, "leaks": [asdict(group) for group in self.leaks]}


@dataclass(frozen=True)
class _SeenScene(Seen):
    pixels: NDArray[np.int64]


def inspect_scenes(
    data: SceneSplits | str | Path, *, on_progress: Progress | None = None
) -> SceneInspection:
    """Decodes every image and mask of a data set and says what is in it.

    Args:
        data: a data set, or the path of one.
        on_progress: is told how many of how many scenes were decoded.

    """
    splits = data if isinstance(data, SceneSplits) else open_scenes(data, check=False)
    parts = splits.parts()
    seen, bad = looked_at(parts, _seen, things="scenes", on_progress=on_progress)
    classes = splits.classes
    images = {part: [one for one in seen if one.part == part] for part in parts}
    pixels = {part: _pixels(of_part, len(classes)) for part, of_part in images.items()}
    trained = pixels.get("train", np.ones((1, len(classes)))).sum(axis=0)
    return SceneInspection(
        kind=splits.kind,
        root=str(next(iter(parts.values())).root),
        classes=classes,
        images={part: len(of_part) for part, of_part in images.items()},
        pixel_shares={part: _shares(counts) for part, counts in pixels.items()},
        occurrences={part: tuple((n > 0).sum(axis=0).tolist()) for part, n in pixels.items()},
        without_class={
            part: _share_without_class(of_part, pixels[part]) for part, of_part in images.items()
        },
        widths=spread([one.width for one in seen]),
        heights=spread([one.height for one in seen]),
        duplicates=tuple(same for same, _ in with_the_same_bytes(seen)),
        unreadable=(*splits.set_aside, *bad),
        unseen=tuple(name for name, count in zip(classes, trained, strict=True) if not count),
    )


def _seen(scenes: Scenes, part: str, position: int) -> _SeenScene | BadFile:
    path, name = scenes.path(position), scenes.names[position]
    try:
        content = path.read_bytes()
    except OSError as error:
        return BadFile(name, error.strerror or "it cannot be read")
    try:
        image, _ = decode_image(content, path)
        mask = scenes.read_mask(position, image.size)
    except UnreadableImage as error:
        return bad_file(scenes, position, error)
    return _SeenScene(
        name=name,
        part=part,
        digest=hashlib.sha256(content).digest(),
        width=image.width,
        height=image.height,
        pixels=np.bincount(mask[mask != IGNORED], minlength=len(scenes.classes)),
    )


def _pixels(seen: list[_SeenScene], classes: int) -> NDArray[np.int64]:
    """Pixels of each class in each scene, `(n c)`."""
    return np.array([one.pixels for one in seen], dtype=np.int64).reshape(len(seen), classes)


def _shares(pixels: NDArray[np.int64]) -> tuple[float, ...]:
    counts = pixels.sum(axis=0)
    return tuple((counts / max(1, counts.sum())).tolist())


def _share_without_class(seen: list[_SeenScene], pixels: NDArray[np.int64]) -> float:
    whole = sum(one.width * one.height for one in seen)
    return 1 - int(pixels.sum()) / whole if whole else 0.0
