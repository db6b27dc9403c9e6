"""What a tally takes: whole numbers, the state of another tally, a name for each class."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from dnc.errors import InvalidInput, InvalidLabels

WHOLE_NUMBERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def require_whole_numbers(values: object, what: str) -> None:
    """Class numbers are a tensor of integers."""
    if not isinstance(values, Tensor) or values.dtype not in WHOLE_NUMBERS:
        came = values.dtype if isinstance(values, Tensor) else type(values).__name__
        raise InvalidLabels(f"{what} are {came}; they must be a torch.Tensor of whole numbers.")


def require_state(state: Mapping[str, Tensor], own: Mapping[str, Tensor], *, alike: str) -> None:
    """A state that can be added to `own`: the same names, types and shapes; `alike` says why."""
    if set(state) != set(own):
        raise InvalidInput(
            f"The state holds {sorted(state)}; a tally's state holds {sorted(own)}. "
            "Give what state() returns."
        )
    for name, sums in own.items():
        value = state[name]
        if not isinstance(value, Tensor) or value.dtype != sums.dtype:
            came = value.dtype if isinstance(value, Tensor) else type(value).__name__
            raise InvalidInput(f"{name} of the state is {came}; it must be {sums.dtype}.")
        if value.shape != sums.shape:
            raise InvalidInput(
                f"{name} of the state has shape {tuple(value.shape)}; this tally's has "
                f"{tuple(sums.shape)}. Only tallies of the same {alike} can be added."
            )
        if not (value >= 0).all():
            raise InvalidInput(f"{name} of the state is negative or NaN; sums are 0 or more.")


def require_names(class_names: Sequence[str], classes: int) -> None:
    """There is a name for each class."""
    if len(class_names) != classes or isinstance(class_names, str):
        raise InvalidInput(
            f"class_names has {len(class_names)} names for {classes} classes; give one for each."
        )
