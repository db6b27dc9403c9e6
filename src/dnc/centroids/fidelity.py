"""Whether sub-centroids are what they stand for: means of the rows that are theirs (Eq. 8)."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dnc.centroids.decision import nearest_cases
from dnc.centroids.head import SubCentroidHead
from dnc.centroids.segments import Bags
from dnc.centroids.similarity import similarity_to_own_class
from dnc.centroids.update import cluster_means, directions


@dataclass(frozen=True)
class Fidelity:
    """How sub-centroids stand to rows of their classes.

    Attributes:
        held: rows of each sub-centroid in a clustering of all of them.
        cosine_to_mean: cosine of each sub-centroid to the mean of these; NaN where it has none.
        agreement: share of rows that are held by the sub-centroid of their class that is nearest.
            Equal masses give a row to another one where its class has no such division.
        rival_cosine: cosine of each sub-centroid to the nearest one of another class; a case near
            1 stands for rows that look like another class, and decides against that one. NaN for
            sub-centroids that never had rows.

    """

    held: Int[Tensor, "c k"]
    cosine_to_mean: Float[Tensor, "c k"]
    agreement: float
    rival_cosine: Float[Tensor, "c k"]

    @classmethod
    @torch.no_grad()
    def of(
        cls, head: SubCentroidHead, features: Float[Tensor, "n d"], labels: Int[Tensor, " n"]
    ) -> "Fidelity":
        """Clusters rows that the head would absorb by its own rule, moves nothing, and compares.

        Args:
            head: whose sub-centroids are looked at.
            features: of training images, from the network in evaluation mode.
            labels: their classes.

        """
        p = head.centroids
        rows = head.absorbable(features.to(p.device), labels.to(p.device))
        x = rows.features
        own = similarity_to_own_class(x, rows.labels, p)
        assigned = head.rule(own, rows.labels, classes=head.classes, valid=head.valid)
        clusters = Bags.of_clusters(rows.labels, assigned, *p.shape[:2])
        mean = directions(cluster_means(x, clusters).mean).view_as(p)
        held = clusters.sizes.view(p.shape[:2])
        nearest = own.masked_fill(~head.valid[rows.labels], -torch.inf).argmax(dim=1)
        return cls(
            held=held,
            cosine_to_mean=(mean * p).sum(dim=-1).masked_fill(held == 0, torch.nan),
            agreement=float((nearest == assigned).double().mean()),
            rival_cosine=rival_cosine(p, head.occupied),
        )


def rival_cosine(p: Float[Tensor, "c k d"], occupied: Bool[Tensor, "c k"]) -> Float[Tensor, "c k"]:
    """Cosine of each occupied sub-centroid to the nearest one of another class."""
    cases = nearest_cases(p.flatten(0, 1), p, occupied)
    return (cases.similarity - cases.margin).view(occupied.shape).masked_fill(~occupied, torch.nan)
