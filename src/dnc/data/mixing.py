"""Mixup and CutMix, row by row: some images of a batch are mixed with others of it."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from dnc.data.augmentation import rectangles
from dnc.data.batch import Batch
from dnc.data.settings import Augmentation


@dataclass(frozen=True)
class Mixture:
    """How the rows of a batch are mixed.

    Attributes:
        partner: the row that each is mixed with.
        weight: how much of each pixel is a row's own.
        share: the same, for the whole row.

    """

    partner: Int[Tensor, " n"]
    weight: Float[Tensor, "n h w"]
    share: Float[Tensor, " n"]


def batch_of(
    images: Float[Tensor, "n 3 h w"],
    labels: Int[Tensor, " n"],
    ids: Int[Tensor, " n"],
    *,
    augmentation: Augmentation | None,
    generator: np.random.Generator | None,
) -> Batch:
    """A batch, mixed if the augmentation says so."""
    images = images.contiguous(memory_format=torch.channels_last)
    other_labels, share = labels.clone(), torch.ones(len(labels))
    if augmentation is None or generator is None or not (augmentation.mixup or augmentation.cutmix):
        return Batch(images, labels, ids, other_labels, share)
    mixture = drawn_mixture(len(labels), images.shape[-1], augmentation, generator)
    mixed = (mixture.share < 1).nonzero()[:, 0]
    partner, weight = mixture.partner[mixed], mixture.weight[mixed][..., None]
    pixels = images.permute(0, 2, 3, 1)  # as they lie in memory
    blended = pixels[mixed] * weight + pixels[partner] * (1 - weight)
    images = pixels.index_copy(0, mixed, blended).permute(0, 3, 1, 2)
    other_labels[mixed] = labels[partner]
    return Batch(images, labels, ids, other_labels, mixture.share)


def drawn_mixture(
    rows: int, size: int, augmentation: Augmentation, generator: np.random.Generator
) -> Mixture:
    """Which rows are mixed with which, and how much."""
    partner = generator.permutation(rows)
    mixes = generator.random(rows) < augmentation.mix_probability
    mixes &= partner != np.arange(rows)
    both = augmentation.mixup > 0 and augmentation.cutmix > 0
    cuts = generator.random(rows) < (0.5 if both else float(augmentation.cutmix > 0))
    blended = generator.beta(augmentation.mixup or 1, augmentation.mixup or 1, rows)
    kept = generator.beta(augmentation.cutmix or 1, augmentation.cutmix or 1, rows)
    centres = generator.random((2, rows)) * size

    # CutMix: a square of the area 1 - kept around any point; what lies outside does not count.
    half = np.sqrt(1 - kept) * size / 2
    low = np.clip(np.round(centres - half), 0, size)
    extent = np.clip(np.round(centres + half), 0, size) - low
    top, left, height, width = torch.from_numpy(np.concatenate([low, extent]))
    pasted = rectangles(top, left, height, width, size)
    outside = 1 - torch.from_numpy(extent[0] * extent[1]) / size**2

    is_mixed, is_cut = torch.from_numpy(mixes), torch.from_numpy(cuts)
    share = torch.where(is_cut, outside, torch.from_numpy(blended)).float()
    share = torch.where(is_mixed, share, 1.0)
    weight = torch.where(is_cut[:, None, None], (~pasted).float(), share[:, None, None])
    weight = torch.where(is_mixed[:, None, None], weight, 1.0)
    return Mixture(torch.from_numpy(partner), weight, share)
