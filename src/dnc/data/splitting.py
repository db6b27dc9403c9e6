"""Seeded parts of a data set: of labelled images the same share of every class."""

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dnc.data.collection import Images
from dnc.data.scenes import Scenes
from dnc.errors import InvalidSetting


def split_off(images: Images, share: float, *, seed: int) -> tuple[Images, Images | None]:
    """What stays, and a part with this share of each class (None if the share is 0).

    A class of two or more images gives at least one and keeps at least one; a class of one keeps
    it. Whether an image is in the part hangs on its own name and the seed, and hardly on which
    other images there are: a data set that grows does not shuffle its parts.
    """
    _require_share(share)
    if share == 0:
        return images, None
    order = _order_by_hash(images.names, f"split {seed}")
    given: list[NDArray[np.int64]] = []
    for of_class in _positions_by_class(images, order):
        count = 0 if len(of_class) < 2 else round(share * len(of_class))
        given.append(of_class[: min(max(count, 1), len(of_class) - 1)])
    chosen = np.sort(np.concatenate(given)) if given else np.empty(0, np.int64)
    stays = np.setdiff1d(np.arange(len(images)), chosen)
    return images.subset(stays), images.subset(chosen) if len(chosen) else None


def at_most_per_class(images: Images, count: int, *, seed: int) -> Images:
    """A seeded choice of at most so many images of each class; a larger one contains a smaller."""
    if count < 1:
        raise InvalidSetting(f"train_per_class is {count}; it must be at least 1.")
    order = _order_by_hash(images.names, f"per class {seed}")
    chosen = [of_class[:count] for of_class in _positions_by_class(images, order)]
    return images.subset(np.sort(np.concatenate(chosen)) if chosen else [])


def split_scenes_off(scenes: Scenes, share: float, *, seed: int) -> tuple[Scenes, Scenes | None]:
    """What stays, and a part with this share of the scenes (None if the share is 0).

    Two scenes or more give at least one and keep at least one. As with `split_off`, a data set
    that grows does not shuffle its parts.
    """
    _require_share(share)
    if share == 0 or len(scenes) < 2:
        return scenes, None
    count = min(max(round(share * len(scenes)), 1), len(scenes) - 1)
    order = _order_by_hash(scenes.names, f"split {seed}")
    return scenes.subset(np.sort(order[count:])), scenes.subset(np.sort(order[:count]))


def at_most_scenes(scenes: Scenes, count: int, *, seed: int) -> Scenes:
    """A seeded choice of at most so many scenes; a larger one contains a smaller."""
    if count < 1:
        raise InvalidSetting(f"train_images is {count}; it must be at least 1.")
    return scenes.subset(np.sort(_order_by_hash(scenes.names, f"scenes {seed}")[:count]))


def _require_share(share: float) -> None:
    if not 0 <= share < 1:
        raise InvalidSetting(f"validation_share is {share}; it must be at least 0 and below 1.")


def _order_by_hash(names: Sequence[str], salt: str) -> NDArray[np.int64]:
    """Positions in an order that is random, yet says nothing about other names."""
    prefix = hashlib.blake2b(salt.encode() + b"\0", digest_size=8)

    def key(name: str) -> bytes:
        digest = prefix.copy()
        digest.update(name.encode("utf-8", "surrogatepass"))
        return digest.digest()

    keys = [key(name) for name in names]
    return np.array(sorted(range(len(names)), key=keys.__getitem__), dtype=np.int64)


def _positions_by_class(images: Images, order: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """The positions of each class that has images, in the given order."""
    labels = images.labels[order]
    grouped = order[np.argsort(labels, kind="stable")]
    ends = np.cumsum(np.bincount(labels, minlength=len(images.classes)))[:-1]
    return [part for part in np.split(grouped, ends) if len(part)]
