"""The state of a head's sub-centroids at a glance."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from dnc.centroids.clustering import SubCentroids


@dataclass(frozen=True)
class Health:
    """What tells a healthy clustering from a collapsed one.

    Attributes:
        pairwise_cosine: mean cosine between the occupied sub-centroids of each class; near 1 they
            have collapsed. NaN where fewer than two are occupied.
        occupancy: share of its class's rows that each sub-centroid held at the last clustering.
        dead: sub-centroids that no row chooses although their class is seen.
        mean_age: how many steps ago the rows of the memory came, on average; NaN without memory.

    """

    pairwise_cosine: Float[Tensor, " c"]
    occupancy: Float[Tensor, "c k"]
    dead: Bool[Tensor, "c k"]
    mean_age: float

    @classmethod
    def of(cls, subcentroids: SubCentroids, *, idle_limit: int, mean_age: float) -> "Health":
        """The state of sub-centroids, of which those idle for so long count as dead."""
        occupied, held = subcentroids.occupied, subcentroids.held
        seen = occupied.any(dim=1, keepdim=True)
        return cls(
            pairwise_cosine=pairwise_cosine(subcentroids.centroids, occupied),
            occupancy=held / held.sum(dim=1, keepdim=True).clamp(min=1),
            dead=subcentroids.valid & seen & (~occupied | (subcentroids.idle >= idle_limit)),
            mean_age=mean_age,
        )


def pairwise_cosine(
    centroids: Float[Tensor, "c k d"], occupied: Bool[Tensor, "c k"]
) -> Float[Tensor, " c"]:
    """Mean cosine over the pairs of occupied sub-centroids of each class; NaN without a pair."""
    cosine = centroids @ centroids.mT
    pair = (occupied[:, :, None] & occupied[:, None, :]).triu(diagonal=1)
    total = torch.where(pair, cosine, 0.0).sum(dim=(1, 2))
    return total / pair.sum(dim=(1, 2))
