"""What a loader gives: a batch of images with labels and ids."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dnc.data.collection import BadFile


@dataclass(frozen=True, eq=False)
class Batch:
    """Normalised images with what is known of them.

    The target of a row is `share * onehot(labels) + (1 - share) * onehot(other_labels)`; a row that
    is not mixed has share 1 and twice the same label.

    Attributes:
        images: normalised, channels last in memory.
        labels: the class of each image.
        ids: the id of each image in its data set.
        other_labels: the class of what each image was mixed with.
        share: how much of a row is its own image.

    """

    images: Float[Tensor, "n 3 h w"]
    labels: Int[Tensor, " n"]
    ids: Int[Tensor, " n"]
    other_labels: Int[Tensor, " n"]
    share: Float[Tensor, " n"]

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.labels)

    @property
    def single_label(self) -> Bool[Tensor, " n"]:
        """Which rows carry one label: not mixed, or mixed with an image of the same class."""
        return (self.share == 1) | (self.labels == self.other_labels)

    def to(self, device: torch.device | str, non_blocking: bool = False) -> "Batch":
        """The same batch on another device."""
        return Batch(
            images=self.images.to(device, non_blocking=non_blocking),
            labels=self.labels.to(device, non_blocking=non_blocking),
            ids=self.ids.to(device, non_blocking=non_blocking),
            other_labels=self.other_labels.to(device, non_blocking=non_blocking),
            share=self.share.to(device, non_blocking=non_blocking),
        )


class Loader(Protocol):
    """Gives the batches of one epoch after another.

    The batches depend on the loader's seed and settings and on the epoch, on nothing else.
    """

    def __iter__(self) -> Iterator[Batch]:
        """The batches of the current epoch."""

    def __len__(self) -> int:
        """How many batches an epoch has, the same for all ranks."""

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch that the next iteration gives."""

    @property
    def bad_files(self) -> tuple[BadFile, ...]:
        """Files that could not be decoded so far, each once."""
