"""The classifiers that can stand on a network: sub-centroids, and what they are compared with."""

from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

import torch
from torch import nn

from dnc.centroids import (
    Assign,
    Scores,
    Start,
    SubCentroidHead,
    class_scores,
    close_directions,
    kmeans,
    orthogonal_directions,
    positive_directions,
    random_directions,
    sinkhorn,
    soft_class_scores,
)
from dnc.errors import InvalidSetting
from dnc.rivals import ClassMeanHead, NeighbourHead

# Sub-centroids; a linear layer; a mean of each class; all training images.
Kind = Literal["dnc", "softmax", "deepncm", "deepnca"]
AnyHead = SubCentroidHead | nn.Linear | ClassMeanHead | NeighbourHead
KINDS: tuple[str, ...] = get_args(Kind)

STARTS: dict[str, Start] = {
    "random": random_directions,
    "orthogonal": orthogonal_directions,
    "close": close_directions,
    "positive": positive_directions,
}
SCORES: dict[str, Scores] = {"nearest": class_scores, "soft": soft_class_scores}
RULES: dict[str, Assign] = {"sinkhorn": sinkhorn, "kmeans": kmeans}
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
NAMES: dict[str, dict[str, Any]] = {
    "memory_dtype": DTYPES,
    "training_scores": SCORES,
    "start": STARTS,
    "assign": RULES,
}


@dataclass(frozen=True)
class RivalSettings:
    """Settings of the other classifiers that keep cases, as plain values.

    Attributes:
        mean_decay: `decay` of a `ClassMeanHead` (deepncm).
        bank_rows: of a `NeighbourHead` (deepnca): how many training images there are.
        bank_temperature: its `temperature`.
        bank_momentum: its `momentum`.
        neighbours: how many of them decide.
    """

    mean_decay: float | None = 0.9
    bank_rows: int = 1
    bank_temperature: float = 0.05
    bank_momentum: float = 0.5
    neighbours: int = 30


@dataclass(frozen=True)
class HeadSettings:
    """Settings of a `SubCentroidHead`, all of them plain values that a file can hold.

    The meaning of each is that of the argument of `SubCentroidHead` with the same name;
    `memory_dtype`, `training_scores`, `start` and `assign` are names here. `rival` is for the
    classifiers that sub-centroids are compared with.
    """

    subcentroids: int | tuple[int, ...] = 4
    momentum: float = 0.999
    memory_rows: int = 0
    memory_dtype: str = "float32"
    batch_means: bool = False
    epsilon: float = 0.05
    iterations: int = 3
    temperature: float = 0.1
    keep_length: bool = False
    training_scores: str = "soft"
    start: str = "positive"
    assign: str = "sinkhorn"
    only_correct: bool = True
    rows_per_class: int | None = None
    reseed_after: int | None = None
    seed: int = 0
    rival: RivalSettings = RivalSettings()

    def __post_init__(self) -> None:
        """Refuses names that mean nothing."""
        for name, allowed in NAMES.items():
            value = getattr(self, name)
            if not isinstance(value, str) or value not in allowed:
                raise InvalidSetting(f"{name} is {value!r}; use one of {', '.join(allowed)}.")
        for field in fields(self):
            value = getattr(self, field.name)
            # A list would make the settings unhashable, and equal settings unequal.
            if isinstance(value, list):
                object.__setattr__(self, field.name, tuple(value))


DEFAULT_HEAD = HeadSettings()


def subcentroid_head(
    dim: int,
    classes: int,
    settings: HeadSettings = DEFAULT_HEAD,
    *,
    generator: torch.Generator | None = None,
) -> SubCentroidHead:
    """A new head of sub-centroids with these settings."""
    return SubCentroidHead(
        dim,
        classes,
        subcentroids=settings.subcentroids,
        momentum=settings.momentum,
        memory_rows=settings.memory_rows,
        memory_dtype=DTYPES[settings.memory_dtype],
        batch_means=settings.batch_means,
        epsilon=settings.epsilon,
        iterations=settings.iterations,
        temperature=settings.temperature,
        keep_length=settings.keep_length,
        training_scores=SCORES[settings.training_scores],
        start=STARTS[settings.start],
        assign=RULES[settings.assign],
        only_correct=settings.only_correct,
        rows_per_class=settings.rows_per_class,
        reseed_after=settings.reseed_after,
        seed=settings.seed,
        generator=generator,
    )


def settings_of(head: AnyHead) -> HeadSettings:
    """The settings of a head; without its memory, and how it began no longer matters."""
    if isinstance(head, ClassMeanHead):
        return HeadSettings(rival=RivalSettings(mean_decay=head.decay))
    if isinstance(head, NeighbourHead):
        rival = RivalSettings(
            bank_rows=len(head.bank),
            bank_temperature=head.temperature,
            bank_momentum=head.momentum,
            neighbours=head.neighbours,
        )
        return HeadSettings(rival=rival)
    if isinstance(head, nn.Linear):
        return HeadSettings()
    numbers = head.valid.sum(dim=1).tolist()
    return HeadSettings(
        subcentroids=numbers[0] if len(set(numbers)) == 1 else tuple(numbers),
        momentum=head.momentum,
        batch_means=head.batch_means,
        epsilon=head.epsilon,
        iterations=head.iterations,
        temperature=head.temperature,
        keep_length=head.keep_length,
        training_scores=_name(SCORES, head.training_scores),
        assign=_name(RULES, head.assign),
        only_correct=head.only_correct,
        rows_per_class=head.rows_per_class,
        reseed_after=head.reseed_after,
        seed=head.seed,
    )


def _name(table: dict[str, Any], function: object) -> str:
    for name, known in table.items():
        if known is function:
            return name
    raise InvalidSetting(
        f"The head uses {function}, which a file cannot hold; use one of {', '.join(table)}."
    )


def linear(dim: int, outputs: int, *, generator: torch.Generator | None = None) -> nn.Linear:
    """A new linear layer, started as torch does, but from a generator of one's own."""
    if dim < 1 or outputs < 1:
        raise InvalidSetting(f"A linear layer from {dim} to {outputs}; use numbers of at least 1.")
    layer = nn.Linear(dim, outputs)
    bound = dim**-0.5
    nn.init.uniform_(layer.weight, -bound, bound, generator=generator)
    nn.init.uniform_(layer.bias, -bound, bound, generator=generator)
    return layer


def new_head(
    kind: Kind,
    dim: int,
    classes: int,
    *,
    settings: HeadSettings,
    generator: torch.Generator | None = None,
) -> AnyHead:
    """A new head of any kind, by those of the settings that are for it."""
    rival = settings.rival
    match kind:
        case "dnc":
            return subcentroid_head(dim, classes, settings, generator=generator)
        case "softmax":
            return linear(dim, classes, generator=generator)
        case "deepncm":
            return ClassMeanHead(dim, classes, decay=rival.mean_decay)
        case "deepnca":
            return NeighbourHead(
                dim,
                classes,
                bank_rows=rival.bank_rows,
                temperature=rival.bank_temperature,
                momentum=rival.bank_momentum,
                neighbours=rival.neighbours,
                generator=generator,
            )
    raise InvalidSetting(f"kind is {kind!r}; use one of {', '.join(KINDS)}.")


def kind_of(head: AnyHead) -> Kind:
    """Which kind of classifier a head is."""
    if isinstance(head, SubCentroidHead):
        return "dnc"
    if isinstance(head, ClassMeanHead):
        return "deepncm"
    return "deepnca" if isinstance(head, NeighbourHead) else "softmax"
