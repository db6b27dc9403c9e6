"""Nested training state as JSON and safetensors: nothing in it can be executed."""

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from dnc.errors import InvalidCheckpoint, InvalidInput

# Far more than the state of any optimizer is nested.
MOST_LEVELS = 40
# A million class names are a tenth of this.
MOST_JSON_BYTES = 2**28


def write_state(state: Mapping[str, Any], folder: Path, name: str) -> None:
    """Writes `name.json` and `name.safetensors`; what they cannot hold raises `InvalidInput`."""
    tensors: dict[str, Tensor] = {}
    tree = _encoded(state, "", tensors, 0)
    try:
        text = json.dumps(tree, allow_nan=False)
    except ValueError as error:  # an integer of thousands of digits
        raise InvalidInput(f"The state cannot be written as JSON: {error}.") from error
    (folder / f"{name}.json").write_text(text, encoding="utf-8")
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
    # safetensors makes a file that nobody else may read; this one shall be like any other.
    path.touch()
    mode = path.stat().st_mode
    try:
        save_file({name: _own_copy(tensor) for name, tensor in tensors.items()}, path)
    except (SafetensorError, KeyError, ValueError, RuntimeError) as error:
        kinds = sorted({f"{tensor.dtype} {tensor.layout}" for tensor in tensors.values()})
        raise InvalidInput(
            f"A tensor cannot be written to {path} ({type(error).__name__}: {error}). These came: "
            f"{', '.join(kinds)}; safetensors holds dense ones of the usual types."
        ) from error
    path.chmod(mode)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """All tensors of a safetensors file."""
    with _opened(path) as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    for name, tensor in tensors.items():
        # Any other byte would be true in one operation of torch and false in the next.
        if tensor.dtype == torch.bool and (tensor.view(torch.uint8) > 1).any():
            raise InvalidCheckpoint(f"{path} is damaged: {name} holds neither true nor false.")
    return tensors


def tensor_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """The shapes in a safetensors file, without reading a tensor."""
    with _opened(path) as file:
        names = list(file.keys())
        return {name: tuple(file.get_slice(name).get_shape()) for name in names}


def read_json(path: Path) -> Any:
    """A JSON file; everything that is wrong with it is an `InvalidCheckpoint`."""
    try:
        with path.open("rb") as file:
            text = file.read(MOST_JSON_BYTES + 1)
        if len(text) > MOST_JSON_BYTES:
            raise InvalidCheckpoint(f"{path} has more than {MOST_JSON_BYTES:,} bytes.")
        # Python's reader would let NaN and infinity in, which JSON does not have.
        return json.loads(text.decode("utf-8"), parse_float=_finite, parse_constant=_finite)
    except InvalidCheckpoint:
        raise
    except OSError as error:
        raise InvalidCheckpoint(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise InvalidCheckpoint(f"{path} is not JSON that can be read: {error}.") from error


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            yield file
    # The last three for shapes and types that the format has and torch has not.
    except (SafetensorError, OSError, ValueError, TypeError, RuntimeError, KeyError) as error:
        raise InvalidCheckpoint(
            f"{path} is no safetensors file that can be read: {error}. If it was copied, compare "
            "its size with the original's."
        ) from error


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:80]} is no finite number")
    return value


def _own_copy(tensor: Tensor) -> Tensor:
    """The values in memory of their own: safetensors refuses views, and what is not contiguous."""
    return tensor.detach().cpu().clone().contiguous()


def _encoded(value: Any, place: str, tensors: dict[str, Tensor], level: int) -> Any:
    if level > MOST_LEVELS:
        raise InvalidInput(f"State at {place} is nested more than {MOST_LEVELS} levels deep.")
    if isinstance(value, Tensor):
        name = _free_name(place, tensors)
        tensors[name] = value
        return {"tensor": name}
    if isinstance(value, Mapping):
        return {
            "map": [
                [_key(key), _encoded(inner, f"{place}/{key}", tensors, level + 1)]
                for key, inner in value.items()
            ]
        }
    if isinstance(value, list | tuple):
        items = [
            _encoded(inner, f"{place}/{index}", tensors, level + 1)
            for index, inner in enumerate(value)
        ]
        return {"tuple": items} if isinstance(value, tuple) else items
    if type(value) is float and not math.isfinite(value):
        return {"float": str(value)}
    if value is None or type(value) in (bool, int, float, str):
        return value
    raise InvalidInput(
        f"State at {place} is of {type(value)}; JSON and safetensors have no such type. Use "
        "numbers, words, lists, tuples, mappings and tensors."
    )


def _free_name(place: str, tensors: Mapping[str, Tensor]) -> str:
    """A name for the tensor at a place: the keys 1 and "1", or "a/b" and "b" in "a", share one."""
    name = place.encode("utf-8", "backslashreplace").decode()
    while name in tensors:
        name += "'"
    return name


def _key(key: object) -> str | int:
    if type(key) not in (str, int):
        raise InvalidInput(f"State has the key {key!r}; only words and whole numbers are kept.")
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
