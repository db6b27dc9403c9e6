"""Which sub-centroid of its own class each row belongs to, for all classes at once (Eq. 6)."""

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dnc.centroids.segments import Bags, class_max
from dnc.centroids.validation import require_settings

# Shares of a row that differ by less than one part in 10,000 are a tie. Ties are no rarity: the
# only row of a class belongs to each of its k sub-centroids by exactly 1/k, and in floating point
# rounding would choose. This is well above the rounding of epsilon = 0.01 in float32.
TIE = 1e-4

# One iteration in so many takes the plan from the logarithms of its scales; those between scale
# the plan itself, which is faster but loses shares below 1e-38. Between two exact ones no share can
# grow by more than n^4 k^2, so what is lost stays negligible up to a million rows a class.
EXACT = 3


@runtime_checkable
class Assign(Protocol):
    """A rule that gives each row one of the k sub-centroids of its class.

    Rows with a negative label are masked: they take no part and get -1.
    """

    def __call__(
        self,
        similarity: Float[Tensor, "n k"],
        labels: Int[Tensor, " n"],
        *,
        classes: int,
        valid: Bool[Tensor, "c k"],
        epsilon: float,
        iterations: int,
        weights: Float[Tensor, " n"] | None = None,
    ) -> Int[Tensor, " n"]:
        """The number of the sub-centroid of each row, in 0..k-1."""


def transport_plan(
    similarity: Float[Tensor, "n k"],
    labels: Int[Tensor, " n"],
    *,
    classes: int,
    valid: Bool[Tensor, "c k"],
    epsilon: float = 0.05,
    iterations: int = 3,
    weights: Float[Tensor, " n"] | None = None,
) -> Float[Tensor, "n k"]:
    """Share of each row that goes to each sub-centroid of its class: entropic transport (Eq. 6).

    In each class, every valid sub-centroid is to receive the same mass and every row gives away
    its weight (1 without `weights`). One iteration of Sinkhorn-Knopp scales the sub-centroids to
    their mass, then the rows to 1; so the rows sum to 1, the masses are equal at convergence.

    The scales of the sub-centroids are kept as logarithms, and everything is float32 or better:
    `exp(similarity / epsilon)` overflows half precision at epsilon 0.05 and float32 at 0.01.
    """
    require_settings(
        ("epsilon", epsilon, epsilon > 0, "above 0 (the paper uses 0.05)"),
        ("iterations", iterations, iterations >= 1, "at least 1 (the paper uses 3)"),
    )
    masked = labels < 0
    bags = Bags.of(labels, classes)
    labels = labels.clamp(min=0)  # masked rows may look at the scales of a class, but are in no bag

    logits = similarity.detach().to(torch.promote_types(similarity.dtype, torch.float32)) / epsilon
    if weights is not None:
        weights = weights.to(logits.dtype)
        masked = masked | (weights == 0)

    # Only the first sum over the rows of a class could overflow or vanish, so the largest value is
    # taken out. Later ones are over rows that sum to 1, and a sub-centroid that was just scaled has
    # a share of at least 1 / (n k) in some row.
    counted = logits.masked_fill(masked[:, None], -torch.inf)
    largest = class_max(counted, labels, classes)
    largest = torch.where(largest == -torch.inf, 0.0, largest)
    plan = largest.index_select(0, labels)
    plan = torch.sub(counted, plan, out=plan).exp_()
    log_scale = torch.where(valid, -largest, -torch.inf)
    for iteration in range(iterations):
        received = bags.sum(plan, weights)
        # Equal masses: which one does not matter, since the rows are scaled to 1 afterwards. Where
        # there is no row, or none that weighs anything, nothing is received.
        scale = torch.where(received > 0, 1 / received, 1.0)
        log_scale += scale.log()
        log_scale -= log_scale.amax(dim=1, keepdim=True)  # else it drifts and loses digits
        if iteration % EXACT == 0:
            plan = torch.index_select(log_scale, 0, labels, out=plan).add_(logits)
            plan = plan.sub_(plan.amax(dim=1, keepdim=True)).exp_()
        else:
            plan = plan.mul_(scale.index_select(0, labels))
        plan = plan.div_(plan.sum(dim=1, keepdim=True))
    return plan


def sinkhorn(
    similarity: Float[Tensor, "n k"],
    labels: Int[Tensor, " n"],
    *,
    classes: int,
    valid: Bool[Tensor, "c k"],
    epsilon: float = 0.05,
    iterations: int = 3,
    weights: Float[Tensor, " n"] | None = None,
) -> Int[Tensor, " n"]:
    """Sub-centroid with the largest share in the transport plan of the row's class (Eq. 6).

    Of equal shares the most similar sub-centroid wins. A class with fewer rows than sub-centroids
    leaves some without rows; its only row goes to the most similar one.
    """
    plan = transport_plan(
        similarity,
        labels,
        classes=classes,
        valid=valid,
        epsilon=epsilon,
        iterations=iterations,
        weights=weights,
    )
    smaller = plan < plan.amax(dim=1, keepdim=True) * (1 - TIE)
    nearest = similarity.masked_fill(smaller, -torch.inf).argmax(dim=1)
    return nearest.masked_fill(labels < 0, -1)


def kmeans(
    similarity: Float[Tensor, "n k"],
    labels: Int[Tensor, " n"],
    *,
    classes: int,
    valid: Bool[Tensor, "c k"],
    epsilon: float = 0.05,
    iterations: int = 3,
    weights: Float[Tensor, " n"] | None = None,
) -> Int[Tensor, " n"]:
    """Most similar sub-centroid of the row's class: the assignment step of spherical k-means.

    The other step, the means, is the caller's, as with `sinkhorn`. A hard choice of the nearest
    has no temperature, no iteration and no mass to divide: `epsilon`, `iterations` and `weights`
    are there because the signature is that of `sinkhorn`, which this function can replace.
    """
    del classes, epsilon, iterations, weights
    eligible = valid[labels.clamp(min=0)] | (labels < 0)[:, None]
    nearest = similarity.masked_fill(~eligible, -torch.inf).argmax(dim=1)
    return nearest.masked_fill(labels < 0, -1)
