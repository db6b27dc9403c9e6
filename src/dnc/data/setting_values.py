"""What settings have in common: how they are checked, and written down as JSON."""

from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any, Self

from dnc.errors import InvalidSetting


@dataclass(frozen=True)
class Settings:
    """Settings that can be written down as JSON."""

    def to_dict(self) -> dict[str, Any]:
        """The settings as JSON can hold them."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self).items()
        }

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> Self:
        """The settings that `to_dict` gave; anything else raises `InvalidSetting`."""
        return cls(**_arguments(cls, settings))


def _arguments(kind: type[Settings], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments for settings; names that they have not, or need, are told."""
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


def require(settings: object, name: str, allowed: bool, wanted: str) -> None:
    """Raises, with what came and what is wanted, unless a setting is allowed."""
    if not allowed:
        value = repr(getattr(settings, name))[:80]
        raise InvalidSetting(f"{name} is {value}; it must be {wanted}.")


def require_choice(settings: object, name: str, choices: tuple[str, ...]) -> None:
    """Raises unless a setting is one of some words."""
    value = getattr(settings, name)
    allowed = isinstance(value, str) and value in choices
    require(settings, name, allowed, f"one of {', '.join(choices)}")


def is_int(value: object, lowest: int, highest: int) -> bool:
    """Whether a value is an integer in a range; true and false are none."""
    return isinstance(value, int) and not isinstance(value, bool) and lowest <= value <= highest


def is_number(value: object, lowest: float, highest: float) -> bool:
    """Whether a value is a number in a range; NaN is in none."""
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and lowest <= value <= highest
    )


def are_numbers(values: object, count: int, lowest: float, highest: float) -> bool:
    """Whether a value is a tuple of so many numbers in a range."""
    return (
        isinstance(values, tuple)
        and len(values) == count
        and all(is_number(value, lowest, highest) for value in values)
    )
