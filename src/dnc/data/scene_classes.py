"""The classes of scenes: their names, their colours, and how masks say them."""

import json
import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import yaml

from dnc.data.masks import HIGHEST_VALUE, MOST_CLASSES, Colour, MaskCoding
from dnc.data.scenes import default_colours
from dnc.data.setting_values import are_numbers, is_int
from dnc.errors import InvalidData

FILES = ("classes.yaml", "classes.yml", "classes.json")
"""Names of the file, beside the images, that says what the classes are."""

MOST_BYTES = 100_000
USUALLY_IGNORED = 255

_KEYS, _KEYS_OF_CLASS = ("classes", "ignore", "masks"), ("name", "colour", "number")


@dataclass(frozen=True)
class SceneClasses:
    """The classes of scenes.

    Attributes:
        names: of the classes, in the order of their numbers.
        colours: a colour for each, for pictures.
        coding: how masks say the classes.

    """

    names: tuple[str, ...]
    colours: tuple[Colour, ...]
    coding: MaskCoding

    @classmethod
    def numbered(cls, names: Iterable[str], coding: MaskCoding) -> "SceneClasses":
        """Classes without colours of their own."""
        names = tuple(names)
        return cls(names, default_colours(len(names)), coding)


def described_classes(root: Path) -> SceneClasses | None:
    """What the file beside the images says of the classes; None if there is none."""
    found = [root / name for name in FILES if (root / name).is_file()]
    if not found:
        return None
    if len(found) > 1:
        _refuse(root, f"there are {' and '.join(path.name for path in found)}; keep one of them")
    path = found[0]
    content = _content(path)
    if not isinstance(content, Mapping):
        _refuse(path, f"{_short(content)} came; wanted is a mapping with the key classes")
    _require_keys(path, content, _KEYS, "it")
    entries, coded = content.get("classes"), content.get("masks", "number")
    if not isinstance(entries, list) or not 0 < len(entries) <= MOST_CLASSES:
        _refuse(path, f"classes is {_short(entries)}; it must be a list of 1 to {MOST_CLASSES:,}")
    if coded not in ("number", "colour"):
        _refuse(path, f"masks is {_short(coded)}; it must be number or colour")
    classes = [_class(path, entry) for entry in entries]
    names = [entry["name"] for entry in classes]
    _require_unique(path, "name", names)
    colours = [entry["colour"] for entry in classes if "colour" in entry]
    ignored = content.get("ignore")
    coding = (
        _coding_by_colour(path, classes, colours, ignored)
        if coded == "colour"
        else _coding_by_number(path, classes, ignored)
    )
    others = iter(c for c in default_colours(2 * len(names)) if c not in set(colours))
    shown = tuple(entry["colour"] if "colour" in entry else next(others) for entry in classes)
    return SceneClasses(tuple(names), shown, coding)


def _content(path: Path) -> Any:
    try:
        with path.open("rb") as opened:
            text = opened.read(MOST_BYTES + 1)
        if len(text) > MOST_BYTES:
            _refuse(path, f"it has more than {MOST_BYTES:,} bytes; it should be a page")
        return json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except OSError as error:
        raise InvalidData(f"{path} cannot be read: {error.strerror}.") from error
    except InvalidData:
        raise
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        told = " ".join(str(error).split())[:300]
        raise InvalidData(f"{path} is not text that can be read: {told}") from error


def _class(path: Path, entry: object) -> dict[str, Any]:
    """The checked keys of a class."""
    described = entry if isinstance(entry, Mapping) else {"name": entry}
    _require_keys(path, described, _KEYS_OF_CLASS, "a class")
    name = described.get("name")
    if not isinstance(name, str) or not name.strip():
        _refuse(path, f"the name of a class is {_short(name)}; it must be text, if need be quoted")
    checked: dict[str, Any] = {"name": name.strip()}
    if "colour" in described:
        checked["colour"] = _colour(path, f"the colour of {name!r}", described["colour"])
    if "number" in described:
        checked["number"] = _number(path, f"the number of {name!r}", described["number"])
    return checked


def _coding_by_number(path: Path, classes: list[dict[str, Any]], ignored: object) -> MaskCoding:
    numbers = [entry["number"] for entry in classes if "number" in entry]
    if numbers and len(numbers) < len(classes):
        _refuse(path, "some classes have a number and some have none; give it to all or to none")
    numbers = numbers or list(range(len(classes)))
    _require_unique(path, "number", numbers)
    if ignored is None:
        values = [] if USUALLY_IGNORED in numbers else [USUALLY_IGNORED]
    else:
        values = [_number(path, "a value in ignore", value) for value in _list(path, ignored)]
    _require_apart(path, values, numbers)
    return MaskCoding.by_number(numbers, ignored=values)


def _coding_by_colour(
    path: Path, classes: list[dict[str, Any]], colours: list[Colour], ignored: object
) -> MaskCoding:
    if len(colours) < len(classes):
        bare = next(entry["name"] for entry in classes if "colour" not in entry)
        _refuse(path, f"masks is colour, but {bare!r} has none; give every class a colour")
    if any("number" in entry for entry in classes):
        _refuse(path, "masks is colour, so a number of a class means nothing; take it out")
    _require_unique(path, "colour", colours)
    listed = [] if ignored is None else _list(path, ignored)
    values = [_colour(path, "a colour in ignore", value) for value in listed]
    _require_apart(path, values, colours)
    return MaskCoding.by_colour(colours, ignored=values)


def _list(path: Path, ignored: object) -> list[object]:
    if not isinstance(ignored, list):
        _refuse(path, f"ignore is {_short(ignored)}; it must be a list, such as [255]")
    return ignored


def _colour(path: Path, what: str, value: object) -> Colour:
    channels = tuple(value) if isinstance(value, list) else ()
    if not are_numbers(channels, 3, 0, 255) or not all(isinstance(c, int) for c in channels):
        _refuse(path, f"{what} is {_short(value)}; it must be red, green and blue in 0..255")
    return channels[0], channels[1], channels[2]


def _number(path: Path, what: str, value: object) -> int:
    if not is_int(value, 0, HIGHEST_VALUE):
        _refuse(path, f"{what} is {_short(value)}; it must be an integer in 0..{HIGHEST_VALUE}")
    assert isinstance(value, int)
    return value


def _require_keys(
    path: Path, content: Mapping[Any, Any], allowed: tuple[str, ...], what: str
) -> None:
    unknown = [_short(key) for key in content if key not in allowed]
    if unknown:
        _refuse(path, f"{what} has no {', '.join(unknown)}; allowed are {', '.join(allowed)}")


def _require_unique(path: Path, what: str, values: list[Any]) -> None:
    if len(set(values)) < len(values):
        twice = next(value for value in values if values.count(value) > 1)
        _refuse(path, f"two classes have the {what} {twice!r}; each needs one of its own")


def _require_apart(path: Path, ignored: list[Any], used: list[Any]) -> None:
    both = [value for value in ignored if value in used]
    if both:
        _refuse(path, f"ignore has {both[0]!r}, which is a class; it can be only one of them")


def _refuse(path: Path, reason: str) -> NoReturn:
    raise InvalidData(f"{path}: {reason}.")


def _short(value: object) -> str:
    # Aliases of YAML can make a small file mean a huge text; this looks only so deep.
    return reprlib.repr(value)
