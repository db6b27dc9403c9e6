"""How images are prepared and varied: plain settings that can be written down as JSON."""

from dataclasses import dataclass
from typing import Literal, get_args

from dnc.data.setting_values import (
    Settings,
    are_numbers,
    is_int,
    is_number,
    require,
    require_choice,
)

Interpolation = Literal["bilinear", "bicubic"]
Crop = Literal["none", "padded", "resized"]
MAX_SIZE = 8192


@dataclass(frozen=True)
class Preprocessing(Settings):
    """How an image becomes the input of a network when it is evaluated.

    The square in the middle of the image is scaled to `resize` x `resize` pixels (which is: the
    shorter side to `resize`, then a crop), and the middle of that, `size` x `size`, is cut out.
    Values are scaled to 0..1, less `mean`, divided by `std`. A square image of `resize` pixels is
    not scaled: its pixels stay what they are.
    """

    size: int
    resize: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    interpolation: Interpolation = "bicubic"

    def __post_init__(self) -> None:
        """Raises unless every setting is in its range."""
        require(self, "size", is_int(self.size, 1, MAX_SIZE), f"an integer in 1..{MAX_SIZE}")
        require(
            self,
            "resize",
            is_int(self.resize, self.size, MAX_SIZE),
            f"an integer from size ({self.size}) to {MAX_SIZE}",
        )
        require(self, "mean", are_numbers(self.mean, 3, -10, 10), "three numbers in -10..10")
        require(self, "std", are_numbers(self.std, 3, 1e-6, 10), "three numbers in 0.000001..10")
        require_choice(self, "interpolation", get_args(Interpolation))


@dataclass(frozen=True)
class Augmentation(Settings):
    """How training images are varied, in this order; the defaults vary by flips alone.

    Attributes:
        crop: `none` cuts out the middle as in evaluation; `padded` pads with black by `padding`
            pixels and cuts out anywhere; `resized` scales a random part up or down.
        padding: pixels on each side, for `padded`.
        scale: smallest and largest share of the area, for `resized`.
        ratio: smallest and largest width over height, for `resized`.
        flip: mirror every second image, left to right.
        randaugment: RandAugment's number of operations; 0 for none.
        randaugment_magnitude: its magnitude, 0 to 30.
        colour_jitter: brightness, contrast and saturation vary by up to this share.
        erasing: probability that a rectangle is erased.
        mixup: Beta parameter of Mixup; 0 for none.
        cutmix: Beta parameter of CutMix; 0 for none.
        mix_probability: probability for each image that it is mixed with another of its batch; by
            Mixup or CutMix with equal chances if both are on.

    """

    crop: Crop = "none"
    padding: int = 4
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    flip: bool = True
    colour_jitter: float = 0.0
    randaugment: int = 0
    randaugment_magnitude: int = 9
    erasing: float = 0.0
    mixup: float = 0.0
    cutmix: float = 0.0
    mix_probability: float = 0.5

    def __post_init__(self) -> None:
        """Raises unless every setting is in its range."""
        require_choice(self, "crop", get_args(Crop))
        require(self, "padding", is_int(self.padding, 0, 1024), "an integer in 0..1024")
        require(
            self,
            "scale",
            are_numbers(self.scale, 2, 1e-4, 1) and self.scale[0] <= self.scale[1],
            "two numbers in 0.0001..1, the smaller first",
        )
        require(
            self,
            "ratio",
            are_numbers(self.ratio, 2, 0.01, 100) and self.ratio[0] <= self.ratio[1],
            "two numbers in 0.01..100, the smaller first",
        )
        require(self, "flip", isinstance(self.flip, bool), "true or false")
        require(self, "randaugment", is_int(self.randaugment, 0, 20), "an integer in 0..20")
        require(
            self,
            "randaugment_magnitude",
            is_int(self.randaugment_magnitude, 0, 30),
            "an integer in 0..30",
        )
        for name in ("colour_jitter", "erasing", "mix_probability"):
            require(self, name, is_number(getattr(self, name), 0, 1), "a number in 0..1")
        for name in ("mixup", "cutmix"):
            require(self, name, is_number(getattr(self, name), 0, 100), "a number in 0..100")
