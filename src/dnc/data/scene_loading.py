"""Loaders of scenes: batches of squares for training, whole images for evaluation."""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from dnc.data.background import RequestLoader
from dnc.data.collection import BadFile
from dnc.data.disk import default_workers
from dnc.data.order import Plan
from dnc.data.scene_batch import SceneBatch, WholeScene
from dnc.data.scene_making import HeldScenes, SceneMaker, SceneRequest, decoded_scene
from dnc.data.scene_settings import SceneAugmentation, ScenePreprocessing
from dnc.data.scenes import Scenes
from dnc.errors import InvalidData, InvalidSetting

MOST_THREADS = 4


class SceneLoader(RequestLoader[SceneBatch]):
    """Batches of squares that are cut out of scenes, one of each scene in an epoch.

    A scene that cannot be decoded is left out of its batch and noted; the batch is then smaller,
    and may be empty, but it comes. The batches depend on seed, settings and epoch alone.
    """


def scene_loader(
    scenes: Scenes,
    preprocessing: ScenePreprocessing,
    *,
    batch_size: int,
    augmentation: SceneAugmentation,
    shuffle: bool = False,
    drop_last: bool = False,
    seed: int = 0,
    rank: int = 0,
    world: int = 1,
    workers: int | None = None,
    memory_limit_bytes: int = 1 << 30,
) -> SceneLoader:
    """A loader that gives the training batches of one process.

    Args:
        scenes: what to load.
        preprocessing: how images become the input of a network.
        batch_size: squares in a batch of one process; `world` times as many in all.
        augmentation: how squares are cut out and varied.
        shuffle: a new order for each epoch.
        drop_last: leave out a last batch that is not full, unless it is the only one.
        seed: of order and augmentation.
        rank: the number of this process.
        world: how many processes share the scenes.
        workers: processes that decode; 0 decodes in this one, None for one a core, eight at most.
        memory_limit_bytes: decoded scenes are held up to this size, by all workers together.

    """
    if not len(scenes):
        raise InvalidData(f"There is no scene to load from {scenes.root}.")
    _require_workers(workers)
    processes = default_workers() if workers is None else workers
    plan = Plan(
        images=len(scenes),
        batch_size=batch_size,
        shuffle=shuffle,
        drop_last=drop_last,
        seed=seed,
        rank=rank,
        world=world,
    )

    def request(epoch: int, index: int, positions: NDArray[np.int64]) -> SceneRequest:
        return SceneRequest(positions, seed, epoch)

    held = HeldScenes(scenes, memory_limit_bytes // max(1, processes))
    maker = SceneMaker(held, preprocessing, augmentation)
    return SceneLoader(maker, plan, request=request, workers=processes)


class WholeScenes:
    """Scenes one after another, read ahead in threads; those that cannot be read are noted.

    Args:
        scenes: what to read.
        positions: which of them.
        threads: that read; 0 reads in this one.

    """

    def __init__(self, scenes: Scenes, positions: range, *, threads: int) -> None:
        self.scenes = scenes
        self.positions = positions
        self.threads = threads
        self._bad_files: dict[str, BadFile] = {}

    def __len__(self) -> int:
        """How many scenes there are, those that cannot be read included."""
        return len(self.positions)

    def __iter__(self) -> Iterator[WholeScene]:
        """The scenes that can be read, in order."""
        for scene in self._ahead() if self.threads else map(self._read, self.positions):
            if isinstance(scene, WholeScene):
                yield scene
            else:
                self._bad_files.setdefault(scene.path, scene)

    @property
    def bad_files(self) -> tuple[BadFile, ...]:
        """Files that could not be read so far, each once."""
        return tuple(self._bad_files.values())

    def _read(self, position: int) -> WholeScene | BadFile:
        decoded = decoded_scene(self.scenes, position)
        if isinstance(decoded, BadFile):
            return decoded
        return WholeScene(*decoded, id=int(self.scenes.ids[position]), position=position)

    def _ahead(self) -> Iterator[WholeScene | BadFile]:
        waiting: deque[Future[WholeScene | BadFile]] = deque()
        pool = ThreadPoolExecutor(self.threads)
        try:
            for position in self.positions:
                waiting.append(pool.submit(self._read, position))
                # Whole images are large: no more of them than keep the threads busy.
                if len(waiting) > 2 * self.threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def whole_scenes(
    scenes: Scenes, *, workers: int | None = None, rank: int = 0, world: int = 1
) -> WholeScenes:
    """Scenes one at a time, each as large as it is, for evaluation.

    Args:
        scenes: what to read.
        workers: threads that read ahead; 0 for none, None for one a core, four at most.
        rank: the number of this process; each has a contiguous share.
        world: how many processes share the scenes.

    """
    if not 0 <= rank < world:
        raise InvalidSetting(f"rank is {rank} in a world of {world}; it must be in 0..world - 1.")
    _require_workers(workers)
    threads = min(MOST_THREADS, default_workers()) if workers is None else workers
    share = range(len(scenes) * rank // world, len(scenes) * (rank + 1) // world)
    return WholeScenes(scenes, share, threads=threads)


def _require_workers(workers: int | None) -> None:
    if workers is not None and workers < 0:
        raise InvalidSetting(f"workers is {workers}; it must be 0 or more.")
