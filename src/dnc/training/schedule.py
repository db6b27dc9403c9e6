"""The learning rate over a run, as a factor of its highest value."""

import math
from collections.abc import Sequence
from typing import Literal, get_args

from dnc.errors import InvalidSetting

Kind = Literal["constant", "step", "polynomial", "cosine"]


def learning_rate_factor(
    step: int,
    *,
    steps: int,
    warmup_steps: int,
    kind: Kind,
    milestones: Sequence[float] = (),
    gamma: float = 0.1,
    power: float = 1.0,
    final: float = 0.0,
) -> float:
    """The factor of the learning rate in a step: linear growth, then a schedule that never grows.

    The first step has a factor above 0, the first one after the warm-up has 1 (less only if
    milestones lie in the warm-up). After the run the factor stays as it was at its end.

    Args:
        step: optimizer steps before this one.
        steps: optimizer steps of the whole run.
        warmup_steps: how many of them the warm-up takes; polynomial and cosine span the others.
        kind: `constant`; `step`, a factor `gamma` at each milestone; `polynomial` or `cosine`,
            falling to `final`.
        milestones: of `step`, as shares of the whole run.
        gamma: of `step`.
        power: of `polynomial`.
        final: the factor at the end of `polynomial` and `cosine`, and the least of `step`.

    """
    _require_settings(step, steps, warmup_steps, kind, milestones, gamma, power, final)

    def scheduled(at: int, progress: float) -> float:
        match kind:
            case "constant":
                return 1.0
            case "step":
                # Rounded, or 0.55 of 100 steps would not be over after 55.
                passed = sum(at >= round(share * steps) for share in milestones)
                return max(gamma**passed, final)
            case "polynomial":
                return final + (1 - final) * math.pow(1 - progress, power)
            case "cosine":
                return final + (1 - final) * (1 + math.cos(math.pi * progress)) / 2

    if step >= steps:
        return scheduled(steps, 1.0)
    if step < warmup_steps:
        return scheduled(warmup_steps, 0.0) * (step + 1) / (warmup_steps + 1)
    return scheduled(step, (step - warmup_steps) / (steps - warmup_steps))


def _require_settings(
    step: int,
    steps: int,
    warmup_steps: int,
    kind: str,
    milestones: Sequence[float],
    gamma: float,
    power: float,
    final: float,
) -> None:
    kinds = get_args(Kind)
    outside = [share for share in milestones if not 0 <= share <= 1]
    for name, value, allowed, sensible in (
        ("step", step, step >= 0, "0 or more"),
        ("steps", steps, steps >= 1, "at least 1"),
        ("warmup_steps", warmup_steps, 0 <= warmup_steps <= steps, f"0 to {steps}, all the steps"),
        ("kind", kind, kind in kinds, f"one of {', '.join(kinds)}"),
        ("milestones", list(milestones), not outside, "between 0 and 1, as shares of the run"),
        ("milestones", "empty", kind != "step" or len(milestones), "one or more for kind=step"),
        ("gamma", gamma, 0 < gamma <= 1, "above 0 and at most 1"),
        ("power", power, 0 < power < math.inf, "above 0"),
        ("final", final, 0 <= final <= 1, "between 0 and 1"),
    ):
        if not allowed:
            raise InvalidSetting(f"{name} is {value}; it must be {sensible}.")
