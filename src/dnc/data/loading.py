"""One function for all loaders."""

from typing import Literal

from dnc.data.batch import Loader
from dnc.data.collection import Images
from dnc.data.disk import DiskLoader, default_workers
from dnc.data.listing import Progress
from dnc.data.memory import HeldImages, MemoryLoader
from dnc.data.order import Plan
from dnc.data.settings import Augmentation, Preprocessing
from dnc.errors import InvalidData, InvalidSetting

Store = Literal["auto", "memory", "disk"]


def loader(
    images: Images,
    preprocessing: Preprocessing,
    *,
    batch_size: int,
    augmentation: Augmentation | None = None,
    shuffle: bool = False,
    drop_last: bool = False,
    seed: int = 0,
    rank: int = 0,
    world: int = 1,
    workers: int | None = None,
    memory_limit_bytes: int = 1 << 30,
    store: Store = "auto",
    on_progress: Progress | None = None,
) -> Loader:
    """A loader that gives the batches of one process.

    Args:
        images: what to load.
        preprocessing: how images become the input of a network.
        batch_size: images in a batch of one process; `world` times as many in all.
        augmentation: how training images are varied; None for evaluation.
        shuffle: a new order for each epoch.
        drop_last: leave out a last batch that is not full, unless it is the only one.
        seed: of order and augmentation.
        rank: the number of this process.
        world: how many processes share the images.
        workers: processes that decode, for `disk`; None for one a core, eight at most.
        memory_limit_bytes: `auto` holds images in memory up to this size.
        store: `memory` decodes all images at once and holds them, `disk` decodes them as they are
            needed, `auto` chooses by size.
        on_progress: is told how many of how many images are decoded, for `memory`.

    """
    if not len(images):
        raise InvalidData(f"There is no image to load from {images.root}.")
    if workers is not None and workers < 0:
        raise InvalidSetting(f"workers is {workers}; it must be 0 or more.")
    if store not in ("auto", "memory", "disk"):
        raise InvalidSetting(f"store is {store!r}; allowed are auto, memory and disk.")
    needed = len(images) * preprocessing.resize**2 * 3
    in_memory = store == "memory" or (store == "auto" and needed <= memory_limit_bytes)

    def plan(count: int) -> Plan:
        return Plan(
            images=count,
            batch_size=batch_size,
            shuffle=shuffle,
            drop_last=drop_last,
            seed=seed,
            rank=rank,
            world=world,
        )

    if not in_memory:
        return DiskLoader(
            images,
            plan(len(images)),
            preprocessing=preprocessing,
            augmentation=augmentation,
            workers=default_workers() if workers is None else workers,
        )
    plan(len(images))  # settings that cannot be are better refused before all is decoded
    held = HeldImages(images, preprocessing, on_progress=on_progress)
    return MemoryLoader(
        held,
        plan(len(held.labels)),
        preprocessing=preprocessing,
        augmentation=augmentation,
    )
