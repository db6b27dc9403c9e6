"""Weights from a file: read without executing anything in it, and matched name by name."""

import sys
from collections.abc import Mapping
from pathlib import Path

import safetensors.torch
import torch
from torch import Tensor, nn

from dnc.errors import InvalidModel

TORCH_SUFFIXES = (".pth", ".pt", ".bin", ".ckpt", ".tar")
# Where training scripts put the weights in their files, and what wrappers put before the names.
NESTINGS = ("state_dict", "model_state_dict", "model")
PREFIXES = ("module.", "_orig_mod.")

State = dict[str, Tensor]


def weights_of(path: str | Path) -> State:
    """The tensors in a file of weights, by name.

    Safetensors, or a torch file, which is read with `weights_only`: nothing in it is executed.
    """
    path = Path(path)
    if not path.is_file():
        raise InvalidModel(f"{path}: no such file of weights; give a path to one that exists.")
    if path.suffix != ".safetensors" and path.suffix not in TORCH_SUFFIXES:
        allowed = ", ".join((".safetensors", *TORCH_SUFFIXES))
        raise InvalidModel(f"{path}: a file of weights ends in one of {allowed}.")
    try:
        if path.suffix == ".safetensors":
            content: object = safetensors.torch.load_file(path)
        else:
            content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # the readers raise whatever a damaged file makes them stumble on
        raise InvalidModel(
            f"{path}: cannot be read as weights ({type(error).__name__}: "
            f"{str(error).splitlines()[0] if str(error) else 'no reason given'}); save a state "
            "dict as safetensors, or with torch.save."
        ) from error
    return _tensors(content, path)


def load_(network: nn.Module, weights: State, *, ignored: list[str], source: object) -> list[str]:
    """Puts weights into a network; the names that were left out.

    Every tensor of the network but those of the ignored layers must be there in its shape, and
    nothing else may be. Weights in a layout that timm knows to be an older one are renamed first.

    Args:
        network: the network to load into.
        weights: tensors by name.
        ignored: names of layers that keep what they have.
        source: where the weights come from, for messages.

    """
    of_ignored = tuple(f"{name}." for name in ignored)
    misfit = _misfit(network, weights, of_ignored)
    if misfit:
        renamed = _in_layout_of_today(network, weights)
        if renamed is None or _misfit(network, renamed, of_ignored):
            raise InvalidModel(
                f"{source}: the weights do not fit {type(network).__name__}: {misfit}. Use the "
                "network that they were saved from."
            )
        weights = renamed
    left_out = sorted(name for name in weights if name.startswith(of_ignored))
    kept = {name: tensor for name, tensor in weights.items() if name not in left_out}
    network.load_state_dict(kept, strict=False)
    return left_out


def _tensors(content: object, path: Path) -> State:
    nesting: str | None = ""
    while nesting is not None and isinstance(content, Mapping):
        nesting = next((name for name in NESTINGS if isinstance(content.get(name), Mapping)), None)
        content = content if nesting is None else content[nesting]
    if not isinstance(content, Mapping) or not content:
        raise InvalidModel(
            f"{path}: holds no state dict but a {type(content).__name__}; save one with "
            "torch.save(network.state_dict(), path)."
        )
    for name, tensor in content.items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            raise InvalidModel(
                f"{path}: a state dict holds tensors by name, but {name!r} is a "
                f"{type(tensor).__name__}; save network.state_dict()."
            )
    state = dict(content)
    for prefix in PREFIXES * 2:
        if all(name.startswith(prefix) for name in state):
            state = {name.removeprefix(prefix): tensor for name, tensor in state.items()}
    return state


def _misfit(network: nn.Module, weights: State, of_ignored: tuple[str, ...]) -> str:
    """What is missing, too much or of another shape; empty if all fits."""
    own = {n: t.shape for n, t in network.state_dict().items() if not n.startswith(of_ignored)}
    given = {n: t.shape for n, t in weights.items() if not n.startswith(of_ignored)}
    # Files from before torch 0.4.1 have no counters in their batch normalisation.
    missing = [n for n in own.keys() - given.keys() if not n.endswith("num_batches_tracked")]
    unknown = given.keys() - own.keys()
    reshaped = [
        f"{name} {tuple(given[name])} instead of {tuple(own[name])}"
        for name in sorted(own.keys() & given.keys())
        if own[name] != given[name]
    ]
    found = {"missing": sorted(missing), "not known": sorted(unknown), "of other shape": reshaped}
    return "; ".join(f"{what}: {_some(names)}" for what, names in found.items() if names)


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"


def _in_layout_of_today(network: nn.Module, weights: State) -> State | None:
    """The weights under the names of today, where timm knows an older layout of the network."""
    module = type(network).__module__
    rename = getattr(sys.modules[module], "checkpoint_filter_fn", None)
    if not module.startswith("timm.") or rename is None:
        return None
    try:
        renamed = rename(dict(weights), network)
    except Exception:  # made for files of its own kind; any other may trip it
        return None
    return renamed if isinstance(renamed, dict) else None
