"""The text of a recipe: YAML that cannot surprise, and errors that say what was meant."""

import difflib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from dnc.errors import InvalidRecipe

# More faults than these are not read by anyone; what they have in common is seen by then.
MOST_TOLD = 10
# A recipe is a page of text. What is larger is something else, and is not parsed.
MOST_BYTES = 100_000
SHIPPED = Path(__file__).parents[1] / "recipes"


def shipped_recipes() -> dict[str, Path]:
    """The recipes that come with dnc, by name."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.yaml"))}


def recipe_path(name_or_path: str | Path) -> Path:
    """The file of a shipped recipe, or the file that was named."""
    shipped = shipped_recipes()
    path = Path(name_or_path)
    if str(name_or_path) in shipped:
        return shipped[str(name_or_path)]
    if path.suffix in (".yaml", ".yml") or os.path.isfile(path):
        return path
    raise InvalidRecipe(
        f"There is no recipe {str(name_or_path)!r}.{nearest(str(name_or_path), shipped)} "
        "`dnc recipes` lists those that are shipped; a file of your own ends in .yaml."
    )


class _Loader(yaml.SafeLoader):
    """Plain YAML, without what makes small files large or means two things."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.events.AliasEvent):
            raise yaml.YAMLError("aliases (*name) are not allowed in a recipe")
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if getattr(event, "tag", None) is not None:
            raise yaml.YAMLError("tags (!name) are not allowed in a recipe")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if not isinstance(key, str):
                told = f"the name {_short(key)}{_line(node)} is no word; put it in quotes"
                raise yaml.YAMLError(told)
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.YAMLError(f"{_short(key)}{_line(node)} stands there twice")
        return super().construct_mapping(node, deep=deep)


# A folder may well be called 2024-05-01; no field of a recipe is a date.
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_text(path: Path) -> bytes:
    """The bytes of a file that is a page of text."""
    try:
        with path.open("rb") as file:
            text = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise InvalidRecipe(f"{path} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise InvalidRecipe(f"{str(path)!r} is no path of a file: {error}.") from error
    if len(text) > MOST_BYTES:
        raise InvalidRecipe(f"{path} has more than {MOST_BYTES:,} bytes; it should be a page.")
    return text


def parsed(text: bytes | str, where: str) -> Any:
    """What a text of YAML says: words, numbers, lists and mappings, nothing else."""
    try:
        return yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        told = " ".join(str(error).split())[:500]
        raise InvalidRecipe(f"{where} is not YAML that can be read: {told}") from error


class _Dumper(yaml.SafeDumper):
    """Plain YAML that is read back as it was written."""


def _written(dumper: _Dumper, word: str) -> yaml.ScalarNode:
    # Within plain and single quotes these breaks of lines would be read as spaces.
    quotes = '"' if any(letter in word for letter in "\x85\u2028\u2029") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", word, style=quotes)


_Dumper.add_representer(str, _written)


def written(tree: object) -> str:
    """The text of YAML that `parsed` makes the same tree of."""
    return yaml.dump(tree, Dumper=_Dumper, sort_keys=False, allow_unicode=True)


def in_yaml(value: object) -> str:
    """A single value as a recipe has it, on one line."""
    values = list(value) if isinstance(value, tuple) else value
    text = yaml.safe_dump(values, default_flow_style=True, width=1000)
    return text.removesuffix("\n").removesuffix("\n...")


def nearest(word: str, names: Iterable[str]) -> str:
    """A hint at the name that was perhaps meant: alike as a whole, or in its last part."""
    names = list(names)
    elsewhere = [name for name in names if name.rpartition(".")[2] == word.rpartition(".")[2]]
    found = difflib.get_close_matches(word, elsewhere or names, n=1, cutoff=0 if elsewhere else 0.6)
    if not found:
        last = {name.rpartition(".")[2]: name for name in names}
        alike = difflib.get_close_matches(word.rpartition(".")[2], last, n=1, cutoff=0.6)
        found = [last[name] for name in alike]
    return f" Did you mean {found[0]!r}?" if found else ""


def is_unicode(word: str) -> bool:
    """Whether a word can be written to a file."""
    return not any("\ud800" <= letter <= "\udfff" for letter in word)


def told(error: ValidationError) -> str:
    """What pydantic found, in a sentence for each field."""
    items = error.errors(include_url=False)
    places = [_place(item["loc"]) for item in items]
    told = []
    for item, place in zip(items, places, strict=True):
        reason = item["msg"].removeprefix("Value error, ")
        if item["type"] == "missing":
            told.append(f"{place} is missing")
        elif item["type"] != "tuple_type" or places.count(place) == 1:  # else one value was meant
            # What contradicts something else names both by itself; its input is the whole recipe.
            told.append(f"{place} is {_short(item['input'])}: {reason}" if place else reason)
    different = list(dict.fromkeys(told))
    more = f"; and {len(different) - MOST_TOLD} more" if len(different) > MOST_TOLD else ""
    return "; ".join(different[:MOST_TOLD]) + more


def _line(node: Any) -> str:
    return f" (in what begins on line {node.start_mark.line + 1})"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _place(parts: tuple[int | str, ...]) -> str:
    return ".".join(str(part) for part in parts if not _is_type_name(part))


def _is_type_name(part: object) -> bool:
    """In a union pydantic adds the kind that it tried to the place."""
    kinds = {"bool", "str", "int", "float", "constrained-int", "constrained-float"}
    return isinstance(part, str) and (part in kinds or part.startswith(("tuple[", "literal[")))
