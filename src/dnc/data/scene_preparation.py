"""From a scene to the input of a network, whole for evaluation, cut and varied for training."""

from dataclasses import dataclass, fields

import numpy as np
import torch
from jaxtyping import Float, Int64
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torchvision.transforms.v2 import functional

from dnc.data.images import MAX_PIXELS
from dnc.data.masks import IGNORED
from dnc.data.preparation import RESAMPLING, normalised
from dnc.data.scene_settings import SceneAugmentation, ScenePreprocessing
from dnc.errors import InvalidData


def scene_input(image: Image.Image, preprocessing: ScenePreprocessing) -> Float[Tensor, "1 3 h w"]:
    """The input of a network for a whole RGB image; channels last in memory."""
    width, height = scaled_size(image.size, preprocessing)
    if width * height > MAX_PIXELS:
        raise InvalidData(
            f"An image of {image.width} x {image.height} pixels would have {width} x {height} with "
            f"shorter_side {preprocessing.shorter_side}; allowed are {MAX_PIXELS:,} pixels. Cut it "
            "into parts, or choose a smaller shorter_side."
        )
    if (width, height) != image.size:
        image = image.resize((width, height), RESAMPLING[preprocessing.interpolation])
    return normalised(torch.from_numpy(np.array(image))[None], preprocessing)


def scaled_size(size: tuple[int, int], preprocessing: ScenePreprocessing) -> tuple[int, int]:
    """Width and height that an image has in evaluation."""
    return _times(size, _evaluation_scale(size, preprocessing))


def varied_scene(
    image: Image.Image,
    mask: NDArray[np.int16],
    preprocessing: ScenePreprocessing,
    augmentation: SceneAugmentation,
    seed: int,
) -> tuple[Float[Tensor, "3 c c"], Int64[Tensor, "c c"]]:
    """A square of an RGB image, and the classes of its pixels, by chances that hang on the seed."""
    draws = _Draws(*np.random.default_rng(seed).random(len(fields(_Draws))).tolist())
    smallest, largest = augmentation.scale
    scale = _evaluation_scale(image.size, preprocessing)
    scaled = _times(image.size, scale * (smallest + draws.scale * (largest - smallest)))
    crop = augmentation.crop
    across = _Span.drawn(image.width, scaled[0], crop, draws.left)
    down = _Span.drawn(image.height, scaled[1], crop, draws.top)

    # Only what is cut out is scaled; Pillow looks beyond the box where its filter needs to.
    part = image.resize(
        (across.length, down.length),
        RESAMPLING[preprocessing.interpolation],
        box=(across.source[0], down.source[0], across.source[1], down.source[1]),
    )
    part = _recoloured(part, augmentation, draws)
    classes = mask[down.nearest()][:, across.nearest()]
    if augmentation.flip and draws.flip < 0.5:
        part, classes = part.transpose(Image.Transpose.FLIP_LEFT_RIGHT), classes[:, ::-1]

    labels = np.full((crop, crop), IGNORED, dtype=np.int64)
    labels[down.place, across.place] = classes
    values = normalised(torch.from_numpy(np.array(part))[None], preprocessing)[0]
    if values.shape[1:] == (crop, crop):
        return values, torch.from_numpy(labels)
    square = torch.zeros(crop, crop, 3).permute(2, 0, 1)  # the mean colour, once normalised
    square[:, down.place, across.place] = values
    return square, torch.from_numpy(labels)


@dataclass(frozen=True)
class _Draws:
    """Numbers in 0..1, each with its use."""

    scale: float
    left: float
    top: float
    flip: float
    brightness: float
    contrast: float
    saturation: float
    hue: float


@dataclass(frozen=True)
class _Span:
    """What is cut out along one side of an image.

    Attributes:
        pixels: of the image.
        scaled: pixels that it has once it is scaled.
        begin: the first scaled pixel that is cut out.
        length: how many.
        offset: where they lie in the square.

    """

    pixels: int
    scaled: int
    begin: int
    length: int
    offset: int

    @classmethod
    def drawn(cls, pixels: int, scaled: int, crop: int, draw: float) -> "_Span":
        """Anywhere in the image; or, if that is smaller than the square, anywhere in the square."""
        place = int(draw * (abs(scaled - crop) + 1))
        begin, offset = (place, 0) if scaled >= crop else (0, place)
        return cls(pixels, scaled, begin, min(scaled, crop), offset)

    @property
    def source(self) -> tuple[float, float]:
        """Where it begins and ends in the image."""
        begin, end = self.begin, self.begin + self.length
        return begin * self.pixels / self.scaled, min(end * self.pixels / self.scaled, self.pixels)

    @property
    def place(self) -> slice:
        """Where it lies in the square."""
        return slice(self.offset, self.offset + self.length)

    def nearest(self) -> NDArray[np.int64]:
        """The pixel of the image under the middle of each pixel."""
        middles = 2 * np.arange(self.begin, self.begin + self.length) + 1
        return middles * self.pixels // (2 * self.scaled)


def _evaluation_scale(size: tuple[int, int], preprocessing: ScenePreprocessing) -> float:
    side = preprocessing.shorter_side
    return 1.0 if side is None else side / min(size)


def _times(size: tuple[int, int], factor: float) -> tuple[int, int]:
    return max(1, round(size[0] * factor)), max(1, round(size[1] * factor))


def _recoloured(image: Image.Image, augmentation: SceneAugmentation, draws: _Draws) -> Image.Image:
    """Brightness, then contrast, then saturation, then hue, each by a draw of its own."""
    strength, hue = augmentation.colour_jitter, augmentation.hue
    if strength:
        for adjusted, draw in (
            (functional.adjust_brightness, draws.brightness),
            (functional.adjust_contrast, draws.contrast),
            (functional.adjust_saturation, draws.saturation),
        ):
            image = adjusted(image, 1 + strength * (2 * draw - 1))
    return functional.adjust_hue(image, hue * (2 * draws.hue - 1)) if hue else image
