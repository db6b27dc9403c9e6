"""Augmentation of a whole batch at a time, for images that are held in memory."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, UInt8
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.nn import functional
from torchvision.transforms import v2

from dnc.data.order import hashes, uniforms
from dnc.data.preparation import centre, normalised
from dnc.data.settings import Augmentation, Preprocessing

ERASED_AREA = (0.02, 0.33)
ERASED_RATIO = (0.3, 3.3)
_GREY = (0.2989, 0.587, 0.114)


def varied(
    pixels: UInt8[Tensor, "n r r 3"],
    preprocessing: Preprocessing,
    augmentation: Augmentation,
    *,
    seed: int,
    epoch: int,
    ids: NDArray[np.int64],
) -> Float[Tensor, "n 3 h w"]:
    """Normalised images, each varied by numbers that hang on seed, epoch and its id alone."""
    size = preprocessing.size
    if not len(pixels):  # affine_grid refuses to make nothing
        return torch.empty(0, 3, size, size)
    draws = _Draws.of(uniforms(seed, epoch, ids, len(_Draws.__dataclass_fields__)))
    mirrored = (draws.flip < 0.5) if augmentation.flip else torch.zeros(len(ids)).bool()
    if augmentation.crop == "padded":
        places = pixels.shape[1] + 2 * augmentation.padding - size + 1
        top, left = (draws.top * places).long(), (draws.left * places).long()
        images: Tensor = padded_crop(
            pixels, top, left, padding=augmentation.padding, size=size, mirrored=mirrored
        )
    elif augmentation.crop == "resized":
        images = resized_crop(pixels, _boxes(draws, augmentation), size=size, mirrored=mirrored)
    else:
        images = centre(pixels, size)
        images = torch.where(mirrored[:, None, None, None], images.flip(2), images)
    if augmentation.randaugment:
        seeds = hashes(seed, epoch, ids, purpose="randaugment")
        images = _randaugmented(images, seeds, preprocessing, augmentation)
    if augmentation.colour_jitter:
        images = _jittered(images, draws, augmentation.colour_jitter)
    finished = normalised(images, preprocessing)
    if augmentation.erasing:
        erased = _erased(draws, augmentation.erasing, size)
        finished = finished.masked_fill(erased[:, None], 0.0)
    return finished


def padded_crop(
    pixels: UInt8[Tensor, "n r r 3"],
    top: Int[Tensor, " n"],
    left: Int[Tensor, " n"],
    *,
    padding: int,
    size: int,
    mirrored: Bool[Tensor, " n"],
) -> UInt8[Tensor, "n h w 3"]:
    """A square of each image, padded with black, with its own corner; some of them mirrored."""
    padded = functional.pad(pixels, (0, 0, padding, padding, padding, padding)).numpy()
    cut = np.empty((len(padded), size, size, 3), dtype=np.uint8)
    corners = zip(top.tolist(), left.tolist(), mirrored.tolist(), strict=True)
    # Slices, one image after another: several times faster than one gather over all pixels.
    for i, (y, x, turned) in enumerate(corners):
        part = padded[i, y : y + size, x : x + size]
        cut[i] = part[:, ::-1] if turned else part
    return torch.from_numpy(cut)


def resized_crop(
    pixels: UInt8[Tensor, "n r r 3"],
    boxes: Float[Tensor, "n 4"],
    *,
    size: int,
    mirrored: Bool[Tensor, " n"],
) -> Float[Tensor, "n h w 3"]:
    """A part of each image, scaled to `size` bilinearly; some of them mirrored.

    Boxes are left, top, width and height as shares of the side. All are sampled in one go and
    without a filter against aliasing: what is held is seldom much larger than `size`, and a part
    of it is smaller still.
    """
    left, top, width, height = boxes.float().unbind(dim=1)
    zero = torch.zeros_like(left)
    sign = torch.where(mirrored, -1.0, 1.0)
    # Coordinates of affine_grid run from -1 to 1.
    theta = torch.stack(
        [width * sign, zero, 2 * left + width - 1, zero, height, 2 * top + height - 1], dim=1
    )
    grid = functional.affine_grid(
        theta.view(-1, 2, 3), [len(pixels), 3, size, size], align_corners=False
    )
    sampled = functional.grid_sample(
        pixels.permute(0, 3, 1, 2).float(), grid, padding_mode="border", align_corners=False
    )
    return sampled.permute(0, 2, 3, 1)


@dataclass(frozen=True)
class _Draws:
    """Numbers in 0..1 for each image, each with its use."""

    top: Tensor
    left: Tensor
    area: Tensor
    ratio: Tensor
    flip: Tensor
    brightness: Tensor
    contrast: Tensor
    saturation: Tensor
    erase: Tensor
    erase_area: Tensor
    erase_ratio: Tensor
    erase_top: Tensor
    erase_left: Tensor

    @classmethod
    def of(cls, numbers: NDArray[np.float64]) -> "_Draws":
        return cls(*torch.from_numpy(numbers).unbind(dim=1))


def _between(draws: Tensor, lowest: float, highest: float) -> Tensor:
    return lowest + draws * (highest - lowest)


def _sides(area: Tensor, ratio: Tensor) -> tuple[Tensor, Tensor]:
    """Width and height, as shares of the side, of rectangles no larger than the square."""
    return (area * ratio).sqrt().clamp(max=1), (area / ratio).sqrt().clamp(max=1)


def _boxes(draws: _Draws, augmentation: Augmentation) -> Float[Tensor, "n 4"]:
    area = _between(draws.area, *augmentation.scale)
    ratio = _between(draws.ratio, *np.log(augmentation.ratio)).exp()
    width, height = _sides(area, ratio)
    return torch.stack([draws.left * (1 - width), draws.top * (1 - height), width, height], dim=1)


def _randaugmented(
    images: Tensor,
    seeds: NDArray[np.uint64],
    preprocessing: Preprocessing,
    augmentation: Augmentation,
) -> UInt8[Tensor, "n h w 3"]:
    transform = randaugment(preprocessing, augmentation)
    if images.is_floating_point():
        images = images.round().clamp(0, 255).byte()
    changed = np.empty(images.shape, dtype=np.uint8)
    with torch.random.fork_rng(devices=[]):
        for row, image, seed in zip(changed, images.numpy(), seeds, strict=True):
            # Not torch.manual_seed: that would seed the generators of the GPUs as well.
            torch.default_generator.manual_seed(int(seed >> np.uint64(1)))
            row[:] = transform(Image.fromarray(np.ascontiguousarray(image)))
    return torch.from_numpy(changed)


def randaugment(preprocessing: Preprocessing, augmentation: Augmentation) -> v2.RandAugment:
    """RandAugment of torchvision; what is moved away leaves the mean colour behind."""
    return v2.RandAugment(
        num_ops=augmentation.randaugment,
        magnitude=augmentation.randaugment_magnitude,
        interpolation=v2.InterpolationMode.BILINEAR,
        fill=[round(min(max(255 * value, 0), 255)) for value in preprocessing.mean],
    )


def _jittered(images: Tensor, draws: _Draws, strength: float) -> Float[Tensor, "n h w 3"]:
    """Brightness, then contrast, then saturation, each by a factor of its own for each image."""
    weights = torch.tensor(_GREY)

    def factor(drawn: Tensor) -> Tensor:
        return _between(drawn, 1 - strength, 1 + strength).float()[:, None, None, None]

    images = (images.float() * factor(draws.brightness)).clamp(0, 255)
    mean_grey = (images @ weights).mean(dim=(1, 2))[:, None, None, None]
    images = (mean_grey + (images - mean_grey) * factor(draws.contrast)).clamp(0, 255)
    grey = (images @ weights)[..., None]
    return (grey + (images - grey) * factor(draws.saturation)).clamp(0, 255)


def _erased(draws: _Draws, probability: float, size: int) -> Bool[Tensor, "n h w"]:
    area = _between(draws.erase_area, *ERASED_AREA)
    ratio = _between(draws.erase_ratio, *np.log(ERASED_RATIO)).exp()
    width, height = ((side * size).round() for side in _sides(area, ratio))
    top = (draws.erase_top * (size - height + 1)).floor()
    left = (draws.erase_left * (size - width + 1)).floor()
    chosen = draws.erase < probability
    return rectangles(top, left, height * chosen, width * chosen, size)


def rectangles(
    top: Tensor, left: Tensor, height: Tensor, width: Tensor, size: int
) -> Bool[Tensor, "n h w"]:
    """Masks of one rectangle for each image."""
    along = torch.arange(size)

    def inside(begin: Tensor, extent: Tensor) -> Tensor:
        return (along >= begin[:, None]) & (along < (begin + extent)[:, None])

    return inside(top, height)[:, :, None] & inside(left, width)[:, None, :]
