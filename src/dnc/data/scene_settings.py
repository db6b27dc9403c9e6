"""How scenes are prepared and varied: plain settings that can be written down as JSON."""

from dataclasses import dataclass
from typing import get_args

from dnc.data.setting_values import (
    Settings,
    are_numbers,
    is_int,
    is_number,
    require,
    require_choice,
)
from dnc.data.settings import MAX_SIZE, Interpolation


@dataclass(frozen=True)
class ScenePreprocessing(Settings):
    """How a whole image becomes the input of a network when it is evaluated.

    Attributes:
        mean: of each channel, taken from values that were scaled to 0..1.
        std: of each channel; what is left is divided by it.
        shorter_side: the image is scaled so that its shorter side has this many pixels; None
            leaves it as large as it is.
        interpolation: how it is scaled.

    """

    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    shorter_side: int | None = None
    interpolation: Interpolation = "bilinear"

    def __post_init__(self) -> None:
        """Raises unless every setting is in its range."""
        require(self, "mean", are_numbers(self.mean, 3, -10, 10), "three numbers in -10..10")
        require(self, "std", are_numbers(self.std, 3, 1e-6, 10), "three numbers in 0.000001..10")
        require(
            self,
            "shorter_side",
            self.shorter_side is None or is_int(self.shorter_side, 1, MAX_SIZE),
            f"an integer in 1..{MAX_SIZE}, or null",
        )
        require_choice(self, "interpolation", get_args(Interpolation))


@dataclass(frozen=True)
class SceneAugmentation(Settings):
    """How training scenes are varied, in this order.

    Attributes:
        crop: the side of the square that is cut out, in pixels. What a smaller image does not
            fill has the mean colour and no class.
        scale: the image is scaled by a factor from the smaller to the larger of these, besides
            what `shorter_side` asks for.
        flip: mirror every second image, left to right.
        colour_jitter: brightness, contrast and saturation vary by up to this share.
        hue: hues vary by up to this share of the circle, either way.

    """

    crop: int
    scale: tuple[float, float] = (0.5, 2.0)
    flip: bool = True
    colour_jitter: float = 0.0
    hue: float = 0.0

    def __post_init__(self) -> None:
        """Raises unless every setting is in its range."""
        require(self, "crop", is_int(self.crop, 1, MAX_SIZE), f"an integer in 1..{MAX_SIZE}")
        require(
            self,
            "scale",
            are_numbers(self.scale, 2, 0.01, 100) and self.scale[0] <= self.scale[1],
            "two numbers in 0.01..100, the smaller first",
        )
        require(self, "flip", isinstance(self.flip, bool), "true or false")
        require(self, "colour_jitter", is_number(self.colour_jitter, 0, 1), "a number in 0..1")
        require(self, "hue", is_number(self.hue, 0, 0.5), "a number in 0..0.5")
