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

# Dimensions of each class, at most, where there are more classes than dimensions.
SHARED = 8


def random_directions(
    classes: int, subcentroids: int, dim: int, *, generator: torch.Generator | None = None
) -> Float[Tensor, "c k d"]:
    """Sub-centroids drawn uniformly from the unit sphere."""
    return normalised(torch.randn(classes, subcentroids, dim, generator=generator))


def orthogonal_directions(
    classes: int, subcentroids: int, dim: int, *, generator: torch.Generator | None = None
) -> Float[Tensor, "c k d"]:
    """All sub-centroids at right angles to each other, as far as the dimension allows."""
    return _at_right_angles(classes * subcentroids, dim, generator).view(classes, subcentroids, dim)


def close_directions(
    classes: int, subcentroids: int, dim: int, *, generator: torch.Generator | None = None
) -> Float[Tensor, "c k d"]:
    """Classes far from each other, the sub-centroids of one class close together.

    The classes are at right angles as far as the dimension allows, so that at first each class is
    as one direction to the network; what tells its sub-centroids apart then comes from the data.
    """
    of_class = _at_right_angles(classes, dim, generator)[:, None]
    if subcentroids == 1:
        return of_class
    apart = random_directions(classes, subcentroids, dim, generator=generator)
    return normalised(of_class + SPREAD * apart)


def positive_directions(
    classes: int, subcentroids: int, dim: int, *, generator: torch.Generator | None = None
) -> Float[Tensor, "c k d"]:
    """Like `close_directions`, of numbers of which none is negative.

    Features behind a rectifier are such, and can reach no other direction. Each class has
    dimensions of its own, which its sub-centroids share unevenly, so that classes are at right
    angles. Where there is only one for a class, its sub-centroids have a little of all others; with
    more classes than dimensions, some dimensions are shared.
    """
    of_each = dim // classes or min(SHARED, max(1, dim // 4))
    needed = -(-classes * of_each // dim)
    order = torch.cat([torch.randperm(dim, generator=generator) for _ in range(needed)])
    own = order[: classes * of_each].view(classes, of_each)
    of_class = normalised(torch.zeros(classes, dim).scatter_(1, own, 1.0))[:, None]
    if subcentroids == 1 and classes <= dim:
        return of_class
    uneven = torch.rand(classes, subcentroids, dim, generator=generator)
    if 2 * classes <= dim:
        return normalised(of_class * (1 + SPREAD * (2 * uneven - 1)))
    return normalised(of_class + SPREAD * normalised(uneven))


def _at_right_angles(
    count: int, dim: int, generator: torch.Generator | None
) -> Float[Tensor, "count d"]:
    """Directions in blocks of at most the dimension, at right angles inside a block."""
    blocks = [
        torch.linalg.qr(torch.randn(dim, min(dim, left), generator=generator)).Q.mT
        for left in range(count, 0, -dim)
    ]
    return torch.cat(blocks).contiguous()
