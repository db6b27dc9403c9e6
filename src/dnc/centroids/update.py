"""How sub-centroids begin and move: plain functions of tensors (Eq. 8)."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dnc.centroids.segments import Bags, class_argmax, class_max
from dnc.centroids.similarity import normalised, similarity_to_own_class

# Two unit rows whose cosine is above 1 minus this point in the same direction.
SAME_DIRECTION = 1e-6

# A vector shorter than this has no direction left, only the rounding of what cancelled.
VANISHING = 1e-6

# Sub-centroids are renewed once in a run at the pace of its first part. From SETTLING on the pace
# grows evenly; at the end the last seventeenth of the run would renew them.
SLOW, FAST, SETTLING = 1.0, 17.0, 0.6


@dataclass(frozen=True)
class ClusterMeans:
    """Mean of the rows of each cluster and how much weight (without weights: rows) it has."""

    mean: Float[Tensor, "clusters d"]
    weight: Float[Tensor, " clusters"]


@dataclass(frozen=True)
class Seeds:
    """Sub-centroids of which some were put on rows.

    Attributes:
        centroids: the sub-centroids, the newly seeded ones replaced.
        row: the row that a sub-centroid was put on; -1 for those left alone.

    """

    centroids: Float[Tensor, "c k d"]
    row: Int[Tensor, "c k"]


def seeded(
    centroids: Float[Tensor, "c k d"],
    placed: Bool[Tensor, "c k"],
    wanted: Bool[Tensor, "c k"],
    x: Float[Tensor, "n d"],
    labels: Int[Tensor, " n"],
    *,
    weights: Float[Tensor, " n"] | None = None,
) -> Seeds:
    """Puts each wanted sub-centroid on a row of its class, far from those already placed.

    Farthest first: the first sub-centroid of a class without any placed one goes to the row nearest
    to the (weighted) class mean, every further one to the row that is least similar to all placed
    ones. So nothing is drawn at random and the order of the rows does not matter. A sub-centroid
    is left alone if no row of its class points in a direction that is not taken yet.
    """
    classes, k, _ = centroids.shape
    centroids, placed = centroids.clone(), placed.clone()
    row_of = torch.full_like(placed, -1, dtype=torch.long)
    if not labels.numel():
        return Seeds(centroids, row_of)

    to_own = similarity_to_own_class(x, labels, centroids)
    coverage = to_own.masked_fill(~placed[labels], -torch.inf).amax(dim=1)
    mean = normalised(cluster_means(x, Bags.of(labels, classes), weights=weights).mean)
    to_mean = similarity_to_own_class(x, labels, mean[:, None])[:, 0]
    pointless = (x == 0).all(dim=1)  # a zero row has no direction to be found in
    for slot in range(k):
        first = ~placed.any(dim=1)[labels]
        novelty = torch.where(first, to_mean, -coverage)
        taken = pointless | (~first & (coverage > 1 - SAME_DIRECTION))
        choice = class_argmax(novelty.masked_fill(taken, -torch.inf)[:, None], labels, classes)[
            :, 0
        ]
        takes = wanted[:, slot] & ~placed[:, slot] & (choice >= 0)
        row_of[:, slot] = torch.where(takes, choice, row_of[:, slot])
        placed[:, slot] |= takes
        seed = x[choice.clamp(min=0)].to(centroids.dtype)
        centroids[:, slot] = torch.where(takes[:, None], seed, centroids[:, slot])
        to_seed = similarity_to_own_class(x, labels, seed[:, None])[:, 0]
        coverage = torch.where(takes[labels], torch.maximum(coverage, to_seed), coverage)
    return Seeds(centroids, row_of)


def cluster_means(
    x: Float[Tensor, "n d"], clusters: Bags, *, weights: Float[Tensor, " n"] | None = None
) -> ClusterMeans:
    """Mean row of each cluster; zero for one without rows or whose rows weigh nothing."""
    if weights is None:
        total = clusters.sizes.to(x.dtype)
    else:
        weights = weights.to(x.dtype)
        total = clusters.sum(weights[:, None])[:, 0]
    share = torch.where(total > 0, 1 / total, 0.0)
    return ClusterMeans(clusters.sum(x, weights, scale=share), total)


def moved(
    centroids: Float[Tensor, "c k d"],
    means: Float[Tensor, "c k d"],
    occupied: Bool[Tensor, "c k"],
    momentum: float,
    *,
    out: Float[Tensor, "c k d"] | None = None,
) -> Float[Tensor, "c k d"]:
    """Sub-centroids drawn towards the means of their rows and put back on the sphere (Eq. 8).

    Those that have no rows stay, bit for bit, and so do those whose pull cancels to nothing. The
    result is written to `out`, which may be `means` itself, or to a new tensor.
    """
    # A weight of 1 gives back the sub-centroid itself, exactly.
    weight = centroids.new_ones(occupied.shape).masked_fill_(occupied, momentum)[..., None]
    target = torch.lerp(means, centroids, weight, out=out)
    length = torch.linalg.vector_norm(target, dim=-1, keepdim=True)
    if momentum <= 0.5:  # else the mean, at most of length 1, is too short to cancel the rest
        cancelled = length <= VANISHING
        target.copy_(torch.where(cancelled, centroids, target))
        length = torch.where(cancelled, 1.0, length)
    return target.div_(torch.where(occupied[..., None] & (length > 0), length, 1.0))


def follow_(
    centroids: Float[Tensor, "c k d"],
    tied_to: Int[Tensor, "c k"],
    x: Float[Tensor, "n d"],
    labels: Int[Tensor, " n"],
    ids: Int[Tensor, " n"],
) -> None:
    """Puts each sub-centroid that is tied to an image on the row of that image, if there is one.

    Of several rows of an image the last counts. Rows without an id (-1) are of no image.
    """
    row, place = ((tied_to[labels] == ids[:, None]) & (ids >= 0)[:, None]).nonzero().unbind(dim=1)
    c, k = tied_to.shape
    last = torch.full((c * k,), -1, device=row.device).scatter_reduce(
        0, labels[row] * k + place, row, reduce="amax"
    )
    seen = last >= 0
    centroids[seen.view(c, k)] = x[last[seen]].to(centroids.dtype)


def momentum_at(step: int, *, steps: int, classes: int, rows: int) -> float:
    """The momentum of an update with which sub-centroids are means of data at the end of a run.

    Slow while the network learns, so that it has something to learn by; fast at the end, when the
    learning rate is low and features hardly move. Whatever the length of the run, two or three
    percent of the start are left, and half of a sub-centroid comes from the last 5 percent of the
    run. That is with rows for each sub-centroid whenever its class is seen, from a memory or a
    large batch, and means of length 1: the mean of rows that scatter is shorter and pulls less.

    Args:
        step: optimizer steps before this one.
        steps: optimizer steps of the whole run.
        classes: number of classes; a class moves in the steps in which it is seen.
        rows: rows of a step.

    """
    seen = -math.expm1(rows * math.log1p(-1 / classes)) if classes > 1 else 1.0
    progress = min((step + 0.5) / steps, 1.0)
    renewals = SLOW + (FAST - SLOW) * max(0.0, progress - SETTLING) / (1 - SETTLING)
    return math.exp(-renewals / (steps * seen))


def directions(means: Float[Tensor, "*clusters d"]) -> Float[Tensor, "*clusters d"]:
    """Means put on the sphere; zero where rows have cancelled and only rounding is left."""
    length = torch.linalg.vector_norm(means, dim=-1, keepdim=True)
    return torch.where(length > VANISHING, means / length, 0.0)


def running_mean(earlier: ClusterMeans, later: ClusterMeans) -> ClusterMeans:
    """Mean over all rows of both, each counted once: no row is ever forgotten."""
    weight = earlier.weight + later.weight
    share = later.weight / torch.where(weight > 0, weight, 1.0)
    return ClusterMeans(torch.lerp(earlier.mean, later.mean, share[:, None]), weight)


def nearest_rows(
    centroids: Float[Tensor, "c k d"], x: Float[Tensor, "n d"], labels: Int[Tensor, " n"]
) -> tuple[Int[Tensor, "c k"], Float[Tensor, "c k"]]:
    """The real row of its class nearest to each sub-centroid, and its cosine.

    -1 and -inf for a class without rows.
    """
    to_own = similarity_to_own_class(x, labels, centroids)
    classes = centroids.shape[0]
    return class_argmax(to_own, labels, classes), class_max(to_own, labels, classes)
