"""Real training images in the place of sub-centroids."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from dnc.centroids import SubCentroidHead, normalised
from dnc.errors import InvalidLabels


@dataclass(frozen=True)
class Anchors:
    """A training row for each sub-centroid.

    Attributes:
        row: the row; -1 where there is none.
        similarity: its cosine to the sub-centroid; NaN where there is none.
    """

    row: Int[Tensor, "c k"]
    similarity: Float[Tensor, "c k"]


def anchors(head: SubCentroidHead, features: Tensor, labels: Tensor) -> Anchors:
    """The training images that stand for the sub-centroids of a head.

    Args:
        head: a head that has absorbed these images, or images like them.
        features: their features `(n d)`, from the network in evaluation mode.
        labels: their classes `(n)`.
    """
    rows = head.labelled_rows(features, labels)
    if len(rows.labels) != len(labels):
        raise InvalidLabels(
            f"{len(labels) - len(rows.labels)} labels are ignore_index; leave those rows out, so "
            "that the numbers of the others say which rows they are."
        )
    x = normalised(rows.features.detach())
    return nearest_distinct_rows(head.centroids, head.occupied, x, rows.labels)


def nearest_distinct_rows(
    centroids: Float[Tensor, "c k d"],
    occupied: Bool[Tensor, "c k"],
    x: Float[Tensor, "n d"],
    labels: Int[Tensor, " n"],
) -> Anchors:
    """Rows of the same class that are together nearest to its sub-centroids, no row twice.

    The largest sum of cosines is found as an assignment problem, one class after the other. With
    fewer rows than sub-centroids, those that would cost most stay without.
    """
    row = torch.full(occupied.shape, -1)
    cosine = torch.full(occupied.shape, torch.nan, dtype=x.dtype)
    for c in range(len(centroids)):
        mine = (labels == c).nonzero()[:, 0].cpu()
        places = occupied[c].nonzero()[:, 0].cpu()
        own = (x[mine] @ centroids[c, places].to(x.dtype).T).cpu()
        chosen, place = map(torch.from_numpy, linear_sum_assignment(own.numpy(), maximize=True))
        row[c, places[place]] = mine[chosen]
        cosine[c, places[place]] = own[chosen, place]
    return Anchors(row, cosine)
