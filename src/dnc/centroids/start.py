"""Where sub-centroids begin before anything was seen."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from dnc.centroids.similarity import normalised

# classes, sub-centroids of each, dimension, and the keyword `generator`.
Start = Callable[..., Float[Tensor, "c k d"]]

# How far the sub-centroids of a class begin from their common direction, which has length 1.
SPREAD = 0.3


def random_directions(
    classes: int, subcentroids: int, dim: int, *, generator: torch.Generator | None = None
) -> Float[Tensor, "c k d"]:
    """Sub-centroids drawn uniformly from the unit sphere."""
    return normalised(torch.randn(classes, subcentroids, dim, generator=generator))


def close_directions(
    classes: int, subcentroids: int, dim: int, *, generator: torch.Generator | None = None
) -> Float[Tensor, "c k d"]:
    """Classes far from each other, the sub-centroids of one class close together.

    The classes are at right angles as far as the dimension allows, so that at first each class is
    as one direction to the network; what tells its sub-centroids apart then comes from the data.
    """
    blocks = [
        torch.linalg.qr(torch.randn(dim, min(dim, left), generator=generator)).Q.mT
        for left in range(classes, 0, -dim)
    ]
    of_class = torch.cat(blocks)[:, None]
    if subcentroids == 1:
        return of_class.contiguous()
    apart = random_directions(classes, subcentroids, dim, generator=generator)
    return normalised(of_class + SPREAD * apart)
