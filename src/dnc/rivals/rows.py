"""The rows that a batch brings to a rival."""

from typing import Protocol

import torch
from torch import Tensor

from dnc.centroids import exchange
from dnc.centroids.validation import Rows, labelled_rows


class Absorbing(Protocol):
    """What says which rows it can take in."""

    dim: int
    classes: int
    ignore_index: int


def rows_that_came(
    head: Absorbing, features: Tensor, labels: Tensor, ids: Tensor | None, device: torch.device
) -> Rows:
    """Checked rows of a batch that carry a class, of all processes together."""
    return exchange.rows_of_all(
        lambda: labelled_rows(
            features,
            labels,
            ids,
            dim=head.dim,
            classes=head.classes,
            ignore_index=head.ignore_index,
        ),
        device,
    )
