"""From an image to the input of a network, the same in every loader and in prediction."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from jaxtyping import Float, UInt8
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from dnc.data.settings import Preprocessing

RESAMPLING = {
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
}


class Normalisation(Protocol):
    """What `normalised` needs to know."""

    @property
    def mean(self) -> tuple[float, float, float]:
        """The mean of each channel, of values in 0..1."""

    @property
    def std(self) -> tuple[float, float, float]:
        """The standard deviation of each channel, of values in 0..1."""


def prepared(
    images: Sequence[Image.Image], preprocessing: Preprocessing
) -> Float[Tensor, "n 3 h w"]:
    """The input of a network for RGB images, as in evaluation; channels last in memory."""
    pixels = torch.empty(len(images), preprocessing.resize, preprocessing.resize, 3).byte()
    for row, image in zip(pixels, images, strict=True):
        row.copy_(torch.from_numpy(middle_square(image, preprocessing)))
    return normalised(centre(pixels, preprocessing.size), preprocessing)


def middle_square(image: Image.Image, preprocessing: Preprocessing) -> NDArray[np.uint8]:
    """The square in the middle of an RGB image, `(resize resize 3)`.

    Scaled straight from that square: to scale the whole image first would be the same but for
    rounding, and could take any amount of memory for a picture of one line.
    """
    side, wanted = min(image.size), preprocessing.resize
    left, top = (image.width - side) / 2, (image.height - side) / 2
    if image.size != (wanted, wanted):
        image = image.resize(
            (wanted, wanted),
            RESAMPLING[preprocessing.interpolation],
            box=(left, top, left + side, top + side),
        )
    return np.array(image, dtype=np.uint8)


def seen_part(image: Image.Image, preprocessing: Preprocessing) -> Image.Image:
    """What a network sees of an RGB image, as a picture."""
    pixels = torch.from_numpy(middle_square(image, preprocessing))[None]
    return Image.fromarray(centre(pixels, preprocessing.size)[0].numpy())


def centre(pixels: UInt8[Tensor, "n r r 3"], size: int) -> UInt8[Tensor, "n h w 3"]:
    """The middle of each square, `size` x `size`; a view."""
    begin = (pixels.shape[1] - size) // 2
    return pixels[:, begin : begin + size, begin : begin + size]


def normalised(pixels: Tensor, preprocessing: Normalisation) -> Float[Tensor, "n 3 h w"]:
    """Pixels `(n h w 3)` in 0..255, of any type, as the input of a network, channels last."""
    n, h, w = pixels.shape[:3]
    std = torch.tensor(preprocessing.std, dtype=torch.float64)
    mean = torch.tensor(preprocessing.mean, dtype=torch.float64)
    factor, offset = (1 / (255 * std)).float(), (-mean / std).float()
    # One long row for each image: arithmetic along an axis of three is several times slower.
    rows = pixels.reshape(n, h * w * 3).to(torch.float32, copy=True)
    rows.mul_(factor.repeat(h * w)).add_(offset.repeat(h * w))
    return rows.view(n, h, w, 3).permute(0, 3, 1, 2)
