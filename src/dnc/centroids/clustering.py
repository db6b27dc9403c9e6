"""One round of clustering: rows to sub-centroids, sub-centroids to their rows (Eq. 6, then Eq. 8).

Functions that end in an underscore write to the sub-centroids they are given, as in torch, and keep
count of the rows that each holds.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dnc.centroids.memory import Memory
from dnc.centroids.segments import Bags, selection
from dnc.centroids.similarity import similarity_to_own_class
from dnc.centroids.update import cluster_means, moved, seeded

# Most values of the temporary tensors that hold features while a memory is clustered (16 MB in
# float32). Beside them the assignment takes some ten values for each row and sub-centroid.
BLOCK_VALUES = 1 << 22

# An `Assign` with its settings bound: what is left are the keywords `classes` and `valid`.
Rule = Callable[..., Int[Tensor, " n"]]


@dataclass(frozen=True)
class SubCentroids:
    """Sub-centroids of consecutive classes and what is known of them: views of a head's buffers.

    The classes are numbered from 0, as they are in the memory that has the same ones.
    """

    centroids: Float[Tensor, "c k d"]
    valid: Bool[Tensor, "c k"]
    occupied: Bool[Tensor, "c k"]
    held: Int[Tensor, "c k"]
    idle: Int[Tensor, "c k"]

    def of(self, classes: range) -> "SubCentroids":
        """The sub-centroids of some consecutive classes."""
        part = slice(classes.start, classes.stop)
        return SubCentroids(**{name: of_all[part] for name, of_all in vars(self).items()})


def cluster_batch_(
    subcentroids: SubCentroids,
    x: Float[Tensor, "n d"],
    labels: Int[Tensor, " n"],
    rule: Rule,
    momentum: float,
) -> None:
    """Moves the sub-centroids of the classes in a batch."""
    p, valid = subcentroids.centroids, subcentroids.valid
    touched, local = labels.unique(return_inverse=True)
    chosen = selection(touched)
    own = similarity_to_own_class(x, local, p[chosen])
    assigned = rule(own, local, classes=len(touched), valid=valid[chosen])
    clusters = Bags.of_clusters(local, assigned, len(touched), p.shape[1])
    _note_(subcentroids, chosen, _move_(p, chosen, x, clusters, momentum))


def cluster_memory_(
    subcentroids: SubCentroids,
    memory: Memory,
    touched: Int[Tensor, " t"],
    rule: Rule,
    momentum: float,
    *,
    since: int = 0,
) -> None:
    """Moves the sub-centroids of some classes by what the memory holds of them.

    All rows take part in the clustering, those of step `since` and later in the means.

    The similarities are one batched product over the class-major memory and no (n c k) tensor is
    ever made. Means are taken in blocks of classes.
    """
    centroids, valid = subcentroids.centroids, subcentroids.valid
    k, dim, dtype = *centroids.shape[1:], centroids.dtype
    whole = selection(touched)
    is_view = isinstance(whole, slice) and memory.rows.dtype == dtype
    # A block takes about three tensors like its sub-centroids, and its rows unless it is a view.
    of_class = (3 * k + (0 if is_view else memory.slots)) * dim
    size = max(1, BLOCK_VALUES // of_class)
    blocks = [selection(block) for block in touched.split(size)]

    def rows_of(block: slice | Int[Tensor, " b"]) -> Float[Tensor, "b m d"]:
        return memory.rows[block].to(dtype)

    own = [rows_of(block) @ centroids[block].mT for block in ([whole] if is_view else blocks)]
    filled = memory.filled[whole]
    local = torch.arange(len(touched), device=touched.device)[:, None].expand_as(filled)
    labels = torch.where(filled, local, -1).flatten()
    own_rows = torch.cat(own).flatten(0, 1)
    assigned = rule(own_rows, labels, classes=len(touched), valid=valid[whole]).view_as(filled)
    averaged = assigned
    if since:
        averaged = assigned.masked_fill(memory.written_at[whole] < since, -1)
    sizes = [
        _move_(centroids, block, rows_of(block).flatten(0, 1), Bags.of_places(places, k), momentum)
        for block, places in zip(blocks, averaged.split(size), strict=True)
    ]
    held = Bags.of_places(assigned, k).sizes.view(-1, k) if since else torch.cat(sizes)
    _note_(subcentroids, whole, held)


def reseed_(
    subcentroids: SubCentroids,
    x: Float[Tensor, "n d"],
    labels: Int[Tensor, " n"],
    after: int,
) -> None:
    """Puts sub-centroids that were left without rows for too long on rows of the batch."""
    p, valid, idle = subcentroids.centroids, subcentroids.valid, subcentroids.idle
    stale = valid & (idle >= after)
    if stale.any():
        seeds = seeded(p, valid & ~stale, stale, x, labels)
        p.copy_(seeds.centroids)
        idle[seeds.row >= 0] = 0


def _move_(
    centroids: Float[Tensor, "c k d"],
    chosen: slice | Int[Tensor, " t"],
    x: Float[Tensor, "n d"],
    clusters: Bags,
    momentum: float,
) -> Int[Tensor, "t k"]:
    """Moves the sub-centroids of some classes to the means of their rows; how many these are."""
    p = centroids[chosen]
    mean, held = cluster_means(x, clusters).mean.view_as(p), clusters.sizes.view(p.shape[:2])
    centroids[chosen] = moved(p, mean, held > 0, momentum, out=mean)
    return held


def _note_(
    subcentroids: SubCentroids, chosen: slice | Int[Tensor, " t"], held: Int[Tensor, "t k"]
) -> None:
    """Notes which sub-centroids of the classes that were clustered got rows."""
    got_rows = held > 0
    subcentroids.occupied[chosen] |= got_rows
    subcentroids.held[chosen] = held
    subcentroids.idle[chosen] = (subcentroids.idle[chosen] + 1).masked_fill_(got_rows, 0)
