"""The temperature at which scores are probabilities, by images that no case was taken from."""

import math
from dataclasses import replace

import torch
from jaxtyping import Float, Int
from scipy.optimize import minimize_scalar
from torch import Tensor
from torch.nn.functional import cross_entropy

from dnc.models import Centring, HeadSettings, centring_layer, subcentroid_head
from dnc.training.features import Features
from dnc.training.starting import start_from_features_

FOLDS = 5
# More rows do not make one number surer.
MOST_ROWS = 20_000
COLDEST, WARMEST = 0.005, 1.0


def fitted_temperature(
    features: Features, classes: int, settings: HeadSettings, centring: Centring
) -> float:
    """The temperature with the least cross-entropy on images left out, a fifth at a time.

    On the images that cases were taken from every score is too good, and the temperature would be
    far too low. The temperature of the settings where no class has two images.
    """
    rows = _some(features)
    fold = _folds(rows.labels)
    cosines, labels = [], []
    for left_out in range(FOLDS):
        taken, tested = _where(rows, fold != left_out), _where(rows, fold == left_out)
        known = torch.isin(tested.labels, taken.labels)
        if len(taken.labels) < 2 or not known.any():
            continue
        head = subcentroid_head(rows.rows.shape[1], classes, replace(settings, temperature=1.0))
        layer = centring_layer(centring, rows.rows.shape[1])
        start_from_features_(head, layer, taken)
        with torch.no_grad():
            cosines.append(head.eval()(layer.eval()(tested.rows[known])))
        labels.append(tested.labels[known])
    if not labels:
        return settings.temperature
    return _best(torch.cat(cosines), torch.cat(labels))


def _best(cosines: Float[Tensor, "n c"], labels: Int[Tensor, " n"]) -> float:
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
