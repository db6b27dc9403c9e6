"""How images are prepared and varied: plain settings that can be written down as JSON."""

from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any, Literal, get_args

from dnc.errors import InvalidSetting

Interpolation = Literal["bilinear", "bicubic"]
Crop = Literal["none", "padded", "resized"]
MAX_SIZE = 8192


@dataclass(frozen=True)
class Preprocessing:
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
        _require(self, "size", _is_int(self.size, 1, MAX_SIZE), f"an integer in 1..{MAX_SIZE}")
        _require(
            self,
            "resize",
            _is_int(self.resize, self.size, MAX_SIZE),
            f"an integer from size ({self.size}) to {MAX_SIZE}",
        )
        _require(self, "mean", _are_numbers(self.mean, 3, -10, 10), "three numbers in -10..10")
        _require(self, "std", _are_numbers(self.std, 3, 1e-6, 10), "three numbers in 0.000001..10")
        _require_choice(self, "interpolation", get_args(Interpolation))

    def to_dict(self) -> dict[str, Any]:
        """The settings as JSON can hold them."""
        return _as_json(self)

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> "Preprocessing":
        """The settings that `to_dict` gave; anything else raises `InvalidSetting`."""
        return cls(**_from_json(cls, settings))


@dataclass(frozen=True)
class Augmentation:
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
        _require_choice(self, "crop", get_args(Crop))
        _require(self, "padding", _is_int(self.padding, 0, 1024), "an integer in 0..1024")
        _require(
            self,
            "scale",
            _are_numbers(self.scale, 2, 1e-4, 1) and self.scale[0] <= self.scale[1],
            "two numbers in 0.0001..1, the smaller first",
        )
        _require(
            self,
            "ratio",
            _are_numbers(self.ratio, 2, 0.01, 100) and self.ratio[0] <= self.ratio[1],
            "two numbers in 0.01..100, the smaller first",
        )
        _require(self, "flip", isinstance(self.flip, bool), "true or false")
        _require(self, "randaugment", _is_int(self.randaugment, 0, 20), "an integer in 0..20")
        _require(
            self,
            "randaugment_magnitude",
            _is_int(self.randaugment_magnitude, 0, 30),
            "an integer in 0..30",
        )
        for name in ("colour_jitter", "erasing", "mix_probability"):
            _require(self, name, _is_number(getattr(self, name), 0, 1), "a number in 0..1")
        for name in ("mixup", "cutmix"):
            _require(self, name, _is_number(getattr(self, name), 0, 100), "a number in 0..100")

    def to_dict(self) -> dict[str, Any]:
        """The settings as JSON can hold them."""
        return _as_json(self)

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> "Augmentation":
        """The settings that `to_dict` gave; anything else raises `InvalidSetting`."""
        return cls(**_from_json(cls, settings))


def _as_json(settings: Preprocessing | Augmentation) -> dict[str, Any]:
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in asdict(settings).items()
    }


def _from_json(kind: type, settings: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(settings, Mapping):
        raise InvalidSetting(
            f"{kind.__name__} needs a mapping of names to values; a {type(settings).__name__} came."
        )
    allowed = ", ".join(field.name for field in fields(kind))
    needed = {field.name for field in fields(kind) if field.default is MISSING}
    unknown = [repr(name)[:80] for name in settings if name not in allowed.split(", ")]
    missing = sorted(needed - set(settings))
    if unknown or missing:
        wrong = f"has no {', '.join(unknown)}" if unknown else f"needs {', '.join(missing)}"
        raise InvalidSetting(f"{kind.__name__} {wrong}; its settings are {allowed}.")
    return {
        name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()
    }


def _require(settings: object, name: str, allowed: bool, wanted: str) -> None:
    if not allowed:
        value = repr(getattr(settings, name))[:80]
        raise InvalidSetting(f"{name} is {value}; it must be {wanted}.")


def _require_choice(settings: object, name: str, choices: tuple[str, ...]) -> None:
    value = getattr(settings, name)
    allowed = isinstance(value, str) and value in choices
    _require(settings, name, allowed, f"one of {', '.join(choices)}")


def _is_int(value: object, lowest: int, highest: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and lowest <= value <= highest


def _is_number(value: object, lowest: float, highest: float) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and lowest <= value <= highest
    )


def _are_numbers(values: object, count: int, lowest: float, highest: float) -> bool:
    return (
        isinstance(values, tuple)
        and len(values) == count
        and all(_is_number(value, lowest, highest) for value in values)
    )
