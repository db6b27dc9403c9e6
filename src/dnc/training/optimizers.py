"""Optimizers, and which parameters they pull to zero."""

from collections.abc import Callable
from typing import Any, Literal, get_args

import torch
from torch import nn

from dnc.errors import InvalidModel, InvalidSetting

Name = Literal["sgd", "adamw"]


def parameter_groups(
    model: nn.Module, *, weight_decay: float, decay_all: bool = False
) -> list[dict[str, Any]]:
    """The parameters that learn, each once, in a group with weight decay and one without.

    Without decay are biases, parameters of one dimension (norms, scales), and those that a network
    names in its `no_weight_decay` method, as timm's do; with `decay_all`, none. Frozen parameters
    are left out, and so is an empty group.
    """
    if not 0 <= weight_decay < float("inf"):
        raise InvalidSetting(f"weight_decay is {weight_decay}; it must be 0 or more.")
    exempt = set() if decay_all else _exempt_names(model)
    decayed: list[nn.Parameter] = []
    spared: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            (spared if name in exempt else decayed).append(parameter)
    groups = ((decayed, weight_decay), (spared, 0.0))
    return [{"params": own, "weight_decay": decay} for own, decay in groups if own]


def optimizer(
    groups: list[dict[str, Any]],
    *,
    name: Name,
    learning_rate: float,
    momentum: float = 0.9,
    nesterov: bool = False,
    betas: tuple[float, float] = (0.9, 0.999),
) -> torch.optim.Optimizer:
    """The optimizer of the groups: `sgd` with a momentum, or `adamw` with its betas."""
    names = get_args(Name)
    for setting, value, allowed, sensible in (
        ("name", name, name in names, f"one of {', '.join(names)}"),
        ("learning_rate", learning_rate, 0 < learning_rate < float("inf"), "above 0"),
        ("momentum", momentum, 0 <= momentum < 1, "at least 0 and below 1"),
        ("momentum", momentum, momentum > 0 or not nesterov, "above 0 with nesterov"),
        ("betas", betas, all(0 <= beta < 1 for beta in betas), "at least 0 and below 1"),
    ):
        if not allowed:
            raise InvalidSetting(f"{setting} is {value}; it must be {sensible}.")
    if not any(len(group["params"]) for group in groups):
        raise InvalidModel(
            "There is no parameter to train; at least one must require gradients "
            "(parameter.requires_grad_())."
        )
    if name == "sgd":
        return torch.optim.SGD(groups, lr=learning_rate, momentum=momentum, nesterov=nesterov)
    return torch.optim.AdamW(groups, lr=learning_rate, betas=betas)


def _exempt_names(model: nn.Module) -> set[str]:
    exempt = {
        name
        for name, parameter in model.named_parameters()
        if parameter.ndim <= 1 or name.rpartition(".")[2] == "bias"
    }
    for prefix, module in model.named_modules():
        named: Callable[[], set[str]] | None = getattr(module, "no_weight_decay", None)
        if callable(named):
            exempt |= {f"{prefix}.{name}".lstrip(".") for name in named()}
    return exempt
