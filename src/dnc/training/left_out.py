"""How many sub-centroids a class has, and at which temperature their scores are probabilities.

Both by images that no case was taken from: on its own images every score is too good, the more so
the more sub-centroids there are.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from scipy.optimize import minimize_scalar
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from dnc.models import Centring, HeadSettings, centring_layer, subcentroid_head
from dnc.training.features import Features
from dnc.training.starting import set_centring_, start_from_features_

FOLDS = 5
# More rows do not make one number surer.
MOST_ROWS = 20_000
COLDEST, WARMEST = 0.005, 1.0
# Of a loss; what differs later says nothing, and fewer sub-centroids are better then.
DIGITS = 4


@dataclass(frozen=True)
class Choice:
    """What fits images left out best.

    Attributes:
        subcentroids: of each class.
        temperature: of the probabilities.
        losses: the cross-entropy on images left out by the number of sub-centroids, each at its own
            best temperature; empty where no class has two images.
    """

    subcentroids: int
    temperature: float
    losses: dict[int, float]


def fitted_choice(
    features: Features,
    classes: int,
    settings: HeadSettings,
    centring: Centring,
    *,
    numbers: Sequence[int],
) -> Choice:
    """Number and temperature with the least cross-entropy on images left out, a fifth at a time.

    Where no class has two images: the first number, and the temperature of the settings.
    """
    cosines, labels = _left_out(_some(features), classes, settings, centring, numbers)
    if not len(labels):
        return Choice(numbers[0], settings.temperature, {})
    temperatures = {number: fitted_temperature(cosines[number], labels) for number in numbers}
    losses = {
        number: float(cross_entropy(cosines[number].double() / temperature, labels))
        for number, temperature in temperatures.items()
    }
    best = min(sorted(numbers), key=lambda number: round(losses[number], DIGITS))
    return Choice(best, temperatures[best], losses)


def _left_out(
    rows: Features,
    classes: int,
    settings: HeadSettings,
    centring: Centring,
    numbers: Sequence[int],
) -> tuple[dict[int, Float[Tensor, "n c"]], Int[Tensor, " n"]]:
    """Scores of each row by the cases of the other folds, for each number, and the labels."""
    fold, dim = _folds(rows.labels), rows.rows.shape[1]
    cosines: dict[int, list[Tensor]] = {number: [] for number in numbers}
    labels = [rows.labels[:0]]
    for left_out in range(FOLDS):
        taken, tested = _where(rows, fold != left_out), _where(rows, fold == left_out)
        known = torch.isin(tested.labels, taken.labels)
        if len(taken.labels) < 2 or not known.any():
            continue
        layer = centring_layer(centring, dim)
        set_centring_(layer, taken)
        with torch.no_grad():
            clustered = replace(taken, rows=layer.eval()(taken.rows))
            queries = layer(tested.rows[known])
            for number in numbers:
                wanted = replace(settings, subcentroids=number, temperature=1.0)
                head = subcentroid_head(dim, classes, wanted)
                start_from_features_(head, nn.Identity(), clustered)
                cosines[number].append(head.eval()(queries))
        labels.append(tested.labels[known])
    found = {number: torch.cat(parts) for number, parts in cosines.items() if parts}
    return found, torch.cat(labels)


def fitted_temperature(cosines: Float[Tensor, "n c"], labels: Int[Tensor, " n"]) -> float:
    """The temperature with the least cross-entropy."""

    def loss(logarithm: float) -> float:
        return float(cross_entropy(cosines.double() / math.exp(logarithm), labels))

    bounds = math.log(COLDEST), math.log(WARMEST)
    return round(math.exp(minimize_scalar(loss, bounds=bounds, method="bounded").x), 4)


def _folds(labels: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
    """A fold for each row; those of a class are dealt out evenly, in an order drawn by lot."""
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    order = order[labels[order].argsort(stable=True)]
    fold = torch.empty_like(labels)
    fold[order] = torch.arange(len(labels)) % FOLDS
    return fold


def _some(features: Features) -> Features:
    chosen = torch.randperm(len(features.labels), generator=torch.Generator().manual_seed(0))
    return _where(features, chosen[:MOST_ROWS].sort().values)


def _where(features: Features, chosen: Tensor) -> Features:
    return replace(
        features,
        rows=features.rows[chosen],
        labels=features.labels[chosen],
        ids=features.ids[chosen],
    )
