"""What the loaders of scenes give: batches of squares, and whole images."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int64
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor


@dataclass(frozen=True, eq=False)
class SceneBatch:
    """Normalised squares of scenes.

    Attributes:
        images: normalised, channels last in memory.
        labels: the class of each pixel; -100 where it has none.
        ids: the id of each scene in its data set.

    """

    images: Float[Tensor, "n 3 h w"]
    labels: Int64[Tensor, "n h w"]
    ids: Int64[Tensor, " n"]

    def __len__(self) -> int:
        """How many squares there are."""
        return len(self.ids)

    def to(self, device: torch.device | str, non_blocking: bool = False) -> "SceneBatch":
        """The same batch on another device."""
        return SceneBatch(
            images=self.images.to(device, non_blocking=non_blocking),
            labels=self.labels.to(device, non_blocking=non_blocking),
            ids=self.ids.to(device, non_blocking=non_blocking),
        )


@dataclass(frozen=True, eq=False)
class WholeScene:
    """An image as large as it is, with the class of each pixel.

    Attributes:
        image: in RGB, upright.
        mask: `(h w)`, -100 where a pixel has no class; None for an image without a mask.
        id: of the scene in its data set.
        position: of the scene among those that were asked for.

    """

    image: Image.Image
    mask: NDArray[np.int16] | None
    id: int
    position: int
