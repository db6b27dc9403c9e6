"""A loader for any number of image files: decoded when needed, by processes in the background."""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset
from torchvision.transforms import v2

from dnc.data.augmentation import ERASED_AREA, ERASED_RATIO, randaugment
from dnc.data.background import Answer, RequestLoader
from dnc.data.batch import Batch
from dnc.data.collection import BadFile, Images
from dnc.data.images import read_image
from dnc.data.mixing import batch_of
from dnc.data.order import Plan, generator, hashes
from dnc.data.preparation import centre, middle_square, normalised
from dnc.data.settings import Augmentation, Preprocessing
from dnc.errors import UnreadableImage

MOST_WORKERS = 8


@dataclass(frozen=True)
class _Request:
    """All that a worker must know to make a batch; workers themselves keep nothing."""

    sources: tuple[str | NDArray[np.uint8], ...]
    names: tuple[str, ...]
    labels: NDArray[np.int64]
    ids: NDArray[np.int64]
    seed: int
    epoch: int
    mixing: str


class DiskLoader(RequestLoader[Batch]):
    """Batches of images that are read from their files when they are needed.

    A file that cannot be decoded is left out of its batch and noted; the batch is then smaller,
    and may be empty, but it comes.

    Args:
        images: the images.
        plan: which of them are in which batch.
        preprocessing: how they become the input of a network.
        augmentation: how they are varied; None for evaluation.
        workers: processes that decode; 0 decodes in this one.

    """

    def __init__(
        self,
        images: Images,
        plan: Plan,
        *,
        preprocessing: Preprocessing,
        augmentation: Augmentation | None,
        workers: int,
    ) -> None:
        def request(epoch: int, index: int, positions: NDArray[np.int64]) -> _Request:
            names = tuple(images.names[i] for i in positions)
            sources: tuple[str | NDArray[np.uint8], ...] = (
                tuple(str(images.root / name) for name in names)
                if images.pixels is None
                else tuple(images.pixels[positions])
            )
            labels, ids = images.labels[positions], images.ids[positions]
            mixing = f"mixing {index} {plan.rank}"
            return _Request(sources, names, labels, ids, plan.seed, epoch, mixing)

        super().__init__(
            _Decoder(preprocessing, augmentation), plan, request=request, workers=workers
        )


def default_workers() -> int:
    """One worker for each core that this process may use, eight at most."""
    return min(MOST_WORKERS, usable_cores())


def usable_cores() -> int:
    """Cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)  # not on every system
    return (len(affinity(0)) if affinity is not None else os.cpu_count()) or 1


class _Decoder(Dataset[Answer[Batch]]):
    """Makes batches on request."""

    def __init__(self, preprocessing: Preprocessing, augmentation: Augmentation | None) -> None:
        self.preprocessing = preprocessing
        self.augmentation = augmentation
        self.transform = _transform(preprocessing, augmentation) if augmentation else None

    def __getitem__(self, request: _Request) -> Answer[Batch]:
        size = self.preprocessing.size
        seeds = hashes(request.seed, request.epoch, request.ids, purpose="augmentation")
        rows, kept, bad = [], [], []
        for i, (source, name) in enumerate(zip(request.sources, request.names, strict=True)):
            try:
                rows.append(self._row(source, int(seeds[i] >> np.uint64(1))))
                kept.append(i)
            except UnreadableImage as error:
                bad.append(BadFile(name, error.reason))
        images = torch.stack(rows) if rows else torch.empty(0, 3, size, size)
        batch = batch_of(
            images,
            torch.from_numpy(request.labels[kept]),
            torch.from_numpy(request.ids[kept]),
            augmentation=self.augmentation,
            generator=generator(request.seed, request.epoch, request.mixing),
        )
        return Answer(batch, tuple(bad))

    def _row(self, source: str | NDArray[np.uint8], seed: int) -> Float[Tensor, "3 h w"]:
        # A small part of the picture may be all that a resized crop takes: there, decode it all.
        whole = self.augmentation is not None and self.augmentation.crop == "resized"
        if isinstance(source, str):
            shorter_side = None if whole else self.preprocessing.resize
            image = read_image(Path(source), shorter_side=shorter_side)
        else:
            image = Image.fromarray(source)
        if not whole:
            image = Image.fromarray(middle_square(image, self.preprocessing))
        if self.transform is None:
            pixels = torch.from_numpy(np.array(image))[None]
            return normalised(centre(pixels, self.preprocessing.size), self.preprocessing)[0]
        with torch.random.fork_rng(devices=[]):
            # Not torch.manual_seed: that would seed the generators of the GPUs as well.
            torch.default_generator.manual_seed(seed)
            row: Tensor = self.transform(image)
        return row


def _transform(preprocessing: Preprocessing, augmentation: Augmentation) -> v2.Transform:
    """Transforms of torchvision, from an RGB image to a normalised tensor `(3 h w)`."""
    size = preprocessing.size
    steps: list[torch.nn.Module] = []
    if augmentation.crop == "resized":
        interpolation = v2.InterpolationMode(preprocessing.interpolation)
        steps.append(
            v2.RandomResizedCrop(
                size,
                scale=augmentation.scale,
                ratio=augmentation.ratio,
                interpolation=interpolation,
                antialias=True,
            )
        )
    elif augmentation.crop == "padded":
        steps.append(v2.RandomCrop(size, padding=augmentation.padding))
    else:
        steps.append(v2.CenterCrop(size))
    if augmentation.flip:
        steps.append(v2.RandomHorizontalFlip())
    if augmentation.randaugment:
        steps.append(randaugment(preprocessing, augmentation))
    if augmentation.colour_jitter:
        steps.append(v2.ColorJitter(*[augmentation.colour_jitter] * 3))
    steps.append(v2.PILToTensor())
    steps.append(v2.ToDtype(torch.float32, scale=True))
    steps.append(v2.Normalize(list(preprocessing.mean), list(preprocessing.std)))
    if augmentation.erasing:
        steps.append(v2.RandomErasing(augmentation.erasing, scale=ERASED_AREA, ratio=ERASED_RATIO))
    return v2.Compose(steps)
