"""The last layer of a network: which one it is, and the network without it."""

import copy
import difflib

import torch
from torch import nn

from dnc.errors import InvalidModel

# After one of these a layer's output is no row of scores, and what stands in the layer's place
# would go through it.
SQUASHING = (nn.Softmax, nn.LogSoftmax, nn.Softmax2d, nn.Sigmoid, nn.LogSigmoid)
WRAPPERS = (nn.DataParallel, nn.parallel.DistributedDataParallel)


def last_layers(model: nn.Module) -> dict[str, nn.Linear | nn.Conv2d]:
    """The last layer of a classifier, by its name in the model.

    More than one for networks of timm that average several classifiers, none for a network of
    timm that was made without. A network that is not timm's must end in a linear layer or a 1x1
    convolution, in the order in which its modules were registered.
    """
    if callable(getattr(model, "get_classifier", None)) and hasattr(model, "pretrained_cfg"):
        return _classifiers_of_timm(model)
    own = [
        (name, module)
        for name, module in model.named_modules()
        if any(True for _ in module.parameters(recurse=False))
    ]
    if own and is_classifying(own[-1][1]):
        return dict(own[-1:])
    came = f"{own[-1][0]} ({type(own[-1][1]).__name__})" if own else "no layer with parameters"
    raise InvalidModel(
        f"The last layer of {type(model).__name__} could not be found: it ends in {came}, where a "
        "linear layer or a 1x1 convolution was expected. Name the layer with layer=...; "
        f"{_candidates(model)}"
    )


def named_layer(model: nn.Module, name: str) -> dict[str, nn.Linear | nn.Conv2d]:
    """The layer of that name, which must be linear."""
    modules = dict(model.named_modules())
    layer = modules.get(name) if name else None
    if layer is None:
        near = difflib.get_close_matches(name, modules, n=3)
        hint = f"did you mean {', '.join(near)}? " if near else ""
        raise InvalidModel(
            f"{type(model).__name__} has no layer {name!r}; {hint}{_candidates(model)}"
        )
    if not is_classifying(layer):
        raise InvalidModel(
            f"The layer {name!r} is a {type(layer).__name__}, and only a linear layer or a 1x1 "
            f"convolution can be taken away; {_candidates(model)}"
        )
    return {name: layer}


def is_classifying(module: nn.Module) -> bool:
    """Whether it is a layer that could give the scores of classes: linear, or a 1x1 convolution."""
    if isinstance(module, nn.Conv2d):
        return module.kernel_size == (1, 1) and module.groups == 1
    return isinstance(module, nn.Linear)


def inputs_and_outputs(layer: nn.Linear | nn.Conv2d) -> tuple[int, int]:
    """Dimension of what a layer takes, and of what it gives."""
    if isinstance(layer, nn.Conv2d):
        return layer.in_channels, layer.out_channels
    return layer.in_features, layer.out_features


def without(model: nn.Module, names: list[str]) -> nn.Module:
    """The model with its input handed on unchanged where these layers stood.

    The given model stays as it is. Only the modules on the way to the layers are new, all others,
    and every parameter, are shared by the two.
    """
    top = twin(model)
    for name in names:
        module = top
        *path, last = name.split(".")
        for step in path:
            child = twin(module.get_submodule(step))
            module._modules[step] = child
            module = child
        module._modules[last] = nn.Identity().train(model.get_submodule(name).training)
    return top


def require_convertible(model: nn.Module, layer: nn.Module) -> None:
    """Refuses what would give wrong features or cannot be taken apart."""
    name = type(model).__name__
    if isinstance(model, torch.jit.ScriptModule):
        raise InvalidModel(f"{name} is compiled to TorchScript; give the module it was made from.")
    # Asking for the class that torch.compile wraps in would load the whole compiler.
    if isinstance(model, WRAPPERS) or hasattr(model, "_orig_mod"):
        raise InvalidModel(
            f"{name} is a wrapper around a network; give the network itself, and wrap the result."
        )
    if getattr(model, "aux_logits", False):
        raise InvalidModel(
            f"{name} has auxiliary classifiers, which give further outputs in training; make it "
            "with aux_logits=False."
        )
    modules = list(model.modules())
    for later in modules[modules.index(layer) + 1 :]:
        if isinstance(later, SQUASHING):
            raise InvalidModel(
                f"{name} has a {type(later).__name__} after its last layer, and features must not "
                "go through it; replace it by nn.Identity()."
            )


def _classifiers_of_timm(model: nn.Module) -> dict[str, nn.Linear | nn.Conv2d]:
    found = model.get_classifier()  # type: ignore[operator]
    found = found if isinstance(found, tuple) else (found,)
    linear = {
        id(module)
        for classifier in found
        if isinstance(classifier, nn.Module)
        for module in classifier.modules()
        if is_classifying(module)
    }
    layers = {
        name: module
        for name, module in model.named_modules(remove_duplicate=False)
        if id(module) in linear
    }
    name = type(model).__name__
    dims = sorted({inputs_and_outputs(layer)[0] for layer in layers.values()})
    if len(dims) > 1:
        raise InvalidModel(
            f"{name} adds up the scores of classifiers of different dimensions ({dims}), so it has "
            "no one row of features for each image; use another network."
        )
    if isinstance(getattr(model, "aux_head", None), nn.Linear):
        raise InvalidModel(
            f"{name} adds a second classifier of its tokens to the scores; make it with "
            "timm.create_model(name, use_aux_head=False) and convert that."
        )
    return layers


def twin(module: nn.Module) -> nn.Module:
    """A module of its own with the same children, of which some can then be replaced."""
    made = copy.copy(module)
    made._modules = dict(module._modules)
    return made


def _candidates(model: nn.Module) -> str:
    names = [name for name, module in model.named_modules() if is_classifying(module) and name]
    if not names:
        return "it has no linear layer at all."
    shown = ", ".join(names[-5:])
    return f"its last linear layers are {shown}."
