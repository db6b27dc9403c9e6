"""The text of a recipe: YAML that cannot surprise, and errors that say what was meant."""

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from dnc.errors import InvalidRecipe

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
    if path.suffix in (".yaml", ".yml") or path.is_file():
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
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if not isinstance(key, str):
                raise yaml.YAMLError(f"the key {key!r} is no word")
        if len(set(keys)) < len(keys):
            raise yaml.YAMLError("a key stands there twice")
        return super().construct_mapping(node, deep=deep)


def parsed(text: bytes, where: str) -> Any:
    """What a text of YAML says: words, numbers, lists and mappings, nothing else."""
    try:
        return yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        told = " ".join(str(error).split())
        raise InvalidRecipe(f"{where} is not YAML that can be read: {told}") from error


def nearest(word: str, names: Iterable[str]) -> str:
    """A hint at the name that was perhaps meant: alike as a whole, or in its last part."""
    names = list(names)
    found = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    if not found:
        last = {name.rpartition(".")[2]: name for name in names}
        alike = difflib.get_close_matches(word.rpartition(".")[2], last, n=1, cutoff=0.6)
        found = [last[name] for name in alike]
    return f" Did you mean {found[0]!r}?" if found else ""


def told(error: ValidationError) -> str:
    """What pydantic found, in a sentence for each field."""
    told = []
    for item in error.errors(include_url=False):
        place = ".".join(str(part) for part in item["loc"] if not _is_type_name(part))
        value = repr(item["input"])
        short = value if len(value) <= 80 else value[:77] + "..."
        told.append(f"{place or 'recipe'} is {short}: {item['msg']}")
    return "; ".join(dict.fromkeys(told))


def _is_type_name(part: object) -> bool:
    """In a union pydantic adds the kind that it tried to the place."""
    kinds = {"bool", "str", "int", "float", "constrained-int", "constrained-float"}
    return isinstance(part, str) and (part in kinds or part.startswith(("tuple[", "literal[")))
