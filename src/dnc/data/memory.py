"""A loader for images that fit in memory: decoded once, augmented a batch at a time."""

from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import UInt8
from numpy.typing import NDArray
from torch import Tensor

from dnc.data.augmentation import varied
from dnc.data.batch import Batch
from dnc.data.collection import BadFile, Images
from dnc.data.listing import Progress, in_threads
from dnc.data.mixing import batch_of
from dnc.data.order import Plan, generator
from dnc.data.preparation import centre, middle_square, normalised
from dnc.data.settings import Augmentation, Preprocessing
from dnc.errors import InvalidData, UnreadableImage


class MemoryLoader:
    """Batches of images that are held as one block of 8-bit pixels; no other process takes part.

    Args:
        held: the images, scaled to squares.
        plan: which of them are in which batch.
        preprocessing: how they become the input of a network.
        augmentation: how they are varied; None for evaluation.

    """

    def __init__(
        self,
        held: "HeldImages",
        plan: Plan,
        *,
        preprocessing: Preprocessing,
        augmentation: Augmentation | None,
    ) -> None:
        self.held = held
        self.plan = plan
        self.preprocessing = preprocessing
        self.augmentation = augmentation
        self._epoch = 0

    def __iter__(self) -> Iterator[Batch]:
        """The batches of the current epoch."""
        return self._batches(self._epoch)

    def __len__(self) -> int:
        """How many batches an epoch has, the same for all ranks."""
        return len(self.plan)

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch that the next iteration gives."""
        self._epoch = epoch

    @property
    def bad_files(self) -> tuple[BadFile, ...]:
        """Files that could not be decoded."""
        return self.held.bad_files

    def _batches(self, epoch: int) -> Iterator[Batch]:
        held, plan = self.held, self.plan
        for index, positions in plan.batches(epoch):
            rows = torch.from_numpy(positions)
            pixels, ids = held.pixels[rows], held.ids[positions]
            if self.augmentation is None:
                images = normalised(centre(pixels, self.preprocessing.size), self.preprocessing)
            else:
                images = varied(
                    pixels,
                    self.preprocessing,
                    self.augmentation,
                    seed=plan.seed,
                    epoch=epoch,
                    ids=ids,
                )
            yield batch_of(
                images,
                torch.from_numpy(held.labels[positions]),
                torch.from_numpy(ids),
                augmentation=self.augmentation,
                generator=generator(plan.seed, epoch, f"mixing {index} {plan.rank}"),
            )


class HeldImages:
    """Images as one block of pixels `(n resize resize 3)`; those that cannot be read are left out.

    Attributes:
        pixels: the block.
        labels: the class of each, `(n)`.
        ids: the id of each, `(n)`.
        bad_files: what was left out.

    """

    pixels: UInt8[Tensor, "n r r 3"]
    labels: NDArray[np.int64]
    ids: NDArray[np.int64]
    bad_files: tuple[BadFile, ...]

    def __init__(
        self, images: Images, preprocessing: Preprocessing, *, on_progress: Progress | None
    ) -> None:
        side = preprocessing.resize
        if images.pixels is not None and images.pixels.shape[1:] == (side, side, 3):
            self.pixels = torch.from_numpy(np.require(images.pixels, requirements=["C", "W"]))
            self.labels, self.ids, self.bad_files = images.labels, images.ids, ()
            return
        block = torch.empty((len(images), side, side, 3), dtype=torch.uint8)

        def fill(position: int) -> BadFile | None:
            try:
                image = images.read(position, shorter_side=side)
            except UnreadableImage as error:
                return BadFile(images.names[position], error.reason)
            block[position] = torch.from_numpy(middle_square(image, preprocessing))
            return None

        results = list(in_threads(fill, range(len(images)), on_progress=on_progress))
        self.bad_files = tuple(bad for bad in results if bad is not None)
        if len(self.bad_files) == len(images):
            raise InvalidData(
                f"None of the {len(images)} images in {images.root} can be decoded; the first is "
                f"{self.bad_files[0].path}: {self.bad_files[0].reason}."
            )
        good = np.flatnonzero([bad is None for bad in results])
        self.pixels = block[torch.from_numpy(good)] if self.bad_files else block
        self.labels, self.ids = images.labels[good], images.ids[good]
