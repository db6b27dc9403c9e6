"""Nested training state as JSON and safetensors: nothing in it can be executed."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from dnc.errors import InvalidCheckpoint

# Far more than the state of any optimizer is nested.
MOST_LEVELS = 40


def write_state(state: Mapping[str, Any], folder: Path, name: str) -> None:
    """Writes `name.json` and `name.safetensors`."""
    tensors: dict[str, Tensor] = {}
    tree = _encoded(state, "", tensors)
    (folder / f"{name}.json").write_text(json.dumps(tree, allow_nan=False), encoding="utf-8")
    write_tensors(tensors, folder / f"{name}.safetensors")


def read_state(folder: Path, name: str) -> dict[str, Any]:
    """What `write_state` wrote, types of keys and containers included."""
    tree = read_json(folder / f"{name}.json")
    state = _decoded(tree, read_tensors(folder / f"{name}.safetensors"), folder / f"{name}.json", 0)
    if not isinstance(state, dict):
        raise InvalidCheckpoint(f"{folder / f'{name}.json'} holds no state of a training run.")
    return state


def write_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Writes tensors, those that share memory too, as a safetensors file."""
    # safetensors refuses views of one storage, and what is not contiguous.
    save_file({key: t.detach().cpu().clone().contiguous() for key, t in tensors.items()}, path)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """All tensors of a safetensors file."""
    with _opened(path) as file:
        return {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118


def tensor_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """The shapes in a safetensors file, without reading a tensor."""
    with _opened(path) as file:
        return {key: tuple(file.get_slice(key).get_shape()) for key in file.keys()}  # noqa: SIM118


def read_json(path: Path) -> Any:
    """A JSON file; everything that is wrong with it is an `InvalidCheckpoint`."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidCheckpoint(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise InvalidCheckpoint(f"{path} is not JSON that can be read: {error}.") from error


def _opened(path: Path) -> Any:
    try:
        return safe_open(path, framework="pt", device="cpu")
    except (SafetensorError, OSError, ValueError) as error:
        raise InvalidCheckpoint(
            f"{path} is no safetensors file that can be read: {error}. If it was copied, compare "
            "its size with the original's."
        ) from error


def _encoded(value: Any, place: str, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, Tensor):
        tensors[place] = value
        return {"tensor": place}
    if isinstance(value, Mapping):
        return {
            "map": [
                [_key(key), _encoded(inner, f"{place}/{key}", tensors)]
                for key, inner in value.items()
            ]
        }
    if isinstance(value, list | tuple):
        items = [_encoded(inner, f"{place}/{index}", tensors) for index, inner in enumerate(value)]
        return {"tuple": items} if isinstance(value, tuple) else items
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if value is None or type(value) in (bool, int, float, str):
        return value
    raise TypeError(
        f"State at {place} is of {type(value)}; JSON and safetensors have no such type."
    )


def _key(key: object) -> str | int:
    if type(key) not in (str, int):
        raise TypeError(f"State has the key {key!r}; only words and whole numbers are kept.")
    return key  # type: ignore[return-value]


def _decoded(tree: Any, tensors: Mapping[str, Tensor], path: Path, level: int) -> Any:
    if level > MOST_LEVELS:
        raise InvalidCheckpoint(f"{path} is nested more than {MOST_LEVELS} levels deep.")
    if isinstance(tree, list):
        return [_decoded(inner, tensors, path, level + 1) for inner in tree]
    if not isinstance(tree, dict):
        return tree
    match tree:
        case {"tensor": str(name)} if len(tree) == 1 and name in tensors:
            return tensors[name]
        case {"map": list(items)} if len(tree) == 1 and all(map(_is_item, items)):
            return {key: _decoded(inner, tensors, path, level + 1) for key, inner in items}
        case {"tuple": list(items)} if len(tree) == 1:
            return tuple(_decoded(inner, tensors, path, level + 1) for inner in items)
        case {"float": "inf" | "-inf" | "nan" as value} if len(tree) == 1:
            return float(value)
    raise InvalidCheckpoint(f"{path} has an entry that means nothing: {str(tree)[:80]}")


def _is_item(item: object) -> bool:
    return isinstance(item, list) and len(item) == 2 and type(item[0]) in (str, int)


def random_state(device: torch.device) -> Tensor:
    """The state of torch's generators, of the CPU and of the device, as one row of bytes."""
    states = [torch.get_rng_state()]
    if device.type == "cuda":
        states.append(torch.cuda.get_rng_state(device))
    return torch.cat(states)


def set_random_state(state: Tensor, device: torch.device) -> None:
    """Puts back what `random_state` gave."""
    size = torch.get_rng_state().numel()
    torch.set_rng_state(state[:size].cpu())
    if device.type == "cuda" and state.numel() > size:
        torch.cuda.set_rng_state(state[size:].cpu(), device)
