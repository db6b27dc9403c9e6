"""Reductions of rows by class, for all classes at once and in any order of the rows."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import embedding_bag


def class_counts(labels: Int[Tensor, " n"], classes: int) -> Int[Tensor, " c"]:
    """Number of rows of each class."""
    return torch.bincount(labels, minlength=classes)


@dataclass(frozen=True)
class Bags:
    """Rows in order of their class, so that they can be summed by class many times.

    Sums go through `embedding_bag`: each row is read once where it lies, several times faster than
    `scatter_add_`; and the order of summation is fixed, on a GPU too, where others use atomics.

    Attributes:
        order: the rows, class by class.
        starts: where the rows of each class begin in that order.
        sizes: the number of rows of each class.
    """

    order: Int[Tensor, " rows"]
    starts: Int[Tensor, " c"]
    sizes: Int[Tensor, " c"]

    @classmethod
    def of(cls, labels: Int[Tensor, " n"], classes: int) -> "Bags":
        """The rows of each class; rows with a negative label are left out."""
        rows = torch.arange(len(labels), device=labels.device)
        if (labels < 0).any():
            rows = (labels >= 0).nonzero()[:, 0]
            labels = labels[rows]
        sizes = class_counts(labels, classes)
        # On a CPU a look is cheaper than a sort; on a GPU it would be one more synchronisation.
        if labels.device.type != "cpu" or not bool((labels[1:] >= labels[:-1]).all()):
            rows = rows[labels.argsort()]
        return cls(rows, sizes.cumsum(0) - sizes, sizes)

    @classmethod
    def of_clusters(
        cls, labels: Int[Tensor, " n"], places: Int[Tensor, " n"], classes: int, k: int
    ) -> "Bags":
        """The rows of each class and place in 0..k-1; rows with a negative place are left out."""
        return cls.of(torch.where(places < 0, -1, labels * k + places), classes * k)

    @classmethod
    def of_places(cls, places: Int[Tensor, "t m"], k: int) -> "Bags":
        """Rows that lie class by class, by class and place in 0..k-1; others are left out.

        A look at each place is several times faster than a sort.
        """
        numbers = torch.arange(k, device=places.device)
        taken = places[:, None, :] == numbers[:, None]
        of_class, _, slot = taken.nonzero(as_tuple=True)
        sizes = taken.sum(dim=2).flatten()
        return cls(of_class * places.shape[1] + slot, sizes.cumsum(0) - sizes, sizes)

    def sum(
        self,
        values: Float[Tensor, "n d"],
        weights: Float[Tensor, " n"] | None = None,
        *,
        scale: Float[Tensor, " c"] | None = None,
    ) -> Float[Tensor, "c d"]:
        """Sum of the (weighted) values over the rows of each class, times its scale."""
        factor = None if weights is None else weights.index_select(0, self.order)
        if scale is not None:
            scale = scale.repeat_interleave(self.sizes, output_size=len(self.order))
            factor = scale if factor is None else factor.mul_(scale)
        return embedding_bag(self.order, values, self.starts, mode="sum", per_sample_weights=factor)


def class_max(
    values: Float[Tensor, "n k"], labels: Int[Tensor, " n"], classes: int
) -> Float[Tensor, "c k"]:
    """Largest value over the rows of each class; -inf for a class without rows."""
    largest = values.new_full((classes, values.shape[1]), -torch.inf)
    return largest.scatter_reduce_(0, labels[:, None].expand_as(values), values, "amax")


def class_argmax(
    values: Float[Tensor, "n k"], labels: Int[Tensor, " n"], classes: int
) -> Int[Tensor, "c k"]:
    """Row with the largest value in each class, the first one of equals; -1 if all are -inf."""
    rows = values.shape[0]
    is_largest = (values == class_max(values, labels, classes)[labels]) & (values > -torch.inf)
    candidates = torch.where(is_largest, torch.arange(rows, device=values.device)[:, None], rows)
    first = candidates.new_full((classes, values.shape[1]), rows)
    first.scatter_reduce_(0, labels[:, None].expand_as(candidates), candidates, "amin")
    return torch.where(first == rows, -1, first)


def rank_in_class(labels: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
    """Position of each row among the rows of its class, in the order in which they come."""
    order = labels.argsort(stable=True)
    ordered = labels[order]
    position = torch.arange(labels.shape[0], device=labels.device)
    begins = torch.ones_like(ordered, dtype=torch.bool)
    begins[1:] = ordered[1:] != ordered[:-1]
    start = torch.where(begins, position, 0).cummax(0).values if position.numel() else position
    return torch.empty_like(position).scatter_(0, order, position - start)


def selection(classes: Int[Tensor, " t"]) -> slice | Int[Tensor, " t"]:
    """An index for ascending classes: a slice, which copies nothing, if they are consecutive."""
    first, last = int(classes[0]), int(classes[-1])
    return slice(first, last + 1) if last - first == len(classes) - 1 else classes
